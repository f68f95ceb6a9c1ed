//! `haft session show` and `haft session rerun`: show a saved session, or repeat its calls and compare their
//! answers. A call that may change something is repeated only on request.

use crate::cli::common::Common;
use std::fmt::Write;

use clap::Args;
use serde_json::json;

use super::terminal::{Answers, Screen, Terminal, rendered};
use super::{Exit, approvals, transcript};
use crate::cli::conversation::SessionName;
use crate::cli::dialogue::hinted;
use haft::program::Program;
use haft_agent::provider::RequestedCall;
use haft_agent::{Entry, Line};
use haft_core::call::{ToolCall, ToolResult};
use haft_core::report::plain;
use haft_core::tool::{Session, in_a_line};

/// Maximum lines of each answer if two differ.
const MAX_DIFFERENCE: usize = 5;

/// Maximum characters of a call's arguments.
const MAX_ARGUMENTS: usize = 200;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft session show                     the newest session of this program in this folder
  haft session show 3f9ac801
  haft session show --json | jq -r 'select(.kind == \"answered\") | .result.content'")]
pub(super) struct Show {
    /// The session: its id, the start of its id, or `last`
    #[arg(default_value = "last", add = super::completions::sessions())]
    session: SessionName,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Calls the current tools. The exit code is 1 if an answer differs from the recorded one.

Examples:
  haft session rerun                    the newest session of this program in this folder
  haft session rerun 3f9ac801 --all")]
pub(super) struct Rerun {
    /// The session: its id, the start of its id, or `last`
    #[arg(default_value = "last", add = super::completions::sessions())]
    session: SessionName,
    /// Repeat the calls that may have effects too
    #[arg(long)]
    all: bool,
}

/// A recorded call with its answer.
struct Recorded {
    requested: RequestedCall,
    result: ToolResult,
    /// Whether a tool returned the answer.
    is_run: bool,
}

impl Show {
    pub(super) fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let saved = self.session.find_any(common)?;
        if terminal.json {
            terminal.json_text(&saved.text().map_err(hinted)?)?;
        } else {
            let lines = saved.lines().map_err(hinted)?;
            terminal.answer(&rendered(&transcript::of_lines(&lines)))?;
        }
        Ok(Exit::Success)
    }
}

impl Rerun {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let saved = self.session.find_any(common)?;
        let recorded = recorded(saved.lines().map_err(hinted)?);
        let program = common.of_session(Some(&saved)).program(terminal, true).await?;
        let exit = rerun(&program, &recorded, self.all, terminal).await;
        program.close().await;
        exit
    }
}

/// Returns the calls with known answers, in the order of the answers.
fn recorded(lines: Vec<Line>) -> Vec<Recorded> {
    let (mut recorded, mut calls, mut run) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        match line.entry {
            Entry::Turn(turned) => {
                calls = turned.reply.calls;
                run.clear();
            }
            Entry::Running { call } => run.push(call),
            Entry::Answered { call, result, unknown: false, .. } => {
                if let Some(at) = calls.iter().position(|requested: &RequestedCall| requested.call.id == call)
                {
                    let is_run = run.contains(&call);
                    recorded.push(Recorded { requested: calls.swap_remove(at), result, is_run });
                }
            }
            _ => {}
        }
    }
    recorded
}

async fn rerun(
    program: &Program,
    recorded: &[Recorded],
    all: bool,
    terminal: Terminal,
) -> anyhow::Result<Exit> {
    let screen = Screen::new(terminal, super::terminal::Show::Quiet, Answers::Whole);
    let approvals = approvals::of(screen.person(), program, "replay", terminal)?;
    let session = Session { approvals, ..program.session("replay", screen.events()) };
    let (mut same, mut different, mut skipped) = (0, 0, 0);
    for Recorded { requested, result, is_run } in recorded {
        let reads =
            program.toolbox.find(&requested.call.tool).is_some_and(|entry| entry.def().hints.read_only);
        if !is_run || !all && !reads {
            skipped += 1;
            continue;
        }
        let Some(now) = answer(program, &requested.call, &session).await else {
            return Ok(Exit::Interrupted);
        };
        let is_same = (now.is_error, &now.content) == (result.is_error, &result.content);
        if is_same {
            same += 1;
        } else {
            different += 1;
        }
        show(&requested.call, result, &now, is_same, terminal)?;
    }
    if !terminal.json {
        terminal
            .message(format_args!("answers: {same} equal, {different} different; {skipped} calls not made"));
    }
    if skipped > 0 && !all && !terminal.json {
        terminal.hint("`--all` also makes the calls that may have effects");
    }
    Ok(if different == 0 { Exit::Success } else { Exit::Tool })
}

/// Makes a call, and returns its answer. Returns `None` if the call was interrupted.
async fn answer(program: &Program, call: &ToolCall, session: &Session) -> Option<ToolResult> {
    let mut answer = std::pin::pin!(program.toolbox.dispatch(call.clone(), session));
    tokio::select! {
        result = &mut answer => Some(result),
        _ = tokio::signal::ctrl_c() => {
            session.cancel.cancel();
            answer.await;
            None
        }
    }
}

fn show(
    call: &ToolCall,
    was: &ToolResult,
    now: &ToolResult,
    is_same: bool,
    terminal: Terminal,
) -> anyhow::Result<()> {
    if terminal.json {
        return Ok(terminal.json_line(&json!({ "call": call, "same": is_same, "was": was, "now": now }))?);
    }
    let arguments = plain(&in_a_line(&call.arguments, MAX_ARGUMENTS));
    let mark = if is_same { "=" } else { "≠" };
    let mut text = format!("{mark} {} {arguments}\n", plain(&call.tool));
    if !is_same {
        for (sign, result) in [("-", was), ("+", now)] {
            let error = if result.is_error { " (error)" } else { "" };
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "  {sign}{error} {}", beginning(&result.content));
        }
    }
    terminal.data(&text)?;
    Ok(())
}

/// Returns the first lines of an answer.
fn beginning(text: &str) -> String {
    let lines: Vec<_> = text.lines().take(MAX_DIFFERENCE).map(plain).collect();
    let more = text.lines().count().saturating_sub(MAX_DIFFERENCE);
    let more = if more > 0 { format!("\n    … {more} more lines") } else { String::new() };
    lines.join("\n    ") + &more
}
