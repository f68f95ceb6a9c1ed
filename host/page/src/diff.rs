//! What a call would replace, as the lines that differ: for tools whose arguments are an old text and a new one.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

/// Names of arguments that are an old text and the new one.
const PAIRS: &[(&str, &str)] =
    &[("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("old", "new")];

/// Lines of a difference; of more the first are shown.
const MAX_LINES: usize = 2000;

/// How long may be looked for a short difference: a longer one does as well.
const PATIENCE: Duration = Duration::from_millis(100);

/// A difference.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    old: String,
    new: String,
    /// A mark (`-`, `+` or a space) and a line, each.
    lines: Vec<(char, String)>,
    is_cut: bool,
}

/// The difference that the arguments say, if they do.
pub(crate) fn of(arguments: &Value) -> Option<Difference> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let ((old, new), (before, after)) =
        PAIRS.iter().find_map(|pair| Some((*pair, (text(pair.0)?, text(pair.1)?))))?;
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    let mut lines = diff.iter_all_changes().map(|change| {
        let mark = match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => ' ',
        };
        (mark, change.value().trim_end_matches('\n').to_owned())
    });
    let shown = lines.by_ref().take(MAX_LINES).collect();
    Some(Difference {
        old: old.to_owned(),
        new: new.to_owned(),
        lines: shown,
        is_cut: lines.next().is_some(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_old_and_a_new_text_are_a_difference() {
        let arguments = json!({"file_path": "a", "old_string": "one\ntwo", "new_string": "one\nthree"});
        let expected = [(' ', "one"), ('-', "two"), ('+', "three")];
        let lines = of(&arguments).unwrap().lines;
        assert_eq!(lines, expected.map(|(mark, line)| (mark, line.to_owned())));
        assert_eq!(of(&json!({"old_string": "one"})), None);
    }
}
