//! `haft self man` and `haft self schema`: manual pages of haft and of each verb, generated from the output of `--help`, and
//! the JSON Schema of program.toml.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::terminal::Terminal;
use super::{Cli, Exit};
use haft_manifest as manifest;

#[derive(Debug, Args)]
pub(super) struct Man {
    /// Where to write the pages, one for haft and one for each verb; the folder is made if missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Man {
    pub(super) fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let folder = self.folder.display();
        std::fs::create_dir_all(&self.folder).with_context(|| format!("cannot make `{folder}`"))?;
        clap_mangen::generate_to(Cli::grammar(), &self.folder)
            .with_context(|| format!("cannot write manual pages into `{folder}`"))?;
        terminal.message(format!("wrote manual pages to `{folder}`; read them with `man {folder}/haft.1`"));
        Ok(Exit::Success)
    }
}

#[derive(Debug, Args)]
pub(super) struct Schema {}

impl Schema {
    pub(super) fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        terminal.json_text(&serde_json::to_string_pretty(&manifest::json_schema())?)?;
        Ok(Exit::Success)
    }
}
