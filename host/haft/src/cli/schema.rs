//! `haft self schema`: prints the JSON Schema of program.toml.

use clap::Args;

use super::Exit;
use super::terminal::Terminal;
use haft_manifest as manifest;

#[derive(Debug, Args)]
pub(super) struct Schema {}

impl Schema {
    pub(super) fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        terminal.json_text(&serde_json::to_string_pretty(&manifest::json_schema())?)?;
        Ok(Exit::Success)
    }
}
