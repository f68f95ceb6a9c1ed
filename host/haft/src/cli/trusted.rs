//! Loads a program after the user's agreement to its permissions: a permission without agreement is asked about at
//! the terminal, refused or left out.

use std::fmt::Write;
use std::path::Path;

use super::terminal::Terminal;
use haft::program::{Agreement, Ask, FirstList, Known, Options, Program, Trust, Untrusted};
use haft_core::report::plain;
use serde_json::Value;

/// What agrees to every program.toml, for machines on which nobody can be asked.
const VARIABLE: &str = "HAFT_TRUST";

/// Loads a program; where nobody agreed to it yet, a person at the terminal is asked. A tool that is as program.toml says
/// without the rest needs no consent to the rest.
pub(super) async fn loaded(options: &Options, terminal: Terminal) -> anyhow::Result<Program> {
    let pins_first_lists = pins_first_lists(options, terminal);
    let options = &Options { pins_first_lists, ..options.clone() };
    let program = agreed(options, terminal).await?;
    let program = Box::pin(agreed_tools(program, options, terminal)).await?;
    program.notices.iter().for_each(|notice| terminal.message(plain(notice)));
    Ok(program)
}

/// Whether the tools that a server lists first are pinned without a question: nobody can be asked, or everything was agreed to.
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
    // In boxes: its future would be three times that of loading.
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

/// The person was shown what a program.toml asks for, and did not agree.
#[derive(Debug, thiserror::Error)]
#[error("program.toml was not used: you did not agree to it")]
struct Refused;

/// Whether `error` says that nobody agreed to a program.toml.
pub(super) fn is_refused(error: &anyhow::Error) -> bool {
    error.is::<Untrusted>() || error.is::<Refused>()
}

/// Whether all that a program.toml asks for was agreed to before haft itself changes it: what it writes then is
/// agreed to as well.
pub(super) struct Kept<'a> {
    path: &'a Path,
    is_complete: bool,
}

impl<'a> Kept<'a> {
    /// As it is now, the file of nobody included.
    pub(super) async fn before(path: &'a Path) -> Self {
        let is_there = path.exists();
        let is_complete = !is_there || Agreement::of(Some(path)).await.is_ok_and(|own| own.is_complete());
        Self { path, is_complete }
    }

    /// Notes down what its packages and plugins ask for now, and nothing that somebody else wrote there meanwhile.
    pub(super) async fn renew(self) -> anyhow::Result<()> {
        if self.is_complete && self.path.exists() {
            Agreement::of(Some(self.path)).await?.agree_to_installed()
        } else {
            Ok(())
        }
    }
}

/// What becomes of a program.toml that nobody agreed to: it is refused, unless the environment says otherwise.
pub(super) fn of_environment() -> anyhow::Result<Trust> {
    match std::env::var(VARIABLE).unwrap_or_default().as_str() {
        "" | "0" => Ok(Trust::Agreed),
        "1" => Ok(Trust::Everything),
        other => anyhow::bail!(
            "`{VARIABLE}` is `{other}`; expected `1`, which agrees to every program.toml, or `0`"
        ),
    }
}

/// Whether the environment agrees to every program.toml.
pub(super) fn is_everything_agreed_to() -> anyhow::Result<bool> {
    Ok(matches!(of_environment()?, Trust::Everything))
}

/// The same for a verb that works without what nobody agreed to.
pub(super) fn or_left_out(trust: Trust) -> Trust {
    match trust {
        Trust::Agreed => Trust::LeftOut(Known::default()),
        trust => trust,
    }
}

// The tools of MCP servers before they are used for the first time: a person at the terminal is shown them, and asked.

/// `program`, with the tools of those servers that a person agrees to now; servers that run go on.
async fn agreed_tools(program: Program, options: &Options, terminal: Terminal) -> anyhow::Result<Program> {
    let mut is_other = false;
    for first in &program.first_lists {
        terminal.message(sheet(first));
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

/// What a person reads before that.
fn sheet(first: &FirstList) -> String {
    let name = &first.server.config().name;
    format!("MCP server `{name}` lists these tools for the first time:{}", lines(first.tools()))
}

/// Each of `tools`: its name, and its description as models get it, a line below the other.
pub(super) fn lines(tools: &[Value]) -> String {
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
