//! Inline elements: text, links, images, emphasis, code.

use haft_html::Node;

use super::block::{is_block, longest_run};
use super::line::Line;
use super::{Place, Writer, is_hidden};

impl Writer {
    /// Writes a node into a line. Blocks in it become words among the others.
    pub(super) fn inline(&self, node: Node<'_>, place: Place, line: &mut Line) {
        if let Some(characters) = node.characters() {
            return line.text(characters);
        }
        let name = node.name().unwrap_or_default();
        match name {
            _ if is_hidden(node) => {}
            "br" => line.break_line(),
            "img" => self.image(node, line),
            "a" => self.link(node, place, line),
            "b" | "strong" => self.marked(node, "**", place, line),
            "em" | "i" => self.marked(node, "*", place, line),
            "del" | "s" | "strike" => self.marked(node, "~~", place, line),
            "code" | "kbd" | "samp" | "tt" => line.piece(text(node), |text| code(&text)),
            "q" => {
                line.open("“");
                self.inline_children(node, place, line);
                line.close("”");
            }
            "sup" => self.raised(node, place, line),
            _ if is_block(name) => {
                line.space();
                self.inline_children(node, place, line);
                line.space();
            }
            _ => self.inline_children(node, place, line),
        }
    }

    pub(super) fn inline_children(&self, node: Node<'_>, place: Place, line: &mut Line) {
        if place.is_too_deep() {
            return line.piece(text(node), |text| text);
        }
        for child in node.children() {
            self.inline(child, place.deeper(), line);
        }
    }

    fn marked(&self, node: Node<'_>, mark: &'static str, place: Place, line: &mut Line) {
        line.open(mark);
        self.inline_children(node, place, line);
        line.close(mark);
    }

    /// A power needs a sign that it is one; the mark of a footnote has its brackets.
    fn raised(&self, node: Node<'_>, place: Place, line: &mut Line) {
        let mut inner = Line::default();
        self.inline_children(node, place, &mut inner);
        line.piece(inner, |text| if text.starts_with(['[', '(']) { text } else { format!("^{text}") });
    }

    fn image(&self, node: Node<'_>, line: &mut Line) {
        let alt = node.attribute("alt").unwrap_or_default();
        let alt = alt.split_whitespace().collect::<Vec<_>>().join(" ");
        if !alt.is_empty() {
            let source = node.attribute("src").and_then(|source| self.resolve(source)).unwrap_or_default();
            line.verbatim(&format!("![{alt}]({source})"));
        }
    }

    /// A link with what it leads to in full; one that leads nowhere else is its text.
    fn link(&self, node: Node<'_>, place: Place, line: &mut Line) {
        let mut inner = Line::default();
        self.inline_children(node, place, &mut inner);
        let url = node.attribute("href").and_then(|href| self.resolve(href));
        line.piece(inner, |text| match url {
            Some(url) if text == url => url,
            Some(url) => format!("[{}]({url})", text.split_whitespace().collect::<Vec<_>>().join(" ")),
            None => text,
        });
    }

    /// The URL that something in the page names; `None` where there is nothing to fetch.
    fn resolve(&self, written: &str) -> Option<String> {
        let written = written.trim();
        if written.is_empty() || written.starts_with('#') {
            return None;
        }
        let url = self.base.join(written).ok()?;
        matches!(url.scheme(), "http" | "https" | "mailto").then(|| url.into())
    }
}

/// The characters in a node.
fn text(node: Node<'_>) -> Line {
    let mut line = Line::default();
    node.descendants_unless(is_hidden).filter_map(Node::characters).for_each(|part| line.text(part));
    line
}

/// Code in a line, between more backticks than occur in it.
fn code(text: &str) -> String {
    let fence = "`".repeat(longest_run(text, '`') + 1);
    let gap = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{gap}{text}{gap}{fence}")
}
