//! `haft wrap` at a terminal: tries the server, shows its requests and its tools, and records the user's answers.
//! Serves no client.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::Value;

use super::command::Wrapping;
use super::record::{self, Copies, MAX_TOOLS};
use super::tools::{is_usable, sheet};
use super::trial::Trial;
use super::{Exit, Start, fetch};
use crate::cli::terminal::{Hinted, Terminal};
use haft::program::Dirs;
use haft_core::grant::Right;
use haft_core::report::plain;
use haft_manifest::Wrapped;
use haft_mcp::pins::{Difference, ToolPins};

/// Maximum number of further trials with more rights.
pub(super) const MAX_ROUNDS: usize = 3;

/// Asks for the rights that the server's configuration names and its start needs.
pub(super) async fn ask(mut start: Start) -> anyhow::Result<Exit> {
    let terminal = start.terminal;
    for round in 0..=MAX_ROUNDS {
        let mut trial = Trial::start(&start).await?;
        trial.ask(&fetch::initialize(), &Value::from("haft")).await?;
        let wanted = start.wanted(&trial)?;
        if wanted.is_empty() || round == MAX_ROUNDS {
            start.tell(&trial, &[]);
            return finish(start, trial, (round > 0, wanted.is_empty())).await;
        }
        start.tell(&trial, &wanted);
        trial.end().await?;
        terminal.message(format_args!("{}\n", start.sheet(&wanted)));
        match terminal.answered("agree to these rights?").await? {
            Some(true) => start.decide(&wanted, true)?,
            _ if start.is_fetched_by(&wanted) => return Ok(start.leave_unfetched()),
            Some(false) => {
                start.decide(&wanted, false)?;
                return Ok(Exit::Declined);
            }
            None => {
                terminal
                    .message("haft: no answer: nothing was recorded, and haft asks again at the next start");
                return Ok(Exit::Declined);
            }
        }
        fetch::fetch(&mut start).await?;
    }
    Ok(Exit::Success)
}

/// Ends the trials, and asks about the tools. `has_agreed` states whether the user agreed to rights.
async fn finish(
    mut start: Start,
    mut trial: Trial,
    (has_agreed, is_enough): (bool, bool),
) -> anyhow::Result<Exit> {
    let (has_answered, trial_ending) = (trial.answer.is_some(), trial.ending());
    let tools = if has_answered { trial.tools().await? } else { Vec::new() };
    trial.end().await?;
    if !has_agreed {
        start.decide(&[], true)?;
    }
    let end = match trial_ending {
        Some(ending) => format!("it {ending}"),
        None if has_answered => "it answers".to_owned(),
        None => "it still does not answer".to_owned(),
    };
    let need = if is_enough { "needs no more rights" } else { "will not be asked about again" };
    start.terminal.message(format_args!("{} {need}: {end}", start.command.name));
    agree_to_tools(&start, &tools, has_agreed && has_answered).await
}

/// Asks about the tools without consent that a server lists.
async fn agree_to_tools(start: &Start, tools: &[Value], has_agreed: bool) -> anyhow::Result<Exit> {
    let (terminal, path) = (start.terminal, record::place(&start.dirs, &start.command));
    let pins = record::pinned(&path, &start.command)?;
    let is_new = |tool: &&Value| pins.differences(&ToolPins::of([*tool])).iter().any(Difference::holds);
    let room = MAX_TOOLS.saturating_sub(pins.names().len());
    let usable = tools.iter().filter(|tool| is_usable(tool));
    let new: Vec<Value> = usable.filter(is_new).take(room).cloned().collect();
    let name = &start.command.name;
    let agreed = agreed_for(&start.command);
    if new.is_empty() {
        if has_agreed {
            terminal.message(agreed);
        }
        return Ok(Exit::Success);
    }
    let sheet = sheet(name, &pins, &record::copies(&path, Copies::Agreed), &new);
    terminal.message(format_args!("{sheet}\n"));
    let answer = terminal.answered("agree to these tools?").await?;
    if answer != Some(true) {
        // No answer has the same effect: otherwise a client would pin the tools at their first use.
        record::refuse(&path, &start.command, &new)?;
        terminal.message(held_back(name, answer));
        return Ok(Exit::Declined);
    }
    record::pin(&path, &start.command, &new)?;
    record::keep_copies(&path, Copies::Held, &BTreeMap::new())?;
    terminal.message(agreed);
    Ok(Exit::Success)
}

/// Returns the message after the user agreed, with the program of the consent.
fn agreed_for(command: &Wrapping) -> String {
    let mut text = format!("agreed for `{}`", shell_words::join(&command.words));
    if let Some(program) = command.program.file_name().filter(|_| command.is_on_path) {
        let program = program.to_string_lossy();
        // Writing to a `String` cannot fail.
        let _ = write!(
            text,
            "; a client with another PATH may start another `{program}`, and haft then asks again"
        );
    }
    plain(&text)
}

