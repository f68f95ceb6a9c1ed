//! The sheet that the user reads before agreeing to a package: tools as a model sees them, texts, and the changes
//! of both. `add`, `update`, `inspect` and `dev` show this sheet. A cut text states how much is missing and how to
//! see the rest; third-party text is neutralised line by line.

use std::fmt::Write;

use super::terminal::{Column, DIM, ERROR, GOOD, HEAD, Style, WARNING, rounded};
use haft_core::call::ToolDef;
use haft_core::report::plain;
use haft_package::disclosure::{Change, Disclosure, Item, ItemKind, Line, Sign, definition_lines};

/// Width of the column of names.
pub(super) const NAME: usize = 10;

/// Rows of one text that are shown, unless all is wanted: a screen and a half.
const MAX_ROWS: usize = 80;

/// Rows of all texts together: more is scrolled past, not read.
const MAX_ALL_ROWS: usize = 1200;

/// Things of a kind that are listed; the rest is counted.
const MAX_LISTED: usize = 40;

/// Spaces instead of a tab, which a terminal would take for a movement.
const TAB: &str = "    ";

/// A page on its way.
pub(super) struct Sheet {
    pub(super) text: String,
    columns: Option<usize>,
    /// What shows all of it; `None` where all is shown.
    rest: Option<String>,
    rows_left: usize,
}

impl Sheet {
    /// An empty one for a terminal of so many columns. Long texts are cut where `rest` says what shows
    /// them whole.
    pub(super) fn new(columns: Option<usize>, rest: Option<String>) -> Self {
        Self { text: String::new(), columns, rest, rows_left: MAX_ALL_ROWS }
    }

    /// A name in its column, then the text, whole.
    pub(super) fn line(&mut self, name: &str, style: Style, text: &str) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.text, "  {DIM}{name:NAME$}{DIM:#}{Column}{style}{text}{style:#}");
    }

    /// A tool as a model is told of it.
    pub(super) fn tool(&mut self, head: &str, title: &str, def: &ToolDef) {
        self.line(head, HEAD, &clean(title));
        let lines = definition_lines(def);
        self.block(lines.iter().map(|line| (Style::new(), "", line.as_str())));
    }

    /// Everything that there is to read of what is offered.
    pub(super) fn disclosure(&mut self, disclosure: &Disclosure) {
        if !disclosure.items.iter().any(|item| item.kind == ItemKind::Tool) {
            self.line("tools", Style::new(), "none");
        }
        self.package(disclosure);
    }

    /// The same, where there is any.
    pub(super) fn package(&mut self, disclosure: &Disclosure) {
        let items_of = |kind| disclosure.items.iter().filter(move |item| item.kind == kind);
        for (index, item) in items_of(ItemKind::Tool).enumerate() {
            self.line(if index == 0 { "tools" } else { "" }, HEAD, &clean(&item.name));
            self.whole(item);
        }
        for item in items_of(ItemKind::Read) {
            let text = format!("{}: {}, text for the model", clean(&item.name), counted(item.lines()));
            self.line("skill", HEAD, &text);
            self.whole(item);
        }
        self.files("scripts", &items_of(ItemKind::Runs).collect::<Vec<_>>());
        self.files("files", &items_of(ItemKind::File).collect::<Vec<_>>());
        let is_cut = items_of(ItemKind::Runs).chain(items_of(ItemKind::File)).next().is_some();
        if let Some(rest) = self.rest.clone().filter(|_| is_cut) {
            self.line("", DIM, &format!("`{rest}` shows their content"));
        }
    }

    /// Files by their names, with their texts where all is shown.
    fn files(&mut self, head: &str, items: &[&Item]) {
        let listed = if self.rest.is_none() { items.len() } else { MAX_LISTED };
        for (index, item) in items.iter().take(listed).enumerate() {
            let mode = if item.executable { ", executable" } else { "" };
            let size = match item.text {
                Some(_) => counted(item.lines()),
                None => format!("{}, binary or too long to show", rounded(item.size)),
            };
            let digest = item.digest.short();
            let text = format!("{}: {size}{mode}, sha256:{digest}", clean(&item.name));
            self.line(if index == 0 { head } else { "" }, Style::new(), &text);
            if self.rest.is_none() {
                self.whole(item);
            }
        }
        if items.len() > listed {
            self.line("", DIM, &format!("… and {} more", items.len() - listed));
        }
    }

    fn whole(&mut self, item: &Item) {
        let text = item.text.as_deref().unwrap_or_default();
        self.block(text.lines().map(|line| (Style::new(), "", line)));
    }

    /// What changed, item by item.
    pub(super) fn changes(&mut self, changes: &[Change]) {
        for (index, Change { kind, name, what, lines }) in changes.iter().enumerate() {
            let what_it_is = match kind {
                ItemKind::Tool => "tool ",
                ItemKind::About => "its own description: ",
                ItemKind::Component if name == "component" => "its ",
                ItemKind::Component => "component ",
                ItemKind::Runs => "script ",
                ItemKind::Read | ItemKind::File => "",
            };
            let text = format!("{what_it_is}{}: {}", clean(name), clean(what));
            self.line(if index == 0 { "changes" } else { "" }, WARNING, &text);
            self.block(lines.iter().map(|Line { sign, text }| {
                let style = match sign {
                    Sign::Added => GOOD,
                    Sign::Removed => ERROR,
                    Sign::Same | Sign::Place => DIM,
                };
                (style, sign.as_str(), text.as_str())
            }));
        }
    }

    /// Lines of a text under the line before, each with its style and what marks it. Empty lines that
    /// follow each other would push what comes after them out of sight, and are counted instead.
    fn block<'t>(&mut self, lines: impl Iterator<Item = (Style, &'t str, &'t str)>) {
        let width = self.columns.map(|columns| columns.saturating_sub(NAME + 4));
        let (mut rows, mut empty) = (Vec::new(), 0);
        for (style, mark, line) in lines {
            let line = clean(line);
            if line.trim().is_empty() && mark.trim().is_empty() {
                empty += 1;
                continue;
            }
            rows.extend(gap(std::mem::take(&mut empty)).map(|text| (DIM, text)));
            rows.extend(wrapped(&format!("{mark}{line}"), width).into_iter().map(|row| (style, row)));
        }
        let most = if self.rest.is_none() { rows.len() } else { MAX_ROWS.min(self.rows_left) };
        self.rows_left = self.rows_left.saturating_sub(rows.len().min(most));
        for (style, row) in rows.iter().take(most) {
            let _ = writeln!(self.text, "  {:NAME$}  {Column}{style}{}{style:#}", "", row.trim_end());
        }
        let more = rows.len().saturating_sub(most);
        if let Some(rest) = self.rest.clone().filter(|_| more > 0) {
            let total = rows.len();
            let text = format!("  … {} more, of {total}; `{rest}` shows all", counted(more));
            self.line("", WARNING, &text);
        }
    }
}

