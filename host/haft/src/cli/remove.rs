//! `haft remove`: takes an entry out of program.toml and its pin out of program.lock, and removes what its plugins kept.
//! Leaves what is installed where it is: other programs may use it.

use crate::cli::common::Common;
use clap::Args;
use serde_json::json;

use super::Exit;
use super::terminal::Terminal;
use crate::cli::install_session::{InstallSession, install_error};

#[derive(Debug, Args)]
#[command(
    after_help = "The stored data of the plugins (`state` and `cache` of their grants) is removed too."
)]
pub(super) struct Remove {
    /// The packages or plugins to remove
    #[arg(value_name = "NAME", add = super::completions::plugins(), required = true)]
    names: Vec<String>,
}

impl Remove {
    pub(super) fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let session = InstallSession::open(common, terminal)?;
        // All of them or none.
        session.installer().remove(&self.names).map_err(install_error)?;
        let mut cleared = Vec::new();
        for name in &self.names {
            // Gone from program.toml it has no right to it any more, and the next of that name must not find it.
            if session.context.dirs.homes().remove(&session.project.path, name)? {
                cleared.push(name);
            }
        }
        if terminal.json {
            terminal.json(&json!({ "removed": self.names, "cleared": cleared }))?;
        }
        for name in &self.names {
            let kept = if cleared.contains(&name) { ", and its stored data" } else { "" };
            terminal.message(format_args!("removed `{name}`{kept}"));
        }
        terminal.hint("`haft cache clean` removes unused packages from this machine");
        Ok(Exit::Success)
    }
}
