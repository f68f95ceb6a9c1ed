//! Names in program.toml. Each kind is a type whose parser explains the error in an invalid name; no parser repairs
//! a name, since a silently changed name would not be found elsewhere.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::entry::Entry;
use super::table::{FromValue, Kind, texts};

/// The name of a program, a plugin or a server: `^[a-z0-9][a-z0-9-]{0,31}$`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// The name of a command tool or of an argument: `^[a-zA-Z0-9_-]{1,64}$`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(String);

/// The name of an environment variable: a letter or `_`, then letters, digits and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable(String);

/// A label of workers, or `*` for any worker: the machines on which a tool runs. It grants no right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(String);

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is nothing.
    #[error("a name must not be empty")]
    Empty,
    /// More characters than a name may have.
    #[error("a name has at most {most} characters, this one has {length}")]
    TooLong {
        /// How many it may have.
        most: usize,
        /// How many it has.
        length: usize,
    },
    /// Capital letters or underscores, where there are none.
    #[error("a name has only lower-case letters, digits and `-`: write `{0}`")]
    Spelling(String),
    /// A first character that none may have.
    #[error("a name begins with {allowed}, not with {found:?}")]
    First {
        /// What it may begin with.
        allowed: &'static str,
        /// What it begins with.
        found: char,
    },
    /// Any other character.
    #[error("{found:?} is not allowed: a name has only {allowed}")]
    Character {
        /// What it may have.
        allowed: &'static str,
        /// What it has.
        found: char,
    },
}

impl Name {
    /// The longest name. Two of them and a tool's name fit into the 64 characters that every
    /// provider accepts, most of the time; `tool` shortens the rest.
    pub const MAX: usize = 32;
    const ALLOWED: &'static str = "`a` to `z`, `0` to `9` and `-`";

    /// The folder's name as a program's: lower case, words joined by `-`.
    pub fn of_folder(folder: &Path) -> Self {
        let folder = folder.canonicalize().unwrap_or_default();
        let name = spelt(&folder.file_name().unwrap_or_default().to_string_lossy());
        Self(if name.is_empty() { "my-program".into() } else { name })
    }

    /// Any text as a name, spelt in the same way.
    ///
    /// # Errors
    /// Nothing of it can be a part of a name, or it begins with a character that no name begins with.
    pub fn of_text(text: &str) -> Result<Self, NameError> {
        spelt(text).parse()
    }
}

/// A text in lower case, its words joined by `-`, no longer than a name.
fn spelt(text: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let spelt: String = text.chars().map(fits).collect();
    let spelt: String = spelt.trim_matches('-').chars().take(Name::MAX).collect();
    spelt.trim_end_matches('-').to_owned()
}

impl ToolName {
    /// The longest name that every provider accepts.
    pub const MAX: usize = 64;
    pub(super) const PATTERN: &'static str = "^[a-zA-Z0-9_-]{1,64}$";
    const ALLOWED: &'static str = "letters, digits, `_` and `-`";
}

impl Variable {
    const ALLOWED: &'static str = "letters, digits and `_`";
}

impl Label {
    /// Whether it means any worker.
    pub fn is_any(&self) -> bool {
        self.0 == "*"
    }

    /// Whether a worker with `labels` is one of those that `on` names.
    pub fn are_met(on: &[Self], labels: &[Self]) -> bool {
        on.iter().any(|label| label.is_any() || labels.contains(label))
    }