/// What stands instead of empty lines.
fn gap(empty: usize) -> Option<String> {
    match empty {
        0 => None,
        1 => Some(String::new()),
        more => Some(format!("({more} empty lines)")),
    }
}

fn counted(count: usize) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{count} lines") }
}

/// A stranger's text on one line, without anything that a terminal would obey.
pub(super) fn clean(text: &str) -> String {
    plain(&text.replace('\t', TAB))
}

/// A text on as many rows as it takes, broken between words where there are any.
pub(super) fn wrapped(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width.map(|width| width.max(1)) else { return vec![text.to_owned()] };
    let mut rows = Vec::new();
    let mut rest = text;
    while let Some((end, _)) = rest.char_indices().nth(width) {
        let row = rest.get(..end).unwrap_or_default();
        let at =
            row.rfind(' ').filter(|at| !row.get(..*at).unwrap_or_default().trim().is_empty()).unwrap_or(end);
        let (row, after) = rest.split_at_checked(at).unwrap_or((rest, ""));
        rows.push(row.to_owned());
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    rows.push(rest.to_owned());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(columns: Option<usize>, rest: Option<&str>, text: &str) -> String {
        let mut sheet = Sheet::new(columns, rest.map(str::to_owned));
        sheet.block(text.lines().map(|line| (Style::new(), "", line)));
        crate::cli::terminal::written(&sheet.text, false)
    }

    /// S03: a cut says how much is missing, and what shows it.
    #[test]
    fn s03_a_cut_is_marked() {
        let text: String = (0..100).map(|number| format!("line {number}\n")).collect();
        let cut = sheet(None, Some("haft inspect --full ./a"), &text);
        assert!(cut.contains("line 79\n") && !cut.contains("line 80\n"), "{cut}");
        assert!(cut.contains("… 20 lines more, of 100; `haft inspect --full ./a` shows all"), "{cut}");
        let whole = sheet(None, None, &text);
        assert!(whole.contains("line 99\n") && !whole.contains('…'), "{whole}");
    }

    /// S03: nothing is pushed out of sight by emptiness.
    #[test]
    fn s03_empty_lines_are_counted() {
        let text = format!("first{}last", "\n \n".repeat(500));
        assert_eq!(
            sheet(None, None, &text).split_whitespace().collect::<Vec<_>>().join(" "),
            "first (999 empty lines) last"
        );
    }

    #[test]
    fn long_lines_are_broken_where_there_is_a_terminal() {
        assert_eq!(wrapped("one two three", Some(8)), ["one two", "three"]);
        assert_eq!(wrapped("    indented", Some(6)), ["    in", "dented"]);
        assert_eq!(wrapped("größenordnung", Some(5)), ["größe", "nordn", "ung"]);
        assert_eq!(wrapped("one two", None), ["one two"]);
        assert_eq!(wrapped("", Some(9)), [""]);
    }
}
