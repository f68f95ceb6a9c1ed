//! `haft enable` and `haft disable`: switch an entry of program.toml on and off. Its pin and its grants
//! stay.

use crate::cli::common::Common;
use clap::Args;
use serde_json::json;

use super::Exit;
use super::terminal::Terminal;
use crate::cli::install_session::{InstallSession, project_error};
use haft_core::report::plain;
use haft_package::{Change, Project, ProjectError, edit};

#[derive(Debug, Args)]
pub(super) struct Enable {
    /// The packages or plugins to switch on
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Disable {
    /// The packages or plugins to switch off
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

impl Enable {
    pub(super) fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        switch(&self.names, true, common, terminal)
    }
}

impl Disable {
    pub(super) fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        switch(&self.names, false, common, terminal)
    }
}

fn switch(names: &[String], on: bool, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
    let session = InstallSession::open(common, terminal)?;
    let state = if on { "enabled" } else { "disabled" };
    let entries = names
        .iter()
        .map(|name| Ok((session.project.entry(name).map_err(project_error)?.kind, name.as_str())));
    let entries: Vec<_> = entries.collect::<anyhow::Result<_>>()?;
    let done = Project::change(&session.project.path, &session.context.store, |project| {
        let mut text = project.text.clone();
        for (kind, name) in &entries {
            if is_on(project, name) != on {
                text = edit::set(&text, *kind, name, "enabled", on.into())
                    .map_err(|error| ProjectError::Edit { path: project.path.clone(), error })?;
            }
        }
        Ok(Change { text, lock: project.lock.clone() })
    });
    done.map_err(project_error)?;
    if terminal.json {
        terminal.json(&json!({ state: names }))?;
    }
    for name in names {
        let already = if is_on(&session.project, name) == on { " already" } else { "" };
        terminal.message(format_args!("`{name}` is {state}{already}"));
        if on {
            warn_of_unknown_content(&session, name, terminal);
        }
    }
    Ok(Exit::Success)
}

/// Warns of an entry that is enabled now, and is not what the user agreed to or cannot be compared.
fn warn_of_unknown_content(session: &InstallSession, name: &str, terminal: Terminal) {
    let pins = session.project.lock.pins.iter().filter(|pin| pin.name.as_str() == name);
    for pin in pins {
        let why = match session.installer().verify(pin) {
            Err(why) => format!("is not what was agreed to: {}", plain(&why.to_string())),
            Ok(()) if pin.disclosed.is_none() => {
                "was pinned by an earlier haft, which did not note what it showed".to_owned()
            }
            Ok(()) => continue,
        };
        terminal.warning(&format!("`{name}` {why}"));
        terminal.hint(&format!("`haft update {name}` shows what it is now and asks"));
    }
}

pub(super) fn is_on(project: &Project, name: &str) -> bool {
    let manifest = &project.manifest;
    let package = manifest.packages.iter().find(|package| package.name.as_str() == name);
    let plugin = manifest.plugins.iter().find(|plugin| plugin.name.as_str() == name);
    package.map(|package| package.enabled).or(plugin.map(|plugin| plugin.enabled)).unwrap_or(true)
}
