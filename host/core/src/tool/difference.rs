//! The lines that a call would replace, as a diff: for tools that take an old and a new text, or the complete
//! content of a file.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::report::shortened;

/// Pairs of argument names for an old and a new text.
const PAIRS: &[(&str, &str)] =
    &[("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("old", "new")];

/// The name of the argument with the complete new content of a file.
const CONTENT: &str = "content";

/// The name of the argument that has every place of the old text replaced.
const ALL: &str = "replace_all";

/// Number of unchanged lines that are shown around changed ones.
const AROUND: usize = 3;

/// Maximum number of lines of a difference; of a longer one the first lines are shown.
const MAX_LINES: usize = 2000;

/// Maximum number of characters of a line.
const MAX_LINE: usize = 2000;

/// Maximum number of bytes of all lines together.
const MAX_TEXT: usize = 256 << 10;

/// Time limit for the search for a short difference; a longer difference is acceptable too.
const PATIENCE: Duration = Duration::from_millis(100);

/// The lines that a call replaces, and the new lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The names of the arguments that the difference represents.
    pub arguments: Vec<String>,
    /// Pairs of a mark and a line: `-` is removed, `+` is added, a space is unchanged; `@` gives the position of
    /// the next lines in the file, and `\` marks a line without a line end.
    pub lines: Vec<(char, String)>,
    /// The number of removed lines.
    pub removed: usize,
    /// The number of added lines.
    pub added: usize,
    /// Whether a part of the difference is missing in `lines`.
    pub is_cut: bool,
}

impl Difference {
    /// Returns the difference that the arguments describe, if any. `file`: the text of the file that they name,
    /// empty if the file does not exist; `None` if unknown.
    pub fn of(arguments: &Value, file: Option<&str>) -> Option<Self> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        if let Some(((old, new), (before, after))) =
            PAIRS.iter().find_map(|pair| Some((*pair, (text(pair.0)?, text(pair.1)?))))
        {
            let told = vec![old.to_owned(), new.to_owned()];
            return Some(match file.filter(|file| !before.is_empty() && file.contains(before)) {
                Some(file) => {
                    let is_all = arguments.get(ALL).and_then(Value::as_bool).unwrap_or_default();
                    let changed = file.replacen(before, after, if is_all { usize::MAX } else { 1 });
                    Self::between(told, (file, &changed), true)
                }
                None => Self::between(told, (&ended(before), &ended(after)), false),
            });
        }
        Some(Self::between(vec![CONTENT.to_owned()], (file?, text(CONTENT)?), true))
    }

    /// Returns the difference of two texts, which are complete files or their parts.
    fn between(arguments: Vec<String>, (before, after): (&str, &str), is_whole: bool) -> Self {
        let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
        let (mut found, mut room) = (Self { arguments, ..Self::default() }, MAX_TEXT);
        for (at, group) in diff.grouped_ops(AROUND).iter().enumerate() {
            match group.as_slice() {
                [first, .., last] | [first @ last] if is_whole && !before.is_empty() => {
                    let (old, new) = (first.old_range().start, first.new_range().start);
                    let removed = last.old_range().end - old;
                    let added = last.new_range().end - new;
                    found.push('@', &format!("-{},{removed} +{},{added}", old + 1, new + 1), &mut room);
                }
                _ if at > 0 => found.push('@', "…", &mut room),
                _ => {}
            }
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let mark = match change.tag() {
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                    ChangeTag::Equal => ' ',
                };
                found.removed += usize::from(mark == '-');
                found.added += usize::from(mark == '+');
                found.push(mark, change.value().trim_end_matches('\n'), &mut room);
                if is_whole && mark != ' ' && change.missing_newline() {
                    found.push('\\', "no line break at the end", &mut room);
                }
            }
        }
        found
    }

    fn push(&mut self, mark: char, line: &str, room: &mut usize) {
        let shown = shortened(line, MAX_LINE);
        self.is_cut |= shown.len() != line.len();
        match room.checked_sub(shown.len()).filter(|_| self.lines.len() < MAX_LINES) {
            Some(rest) => {
                *room = rest;
                self.lines.push((mark, shown));
            }
            None => self.is_cut = true,
        }
    }

    /// Returns whether the difference represents the argument `name`.
    pub fn tells(&self, name: &str) -> bool {
        self.arguments.iter().any(|own| own == name)
    }

    /// Returns the difference with `clean` applied to every line.
    #[must_use]
    pub(super) fn cleaned(self, clean: impl Fn(&str) -> String) -> Self {
        let lines = self.lines.iter().map(|(mark, line)| (*mark, clean(line))).collect();
        Self { lines, ..self }
    }
}

/// Returns a part of a file, of which it is not known whether its last line ends there.
fn ended(text: &str) -> Cow<'_, str> {
    if text.is_empty() || text.ends_with('\n') { text.into() } else { format!("{text}\n").into() }
}

/// The lines as text, each with its mark.
impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (mark, line)) in self.lines.iter().enumerate() {
            let end = if at > 0 { "\n" } else { "" };
            write!(f, "{end}{mark} {line}")?;
        }
        if self.is_cut { f.write_str("\n… (not all of it is shown)") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_old_and_a_new_text_are_a_difference() {
        let arguments = json!({"file_path": "a", "old_string": "one\ntwo", "new_string": "one\nthree"});
        let found = Difference::of(&arguments, None).unwrap();
        assert_eq!(found.to_string(), "  one\n- two\n+ three");
        assert_eq!((found.removed, found.added, found.tells("new_string")), (1, 1, true));
        let longer = json!({"old_string": "one", "new_string": "one\ntwo"});
        assert_eq!(Difference::of(&longer, None).unwrap().to_string(), "  one\n+ two");
        assert_eq!(Difference::of(&json!({"old_string": "one"}), Some("one")), None);
    }

    /// U3: with the file, an edit is shown at its place, with the lines around it.
    #[test]
    fn with_the_file_an_edit_has_its_place_and_what_is_around() {
        let file = (1..=20).map(|n| format!("{n}\n")).collect::<String>();
        let arguments = json!({"old_string": "10\n", "new_string": "ten\n"});
        let found = Difference::of(&arguments, Some(&file)).unwrap();
        assert_eq!(found.to_string(), "@ -7,7 +7,7\n  7\n  8\n  9\n- 10\n+ ten\n  11\n  12\n  13");
        let all = json!({"old_string": "1\n", "new_string": "x\n", "replace_all": true});
        assert_eq!(Difference::of(&all, Some("1\n2\n1\n")).unwrap().added, 2);
    }

    /// U3: a written file is compared with its former content.
    #[test]
    fn a_file_that_is_written_is_compared_with_what_it_holds() {
        let arguments = json!({"file_path": "a", "content": "one\ntwo"});
        let over = |file: &str| Difference::of(&arguments, Some(file)).unwrap().to_string();
        assert_eq!(over("one\n"), "@ -1,1 +1,2\n  one\n+ two\n\\ no line break at the end");
        assert_eq!(over(""), "+ one\n+ two\n\\ no line break at the end");
        assert_eq!(Difference::of(&arguments, None), None, "nobody knows what is there");
    }

    /// U3: the number of lines of a diff is bounded, and a cut diff says so.
    #[test]
    fn a_difference_is_bounded_and_says_so() {
        let long = "x\n".repeat(MAX_LINES + 1);
        let found = Difference::of(&json!({"content": long}), Some("")).unwrap();
        assert_eq!((found.lines.len(), found.is_cut), (MAX_LINES, true));
        assert!(found.to_string().ends_with("(not all of it is shown)"));
    }
}
