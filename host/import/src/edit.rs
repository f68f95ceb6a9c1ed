//! Edits a text at exact positions; every other byte stays.

use std::ops::Range;

use super::syntax::Syntax;

/// New text instead of some bytes.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    /// The bytes that go.
    pub(crate) range: Range<usize>,
    /// The replacement.
    pub(crate) text: String,
}

impl Edit {
    /// Returns `words` in front of the values of a list: the list is at `list`, its values at `items`.
    pub(crate) fn insert(text: &str, list: &Range<usize>, items: &[Range<usize>], words: &[String]) -> Self {
        let Some(first) = items.first() else {
            let at = list.start + 1;
            return Self { range: at..at, text: words.join(", ") };
        };
        // A list with one value per line keeps this layout.
        let before = line_before(text, first.start);
        let between =
            if before.trim().is_empty() { format!(",{}{before}", line_end(text)) } else { ", ".to_owned() };
        let words = words.iter().map(|word| format!("{word}{between}")).collect();
        Self { range: first.start..first.start, text: words }
    }

    /// Returns the edit that inserts the key `key` with `value` after the value at `behind`, whose own key begins
    /// at `start`.
    pub(crate) fn follow(
        text: &str,
        syntax: Syntax,
        (start, behind): (usize, &Range<usize>),
        key: &str,
        value: &str,
    ) -> Self {
        let before = line_before(text, start);
        // The parts of a dotted key belong to the new key too.
        let is_own_line = !before.contains(['{', ',', '=']);
        let (pair, end) = (syntax.pair(key, value), line_end(text));
        let text = match (syntax, is_own_line) {
            (Syntax::Json, true) => format!(",{end}{before}{pair}"),
            (Syntax::Toml, true) => format!("{end}{before}{pair}"),
            (_, false) => format!(", {pair}"),
        };
        Self { range: behind.end..behind.end, text }
    }
}

/// Returns `text` with all `edits`, which do not overlap.
pub(crate) fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for Edit { range, text: new } in edits {
        out.push_str(text.get(at..range.start).unwrap_or_default());
        out.push_str(&new);
        at = range.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// Returns the text before `at` on its line.
fn line_before(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    before.get(before.rfind('\n').map_or(0, |newline| newline + 1)..).unwrap_or_default()
}

fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}
