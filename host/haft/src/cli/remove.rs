//! `haft remove`: takes an entry out of program.toml and its pin out of program.lock. Leaves what is
//! installed where it is: other programs may use it.

use crate::cli::common::Common;
use clap::Args;
use serde_json::json;

use super::Exit;
use super::terminal::Terminal;
use crate::cli::installing::{InstallWork, told_project};
use haft_package::{Change, Project, ProjectError, edit};

#[derive(Debug, Args)]
pub(super) struct Remove {
    /// The packages or plugins to remove
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

impl Remove {
    pub(super) fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let work = InstallWork::open(common, terminal)?;
        // All of them or none.
        let entries = self.names.iter().map(|name| Ok((work.entry(name)?, name.as_str())));
        let entries: Vec<_> = entries.collect::<anyhow::Result<_>>()?;
        let done = Project::change(&work.project.path, &work.bench.store, |project| {
            let (mut text, mut lock) = (project.text.clone(), project.lock.clone());
            for (kind, name) in &entries {
                text = edit::remove(&text, *kind, name)
                    .map_err(|error| ProjectError::Edit { path: project.path.clone(), error })?;
                lock.remove(*kind, name);
            }
            Ok(Change { text, lock })
        });
        done.map_err(told_project)?;
        if terminal.json {
            terminal.json(&json!({ "removed": self.names }))?;
        }
        for name in &self.names {
            terminal.message(format_args!("removed `{name}`"));
        }
        terminal.hint("`haft gc` removes what no program refers to from this machine");
        Ok(Exit::Success)
    }
}
