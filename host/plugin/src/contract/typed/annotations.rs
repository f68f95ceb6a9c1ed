//! Extracts from a function's documentation how it behaves. WIT has no place for it, so authors write lines of their own:
//!
//! ```text
//! @read-only          changes nothing outside itself, and is held to it
//! @destructive        may destroy or overwrite what was there
//! @idempotent         a second call with the same arguments changes nothing more
//! @open-world         reaches beyond this machine
//! @title Words        what it is called where people choose it
//! ```
//!
//! One line may have several of the first four. A line with anything else in it is text, and stays.

use std::borrow::Cow;

use haft_core::call::Hints;

/// What is said of a function's behaviour.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Annotations {
    pub(super) title: Option<String>,
    pub(super) hints: Hints,
}

impl Annotations {
    /// The annotations in a text, and the text without them.
    pub(super) fn take(text: &str) -> (Self, Cow<'_, str>) {
        let mut found = Self::default();
        if !text.contains('@') {
            return (found, text.into());
        }
        let remaining: Vec<&str> = text.lines().filter(|line| !found.take_line(line.trim())).collect();
        // A tool that only reads is held to it, and destroys nothing.
        found.hints.destructive &= !found.hints.read_only;
        (found, remaining.join("\n").into())
    }

    /// Whether a line is an annotation; of several titles the first counts.
    fn take_line(&mut self, line: &str) -> bool {
        if let Some(title) = line.strip_prefix("@title ").map(str::trim).filter(|title| !title.is_empty()) {
            self.title.get_or_insert_with(|| title.to_owned());
            return true;
        }
        let mut hints = self.hints;
        let is_annotation =
            line.starts_with('@') && line.split_whitespace().all(|word| set(&mut hints, word));
        if is_annotation {
            self.hints = hints;
        }
        is_annotation
    }
}

/// Sets the hint that a word stands for, if it stands for one.
fn set(hints: &mut Hints, word: &str) -> bool {
    let hint = match word {
        "@read-only" => &mut hints.read_only,
        "@destructive" => &mut hints.destructive,
        "@idempotent" => &mut hints.idempotent,
        "@open-world" => &mut hints.open_world,
        _ => return false,
    };
    *hint = true;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> (Option<String>, Hints, String) {
        let (found, text) = Annotations::take(text);
        (found.title, found.hints, text.into_owned())
    }

    #[test]
    fn annotations_are_taken_out_of_the_text() {
        let text =
            "Reads a page.\n\n@title Read a page\n  @read-only @open-world\n@idempotent\n@param url where";
        let hints = Hints { read_only: true, idempotent: true, open_world: true, destructive: false };
        assert_eq!(
            taken(text),
            (Some("Read a page".into()), hints, "Reads a page.\n\n@param url where".into())
        );
    }

    #[test]
    fn a_line_with_anything_else_is_text() {
        for text in ["@read-only unless forced", "@title", "Say @read-only.", "@readonly", "@since 1.2", "@"]
        {
            assert_eq!(taken(text), (None, Hints::default(), text.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_tool_that_only_reads_destroys_nothing() {
        assert_eq!(taken("@destructive\n@read-only").1, Hints { read_only: true, ..Hints::default() });
        assert_eq!(taken("@destructive").1, Hints { destructive: true, ..Hints::default() });
    }
}
