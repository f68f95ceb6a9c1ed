//! `haft check COMPONENT`: checks a component and its metadata, without installing it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use super::super::Exit;
use super::super::build::{self, relative};
use super::super::common::Common;
use super::super::terminal::{Terminal, counted};
use haft::program::{FILE_NAME, InstallContext};
use haft_author::check::{Findings, Subject, examine, summary_line, tokens};
use haft_author::pack::size;
use haft_core::call::ToolDef;
use haft_core::limit::Limits;
use haft_core::report::{Problem, Report};
use haft_manifest::{Component, GrantTable, Manifest, Plugin as Declared};
use haft_plugin_host::inspect::{Sections, read_sections};
use haft_plugin_host::{Engine, LoadError, Plugin, Source};

pub(in crate::cli) struct Checked {
    path: String,
    name: String,
    bytes: u64,
    pub(in crate::cli) sections: Sections,
    asked: Option<GrantTable>,
    loaded: Result<Plugin, LoadError>,
    pub(in crate::cli) findings: Findings,
}

pub(super) async fn execute(path: &Path, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
    let context = InstallContext::new(&common.options(terminal, false)?, &Manifest::default())?;
    let mut checked = check(path, None, context.engine()?).await?;
    checked.findings.warnings.extend(build::stale_warning(path)?);
    let is_good = checked.findings.errors.is_empty();
    if terminal.json {
        terminal.json(&checked.json())?;
    } else {
        checked.report(terminal)?;
        if is_good {
            let path = &checked.path;
            terminal.message(format_args!(
                "next: `haft add {path}` in the program that uses it, or `haft plugin publish`"
            ));
        }
    }
    Ok(if is_good { Exit::Success } else { Exit::Program })
}

/// The components of a program that are files, each with what program.toml asks for it.
pub(in crate::cli) async fn of_program(manifest: &Manifest, engine: &Engine) -> Vec<Checked> {
    let mut all = Vec::new();
    for plugin in manifest.plugins.iter().filter(|plugin| plugin.enabled) {
        let Component::File(path) = &plugin.component.value else { continue };
        let file = manifest.folder.join(path);
        // An unreadable component was reported when the program was loaded.
        let Ok(mut checked) = check(&file, Some(plugin), engine).await else { continue };
        checked.findings.warnings.extend(build::stale_warning(&file).ok().flatten());
        all.push(checked);
    }
    all
}

/// Checks one component; `declared` is its entry in program.toml, if any.
pub(in crate::cli) async fn check(
    path: &Path,
    declared: Option<&Declared>,
    engine: &Engine,
) -> anyhow::Result<Checked> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let sections = read_sections(&bytes).map_err(|error| {
        Report::from(Problem::new(format!("`{}` cannot be used: {error}", path.display())))
    })?;
    let (name, asked) = match declared {
        Some(plugin) => (plugin.name.as_str().to_owned(), Some(plugin.grant.clone())),
        None => declaration(path, &sections)?,
    };
    let source = Source::File(path.to_owned());
    let loaded = Plugin::load(engine, &name, source, &Limits::default()).await;
    let (path, bytes) = (relative(path), bytes.len() as u64);
    let subject = Subject {
        name: &name,
        path: &path,
        bytes,
        sections: &sections,
        asked: asked.as_ref(),
        loaded: loaded.as_ref(),
    };
    let findings = examine(&subject);
    Ok(Checked { path, name, bytes, sections, asked, loaded, findings })
}

/// What the component declares, else what the program.toml beside it says: the plugin's name and what it asks
/// for.
fn declaration(path: &Path, sections: &Sections) -> anyhow::Result<(String, Option<GrantTable>)> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let beside = path.parent().unwrap_or(Path::new("")).join(FILE_NAME);
    let manifest = match &sections.program {
        Some(text) => Manifest::parse(text, &PathBuf::from(format!("{}: {FILE_NAME}", path.display())))?,
        None if beside.is_file() => Manifest::load(&beside)?,
        None => return Ok((stem, None)),
    };
    let is_this = |plugin: &&Declared| match &plugin.component.value {
        Component::File(file) => file.file_name() == path.file_name(),
        _ => false,
    };
    let of_that_file = manifest.plugins.iter().find(is_this);
    let only = manifest.plugins.first().filter(|_| manifest.plugins.len() == 1 && sections.program.is_some());
    Ok(match of_that_file.or(only) {
        Some(plugin) => (plugin.name.as_str().to_owned(), Some(plugin.grant.clone())),
        None => (stem, None),
    })
}

impl Checked {
    /// What it is on standard output; what is wrong on standard error.
    pub(super) fn report(&self, terminal: Terminal) -> std::io::Result<()> {
        terminal.data(&self.summary())?;
        if !self.findings.errors.is_empty() {
            terminal.report(&Report::new(self.findings.errors.clone()));
        }
        terminal.warn(&Report::new(self.findings.warnings.clone()));
        if self.findings.errors.is_empty() && self.findings.warnings.is_empty() {
            terminal.message("no problems found");
        }
        Ok(())
    }

    fn summary(&self) -> String {
        use std::fmt::Write;
        let mut text = format!("{}: {}", self.path, size(self.bytes));
        if let Ok(plugin) = &self.loaded {
            let tools = plugin.tools();
            let all: usize = tools.iter().map(tokens).sum();
            let count = counted(tools.len(), "tool");
            // Writing to a `String` cannot fail.
            let _ = write!(text, ", {}, {count}, about {all} tokens", plugin.contract());
            for tool in tools {
                let _ = write!(text, "\n  {}__{}  {}", self.name, tool.name, summary_line(&tool.description));
            }
        }
        if let Some(asked) = &self.asked {
            let _ = write!(text, "\nrequests {}", described(asked));
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let problems = |problems: &[Problem]| -> Vec<Value> {
            problems.iter().map(|one| json!({ "message": one.message(), "hints": one.hints() })).collect()
        };
        let plugin = self.loaded.as_ref().ok();
        let tools = plugin.map(|plugin| {
            let tool = |def: &ToolDef| json!({ "name": def.name, "tokens": tokens(def) });
            plugin.tools().iter().map(tool).collect::<Vec<_>>()
        });
        json!({
            "component": self.path,
            "plugin": self.name,
            "bytes": self.bytes,
            "contract": plugin.map(|plugin| plugin.contract().to_string()),
            "tools": tools.unwrap_or_default(),
            "imports": self.sections.imports.iter().map(|import| &import.name).collect::<Vec<_>>(),
            "asks": self.asked.as_ref().map(asks),
            "errors": problems(&self.findings.errors),
            "warnings": problems(&self.findings.warnings),
        })
    }
}

fn asks(asked: &GrantTable) -> Value {
    let paths = |paths: &[haft_manifest::Located<PathBuf>]| -> Vec<String> {
        paths.iter().map(|path| path.display().to_string()).collect()
    };
    let hosts: Vec<String> = asked.hosts.iter().map(ToString::to_string).collect();
    let credentials: Vec<&str> = asked.credentials.iter().map(|store| store.name()).collect();
    json!({
        "read": paths(&asked.read),
        "write": paths(&asked.write),
        "credentials": credentials,
        "hosts": hosts,
        "env": asked.env,
    })
}

/// `nothing`, or what it asks for as program.toml writes it.
fn described(asked: &GrantTable) -> String {
    let Value::Object(all) = asks(asked) else { return String::new() };
    let is_some = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    let parts: Vec<_> =
        all.iter().filter(|(_, list)| is_some(list)).map(|(key, list)| format!("{key} {list}")).collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}
