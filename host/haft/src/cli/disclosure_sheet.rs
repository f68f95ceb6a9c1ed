//! The sheet that the user reads before agreeing to a package: tools as a model sees them, texts, and the changes
//! of both. `add`, `update`, `inspect` and `dev` show this sheet. A cut text states how much is missing and how to
//! see the rest; third-party text is neutralised line by line.

use std::fmt::Write;

use super::terminal::{Column, DIM, ERROR, GOOD, HEAD, Style, WARNING, counted, rounded};
use haft_core::call::ToolDef;
use haft_core::report::plain;
use haft_package::disclosure::{Change, Disclosure, Item, ItemKind, Line, Sign, definition_lines};

/// Width of the column of names, in characters.
pub(super) const NAME: usize = 10;

/// Maximum rows of one text, unless all are requested: about one and a half screens.
const MAX_ROWS: usize = 80;

/// Maximum rows of all texts together: a user scrolls past more and does not read it.
const MAX_ALL_ROWS: usize = 1200;

/// Maximum number of listed items of a kind. The other items are counted.
const MAX_LISTED: usize = 40;

/// Spaces that replace a tab, which would move the cursor of a terminal.
const TAB: &str = "    ";

pub(super) struct Sheet {
    pub(super) text: String,
    columns: Option<usize>,
    /// The command that shows the cut texts whole. `None` if nothing is cut.
    rest: Option<String>,
    rows_left: usize,
}

impl Sheet {
    /// Returns an empty sheet for a width of `columns`. Long texts are cut if `rest` names a command that shows them
    /// whole.
    pub(super) fn new(columns: Option<usize>, rest: Option<String>) -> Self {
        Self { text: String::new(), columns, rest, rows_left: MAX_ALL_ROWS }
    }

    /// Writes a name in its column, then the whole text.
    pub(super) fn line(&mut self, name: &str, style: Style, text: &str) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.text, "  {DIM}{name:NAME$}{DIM:#}{Column}{style}{text}{style:#}");
    }

    /// Writes a tool as the model sees it.
    pub(super) fn tool(&mut self, head: &str, title: &str, def: &ToolDef) {
        self.line(head, HEAD, &clean(title));
        let lines = definition_lines(def);
        self.block(lines.iter().map(|line| (Style::new(), "", line.as_str())));
    }

    /// Writes everything that the package discloses.
    pub(super) fn disclosure(&mut self, disclosure: &Disclosure) {
        if !disclosure.items.iter().any(|item| item.kind == ItemKind::Tool) {
            self.line("tools", Style::new(), "none");
        }
        self.package(disclosure);
    }

    /// Writes the tools, texts and files, if there are any.
    pub(super) fn package(&mut self, disclosure: &Disclosure) {
        let items_of = |kind| disclosure.items.iter().filter(move |item| item.kind == kind);
        for (index, item) in items_of(ItemKind::Tool).enumerate() {
            self.line(if index == 0 { "tools" } else { "" }, HEAD, &clean(&item.name));
            self.whole(item);
        }
        for item in items_of(ItemKind::Read) {
            let text =
                format!("{}: {}, text for the model", clean(&item.name), counted(item.lines(), "line"));
            self.line("skill", HEAD, &text);
            self.whole(item);
        }
        self.files("programs", &items_of(ItemKind::Runs).collect::<Vec<_>>());
        self.files("files", &items_of(ItemKind::File).collect::<Vec<_>>());
        let is_cut = items_of(ItemKind::Runs).chain(items_of(ItemKind::File)).next().is_some();
        if let Some(rest) = self.rest.clone().filter(|_| is_cut) {
            self.line("", DIM, &format!("`{rest}` shows their content"));
        }
    }

    /// Writes the names of files, with their texts if nothing is cut. Of more than [`MAX_LISTED`] files it writes the
    /// folders.
    fn files(&mut self, head: &str, items: &[&Item]) {
        let is_cut = self.rest.is_some() && items.len() > MAX_LISTED;
        let rows = if is_cut { folders(items) } else { items.iter().map(|item| row(item)).collect() };
        for (index, text) in rows.iter().enumerate() {
            self.line(if index == 0 { head } else { "" }, Style::new(), text);
            if let (None, Some(item)) = (&self.rest, items.get(index)) {
                self.whole(item);
            }
        }
    }

    fn whole(&mut self, item: &Item) {
        let text = item.text.as_deref().unwrap_or_default();
        self.block(text.lines().map(|line| (Style::new(), "", line)));
    }

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

    /// Writes the lines of a text below the previous line, each with its style and mark. Consecutive empty lines are
    /// counted, because they would push the next lines out of sight.
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
            let text = format!("  … {} more, of {total}; `{rest}` shows all", counted(more, "line"));
            self.line("", WARNING, &text);
        }
    }
}

