//! Loads a program after the user's consent to its rights: haft asks for a right without consent at the terminal,
//! refuses it, or leaves it out.

use std::fmt::Write;
use std::path::Path;

use super::terminal::Terminal;
use haft::program::{Agreement, Ask, Known, Options, Program, Trust, Untrusted};
use haft_core::report::plain;
use serde_json::Value;

/// The variable that agrees to every program.toml, for machines without a user to ask.
const VARIABLE: &str = "HAFT_TRUST";

/// Loads a program. Asks the user at the terminal for consent to its program.toml if it is missing. A tool that needs
/// only a part of program.toml needs no consent to the rest.
pub(super) async fn loaded(options: &Options, terminal: Terminal) -> anyhow::Result<Program> {
    let pins_first_lists = pins_first_lists(options, terminal);
    let options = &Options { pins_first_lists, ..options.clone() };
    let program = agreed(options, terminal).await?;
    let program = Box::pin(agreed_tools(program, options, terminal)).await?;
    program.notices.iter().for_each(|notice| terminal.message(plain(notice)));
    Ok(program)
}

/// Returns whether the tools that a server lists first are pinned without a question: no user can be asked, or every
/// program.toml is agreed to.
pub(super) fn pins_first_lists(options: &Options, terminal: Terminal) -> bool {
    !terminal.has_person() || terminal.json || matches!(options.trust, Trust::Everything)
}

async fn agreed(options: &Options, terminal: Terminal) -> anyhow::Result<Program> {
    if let (Some(tool), Trust::Agreed) = (&options.only, &options.trust) {
        let trust = or_left_out(Trust::Agreed);
        let program = Box::pin(Program::load(&Options { trust, ..options.clone() })).await?;
        if !program.is_withheld(tool) {
            return Ok(program);
        }
        program.close().await;
    }
    // The futures are boxed: together they would be three times the size of loading.
    match Box::pin(Program::load(options)).await {
        Err(error) if terminal.has_person() && !terminal.json => {
            let Untrusted(agreement) = error.downcast::<Untrusted>()?;
            terminal.message(agreement.sheet());
            if !terminal.confirm("agree to these rights?").await? {
                return Err(Refused.into());
            }
            agreement.agree()?;
            Box::pin(Program::load(options)).await
        }
        loaded => loaded,
    }
}

/// The user has seen the rights that program.toml requests, and did not agree.
#[derive(Debug, thiserror::Error)]
#[error("program.toml was not used: you did not agree to it")]
struct Refused;

pub(super) fn is_refused(error: &anyhow::Error) -> bool {
    error.is::<Untrusted>() || error.is::<Refused>()
}

/// Records whether program.toml has complete consent before haft changes it. The consent then includes the changes of
/// haft.
pub(super) struct Kept<'a> {
    path: &'a Path,
    is_complete: bool,
}

impl<'a> Kept<'a> {
    /// Returns the state of the consent before a change. A missing program.toml counts as complete.
    pub(super) async fn before(path: &'a Path) -> Self {
        let is_there = path.try_exists().unwrap_or(true);
        let is_complete = !is_there || Agreement::of(Some(path)).await.is_ok_and(|own| own.is_complete());
        Self { path, is_complete }
    }

    /// Records consent to the requests of packages and plugins, but not to other changes that another process made
    /// meanwhile.
    pub(super) async fn renew(self) -> anyhow::Result<()> {
        if self.is_complete && self.path.exists() {
            Agreement::of(Some(self.path)).await?.agree_to_installed()
        } else {
            Ok(())
        }
    }
}

/// Returns the handling of a program.toml without consent: it is refused, unless the environment agrees to every
/// program.toml.
pub(super) fn of_environment() -> anyhow::Result<Trust> {
    match std::env::var(VARIABLE).unwrap_or_default().as_str() {
        "" | "0" => Ok(Trust::Agreed),
        "1" => Ok(Trust::Everything),
        other => anyhow::bail!(
            "`{VARIABLE}` is `{other}`; expected `1`, which agrees to every program.toml, or `0`"
        ),
    }
}

/// Returns whether the environment agrees to every program.toml.
pub(super) fn is_everything_agreed_to() -> anyhow::Result<bool> {
    Ok(matches!(of_environment()?, Trust::Everything))
}

/// Returns the handling of a program.toml without consent for a verb that can leave such parts out.
pub(super) fn or_left_out(trust: Trust) -> Trust {
    match trust {
        Trust::Agreed => Trust::LeftOut(Known::default()),
        trust => trust,
    }
}

// The tools of MCP servers before their first use: the user at the terminal sees them and is asked for consent.

/// Returns `program` with the tools of the servers that the user agrees to now. Running servers keep running.
async fn agreed_tools(program: Program, options: &Options, terminal: Terminal) -> anyhow::Result<Program> {
    let mut is_other = false;
    for first in &program.first_lists {
        terminal.message(first_list(&first.server.config().name, first.tools()));
        let question = format!("pin these tools of `{}` and use them?", first.server.config().name);
        if terminal.confirm(&question).await? {
            first.agree()?;
            is_other = true;
        }
    }
    if !is_other {
        return Ok(program);
    }
    let options = Options { servers: program.servers.clone(), ask: Ask::Never, ..options.clone() };
    Program::load(&options).await
}

/// Returns the text that the user reads before the first tools of the server `name` are pinned.
pub(super) fn first_list(name: &str, tools: &[Value]) -> String {
    format!("MCP server `{name}` lists these tools for the first time:{}", lines(tools))
}

/// Returns the name of each of `tools`, and its description as the model sees it, on lines of their own.
fn lines(tools: &[Value]) -> String {
    let mut sheet = String::new();
    for tool in tools {
        let text = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
        // Writing to a `String` cannot fail.
        let _ = write!(sheet, "\n  {}", plain(text("name")));
        for line in text("description").lines() {
            let _ = write!(sheet, "\n      {}", plain(line));
        }
    }
    sheet
}
