//! `haft replay`: a session as it was, or its calls made again and their answers compared. Refuses to repeat what may
//! change something unless it is told to.

use crate::cli::common::Common;
use std::fmt::Write;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::terminal::{Answers, Screen, Show, Terminal, rendered};
use super::{Exit, approvals, transcript};
use crate::cli::conversation::SessionName;
use crate::cli::dialogue::hinted;
use haft::program::Program;
use haft_agent::provider::RequestedCall;
use haft_agent::{Entry, Line};
use haft_core::call::{ToolCall, ToolResult};
use haft_core::report::plain;
use haft_core::tool::{Session, in_a_line};

/// Lines of an answer that are shown where two differ.
const MAX_DIFFERENCE: usize = 5;

/// Characters of a call's arguments.
const MAX_ARGUMENTS: usize = 200;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft replay                     the newest session of this program in this folder
  haft replay 3f9ac801
  haft replay 3f9ac801 --rerun    make the calls again that only read, and compare the answers
  haft replay --json | jq -r 'select(.kind == \"answered\") | .result.content'

With --rerun the exit code is 1 where an answer is not what it was.")]
pub(super) struct Replay {
    /// The session: its id or the beginning of it, or `last`
    #[arg(default_value = "last", add = super::completions::sessions())]
    session: SessionName,
    /// Make its calls again with the tools there are now, and compare the answers with those on record
    #[arg(long, value_enum, value_name = "WHICH", num_args = 0..=1, default_missing_value = "reading", require_equals = true)]
    rerun: Option<Which>,
}

/// Which calls are made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Those of tools that only read
    Reading,
    /// All, also those that change something
    All,
}

/// A call on record with its answer.
struct Recorded {
    requested: RequestedCall,
    result: ToolResult,
    /// Whether a tool answered.
    is_run: bool,
}

impl Replay {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let saved = self.session.find_any(common)?;
        let Some(which) = self.rerun else {
            let text = saved.text().map_err(hinted)?;
            if terminal.json {
                terminal.json_text(&text)?;
            } else {
                let lines = saved.lines().map_err(hinted)?;
                terminal.answer(&rendered(&transcript::of_lines(&lines)))?;
            }
            return Ok(Exit::Success);
        };
        let recorded = recorded(saved.lines().map_err(hinted)?);
        let program = common.of_session(Some(&saved)).program(terminal, true).await?;
        let exit = rerun(&program, &recorded, which, terminal).await;
        program.close().await;
        exit
    }
}

/// The calls whose answers are known, in the order in which they were answered.
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
    which: Which,
    terminal: Terminal,
) -> anyhow::Result<Exit> {
    let screen = Screen::new(terminal, Show::Quiet, Answers::Whole);
    let approvals = approvals::of(screen.person(), program, "replay", terminal)?;
    let session = Session { approvals, ..program.session("replay", screen.events()) };
    let (mut same, mut different, mut skipped) = (0, 0, 0);
    for Recorded { requested, result, is_run } in recorded {
        let reads =
            program.toolbox.find(&requested.call.tool).is_some_and(|entry| entry.def().hints.read_only);
        if !is_run || which == Which::Reading && !reads {
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
        terminal.message(format_args!(
            "{same} answers are the same, {different} differ, {skipped} calls were not made"
        ));
    }
    if skipped > 0 && which == Which::Reading && !terminal.json {
        terminal.hint("`--rerun=all` also makes the calls that may change something");
    }
    Ok(if different == 0 { Exit::Success } else { Exit::Tool })
}

/// The answer now; `None` where it was interrupted.
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

/// The first lines of an answer.
fn beginning(text: &str) -> String {
    let lines: Vec<_> = text.lines().take(MAX_DIFFERENCE).map(plain).collect();
    let more = text.lines().count().saturating_sub(MAX_DIFFERENCE);
    let more = if more > 0 { format!("\n    … {more} more lines") } else { String::new() };
    lines.join("\n    ") + &more
}
