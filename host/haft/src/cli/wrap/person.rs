//! A person at the terminal: tries the server, shows what it asks for, and notes down the answer. Serves no client.

use serde_json::Value;

use super::record;
use super::trial::Trial;
use super::{Exit, Start, fetch, watch};
use crate::cli::terminal::{Hinted, Terminal};
use haft::program::Dirs;
use haft_core::grant::Right;
use haft_core::report::plain;

/// How often a server is tried with more.
pub(super) const MAX_ROUNDS: usize = 3;

/// Asks for what the server's configuration names and its start needs.
pub(super) async fn ask(mut start: Start) -> anyhow::Result<Exit> {
    let terminal = start.terminal;
    for round in 0..MAX_ROUNDS {
        let mut trial = Trial::start(&start).await?;
        trial.ask(&fetch::initialize(), &Value::from("haft")).await?;
        for refusal in &trial.refused {
            watch::tell(terminal, refusal, (&start.command.name, &trial.grant));
        }
        let wanted = start.wanted(&trial)?;
        let has_answered = trial.answer.is_some();
        trial.end().await?;
        if wanted.is_empty() {
            if round == 0 {
                start.decide(&[], true)?;
            }
            let end = if has_answered { "it answers" } else { "it does not answer all the same" };
            terminal.message(format_args!("{} needs nothing more: {end}", start.command.name));
            return Ok(Exit::Success);
        }
        terminal.message(start.sheet(&wanted));
        let is_given = terminal.confirm("agree to this?").await?;
        start.decide(&wanted, is_given)?;
        if !is_given {
            return Ok(Exit::Declined);
        }
        fetch::fetch(&mut start).await?;
    }
    Ok(Exit::Success)
}

/// Adds `rights` to what was agreed to for the commands called `name`, each of which is shown: any client's configuration can
/// call a command so. Only at a terminal: a client's configuration may be somebody else's.
pub(super) async fn widen(
    dirs: &Dirs,
    name: Option<&str>,
    rights: &[Right],
    terminal: Terminal,
) -> anyhow::Result<Exit> {
    let Some(name) = name.filter(|_| !rights.is_empty()) else {
        let hint =
            "`haft wrap NAME -- COMMAND` starts a server, `haft wrap --grant RIGHT NAME` gives it more";
        return Err(Hinted::new("there is no command to start and no right to give", hint).into());
    };
    if !terminal.has_person() {
        let hint = "a client that starts haft gives no rights by itself";
        return Err(Hinted::new("rights are given at a terminal", hint).into());
    }
    let records = record::named(dirs, name)?;
    if records.is_empty() {
        let hint = "what a server is called stands in front of `--` in the client's configuration";
        return Err(Hinted::new(format!("nothing was agreed to for a server called `{name}`"), hint).into());
    }
    let mut end = Exit::Declined;
    for (path, written) in records {
        let command = plain(&shell_words::join(&written.command));
        let rights_shown: Vec<String> = rights.iter().map(super::given::shown).collect();
        let rights_shown = plain(&rights_shown.join(", "));
        terminal.message(format_args!("The MCP server `{}` is `{command}`.", plain(name)));
        if terminal.confirm(&format!("give it {rights_shown}?")).await? {
            record::widen(&path, &written, rights)?;
            let path = path.display();
            terminal.message(format_args!("noted in {path}; it holds from the server's next start on"));
            end = Exit::Success;
        }
    }
    Ok(end)
}