    /// Those of a list, for people: `eu` or `gpu`.
    pub fn listed(on: &[Self]) -> String {
        on.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(" or ")
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check_length(text, Self::MAX)?;
        let spelt = text.to_ascii_lowercase().replace('_', "-");
        if spelt != text && spelt.parse::<Self>().is_ok() {
            return Err(NameError::Spelling(spelt));
        }
        check_characters(text, Self::ALLOWED, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')?;
        check_first(text, "a letter or a digit", |c| c != '-')?;
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for ToolName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check_length(text, Self::MAX)?;
        check_characters(text, Self::ALLOWED, |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))?;
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for Variable {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        // The kernel has no limit; a longer name is an error.
        check_length(text, 255)?;
        check_characters(text, Self::ALLOWED, |c| c.is_ascii_alphanumeric() || c == '_')?;
        check_first(text, "a letter or `_`", |c| !c.is_ascii_digit())?;
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for Label {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text == "*" {
            Ok(Self(text.to_owned()))
        } else {
            text.parse::<Name>().map(|name| Self(name.into()))
        }
    }
}

impl FromValue for Label {
    const KIND: Kind = Kind::Pattern(r"^(\*|[a-z0-9][a-z0-9-]{0,31})$");

    fn from_value(entry: &Entry<'_>) -> Option<Self> {
        entry.parse()
    }

    /// A list of at least one.
    fn list(entry: &Entry<'_>) -> Option<Vec<Self>> {
        let labels = entry.list(Self::from_value)?;
        if labels.is_empty() && entry.raw().as_array().is_some_and(|array| array.iter().len() == 0) {
            return entry.reject(
                "expected labels of workers, such as `[\"eu\"]`; remove the key for a tool that runs on this \
                 machine",
            );
        }
        Some(labels)
    }
}

fn check_length(text: &str, most: usize) -> Result<(), NameError> {
    match text.chars().count() {
        0 => Err(NameError::Empty),
        length if length > most => Err(NameError::TooLong { most, length }),
        _ => Ok(()),
    }
}

fn check_characters(text: &str, allowed: &'static str, ok: impl Fn(char) -> bool) -> Result<(), NameError> {
    text.chars().find(|c| !ok(*c)).map_or(Ok(()), |found| Err(NameError::Character { allowed, found }))
}

fn check_first(text: &str, allowed: &'static str, ok: impl Fn(char) -> bool) -> Result<(), NameError> {
    text.chars().next().filter(|c| !ok(*c)).map_or(Ok(()), |found| Err(NameError::First { allowed, found }))
}

macro_rules! is_text {
    ($($name:ident),+) => {$(
        impl $name {
            /// It as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    )+};
}

is_text!(Name, ToolName, Variable, Label);

texts! {
    Name: Kind::Pattern("^[a-z0-9][a-z0-9-]{0,31}$"),
    ToolName: Kind::Pattern(ToolName::PATTERN),
    Variable: Kind::Pattern("^[A-Za-z_][A-Za-z0-9_]*$"),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> String {
        text.parse::<Name>().map_or_else(|error| error.to_string(), String::from)
    }

    /// PR08: no name can be a path.
    #[test]
    fn names_explain_themselves() {
        assert_eq!(name("github"), "github");
        assert_eq!(name("0-a"), "0-a");
        assert_eq!(name(""), "a name must not be empty");
        assert_eq!(name("my_tool"), "a name has only lower-case letters, digits and `-`: write `my-tool`");
        assert_eq!(name("GitHub_2"), "a name has only lower-case letters, digits and `-`: write `github-2`");
        assert_eq!(name("-a"), "a name begins with a letter or a digit, not with '-'");
        assert_eq!(name("../x"), "'.' is not allowed: a name has only `a` to `z`, `0` to `9` and `-`");
        assert_eq!(name(&"a".repeat(33)), "a name has at most 32 characters, this one has 33");
    }

    #[test]
    fn tool_names_are_those_every_provider_takes() {
        let tool = |text: &str| text.parse::<ToolName>().map_err(|error| error.to_string());
        assert!(tool("create_PR-2").is_ok());
        assert_eq!(
            tool("a.b").unwrap_err(),
            "'.' is not allowed: a name has only letters, digits, `_` and `-`"
        );
        assert!(tool(&"a".repeat(65)).is_err());
    }

    #[test]
    fn variables_begin_with_a_letter() {
        let variable = |text: &str| text.parse::<Variable>().map_err(|error| error.to_string());
        assert!(variable("_LANG2").is_ok());
        assert_eq!(variable("2X").unwrap_err(), "a name begins with a letter or `_`, not with '2'");
        assert_eq!(
            variable("LC_*").unwrap_err(),
            "'*' is not allowed: a name has only letters, digits and `_`"
        );
    }

    fn labels(texts: &[&str]) -> Vec<Label> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn one_common_label_is_enough_and_a_star_means_any_worker() {
        assert!(Label::are_met(&labels(&["eu", "gpu"]), &labels(&["gpu", "big"])));
        assert!(!Label::are_met(&labels(&["eu"]), &labels(&["us"])));
        assert!(Label::are_met(&labels(&["*"]), &[]));
        assert!(!Label::are_met(&[], &labels(&["eu"])));
        assert!("EU".parse::<Label>().is_err() && "a*".parse::<Label>().is_err());
    }
}
