//! `haft plugin pack`: adds haft's sections to a component that was built without them, packs packages of several
//! parts into one file, and makes plugins for other clients. Builds nothing.

mod outward;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::Exit;
use super::build::{self, relative};
use super::common::Common;
use super::terminal::{Terminal, counted};
use haft::program::FILE_NAME;
use haft_author::archive::Package;
use haft_author::declaration;
use haft_author::pack::{self, Added};
use haft_author::wit::Wit;
use haft_core::report::{Problem, Report};
use haft_manifest::{Component, Manifest, Plugin};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft plugin pack tool.wasm --wit wit    adds the docs of the WIT and the rights that program.toml requests
  haft plugin pack .                      writes NAME-VERSION.tar.gz from this folder
  haft plugin pack tool.wasm --agent-plugin
                                   writes the folder NAME-agent-plugin for other clients")]
pub(super) struct Pack {
    /// A component, or a folder with a program.toml
    #[arg(value_name = "COMPONENT|FOLDER", default_value = ".")]
    what: PathBuf,
    /// The WIT that the component was built from: a folder or a file
    #[arg(long, value_name = "DIR")]
    wit: Option<PathBuf>,
    /// The world of the component, if the WIT has several
    #[arg(long, requires = "wit")]
    world: Option<String>,
    /// The JSON Schema of the component's configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write an Agent Plugin (agent-plugins.org; for Claude Code, Codex, Copilot, Gemini CLI and opencode): a folder whose MCP server is `haft
    /// serve` for this package, with the rights that the package requests
    #[arg(long, conflicts_with_all = ["wit", "config"])]
    agent_plugin: bool,
    /// The output path [default: the component itself; NAME-VERSION.tar.gz or NAME-agent-plugin in the
    /// folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Pack {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        if self.agent_plugin {
            return Box::pin(outward::pack(&self.what, self.output, common, terminal)).await;
        }
        let program = common.program.as_deref();
        if self.what.is_dir() { self.folder(terminal) } else { self.component(terminal, program) }
    }

    fn component(self, terminal: Terminal, named: Option<&Path>) -> anyhow::Result<Exit> {
        let made =
            std::fs::read(&self.what).with_context(|| format!("cannot read `{}`", self.what.display()))?;
        let wit = self.wit.as_ref().map(|path| Wit::read(path, self.world.as_deref())).transpose()?;
        let component = pack::component(made, wit.as_ref())?;
        let program = match named {
            Some(path) => Some(self.declared(path)?.ok_or_else(|| undeclared(&self.what, path))?),
            None => self.declared_beside()?,
        };
        let docs = wit.as_ref().map(Wit::encode).transpose()?;
        let config = self.config.as_deref().map(pack::read_config_schema).transpose()?;
        if docs.is_none() && program.is_none() && config.is_none() {
            let problem = Problem::new(format!("nothing to add to `{}`", self.what.display()));
            let problem = problem.hint("`--wit DIR` adds the documentation of its tools");
            let hint = "`--program FILE` adds its requested rights, if `[[plugins]]` in FILE has this \
                component";
            return Err(Report::from(problem.hint(hint)).into());
        }
        let added = Added {
            docs: docs.as_deref(),
            program: program.as_deref(),
            config: config.as_deref(),
            lines: None,
        };
        let packed = pack::finish(&component, added)?;
        let output = self.output.as_deref().unwrap_or(&self.what);
        pack::write(output, &packed)?;
        let added = [
            (docs.is_some(), "documentation"),
            (program.is_some(), "list of requested rights"),
            (config.is_some(), "schema of its configuration"),
        ];
        let added: Vec<_> =
            added.into_iter().filter_map(|(is_there, what)| is_there.then_some(what)).collect();
        let (path, bytes) = (relative(output), packed.len() as u64);
        if terminal.json {
            terminal.json(&json!({ "component": output, "bytes": bytes, "added": added }))?;
            return Ok(Exit::Success);
        }
        terminal.message(format_args!(
            "packed `{path}`: {}, with its {}",
            pack::size(bytes),
            added.join(" and ")
        ));
        terminal.message(format_args!(
            "next: `haft check {path}`, then `haft add {path}` in the program that uses it"
        ));
        Ok(Exit::Success)
    }

    fn folder(self, terminal: Terminal) -> anyhow::Result<Exit> {
        if self.wit.is_some() {
            anyhow::bail!("`--wit` belongs to a component; `haft plugin build` adds it to those of a folder");
        }
        build::refuse_no_package(&self.what)?;
        build::refuse_stale(&self.what, "pack")?;
        let manifest = Manifest::load(&self.what.join(FILE_NAME))?;
        let package = Package::collect(&self.what, &manifest)?;
        let archive = package.pack()?;
        let output =
            self.output.clone().unwrap_or_else(|| self.what.join(format!("{}.tar.gz", package.name)));
        pack::write(&output, &archive)?;
        let (path, bytes) = (relative(&output), archive.len() as u64);
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
            terminal.message(format_args!("  {:>10}  {}{note}", pack::size(entry.size), entry.path));
        }
        for table in &package.left_out {
            terminal.message(format_args!(
                "  left out of program.toml: `{table}`, which is not part of a package"
            ));
        }
        let (files, whole) = (counted(package.entries.len(), "file"), pack::size(package.size()));
        terminal.message(format_args!("packed `{path}`: {files}, {whole}, compressed {}", pack::size(bytes)));
        terminal.message(format_args!("next: `haft add {path}` in the program that uses it"));
        Ok(Exit::Success)
    }
}

impl Pack {
    /// Returns the declaration of the component in the program.toml of its folder, if there is one.
    fn declared_beside(&self) -> anyhow::Result<Option<String>> {
        let file = self.what.parent().unwrap_or(Path::new("")).join(FILE_NAME);
        if file.is_file() { self.declared(&file) } else { Ok(None) }
    }

    /// Returns the declaration of the component in a program.toml, if the component is one of its plugins. If another
    /// program merely uses the component, that program's name says nothing about the component.
    fn declared(&self, file: &Path) -> anyhow::Result<Option<String>> {
        let manifest = Manifest::load(file)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let component = self.what.canonicalize()?;
        let is_it = |plugin: &&Plugin| match &plugin.component.value {
            Component::File(path) => folder.join(path).canonicalize().is_ok_and(|path| path == component),
            _ => false,
        };
        let Some(plugin) = manifest.plugins.iter().find(is_it) else { return Ok(None) };
        let is_its_own =
            manifest.program.as_ref().is_some_and(|program| program.name.value == plugin.name.value);
        let name = self.what.file_name().unwrap_or_default().to_string_lossy();
        declaration::of_component(manifest.written.text(), plugin, &name, is_its_own).map(Some)
    }
}

/// Returns the error that `program` does not declare the component.
fn undeclared(component: &Path, program: &Path) -> Report {
    let problem =
        Problem::new(format!("`{}` has no plugin that is `{}`", program.display(), component.display()));
    let hint = format!(
        "add it there: `[[plugins]]` with a `name` and `component = {:?}`",
        component.display().to_string()
    );
    problem.hint(hint).into()
}
