//! Lists and nested lists.

use haft_html::Node;

use super::block::{Blocks, hanging};
use super::{Place, Writer};

impl Writer {
    /// Writes a list. Items that show nothing are left out; they are counted all the same.
    pub(super) fn list(&self, node: Node<'_>, place: Place, blocks: &mut Blocks) {
        if place.is_too_nested() {
            return self.flow(node, place, blocks);
        }
        let mut number = first_number(node);
        let mut lines: Vec<String> = Vec::new();
        for child in node.children().filter(|child| child.name().is_some()) {
            let mut item = Blocks::of_item();
            self.item(child, place.nested(), &mut item);
            let text = item.finish();
            let mark = match &mut number {
                // A list that stands directly in a list belongs to the item before it.
                _ if is_list(child) => "  ".to_owned(),
                None => "- ".to_owned(),
                Some(number) => {
                    let mark = format!("{number}. ");
                    *number = number.saturating_add(1);
                    mark
                }
            };
            if !text.trim().is_empty() {
                lines.push(format!("{mark}{}", hanging(&text, mark.len())));
            }
        }
        blocks.push_list(&lines.join("\n"));
    }

    fn item(&self, node: Node<'_>, place: Place, item: &mut Blocks) {
        match node.name() {
            Some("li") => self.flow_unless_hidden(node, place, item),
            _ if is_list(node) => self.list(node, place, item),
            _ => self.flow_unless_hidden(node, place, item),
        }
    }

    fn flow_unless_hidden(&self, node: Node<'_>, place: Place, blocks: &mut Blocks) {
        if !super::is_hidden(node) {
            self.flow(node, place, blocks);
        }
    }
}

fn is_list(node: Node<'_>) -> bool {
    matches!(node.name(), Some("ul" | "ol" | "menu" | "dir"))
}

/// The number that a numbered list starts with.
fn first_number(node: Node<'_>) -> Option<i64> {
    let start = || node.attribute("start").and_then(|start| start.trim().parse().ok());
    (node.name() == Some("ol")).then(|| start().unwrap_or(1))
}
