//! Patterns in which `*` matches any characters: of tool names, for lists of what is allowed (`read`, `git__*`, `*`),
//! and of texts. Matching is case-sensitive. A pattern knows no tools.

use std::fmt;
use std::str::FromStr;

/// A tool's name in which every `*` matches any number of characters.
///
/// `program:NAME:TOOL` means `program__NAME__TOOL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPattern(String);

/// The reason why a text is not a [`ToolPattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolPatternError {
    /// The pattern is empty.
    #[error("a pattern must not be empty; `*` means every tool")]
    Empty,
    /// The pattern is longer than any name.
    #[error("a pattern has at most {MAX} characters")]
    TooLong,
    /// A character that no tool's name has.
    #[error("{0:?} is not allowed: a pattern has only letters, digits, `_`, `-`, `/` and `*`")]
    Character(char),
}

/// Twice the longest name, so that stars have room.
const MAX: usize = 128;

impl ToolPattern {
    /// Returns whether the pattern matches `name`, a tool's exposed name. Case-sensitive.
    pub fn matches(&self, name: &str) -> bool {
        are_in_order(self.0.split('*'), name)
    }

    /// Returns the pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ToolPattern {
    type Err = ToolPatternError;

    fn from_str(text: &str) -> Result<Self, ToolPatternError> {
        let text = match text.strip_prefix("program:") {
            Some(rest) => format!("program__{}", rest.replacen(':', "__", 1)),
            None => text.to_owned(),
        };
        if text.is_empty() {
            return Err(ToolPatternError::Empty);
        }
        if text.len() > MAX {
            return Err(ToolPatternError::TooLong);
        }
        let stranger =
            text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*' | '/')));
        stranger.map_or(Ok(Self(text)), |found| Err(ToolPatternError::Character(found)))
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pattern in which every `*` matches any number of characters; `\*` and `\\` match one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    /// The literal texts between the stars; never empty.
    parts: Vec<String>,
}

impl Glob {
    pub(crate) fn new(pattern: &str) -> Self {
        let (mut parts, mut part) = (Vec::new(), String::new());
        let mut characters = pattern.chars().peekable();
        while let Some(c) = characters.next() {
            match c {
                '*' => parts.push(std::mem::take(&mut part)),
                '\\' => part.push(characters.next_if(|next| matches!(next, '*' | '\\')).unwrap_or('\\')),
                c => part.push(c),
            }
        }
        parts.push(part);
        Self { parts }
    }

    /// Returns the text, if it has no star.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Returns the common prefix of all matching texts.
    pub(crate) fn head(&self) -> &str {
        self.parts.first().map_or("", String::as_str)
    }

    /// Returns the words that every text that matches begins with, and what follows them and a blank.
    pub(crate) fn split_words(&self) -> (Vec<String>, Self) {
        let mut words: Vec<String> = self.head().split(' ').map(str::to_owned).collect();
        let first = words.pop().unwrap_or_default();
        let others = self.parts.iter().skip(1).cloned();
        (words, Self { parts: std::iter::once(first).chain(others).collect() })
    }

    /// Returns whether the pattern matches all of `text`.
    pub(crate) fn matches(&self, text: &str) -> bool {
        are_in_order(self.parts.iter().map(String::as_str), text)
    }

    /// Returns whether the pattern may match a text that begins with `prefix`.
    pub(crate) fn may_begin_with(&self, prefix: &str) -> bool {
        let head = self.head();
        head.starts_with(prefix) || (self.literal().is_none() && prefix.starts_with(head))
    }
}

/// Returns whether `text` consists of `parts`, with any characters between them.
pub(crate) fn are_in_order<'a>(mut parts: impl DoubleEndedIterator<Item = &'a str>, text: &str) -> bool {
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        pattern.parse::<ToolPattern>().unwrap().matches(name)
    }

    /// TE08: a pattern without a star matches one name.
    #[test]
    fn patterns_match_whole_names() {
        assert!(matches("read", "read"));
        assert!(!matches("read", "read_file") && !matches("read", "thread"));
        assert!(matches("*", "anything") && matches("*", ""));
        assert!(matches("git__*", "git__log") && !matches("git__*", "git_log"));
        assert!(matches("*_file", "read_file") && !matches("*_file", "file_read"));
        assert!(matches("a*b*c", "a1b2c") && !matches("a*b*c", "a1c2b"));
        assert!(!matches("aa*aa", "aaa"), "the two ends may not overlap");
        assert!(!matches("READ", "read"));
        assert!(matches("mcp__s__prompts/x", "mcp__s__prompts/x") && matches("skills/*", "skills/far"));
    }

    #[test]
    fn the_reference_form_is_understood() {
        assert!(matches("program:github:create_pr", "program__github__create_pr"));
        assert!(matches("program:github:*", "program__github__x"));
    }

    #[test]
    fn patterns_explain_themselves() {
        let error = |text: &str| text.parse::<ToolPattern>().unwrap_err();
        assert_eq!(error(""), ToolPatternError::Empty);
        assert_eq!(error("a b"), ToolPatternError::Character(' '));
        assert_eq!(error("a:b"), ToolPatternError::Character(':'));
        assert_eq!(error(&"a".repeat(200)), ToolPatternError::TooLong);
    }

    #[test]
    fn stars_stand_for_anything_and_escapes_for_themselves() {
        for (pattern, text, is_meant) in [
            ("a*", "a", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("aa*aa", "aaa", false),
            ("*", "", true),
            ("abc", "abcd", false),
            (r"ls \*", "ls *", true),
            (r"ls \*", "ls x", false),
            (r"a\\b", r"a\b", true),
            (r"a\b", r"a\b", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(text), is_meant, "{pattern} {text}");
        }
    }

    #[test]
    fn a_beginning_may_become_what_is_meant() {
        for (pattern, prefix, may) in [
            ("rm *", "r", true),
            ("rm *", "", true),
            ("rm *", "rm x", true),
            ("rm *", "echo ", false),
            ("rm x", "rm x", true),
            ("rm x", "rm xy", false),
            ("*force*", "echo ", true),
        ] {
            assert_eq!(Glob::new(pattern).may_begin_with(prefix), may, "{pattern} {prefix}");
        }
    }
}