fn row(item: &Item) -> String {
    let mode = if item.executable { ", executable" } else { "" };
    let size = match item.text {
        Some(_) => counted(item.lines(), "line"),
        None => format!("{}, not shown (binary, or above the limit of shown text)", rounded(item.size)),
    };
    format!("{}: {size}{mode}, sha256:{}", clean(&item.name), item.digest.short())
}

/// Returns a row for each folder at the top, and for each file beside them; at most [`MAX_LISTED`] of them.
fn folders(items: &[&Item]) -> Vec<String> {
    let mut rows: Vec<(Option<&str>, Vec<&Item>)> = Vec::new();
    for &item in items {
        let folder = item.name.split_once('/').map(|(folder, _)| folder);
        match rows.iter_mut().find(|(other, _)| folder.is_some() && *other == folder) {
            Some((_, files)) => files.push(item),
            None => rows.push((folder, vec![item])),
        }
    }
    let left_out = rows.split_off(rows.len().min(MAX_LISTED));
    let more = left_out.iter().map(|(_, files)| files.len()).sum::<usize>();
    let rows = rows.into_iter().map(|(folder, files)| match (folder, files.as_slice()) {
        (Some(folder), [_, _, ..]) => {
            let size = files.iter().map(|file| file.size).sum();
            format!("{}/: {} files, {}", clean(folder), files.len(), rounded(size))
        }
        (_, files) => files.iter().map(|file| row(file)).collect(),
    });
    rows.chain((more > 0).then(|| format!("… and {more} more"))).collect()
}

fn gap(empty: usize) -> Option<String> {
    match empty {
        0 => None,
        1 => Some(String::new()),
        more => Some(format!("({more} empty lines)")),
    }
}

/// Returns third-party text on one line, without control sequences for the terminal.
pub(super) fn clean(text: &str) -> String {
    plain(&text.replace('\t', TAB))
}

/// Wraps a text into rows, between words if possible.
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

    /// S03: a cut text states how much is missing, and the command that shows it.
    #[test]
    fn a_cut_is_marked() {
        let text: String = (0..100).map(|number| format!("line {number}\n")).collect();
        let cut = sheet(None, Some("haft inspect --full ./a"), &text);
        assert!(cut.contains("line 79\n") && !cut.contains("line 80\n"), "{cut}");
        assert!(cut.contains("… 20 lines more, of 100; `haft inspect --full ./a` shows all"), "{cut}");
        let whole = sheet(None, None, &text);
        assert!(whole.contains("line 99\n") && !whole.contains('…'), "{whole}");
    }

    /// 42: many files of a package manager's folder are counted by folder.
    #[test]
    fn many_files_are_counted_by_folder() {
        let item = |name: String| Item {
            kind: ItemKind::File,
            digest: haft_package::Digest::hash(name.as_bytes()),
            text: None,
            size: 1024,
            executable: false,
            name,
        };
        let files: Vec<Item> =
            (0..50).map(|number| item(format!("site/a{number}.py"))).chain([item("lock".into())]).collect();
        let files: Vec<&Item> = files.iter().collect();
        let shown = |rest: Option<&str>, files: &[&Item]| {
            let mut sheet = Sheet::new(None, rest.map(str::to_owned));
            sheet.files("files", files);
            crate::cli::terminal::written(&sheet.text, false)
        };
        let cut = shown(Some("haft inspect --full a"), &files);
        assert!(cut.contains("site/: 50 files, 50 KiB\n") && cut.contains("lock: 1 KiB"), "{cut}");
        assert_eq!(cut.lines().count(), 2, "{cut}");
        assert_eq!(shown(None, &files).lines().count(), files.len());
        assert_eq!(shown(Some("haft inspect --full a"), &files[..40]).lines().count(), 40);
        let top: Vec<Item> = (0..50).map(|number| item(format!("{number}"))).collect();
        let cut = shown(Some("haft inspect --full a"), &top.iter().collect::<Vec<_>>());
        assert!(cut.lines().count() == MAX_LISTED + 1 && cut.contains("… and 10 more"), "{cut}");
    }

    /// S03: empty lines push no text out of sight.
    #[test]
    fn empty_lines_are_counted() {
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
