//! Patterns of tool names, for lists of what is allowed: `read`, `git__*`, `*`. A pattern only matches names; it
//! knows no tools.

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
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        for part in parts {
            let Some((_, after)) = rest.split_once(part) else {
                return false;
            };
            rest = after;
        }
        rest.ends_with(last)
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
}
