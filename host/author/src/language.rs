//! The languages for plugins: one file per language, and their catalogue. A language only builds a component
//! from a folder of source, and knows nothing of tools.

/// A file of a project template: its path in the project, and the file below `templates` with its text.
macro_rules! template {
    ($path:literal, $text:literal) => {
        File { path: $path, text: include_str!(concat!("../templates/", $text)) }
    };
}

mod c;
mod extend;
mod go;
mod javascript;
mod python;
mod rust;
mod shape;
mod venv;

use std::fmt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::build::Build;
use super::project::Project;
use super::toolchain::Tool;
use haft_core::report::{Problem, Report, nearest};

/// The languages, in the order in which they are offered.
pub static LANGUAGES: &[&dyn Language] =
    &[&rust::Rust, &python::Python, &javascript::JavaScript, &go::Go, &c::C];

/// A language for plugins.
#[async_trait]
pub trait Language: Send + Sync {
    /// Returns the names and files of the language.
    fn facts(&self) -> &'static Facts;

    /// Generates further files of a new project from its WIT at `wit`, which its tests need to compile. Each
    /// path is relative to the project's folder.
    fn generated(&self, wit: &Path) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
        let _ = wit;
        Ok(Vec::new())
    }

    /// Finds or installs the tool that builds the project, and records its version.
    async fn prepare(&self, build: &Build<'_>) -> anyhow::Result<Tool>;

    /// Builds the project's component, or a core module with its world's metadata, with the prepared tool.
    async fn build(&self, build: &Build<'_>, tool: Tool) -> anyhow::Result<Vec<u8>>;
}

/// The names and files of a language.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The name in program.toml and on the command line, such as `js`.
    pub name: &'static str,
    /// The display name, such as `JavaScript`.
    pub title: &'static str,
    /// Other names on the command line.
    pub aliases: &'static [&'static str],
    /// The files that identify a project of this language.
    pub marks: &'static [&'static str],
    /// The output folders and files of a project's tools, which are not source and not watched.
    pub outputs: &'static [&'static str],
    /// A new project of typed functions.
    pub typed: Template,
    /// A new project of haft's library for the language, if there is one.
    pub sdk: Option<Template>,
}

impl Facts {
    /// Returns a new project of this style; `None` for an unsupported style.
    pub fn template(&self, style: Style) -> Option<&Template> {
        match style {
            Style::Typed => Some(&self.typed),
            Style::Sdk => self.sdk.as_ref(),
        }
    }
}

/// A new project. In its paths and texts `my-plugin`, `my_plugin` and `MyPlugin` are replaced by the project's name.
/// [`super::template`] adds `program.toml` and `wit/world.wit`.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// The files.
    pub files: &'static [File],
    /// The file to read first.
    pub begin: &'static str,
}

/// The programming interfaces of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Typed functions, declared in WIT.
    Typed,
    /// haft's library for the language, in which tools are declared in code.
    Sdk,
}

/// Returns the language with this name or alias, ignoring case.
pub fn find(name: &str) -> Option<&'static dyn Language> {
    let name = name.to_ascii_lowercase();
    let is_called = |language: &&&dyn Language| {
        language.facts().name == name || language.facts().aliases.contains(&name.as_str())
    };
    LANGUAGES.iter().find(is_called).copied()
}

/// Returns the language whose project files are in `folder`.
pub(crate) fn of_folder(folder: &Path) -> Option<&'static dyn Language> {
    let is_marked =
        |language: &&&dyn Language| language.facts().marks.iter().any(|mark| folder.join(mark).is_file());
    LANGUAGES.iter().find(is_marked).copied()
}

/// Returns the language of `project`, from its program.toml or its files.
pub fn of_project(project: &Project) -> Result<&'static dyn Language, Report> {
    let found = match project.build.language.as_ref() {
        Some(named) => find(named.value),
        None => of_folder(&project.folder),
    };
    found.ok_or_else(|| {
        let problem =
            Problem::new(format!("cannot detect the language of the project `{}`", project.folder.display()));
        problem.hint("set `[build] language = \"rust\"`, or a `command` that builds the project").into()
    })
}

/// Returns ``expected `rust`, …`` with the nearest name.
pub fn unknown(name: &str) -> String {
    let names = LANGUAGES.iter().map(|language| language.facts().name);
    let known: Vec<_> = names.clone().map(|name| format!("`{name}`")).collect();
    let aliases = LANGUAGES.iter().flat_map(|language| language.facts().aliases.iter().copied());
    let near = nearest(name, names.chain(aliases)).map(|near| format!("; did you mean `{near}`?"));
    format!("expected {}{}", known.join(", "), near.unwrap_or_default())
}

impl fmt::Debug for dyn Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().name)
    }
}

/// A file of a project template.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// The path, relative to the project's folder.
    pub path: &'static str,
    /// The content.
    pub text: &'static str,
}
