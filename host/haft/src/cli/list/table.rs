//! The table of `haft list`: one line each, in 80 columns.

use std::collections::BTreeSet;

use super::Row;
use crate::cli::terminal::DIM;
use haft_core::report::{plain, shortened};

/// The columns and their widths. With a space between columns the sum is 80.
const COLUMNS: [(&str, usize); 5] = [("name", 18), ("kind", 13), ("from", 22), ("rights", 13), ("state", 10)];

pub(super) fn table(rows: &[Row]) -> String {
    let head = line(COLUMNS.map(|(name, _)| name.to_owned()));
    let mut text = format!("{DIM}{head}{DIM:#}\n");
    for row in rows {
        let version = row.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
        let state = if row.enabled { row.state } else { "off" };
        let name = format!("{}{version}", row.name);
        text += &line([name, row.form.to_owned(), row.source.clone(), kinds(row), state.to_owned()]);
        text.push('\n');
    }
    text
}

fn line(cells: [String; 5]) -> String {
    let cell = |(text, (_, width)): (String, (&str, usize))| format!("{:width$}", cut(&plain(&text), width));
    let cells: Vec<String> = cells.into_iter().zip(COLUMNS).map(cell).collect();
    cells.join(" ").trim_end().to_owned()
}

/// Shortens a text to `width` characters.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width { text.to_owned() } else { shortened(text, width.saturating_sub(1)) }
}

/// Returns the kinds of the entry's rights.
fn kinds(row: &Row) -> String {
    let Some(granted) = row.granted.as_ref().filter(|granted| !granted.is_empty()) else {
        return row.rights();
    };
    let default = row.has_default_processes.then_some("default");
    let kinds: BTreeSet<&str> =
        granted.iter().filter_map(|right| right.split('=').next()).chain(default).collect();
    kinds.into_iter().collect::<Vec<_>>().join(" ")
}
