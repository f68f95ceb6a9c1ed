//! `haft acp`: the agent for editors that speak the Agent Client Protocol, on standard input and output. A session is what
//! `haft chat` would be in the folder that the editor has open.

mod programs;
mod servers;
mod snippet;
mod talk;
mod unagreed;

use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use tokio_util::sync::CancellationToken;

use self::programs::Programs;
use self::snippet::Editor;
use super::Exit;
use super::common::Common;
use super::given;
use super::model_args::ModelArgs;
use super::pipes::{signals, streams};
use super::terminal::Terminal;

#[derive(Debug, Args)]
#[command(after_help = "\
An editor starts it. Each session has the program.toml of its folder, unless --program names one, and may do what that
grants; --allow adds to it, relative paths starting at the session's folder. Keys of providers are found as `haft run`
finds them: in the environment of the editor, or where program.toml says.

Examples:
  haft acp --print-config zed
  haft acp --print-config jetbrains > ~/.jetbrains/acp.json
  haft acp --model fast --allow write=.")]
pub(super) struct Acp {
    #[command(flatten)]
    choice: ModelArgs,
    /// Print what to add to an editor's configuration, and end
    #[arg(long, value_name = "EDITOR", value_enum)]
    print_config: Option<Editor>,
}

impl Acp {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        if let Some(editor) = self.print_config {
            let own = std::env::current_exe().context("cannot find out where haft is")?;
            let text = editor.snippet(
                &own,
                common.program.as_deref(),
                self.choice.words().chain(given::words(common, false)),
            )?;
            terminal.message(editor.place());
            terminal.verbatim(&text)?;
            return Ok(Exit::Success);
        }
        let host = Arc::new(Programs::new(common, self.choice, terminal)?);
        let stop = CancellationToken::new();
        let ending = tokio::spawn(signals(stop.clone()));
        let (input, output) = streams().context("cannot use the standard streams")?;
        tokio::select! {
            served = haft_acp::serve(host, terminal.redactor(), input, output, stop) => {
                served.context("cannot use the standard streams")?;
                Ok(Exit::Success)
            }
            exit = ending => Ok(exit?),
        }
    }
}
