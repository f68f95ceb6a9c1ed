//! `haft completions`: what a shell needs to complete haft's verbs and options.

use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};

use super::terminal::Terminal;
use super::{Cli, Exit};

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell that is to complete
    shell: Shell,
}

impl Completions {
    pub(super) fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let mut script = Vec::new();
        generate(self.shell, &mut Cli::command(), "haft", &mut script);
        terminal.verbatim(&String::from_utf8(script)?)?;
        Ok(Exit::Success)
    }
}
