//! `[program]`, `[build]`, `[host_requirements]` and `[requires_tools]`: the program, how its component is
//! built, and what it needs. Looks nothing up.

use std::path::PathBuf;

use super::entry::{Entry, Located};
use super::name::Name;
use super::table::{Kind, table};

table! {
    /// What this program is called. Needed where there are `[[tools]]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Program = "[program]" {
        /// the program's name; the program's name; part of the names of its command tools
        pub name: Located<Name>,
        /// a semantic version such as `1.0.0`
        #[read(Kind::Text, |entry| entry.parse_with(parse_version))]
        pub version: semver::Version,
        /// one sentence
        pub description: Option<String> = None,
        /// who wrote it, as a list
        #[also("author")]
        pub authors: Vec<String> = Vec::new(),
        /// an SPDX expression such as `MIT`
        #[also("licence")]
        pub license: Option<String> = None,
        /// more files and folders of the package
        #[read(Kind::List(&Kind::Path), |entry| entry.list(|entry| entry.parse_with(parse_inside)))]
        #[also("files", "exclude")]
        pub include: Vec<String> = Vec::new(),
    }
}

table! {
    /// Programs that must be installed: looked up on PATH, never run.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HostRequirements = "[host_requirements]" {
        /// the program does not start without these
        #[read(BINARIES, binaries)]
        #[also("requires")]
        pub required: Vec<Located<String>> = Vec::new(),
        /// haft tells the model which of these are installed
        #[read(BINARIES, binaries)]
        pub optional: Vec<Located<String>> = Vec::new(),
    }
}

table! {
    /// Tools that an agent of this program needs; `haft check` says which are missing.
    pub(super) struct RequiresTools = "[requires_tools]" {
        /// names as the model sees them
        #[also("tools", "required")]
        pub(super) names: Vec<Located<String>> = Vec::new(),
    }
}

/// Parses a path below the program's folder, with `/` between its parts.
fn parse_inside(text: &str) -> Result<String, &'static str> {
    let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if text.starts_with(['/', '~']) || parts.is_empty() || parts.contains(&"..") {
        return Err("expected a file or folder below the program's folder, such as `templates`");
    }
    Ok(parts.join("/"))
}

fn parse_version(text: &str) -> Result<semver::Version, &'static str> {
    semver::Version::parse(text).map_err(|_| "expected a semantic version such as `1.0.0`")
}

const BINARIES: Kind = Kind::List(&Kind::Pattern("^[^/\\s]+$"));

fn binaries(entry: &Entry<'_>) -> Option<Vec<Located<String>>> {
    entry.list(|entry| entry.located(binary))
}

fn binary(entry: &Entry<'_>) -> Option<String> {
    let text = entry.text()?;
    if text.contains(|c: char| c == '/' || c.is_whitespace()) {
        return entry.reject("expected the bare name of a program, which is looked up on PATH");
    }
    Some(text)
}

/// The languages that haft builds itself, by their names in program.toml.
const LANGUAGES: &[(&str, &str)] =
    &[("rust", "rust"), ("python", "python"), ("js", "js"), ("go", "go"), ("c", "c")];

table! {
    /// How `haft plugin build` makes the component of this plugin project: that of the plugin that is called
    /// like the program, else of the first.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Build = "[build]" {
        /// `rust`, `python`, `js`, `go` or `c`; default detected from the folder
        #[read(
            Kind::OneOf(|| LANGUAGES.iter().map(|row| row.0).collect()),
            |entry| entry.located(|entry| entry.one_of(LANGUAGES))
        )]
        #[also("lang")]
        pub language: Option<Located<&'static str>> = None,
        /// the folder with the WIT; default `wit`
        pub wit: PathBuf = "wit".into(),
        /// the world of the component, if the WIT has several
        pub world: Option<Located<String>> = None,
        /// builds the component instead of the language's own tools, run in this folder; haft then finishes
        /// the component
        #[read(Kind::Command, |entry| entry.located(Entry::command))]
        #[also("cmd", "run", "script")]
        pub command: Option<Located<Vec<String>>> = None,
    }
}
