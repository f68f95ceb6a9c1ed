//! Block elements: paragraphs, headings, quotes and code.

use haft_html::Node;

use super::line::Line;
use super::{Place, Writer, is_hidden};

/// Blocks, one below the other.
#[derive(Default)]
pub(super) struct Blocks {
    text: String,
    /// Whether this is an item of a list, whose own lists follow it without an empty line.
    is_item: bool,
}

impl Blocks {
    /// The blocks of an item of a list.
    pub(super) fn of_item() -> Self {
        Self { text: String::new(), is_item: true }
    }

    /// Adds a block, unless there is nothing to see in it.
    pub(super) fn push(&mut self, block: &str) {
        self.push_after("\n\n", block);
    }

    /// Adds a list.
    pub(super) fn push_list(&mut self, block: &str) {
        self.push_after(if self.is_item { "\n" } else { "\n\n" }, block);
    }

    fn push_after(&mut self, gap: &str, block: &str) {
        if !block.trim().is_empty() {
            if !self.text.is_empty() {
                self.text.push_str(gap);
            }
            self.text.push_str(block);
        }
    }

    /// All of them.
    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// Elements that begin a line of their own.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "caption",
    "center",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "hr",
    "html",
    "legend",
    "li",
    "listing",
    "main",
    "menu",
    "nav",
    "ol",
    "optgroup",
    "option",
    "p",
    "plaintext",
    "pre",
    "search",
    "section",
    "summary",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "ul",
    "xmp",
];

pub(super) fn is_block(name: &str) -> bool {
    BLOCKS.binary_search(&name).is_ok()
}

pub(super) fn is_heading(name: &str) -> bool {
    heading_level(name).is_some()
}

fn heading_level(name: &str) -> Option<usize> {
    ["h1", "h2", "h3", "h4", "h5", "h6"].iter().position(|own| *own == name).map(|index| index + 1)
}

impl Writer {
    /// Writes what stands in a node: blocks as blocks, and what stands between them as paragraphs.
    pub(super) fn flow(&self, node: Node<'_>, place: Place, blocks: &mut Blocks) {
        if place.is_too_deep() {
            blocks.push(&plain(node));
            return;
        }
        let mut line = Line::default();
        for child in node.children() {
            if self.is_flow(child) {
                blocks.push(&std::mem::take(&mut line).finish());
                self.block(child, place.deeper(), blocks);
            } else {
                self.inline(child, place.deeper(), &mut line);
            }
        }
        blocks.push(&line.finish());
    }

    /// Whether a node is a block or has blocks in it. A link with blocks in it stays one link.
    fn is_flow(&self, node: Node<'_>) -> bool {
        let has_block = || self.has_block.get(node.index()).copied().unwrap_or_default();
        node.name().is_some_and(|name| is_block(name) || name != "a" && has_block())
    }

    fn block(&self, node: Node<'_>, place: Place, blocks: &mut Blocks) {
        let name = node.name().unwrap_or_default();
        match name {
            _ if is_hidden(node) => {}
            "ul" | "ol" | "menu" | "dir" => self.list(node, place, blocks),
            "dd" => self.definition(node, place, blocks),
            "blockquote" => self.quote(node, place, blocks),
            "pre" | "listing" | "xmp" | "plaintext" => blocks.push(&code(node)),
            "hr" => blocks.push("---"),
            "table" => self.table(node, place, blocks),
            _ => match heading_level(name) {
                Some(level) => self.heading(node, level, place, blocks),
                None => self.flow(node, place, blocks),
            },
        }
    }

    fn heading(&self, node: Node<'_>, level: usize, place: Place, blocks: &mut Blocks) {
        let mut line = Line::default();
        self.inline_children(node, place, &mut line);
        let text = line.finish_flat();
        if !text.is_empty() {
            blocks.push(&format!("{} {text}", "#".repeat(level)));
        }
    }

    fn quote(&self, node: Node<'_>, place: Place, blocks: &mut Blocks) {
        if place.is_too_nested() {
            return self.flow(node, place, blocks);
        }
        let mut inside = Blocks::default();
        self.flow(node, place.nested(), &mut inside);
        let quoted = inside.finish();
        if is_too_much(&quoted, 2) {
            blocks.push(&quoted);
        } else if !quoted.is_empty() {
            let lines =
                quoted.lines().map(|line| if line.is_empty() { ">".into() } else { format!("> {line}") });
            blocks.push(&lines.collect::<Vec<String>>().join("\n"));
        }
    }

    fn definition(&self, node: Node<'_>, place: Place, blocks: &mut Blocks) {
        if place.is_too_nested() {
            return self.flow(node, place, blocks);
        }
        let mut inside = Blocks::of_item();
        self.flow(node, place.nested(), &mut inside);
        let text = inside.finish();
        if !text.is_empty() {
            blocks.push_list(&format!(": {}", hanging(&text, 2)));
        }
    }
}

/// Bytes that setting off one block may add. A text of a million lines is shown as it is.
const MAX_ADDED: usize = 1 << 20;

/// Whether so many bytes more in each line are too many.
fn is_too_much(text: &str, columns: usize) -> bool {
    text.lines().count().saturating_mul(columns) > MAX_ADDED
}

/// All lines but the first moved to the right.
pub(super) fn hanging(text: &str, columns: usize) -> String {
    if is_too_much(text, columns) {
        return text.to_owned();
    }
    let indent = " ".repeat(columns);
    let mut lines = text.lines();
    let mut moved = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        moved.push('\n');
        if !line.is_empty() {
            moved.push_str(&indent);
            moved.push_str(line);
        }
    }
    moved
}

/// The text in a node, without structure.
fn plain(node: Node<'_>) -> String {
    let mut line = Line::default();
    for characters in node.descendants_unless(is_hidden).filter_map(Node::characters) {
        line.text(characters);
        line.space();
    }
    line.finish()
}

/// A block of code, between fences that do not occur in it.
fn code(node: Node<'_>) -> String {
    let mut text = String::new();
    for inner in node.descendants_unless(is_hidden) {
        match inner.name() {
            Some("br") => text.push('\n'),
            _ => text.push_str(inner.characters().unwrap_or_default()),
        }
    }
    let text = text.trim_end().trim_start_matches('\n');
    if text.is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run(text, '`').max(2) + 1);
    format!("{fence}{}\n{text}\n{fence}", language(node))
}

/// The longest stretch of nothing but `character`.
pub(super) fn longest_run(text: &str, character: char) -> usize {
    text.split(|other| other != character).map(str::len).max().unwrap_or_default()
}

/// The language of a block of code, where a class of it or of what surrounds it says so.
fn language(node: Node<'_>) -> &str {
    let around = node.children().chain([node]).chain(node.parent());
    let classes = around.filter_map(|node| node.attribute("class")).flat_map(str::split_ascii_whitespace);
    let mut named = classes.filter_map(|class| {
        ["language-", "lang-", "highlight-source-"].iter().find_map(|prefix| class.strip_prefix(prefix))
    });
    let is_name = |name: &&str| name.len() <= MAX_LANGUAGE && !name.contains('`');
    named.find(is_name).unwrap_or_default()
}

/// Characters of a language's name.
const MAX_LANGUAGE: usize = 20;

#[cfg(test)]
mod tests {
    use super::BLOCKS;

    /// They are searched by halves.
    #[test]
    fn blocks_are_in_order() {
        assert!(BLOCKS.is_sorted());
    }
}
