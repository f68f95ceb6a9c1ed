//! `[build]`: how the component of a plugin project is made from its source. It names a language;
//! how that one is built is known elsewhere, and nothing is looked up here.

use std::path::PathBuf;

use super::catalogue::BUILD;
use super::entry::{Entry, Located};
use super::section::Section;

/// The languages that haft builds itself, by the names they have in program.toml.
pub(super) const LANGUAGES: &[(&str, &str)] =
    &[("rust", "rust"), ("python", "python"), ("js", "js"), ("go", "go"), ("c", "c")];

/// `[build]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// The language, as program.toml writes it; found out from the folder where it says none.
    pub language: Option<Located<&'static str>>,
    /// The folder or file of the WIT, relative to program.toml; there need be none.
    pub wit: PathBuf,
    /// The world that the component implements, where the WIT has several.
    pub world: Option<Located<String>>,
    /// Makes the component in place of the language's own tools; never empty.
    pub command: Option<Located<Vec<String>>>,
}

impl Default for Build {
    fn default() -> Self {
        Self { language: None, wit: Self::WIT.into(), world: None, command: None }
    }
}

impl Build {
    /// Where the WIT is unless program.toml says otherwise.
    pub(crate) const WIT: &str = "wit";

    pub(super) fn read(root: &Section<'_>) -> Option<Self> {
        let section = root.get("build", |entry| entry.section(&BUILD))?;
        let default = Self::default();
        let wit = section.get("wit", Entry::path);
        Some(Self {
            language: section.get("language", |entry| entry.located(|entry| entry.one_of(LANGUAGES))),
            wit: wit.unwrap_or(default.wit),
            world: section.get("world", |entry| entry.located(Entry::text)),
            command: section.get("command", |entry| entry.located(Entry::command)),
        })
    }
}
