//! Converts data tables to Markdown tables. A layout table, or one with cells of several lines, is written cell by
//! cell.

use haft_html::Node;

use super::block::Blocks;
use super::line::Line;
use super::{Place, Writer, is_hidden};

/// Columns of a table that is still one to a reader.
const MAX_COLUMNS: usize = 40;

/// Elements that do not fit into a line.
const LARGE: &[&str] =
    &["blockquote", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "ol", "pre", "table", "ul"];

impl Writer {
    pub(super) fn table(&self, node: Node<'_>, place: Place, blocks: &mut Blocks) {
        for caption in node.children().filter(|child| child.name() == Some("caption")) {
            self.flow(caption, place, blocks);
        }
        let rows = rows(node);
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        let is_data = (2..=MAX_COLUMNS).contains(&columns)
            && node.attribute("role") != Some("presentation")
            && !rows.iter().flatten().any(|cell| has_large(*cell));
        if is_data {
            blocks.push(&self.grid(&rows, columns, place));
        } else {
            rows.iter().flatten().for_each(|cell| self.flow(*cell, place.deeper(), blocks));
        }
    }

    /// The first row is the head, as Markdown has it.
    fn grid(&self, rows: &[Vec<Node<'_>>], columns: usize, place: Place) -> String {
        let mut lines = Vec::new();
        for row in rows {
            let mut cells: Vec<String> = row.iter().map(|cell| self.cell(*cell, place)).collect();
            cells.resize(columns, String::new());
            if cells.iter().any(|cell| !cell.is_empty()) {
                lines.push(format!("| {} |", cells.join(" | ")));
            }
            if lines.len() == 1 {
                lines.push(format!("|{}", " --- |".repeat(columns)));
            }
        }
        lines.join("\n")
    }

    fn cell(&self, node: Node<'_>, place: Place) -> String {
        let mut line = Line::default();
        self.inline_children(node, place, &mut line);
        line.finish_flat().replace('|', "\\|")
    }
}

/// The cells of each row. Those of tables inside are not among them.
fn rows<'a>(table: Node<'a>) -> Vec<Vec<Node<'a>>> {
    let named = |node: Node<'a>, names: &'static [&str]| {
        let is_named = move |child: &Node<'a>| child.name().is_some_and(|name| names.contains(&name));
        node.children().filter(move |child| is_named(child) && !is_hidden(*child))
    };
    let parts = named(table, &["thead", "tbody", "tfoot"]);
    let rows = parts.chain([table]).flat_map(|part| named(part, &["tr"]));
    rows.map(|row| named(row, &["td", "th"]).collect()).filter(|row: &Vec<_>| !row.is_empty()).collect()
}

fn has_large(cell: Node<'_>) -> bool {
    let paragraphs = cell.children().filter(|child| child.name() == Some("p")).count();
    paragraphs > 1 || cell.descendants().any(|node| node.name().is_some_and(|name| LARGE.contains(&name)))
}
