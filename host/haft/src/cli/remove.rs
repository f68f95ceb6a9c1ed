//! `haft remove`: takes an entry out of program.toml and its pin out of program.lock. Leaves what is
//! installed where it is: other programs may use it.

use crate::cli::common::Common;
use clap::Args;
use serde_json::json;

use super::Exit;
use super::terminal::Terminal;
use crate::cli::install_session::{InstallSession, install_error};

#[derive(Debug, Args)]
pub(super) struct Remove {
    /// The packages or plugins to remove
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

impl Remove {
    pub(super) fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let session = InstallSession::open(common, terminal)?;
        // All of them or none.
        session.installer().remove(&self.names).map_err(install_error)?;
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
