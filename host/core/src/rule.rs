//! Rules for calls as program.toml writes them: `read`, `git__*`, `bash(git status*)`. A rule names tools and, in
//! parentheses, the subject of a call. This file parses rules; `tool::rules` matches calls against them.

use std::fmt;
use std::str::FromStr;

use crate::pattern::{ToolPattern, ToolPatternError};
use crate::words;

/// A pattern for calls: of the tools that a name pattern matches, all calls or those with a certain subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePattern {
    tools: ToolPattern,
    about: Option<String>,
}

/// The reason why a text is not a [`RulePattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulePatternError {
    /// The text before the parenthesis is not a tool pattern.
    #[error(transparent)]
    Tools(#[from] ToolPatternError),
    /// An opening parenthesis has no closing one at the end of the text.
    #[error("expected `TOOL(PATTERN)`: the text has a `(` and does not end with `)`")]
    Open,
    /// The parentheses are empty.
    #[error(
        "expected a pattern between `(` and `)`; without parentheses the rule applies to every call of \
        the tool"
    )]
    Nothing,
    /// Longer than anything that a person would read.
    #[error("the pattern in parentheses has at most {MAX_ABOUT} characters")]
    TooLong,
    /// A character that cannot be seen.
    #[error("{0:?} is not allowed in a rule")]
    Control(char),
}

/// Maximum number of characters in parentheses: a long command line, and as much as a person reads.
const MAX_ABOUT: usize = 1000;

words! {
    /// The effect of a rule on a call.
    #[derive(Default)]
    pub enum Effect {
        /// The call runs without a question.
        #[default]
        Allow = "allow",
        /// The user is asked.
        Ask = "ask",
        /// The call is refused.
        Deny = "deny",
    }
}

impl RulePattern {
    /// Returns the pattern for every call of these tools.
    pub fn every(tools: ToolPattern) -> Self {
        Self { tools, about: None }
    }

    /// Returns the pattern for calls of the tool `name` with exactly the subject `about`; `None` if no rule can
    /// express that.
    pub fn exactly(name: &str, about: &str) -> Option<Self> {
        format!("{name}({})", Self::escaped(about)).parse().ok()
    }

    /// Returns `text` as a pattern that matches only this text.
    pub(crate) fn escaped(text: &str) -> String {
        text.replace('\\', "\\\\").replace('*', "\\*")
    }

    /// Returns the tools.
    pub fn tools(&self) -> &ToolPattern {
        &self.tools
    }

    /// Returns the pattern of the subject: `*` matches any characters, and `\*` and `\\` match one character.
    pub fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }
}

impl FromStr for RulePattern {
    type Err = RulePatternError;

    fn from_str(text: &str) -> Result<Self, RulePatternError> {
        let Some((tools, rest)) = text.split_once('(') else {
            return Ok(Self::every(text.parse()?));
        };
        let about = rest.strip_suffix(')').ok_or(RulePatternError::Open)?;
        if about.trim().is_empty() {
            return Err(RulePatternError::Nothing);
        }
        if about.chars().count() > MAX_ABOUT {
            return Err(RulePatternError::TooLong);
        }
        if let Some(control) = about.chars().find(|c| c.is_control()) {
            return Err(RulePatternError::Control(control));
        }
        Ok(Self { tools: tools.parse()?, about: Some(about.to_owned()) })
    }
}

impl fmt::Display for RulePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.about {
            Some(about) => write!(f, "{}({about})", self.tools),
            None => write!(f, "{}", self.tools),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_tool_and_what_the_call_is_about() {
        let rule: RulePattern = "bash(git log (x)*)".parse().unwrap();
        assert_eq!((rule.tools().as_str(), rule.about()), ("bash", Some("git log (x)*")));
        let rule: RulePattern = "program:github:*".parse().unwrap();
        assert_eq!((rule.tools().as_str(), rule.about()), ("program__github__*", None));
        assert_eq!("read(a b)".parse::<RulePattern>().unwrap().to_string(), "read(a b)");
    }

    #[test]
    fn rules_explain_themselves() {
        let error = |text: &str| text.parse::<RulePattern>().unwrap_err();
        assert_eq!(error("bash(ls"), RulePatternError::Open);
        assert_eq!(error("bash(ls) x"), RulePatternError::Open);
        assert_eq!(error("bash( )"), RulePatternError::Nothing);
        assert_eq!(error("(ls)"), RulePatternError::Tools(ToolPatternError::Empty));
        assert_eq!(error("bash x(ls)"), RulePatternError::Tools(ToolPatternError::Character(' ')));
        assert_eq!(error("bash(a\nb)"), RulePatternError::Control('\n'));
        assert_eq!(error(&format!("bash({})", "x".repeat(1001))), RulePatternError::TooLong);
    }

    #[test]
    fn an_exact_rule_means_one_call() {
        assert_eq!(RulePattern::exactly("bash", r"ls *\n").unwrap().to_string(), r"bash(ls \*\\n)");
        assert_eq!(RulePattern::exactly("bash", "a\nb"), None, "what has several lines is no rule");
    }
}
