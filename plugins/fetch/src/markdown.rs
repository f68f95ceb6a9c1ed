//! Converts HTML to Markdown for reading: the visible content of the page with its structure, and the fewest
//! escapes. Reads no style sheet and runs no script.
//!
//! The crate `htmd` (0.5.6) was measured as an alternative. Unmodified, it drops each `<th>` below the head of a
//! table, overflows a stack of 8 MiB at 10,000 nested `<div>`s and makes 400 MB of a table of 300 kB. With the
//! bounded tree of `haft-html` and handlers for tables, code and links, it still writes `max\_size` for `max_size`,
//! which no option turns off, needs more than the 64 MiB of a plugin for a code block of 4 MiB in 24 nested lists
//! and quotes, and makes the component 12 % larger.

mod block;
mod inline;
mod line;
mod list;
mod table;

use haft_html::{Document, Node};
use haft_plugin::http::Url;

use self::block::Blocks;

/// Elements inside one another that are walked into; what is deeper is shown as plain text. Each
/// takes a piece of the guest's stack.
const MAX_DEPTH: usize = 150;

/// Lists and quotes inside one another that are still set off: every line of the innermost begins
/// with the marks of them all.
const MAX_NESTING: usize = 12;

/// Characters of a `<main>` that is worth leaving out all else for.
const MIN_MAIN: usize = 200;

/// The readable part of a page.
pub(crate) struct Readable {
    pub(crate) text: String,
    /// Whether parts of the page that surround it were left out.
    pub(crate) is_part: bool,
}

/// Converts a page that came from `url`.
pub(crate) fn convert_document(document: &Document, url: &Url) -> Readable {
    let written = document.first("base").and_then(|base| base.attribute("href"));
    let base = written.and_then(|href| url.join(href).ok()).unwrap_or_else(|| url.clone());
    let writer = Writer { base, has_block: with_blocks(document) };
    let main = main_part(document);
    let part = main.or_else(|| document.first("body")).unwrap_or_else(|| document.root());
    let mut blocks = Blocks::default();
    writer.flow(part, Place::default(), &mut blocks);
    Readable { text: blocks.finish(), is_part: main.is_some() }
}

/// What is known of the whole page while it is written.
struct Writer {
    /// What relative links start from.
    base: Url,
    /// Which nodes have a block somewhere inside.
    has_block: Vec<bool>,
}

/// How deep a node is in the page.
#[derive(Clone, Copy, Default)]
struct Place {
    depth: usize,
    nesting: usize,
}

impl Place {
    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    fn nested(self) -> Self {
        Self { depth: self.depth + 1, nesting: self.nesting + 1 }
    }

    fn is_too_deep(self) -> bool {
        self.depth >= MAX_DEPTH
    }

    /// Whether one more list or quote would be too many.
    fn is_too_nested(self) -> bool {
        self.nesting >= MAX_NESTING
    }
}

/// The part of the page that its author calls the main one.
fn main_part(document: &Document) -> Option<Node<'_>> {
    let visible = || document.root().descendants_unless(is_hidden);
    let is_main = |node: &Node<'_>| node.name() == Some("main") || node.attribute("role") == Some("main");
    let mut articles = visible().filter(|node| node.name() == Some("article"));
    let only_article = match (articles.next(), articles.next()) {
        (article, None) => article,
        _ => None,
    };
    let main = visible().find(is_main).or(only_article)?;
    let sum: usize = main
        .descendants_unless(is_hidden)
        .filter_map(Node::characters)
        .map(|text| text.trim().chars().count())
        .sum();
    (sum >= MIN_MAIN).then_some(main)
}

/// For each node, whether a block stands inside it.
fn with_blocks(document: &Document) -> Vec<bool> {
    let mut has_block = vec![false; document.node_count()];
    for node in document.root().descendants().filter(|node| node.name().is_some_and(block::is_block)) {
        for outer in node.ancestors() {
            match has_block.get_mut(outer.index()) {
                Some(known) if !*known => *known = true,
                _ => break,
            }
        }
    }
    has_block
}

/// Elements that show nothing, or nothing to be read.
const UNSEEN: &[&str] = &[
    "audio", "canvas", "datalist", "embed", "head", "iframe", "input", "map", "meter", "noframes",
    "noscript", "object", "progress", "script", "select", "style", "svg", "template", "textarea", "title",
    "video",
];

/// Whether a person would not see a node.
fn is_hidden(node: Node<'_>) -> bool {
    let Some(name) = node.name() else { return false };
    UNSEEN.contains(&name)
        // A button that is a heading's text is read; one that does something is not.
        || name == "button" && !node.parent().and_then(Node::name).is_some_and(block::is_heading)
        || name == "dialog" && node.attribute("open").is_none()
        || node.attribute("hidden").is_some_and(|value| value != "until-found")
        || node.attribute("aria-hidden") == Some("true")
        || node.attribute("style").is_some_and(hides)
}

/// Whether an inline style hides what it is for.
fn hides(style: &str) -> bool {
    style.split(';').filter_map(|rule| rule.split_once(':')).any(|(property, value)| {
        let value = value.trim().trim_end_matches("!important").trim_end();
        match property.trim().to_ascii_lowercase().as_str() {
            "display" => value.eq_ignore_ascii_case("none"),
            "visibility" => value.eq_ignore_ascii_case("hidden"),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests;
