//! `[program]`, `[host_requirements]` and `[requires_tools]`: what the program is and what it
//! needs. Nothing is looked up here.

use super::catalogue::{HOST_REQUIREMENTS, PROGRAM, REQUIRES_TOOLS};
use super::entry::{Entry, Located};
use super::name::Name;
use super::section::Section;

/// `[program]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Part of the exposed names of its command tools.
    pub name: Located<Name>,
    /// A semantic version.
    pub version: semver::Version,
    /// One sentence, if given.
    pub description: Option<String>,
    /// `authors`, or `author` alone.
    pub authors: Vec<String>,
    /// An SPDX expression, as written.
    pub license: Option<String>,
    /// Files and folders, relative to the program's folder, that belong to the package besides those
    /// that other keys name.
    pub include: Vec<String>,
}

/// `[host_requirements]`: bare names of programs, to be looked up on PATH and never run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRequirements {
    /// Without these the program does not start.
    pub required: Vec<Located<String>>,
    /// The model is told which of these are there.
    pub optional: Vec<Located<String>>,
}

impl Program {
    pub(super) fn read(root: &Section<'_>) -> Option<Self> {
        let section = root.get("program", |entry| entry.section(&PROGRAM))?;
        let name = section.require("name", |entry| entry.located(Entry::parse));
        let version = section.require("version", |entry| entry.parse_with(parse_version));
        let description = section.get("description", Entry::text);
        let mut authors = section.list("authors", Entry::text);
        authors.extend(section.get("author", Entry::text));
        let license = section.get("license", Entry::text);
        let include = section.list("include", |entry| entry.parse_with(parse_inside));
        Some(Self { name: name?, version: version?, description, authors, license, include })
    }
}

impl HostRequirements {
    pub(super) fn read(root: &Section<'_>) -> Self {
        let Some(section) = root.get("host_requirements", |entry| entry.section(&HOST_REQUIREMENTS)) else {
            return Self::default();
        };
        let binaries = |key| section.list(key, |entry| entry.located(binary));
        Self { required: binaries("required"), optional: binaries("optional") }
    }
}

/// The names of `[requires_tools]`.
pub(super) fn read_required_tools(root: &Section<'_>) -> Vec<Located<String>> {
    root.get("requires_tools", |entry| entry.section(&REQUIRES_TOOLS))
        .map(|section| section.list("names", |entry| entry.located(Entry::text)))
        .unwrap_or_default()
}

/// A path below the program's folder, its parts joined by `/`.
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

fn binary(entry: &Entry<'_>) -> Option<String> {
    let text = entry.text()?;
    if text.contains(|c: char| c == '/' || c.is_whitespace()) {
        return entry.reject("expected the bare name of a program, which is looked up on PATH");
    }
    Some(text)
}
