//! `haft exec`: runs one command under the confinement of the program's `bash`. The streams and the exit code are
//! those of the command.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::Exit;
use super::common::Common;
use crate::cli::terminal::Terminal;
use crate::cli::trusted;
use haft::program::{Options, Target};
use haft_core::grant::{Grant, RightsTable};
use haft_core::lookup::find_on_path;
use haft_sandbox::attached::{self, PaneRights};
use haft_sandbox::confine::{Confiner, Refusal};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft exec -- make test
  haft exec --terminal -- bash")]
pub(super) struct Exec {
    /// Keep the command in the terminal's session, so that it receives the keys: for shells
    #[arg(long)]
    terminal: bool,
    /// Rights instead of the program's, as haft writes them for panes
    #[arg(long, hide = true)]
    rights: Option<String>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Returns the file of `program` by the rules of a shell: relative to the caller's folder if the name contains a `/`,
/// otherwise from PATH. The command runs in the workspace, which may contain another file of that name.
pub(super) fn found(program: &OsStr) -> anyhow::Result<PathBuf> {
    let name = program.to_string_lossy();
    if name.contains('/') {
        return std::path::absolute(program).with_context(|| format!("`{name}` cannot be found"));
    }
    find_on_path(&name).with_context(|| format!("`{name}` was not found in PATH"))
}

impl Exec {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let (grant, confiner) = self.rights(common, terminal).await?;
        let [program, arguments @ ..] = self.command.as_slice() else { return Ok(Exit::Usage) };
        let path = found(program)?;
        let (status, refused) = attached::run(&confiner, &grant, &path, arguments, self.terminal).await?;
        if !status.success() {
            for hint in Refusal::hints(&refused, (&grant, &RightsTable::Sandbox), "") {
                terminal.message(format_args!("hint: {hint}"));
            }
        }
        Ok(Exit::of_child(status))
    }

    async fn rights(&self, common: &Common, terminal: Terminal) -> anyhow::Result<(Grant, Confiner)> {
        if let Some(rights) = &self.rights {
            let rights: PaneRights =
                serde_json::from_str(rights).context("`--rights` is not in the form that haft writes")?;
            return Ok((
                rights.grant().context("cannot find the directories of `--rights`")?,
                rights.confiner(),
            ));
        }
        let target = Target { here: true, ..Target::default() };
        // The name of a tool that needs no loading.
        let only = Some(haft_sandbox::native::bash::NAME.to_owned());
        let options = Options { only, target, ..common.options(terminal, false)? };
        let program = trusted::loaded(&options, terminal).await?;
        Ok((program.grant.clone(), program.confiner.clone()))
    }
}
