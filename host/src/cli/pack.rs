//! `haft pack`: what haft adds to a component that was built without it, and packages of several
//! parts as one file. Builds nothing.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::Exit;
use super::build::shown;
use super::terminal::Terminal;
use crate::author::archive::Package;
use crate::author::component::{self, Kind};
use crate::author::pack;
use crate::author::wit::Wit;
use crate::manifest::{Component, Manifest};
use crate::program::FILE_NAME;
use crate::report::{Problem, Report};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft pack tool.wasm --wit wit    adds the documentation of the WIT, and program.toml where it is beside
  haft pack .                      makes NAME-VERSION.tar.gz of the package in this folder")]
pub(super) struct Pack {
    /// A component, or a folder with a program.toml
    #[arg(value_name = "COMPONENT|FOLDER", default_value = ".")]
    what: PathBuf,
    /// The WIT that the component was built from: a folder or a file
    #[arg(long, value_name = "DIR")]
    wit: Option<PathBuf>,
    /// The world of the component, where the WIT has several
    #[arg(long, requires = "wit")]
    world: Option<String>,
    /// Where to write the result [default: the component itself; NAME-VERSION.tar.gz in the folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Pack {
    pub(super) fn execute(self, terminal: Terminal, program: Option<&Path>) -> anyhow::Result<Exit> {
        if self.what.is_dir() { self.folder(terminal) } else { self.component(terminal, program) }
    }

    fn component(self, terminal: Terminal, named: Option<&Path>) -> anyhow::Result<Exit> {
        let made =
            std::fs::read(&self.what).with_context(|| format!("cannot read `{}`", self.what.display()))?;
        let wit = self.wit.as_ref().map(|path| Wit::read(path, self.world.as_deref())).transpose()?;
        let component = match (Kind::of(&made), &wit) {
            (Kind::Module, Some(wit)) if !component::names_its_world(&made) => {
                component::from_plain_module(made, wit)?
            }
            (Kind::Module, _) => component::from_module(&made)?,
            _ => made,
        };
        let program = match named {
            Some(path) => Some(text(path)?),
            None => program_beside(&self.what)?,
        };
        let docs = wit.as_ref().map(Wit::encode).transpose()?;
        if docs.is_none() && program.is_none() {
            let problem = Problem::new(format!("nothing to add to `{}`", self.what.display()));
            let problem = problem.hint("`--wit DIR` adds the documentation of its tools");
            return Err(Report::from(problem.hint("`--program FILE` says what it asks for")).into());
        }
        let packed = pack::finish(&component, docs.as_deref(), program.as_deref())?;
        let output = self.output.as_deref().unwrap_or(&self.what);
        pack::write(output, &packed)?;
        let added: Vec<_> = [(docs.is_some(), "documentation"), (program.is_some(), "program.toml")]
            .into_iter()
            .filter_map(|(is_there, what)| is_there.then_some(what))
            .collect();
        let (path, bytes) = (shown(output), packed.len() as u64);
        if terminal.json {
            terminal.json(&json!({ "component": output, "bytes": bytes, "added": added }))?;
            return Ok(Exit::Success);
        }
        terminal.say(format_args!(
            "packed `{path}`: {}, with its {}",
            pack::size(bytes),
            added.join(" and ")
        ));
        terminal
            .say(format_args!("next: `haft check {path}`, then `haft add {path}` where it is to be used"));
        Ok(Exit::Success)
    }

    fn folder(self, terminal: Terminal) -> anyhow::Result<Exit> {
        if self.wit.is_some() {
            anyhow::bail!("`--wit` belongs to a component; `haft build` adds it to those of a folder");
        }
        let manifest = Manifest::load(&self.what.join(FILE_NAME))?;
        let package = Package::of(&self.what, &manifest)?;
        let archive = package.pack()?;
        let output =
            self.output.clone().unwrap_or_else(|| self.what.join(format!("{}.tar.gz", package.name)));
        pack::write(&output, &archive)?;
        let (path, bytes) = (shown(&output), archive.len() as u64);
        if terminal.json {
            let files: Vec<_> = package
                .entries
                .iter()
                .map(|entry| json!({ "path": entry.path, "bytes": entry.size, "executable": entry.executable }))
                .collect();
            terminal.json(&json!({ "archive": output, "bytes": bytes, "files": files }))?;
            return Ok(Exit::Success);
        }
        for entry in &package.entries {
            let note = if entry.executable { "  executable" } else { "" };
            terminal.say(format_args!("  {:>10}  {}{note}", pack::size(entry.size), entry.path));
        }
        let (count, whole) = (package.entries.len(), pack::size(package.size()));
        let files = if count == 1 { "file" } else { "files" };
        terminal
            .say(format_args!("packed `{path}`: {count} {files}, {whole}, compressed {}", pack::size(bytes)));
        terminal.say(format_args!("next: `haft add {path}` where it is to be used"));
        Ok(Exit::Success)
    }
}

/// The text of the program.toml in the component's folder, if that says that the component is its own.
fn program_beside(component: &Path) -> anyhow::Result<Option<String>> {
    let folder = component.parent().unwrap_or(Path::new(""));
    let file = folder.join(FILE_NAME);
    if !file.is_file() {
        return Ok(None);
    }
    let manifest = Manifest::load(&file)?;
    let is_same = |path: &Path| {
        let path = folder.join(path);
        path == component || path.canonicalize().ok() == component.canonicalize().ok()
    };
    let is_declared = manifest.plugins.iter().any(|plugin| match &plugin.component.value {
        Component::File(path) => is_same(path),
        _ => false,
    });
    if is_declared { text(&file).map(Some) } else { Ok(None) }
}

/// The text of a program.toml, which must be right: others will read it.
fn text(file: &Path) -> anyhow::Result<String> {
    Manifest::load(file)?;
    std::fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))
}
