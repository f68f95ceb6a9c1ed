//! `[build]`: how the component of a plugin project is made from its source. It names a language;
//! how that one is built is known elsewhere, and nothing is looked up here.

use std::path::PathBuf;

use super::entry::Located;
use super::table::table;

/// The languages that haft builds itself, by the names they have in program.toml.
const LANGUAGES: &[(&str, &str)] =
    &[("rust", "rust"), ("python", "python"), ("js", "js"), ("go", "go"), ("c", "c")];

table! {
    /// How `haft build` makes the component of this plugin project: that of the plugin that is called
    /// like the program, else of the first.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Build = "[build]" {
        /// `rust`, `python`, `js`, `go` or `c`; found out from the folder where it is left out
        #[read(
            Kind::OneOf(|| LANGUAGES.iter().map(|row| row.0).collect()),
            |entry| entry.located(|entry| entry.one_of(LANGUAGES))
        )]
        #[also("lang")]
        pub language: Option<Located<&'static str>> = None,
        /// the folder with the WIT; default `wit`
        pub wit: PathBuf = "wit".into(),
        /// the world of the component, where the WIT has several
        pub world: Option<Located<String>> = None,
        /// makes the component in the place of the language's own tools, run in this folder;
        /// haft then finishes it
        #[read(Kind::Command, |entry| entry.located(Entry::command))]
        #[also("cmd", "run", "script")]
        pub command: Option<Located<Vec<String>>> = None,
    }
}
