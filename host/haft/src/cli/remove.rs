//! `haft remove`: removes an entry from program.toml, its pin from program.lock, and the state of its plugins.
//! Installed content stays in the store, because other programs may use it.

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
        // Removes all entries or none.
        session.installer().remove(&self.names).map_err(install_error)?;
        let mut cleared = Vec::new();
        for name in &self.names {
            // A removed plugin has no right to its state, and a later plugin of the same name must not find it.
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