/// Returns the message after the user did not agree to tools.
fn held_back(name: &str, answer: Option<bool>) -> String {
    let why = if answer.is_some() { "not agreed" } else { "no answer" };
    let again = format!("haft wrap --tools {}", shell_words::quote(name));
    plain(&format!(
        "haft: {name}: {why}: these tools are held back until you agree to them: `{again}` asks again"
    ))
}

/// Shows the tools of the commands with the name `name`, and asks about tools that are held back.
pub(super) async fn show_tools(dirs: &Dirs, name: &str, terminal: Terminal) -> anyhow::Result<Exit> {
    let mut end = Exit::Success;
    for (path, written) in records(dirs, name, terminal)? {
        let command = plain(&shell_words::join(&written.command));
        let pins = record::pins(&written);
        let names: Vec<&str> = pins.names().collect();
        terminal.message(format_args!(
            "The MCP server `{}` is `{command}`. Approved tools: {}.",
            plain(name),
            if names.is_empty() { "none yet".to_owned() } else { plain(&names.join(", ")) },
        ));
        let held: Vec<Value> = record::copies(&path, Copies::Held).into_values().collect();
        if held.is_empty() {
            continue;
        }
        let sheet = sheet(name, &pins, &record::copies(&path, Copies::Agreed), &held);
        terminal.message(format_args!("{sheet}\n"));
        if !terminal.has_person() {
            let hint = "the program that started haft cannot agree";
            return Err(Hinted::new("run this at a terminal to agree to tools", hint).into());
        }
        let answer = terminal.answered("agree to these tools?").await?;
        if answer == Some(true) {
            record::pin_for(&path, &written, &held)?;
            record::keep_copies(&path, Copies::Held, &BTreeMap::new())?;
            terminal.message(format_args!("saved in {}", path.display()));
        } else {
            terminal.message(held_back(name, answer));
            end = Exit::Declined;
        }
    }
    Ok(end)
}

fn records(dirs: &Dirs, name: &str, terminal: Terminal) -> anyhow::Result<Vec<(PathBuf, Wrapped)>> {
    let records = record::named(dirs, name, terminal)?;
    if records.is_empty() {
        let hint = "a server's name is the word before `--` in the client's configuration";
        return Err(Hinted::new(format!("there is no consent for a server `{name}`"), hint).into());
    }
    Ok(records)
}

/// Grants `rights` to the commands with the name `name`, or the declined rights if `rights` is empty. Shows each
/// command, because any client's configuration can use that name. Works only at a terminal: a client's configuration
/// may be from another person.
pub(super) async fn widen(
    dirs: &Dirs,
    name: Option<&str>,
    rights: &[Right],
    terminal: Terminal,
) -> anyhow::Result<Exit> {
    let Some(name) = name else {
        let hint =
            "`haft wrap NAME -- COMMAND` starts a server; `haft wrap --grant RIGHT NAME` grants it more";
        return Err(Hinted::new("expected a command to start or a right to grant", hint).into());
    };
    if !terminal.has_person() {
        let hint = "a client that starts haft cannot grant rights";
        return Err(Hinted::new("run this at a terminal to grant rights", hint).into());
    }
    let mut end = Exit::Declined;
    let records = records(dirs, name, terminal)?;
    let count = records.len();
    for (index, (path, written)) in records.into_iter().enumerate() {
        if count > 1 {
            let at = index + 1;
            terminal.message(format_args!("{count} commands are called `{}`; {at} of {count}:", plain(name)));
        }
        let command = plain(&shell_words::join(&written.command));
        terminal.message(format_args!("The MCP server `{}` is `{command}`.", plain(name)));
        let changed = record::changed(dirs, &path, &written)?;
        if !changed.is_empty() {
            let again = super::rights::line(rights, name, &written.command);
            let changed = super::listed(&changed);
            terminal.message(plain(&format!(
                "It does not start before you agree again, because {changed} changed since your consent: run `{again}`"
            )));
            continue;
        }
        let rights = if rights.is_empty() { record::declined(&written) } else { rights.to_vec() };
        if rights.is_empty() {
            terminal.message("You declined none of the rights that it requested.");
            end = Exit::Success;
            continue;
        }
        let rights_shown: Vec<String> = rights.iter().map(super::rights::shown).collect();
        let rights_shown = plain(&rights_shown.join(", "));
        if terminal.confirm(&format!("grant it {rights_shown}?")).await? {
            record::widen(&path, &written, &rights)?;
            let path = path.display();
            terminal.message(format_args!("saved in {path}; applies from the server's next start"));
            end = Exit::Success;
        } else {
            terminal.message("not granted");
        }
    }
    Ok(end)
}
