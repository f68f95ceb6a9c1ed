//! The languages in which haft helps to write plugins: one file a language, and the catalogue of
//! them. Nothing here knows what a tool is; each only turns a folder of source into a component.

mod c;
mod extend;
mod go;
mod javascript;
mod python;
mod rust;
mod shape;
mod shared;
mod venv;

use std::fmt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::build::Build;
use super::file::File;
use super::project::Project;
use super::toolchain::Tool;
use haft_core::report::{Problem, Report, nearest};

/// The languages, in the order in which they are offered.
pub static LANGUAGES: &[&dyn Language] =
    &[&rust::Rust, &python::Python, &javascript::JavaScript, &go::Go, &c::C];

/// A language that plugins are written in.
#[async_trait]
pub trait Language: Send + Sync {
    /// Its name in program.toml and on the command line, such as `js`.
    fn name(&self) -> &'static str;

    /// Its name for people, such as `JavaScript`.
    fn title(&self) -> &'static str;

    /// Other names that people give it on the command line.
    fn aliases(&self) -> &'static [&'static str];

    /// Files that show a folder to be one of its projects.
    fn marks(&self) -> &'static [&'static str];

    /// The files of a new project; `None` for a style that it does not have. In their paths and
    /// texts `my-plugin`, `my_plugin` and `MyPlugin` become the project's name. [`super::template`]
    /// adds `program.toml` and `wit/world.wit`.
    fn template(&self, style: Style) -> Option<&'static [File]>;

    /// The file of a new project that a person should look at first.
    fn begin(&self, style: Style) -> &'static str;

    /// Files that a new project needs besides, made of its WIT at `wit`: what its own tests do not
    /// compile without. Each with its path below the project's folder.
    fn generated(&self, wit: &Path) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
        let _ = wit;
        Ok(Vec::new())
    }

    /// Folders and files of a project that are written by its tools: not its source, and not watched.
    fn outputs(&self) -> &'static [&'static str];

    /// What builds the project, found or installed, and noted with its version.
    async fn prepare(&self, build: &Build<'_>) -> anyhow::Result<Tool>;

    /// Makes the component of a project, or a core module that says which world it is of, with the tool that was prepared.
    async fn build(&self, build: &Build<'_>, tool: Tool) -> anyhow::Result<Vec<u8>>;
}

/// How a plugin is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Typed functions, described in WIT.
    Typed,
    /// With haft's own library for the language, in which a tool describes itself.
    Sdk,
}

/// The language of that name or alias, in any case.
pub fn find(name: &str) -> Option<&'static dyn Language> {
    let name = name.to_ascii_lowercase();
    let is_called =
        |language: &&&dyn Language| language.name() == name || language.aliases().contains(&name.as_str());
    LANGUAGES.iter().find(is_called).copied()
}

/// The language whose marks are in `folder`.
pub(crate) fn of_folder(folder: &Path) -> Option<&'static dyn Language> {
    let is_marked =
        |language: &&&dyn Language| language.marks().iter().any(|mark| folder.join(mark).is_file());
    LANGUAGES.iter().find(is_marked).copied()
}

/// The language of `project`: the one that its program.toml names, or the one whose files are there.
pub fn of_project(project: &Project) -> Result<&'static dyn Language, Report> {
    let found = match project.build.language.as_ref() {
        Some(named) => find(named.value),
        None => of_folder(&project.folder),
    };
    found.ok_or_else(|| {
        let problem = Problem::new(format!("unknown language of the project `{}`", project.folder.display()));
        problem.hint("name it: `[build] language = \"rust\"`, or a `command` that builds it").into()
    })
}

/// ``expected `rust`, …``, with the one that was probably meant.
pub fn unknown(name: &str) -> String {
    let names = LANGUAGES.iter().map(|language| language.name());
    let all: Vec<_> = names.clone().map(|name| format!("`{name}`")).collect();
    let aliases = LANGUAGES.iter().flat_map(|language| language.aliases().iter().copied());
    let near = nearest(name, names.chain(aliases)).map(|near| format!("; did you mean `{near}`?"));
    format!("expected {}{}", all.join(", "), near.unwrap_or_default())
}

impl fmt::Debug for dyn Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
