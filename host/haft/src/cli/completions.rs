//! `haft completions`, and the answers to a shell that completes a line: haft says itself what can stand there.

mod bash;
mod candidates;
mod known;
mod zsh;

use clap::{Args, CommandFactory as _};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use clap_complete::env::{Elvish, EnvCompleter, Fish, Powershell, Shells};
use clap_complete::{CompleteEnv, Shell};

use self::bash::Bash;
use self::zsh::Zsh;
use super::terminal::Terminal;
use super::{Cli, Exit};

/// The variable by which the script in a shell asks.
const VARIABLE: &str = "HAFT_COMPLETE";

/// What is asked by it, and by which name it finds haft.
const NAME: &str = "haft";

/// The shells that can ask.
const ALL: [&dyn EnvCompleter; 5] = [&Bash, &Elvish, &Fish, &Powershell, &Zsh];
const SHELLS: Shells<'static> = Shells(&ALL);

#[derive(Debug, Args)]
#[command(after_help = "\
The script asks haft at every Tab: verbs, options, tools and their arguments, plugins, servers, sessions and calls, as
they are then. For it no server is started and nothing compiled, and of a program.toml that nobody agreed to only the
names are read.

  haft completions bash > ~/.local/share/bash-completion/completions/haft
  haft completions zsh > ~/.zfunc/_haft              below `fpath=(~/.zfunc $fpath)` in ~/.zshrc
  haft completions fish > ~/.config/fish/completions/haft.fish")]
pub(super) struct Completions {
    /// The shell that is to complete
    shell: Shell,
}

impl Completions {
    pub(super) fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let (mut script, shell) = (Vec::new(), self.shell.to_string());
        let writer = SHELLS.completer(&shell);
        let writer = writer.ok_or_else(|| anyhow::anyhow!("`{shell}` is not a shell that haft knows"))?;
        writer.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
        terminal.verbatim(&String::from_utf8(script)?)?;
        Ok(Exit::Success)
    }
}

/// Answers a shell that asks what can stand on a line; whether one does.
pub(crate) fn answered() -> bool {
    let asked =
        CompleteEnv::with_factory(Cli::command).var(VARIABLE).bin(NAME).completer(NAME).shells(SHELLS);
    let folder = std::env::current_dir().ok();
    // What cannot be completed is not: a message would stand in the middle of the line.
    asked.try_complete(std::env::args_os(), folder.as_deref()).unwrap_or(true)
}

/// Tools that can be called.
pub(super) fn tools() -> ArgValueCandidates {
    ArgValueCandidates::new(candidates::tools)
}

/// `NAME=` of each argument of the tool on the line, and the values that it takes.
pub(super) fn arguments() -> ArgValueCompleter {
    ArgValueCompleter::new(candidates::arguments)
}

/// Rights that can be allowed, to the program and to each of its plugins.
pub(super) fn rights() -> ArgValueCandidates {
    ArgValueCandidates::new(candidates::rights)
}

/// What is installed, and the plugins of program.toml.
pub(super) fn plugins() -> ArgValueCandidates {
    ArgValueCandidates::new(candidates::plugins)
}

/// The newest sessions.
pub(super) fn sessions() -> ArgValueCandidates {
    ArgValueCandidates::new(candidates::sessions)
}

/// The newest calls of the journal.
pub(super) fn calls() -> ArgValueCandidates {
    ArgValueCandidates::new(candidates::calls)
}
