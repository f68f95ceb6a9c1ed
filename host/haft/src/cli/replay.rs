//! `haft session show` and `haft session rerun`: show a saved session, or repeat its calls and compare their answers. A call
//! that may change something is repeated only on request. A conversation is shown as Markdown for people, which cannot be
//! read back: the session's file serves that purpose.

use std::fmt::Write;

use clap::Args;
use serde_json::json;

use super::common::Common;
use super::conversation::SessionName;
use super::dialogue::hinted;
use super::terminal::{Answers, Screen, Terminal, rendered};
use super::{Exit, approvals};
use haft::program::Program;
use haft_agent::provider::{Message, Prompt, Reply, RequestedCall};
use haft_agent::{Ended, Entry, Line, Summarised};
use haft_core::call::{ToolCall, ToolResult};
use haft_core::report::plain;
use haft_core::tool::{Difference, Keep, Session, clip, in_a_line, in_full};

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
            terminal.answer(&rendered(&of_lines(&lines)))?;
        }
        Ok(Exit::Success)
    }
}

impl Rerun {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let saved = self.session.find_any(common)?;
        let recorded = recorded(saved.lines().map_err(hinted)?);
        let program = common.of_session(Some(&saved)).program(terminal).await?;
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

fn beginning(text: &str) -> String {
    let lines: Vec<_> = text.lines().take(MAX_DIFFERENCE).map(plain).collect();
    let more = text.lines().count().saturating_sub(MAX_DIFFERENCE);
    let more = if more > 0 { format!("\n    … {more} more lines") } else { String::new() };
    lines.join("\n    ") + &more
}

/// Maximum characters of a call's arguments on a line.
const MAX_LINE: usize = 160;

/// Maximum characters of an answer. The session has the complete answer.
const MAX_ANSWER: usize = 4000;

pub(super) fn of_messages(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        match message {
            Message::User(prompt) => person(&mut text, prompt),
            Message::Turn(exchange) => {
                model(&mut text, exchange.reply());
                for (requested, result) in exchange.answered() {
                    call(&mut text, &requested.call, result, "");
                }
            }
        }
    }
    text
}

/// Returns a session, with the durations of its calls and the ends of its tasks.
pub(super) fn of_lines(lines: &[Line]) -> String {
    let mut text = String::new();
    let mut calls: Vec<ToolCall> = Vec::new();
    for line in lines {
        match &line.entry {
            Entry::Said(prompt) => person(&mut text, prompt),
            Entry::Turn(turned) => {
                model(&mut text, &turned.reply);
                calls = turned.reply.calls.iter().map(|requested| requested.call.clone()).collect();
            }
            Entry::Answered { call: id, result, duration_ms, .. } => {
                if let Some(at) = calls.iter().position(|call| call.id == *id) {
                    call(&mut text, &calls.swap_remove(at), result, &format!(" ({duration_ms} ms)"));
                }
            }
            Entry::Summarised(summary) => summed_up(&mut text, summary),
            Entry::Ended(ended) => end(&mut text, ended),
            Entry::Resumed { .. } => text.push_str("*resumed by another process*\n\n"),
            Entry::Begun(_) | Entry::Running { .. } | Entry::Other => {}
        }
    }
    text
}

fn person(text: &mut String, prompt: &Prompt) {
    // Writing to a `String` cannot fail.
    let _ = write!(text, "## You\n\n{}\n\n", prompt.text.trim_end());
    for attachment in &prompt.attachments {
        let _ = write!(text, "{}\n\n", attachment.mention());
    }
}

fn model(text: &mut String, reply: &Reply) {
    if !reply.text.trim().is_empty() {
        let _ = write!(text, "## Model\n\n{}\n\n", reply.text.trim_end());
    }
}

fn call(text: &mut String, call: &ToolCall, result: &ToolResult, time: &str) {
    let mark = if result.is_error { "✗" } else { "✓" };
    let (tool, line) = (&call.tool, in_a_line(&call.arguments, MAX_LINE));
    let line = if line.is_empty() { line } else { format!(" `{line}`") };
    let _ = write!(text, "{mark} **{tool}**{line}{time}\n\n");
    let difference = Difference::of(&call.arguments, None);
    let whole = in_full(&call.arguments, difference.as_ref());
    if difference.is_none() && whole.contains('\n') {
        fenced(text, "", whole.trim_start_matches('\n'));
    }
    if let Some(difference) = difference {
        fenced(text, "diff", &difference.to_string());
    }
    fenced(text, "", &clip(result.content.trim_end(), MAX_ANSWER, Keep::Ends));
}

/// Writes a text unchanged, in a block of Markdown.
fn fenced(text: &mut String, language: &str, inside: &str) {
    let fence = fence(inside);
    let _ = write!(text, "{fence}{language}\n{inside}\n{fence}\n\n");
}

fn summed_up(text: &mut String, summary: &Summarised) {
    let (count, model) = (summary.messages, &summary.model);
    let _ = write!(text, "*from here on, a summary by `{model}` replaces the first {count} messages:*\n\n");
    let _ = write!(text, "{}\n\n", quoted(summary.text.trim_end()));
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn end(text: &mut String, ended: &Ended) {
    let why = match (ended.end, &ended.error) {
        (Some(haft_agent::End::Final), _) => return,
        (Some(end), None) => end.name().to_owned(),
        (_, error) => format!("failed: {}", error.as_deref().unwrap_or("the model gave no answer")),
    };
    let _ = write!(text, "*{why}*\n\n");
}

/// Returns a fence that is longer than every fence in `text`.
fn fence(text: &str) -> String {
    let longest =
        text.lines().map(str::trim_start).map(|line| line.len() - line.trim_start_matches('`').len());
    "`".repeat(longest.max().unwrap_or_default().max(2) + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use haft_agent::provider::{Exchange, RequestedCall};
    use haft_core::call::Attachment;

    #[test]
    fn a_transcript_shows_what_was_said_called_and_answered() {
        let call = ToolCall { id: "a".into(), tool: "bash".into(), arguments: json!({ "command": "ls" }) };
        let reply = Reply {
            text: "Let me see.".into(),
            calls: vec![RequestedCall { call, problem: None }],
            ..Reply::default()
        };
        let turn = Exchange::new(reply, [ToolResult::error("```\nno\n")]);
        let attachments =
            vec![Attachment { name: Some("a.png".into()), ..Attachment::new("image/png", vec![0]) }];
        let asked = Prompt { text: "What is here?".into(), attachments };
        let text = of_messages(&[Message::User(asked), Message::Turn(turn)]);
        let expected = "## You\n\nWhat is here?\n\n[a.png: image/png, 1 bytes]\n\n## Model\n\nLet me see.\n\n\
                        ✗ **bash** `ls`\n\n````\n```\nno\n````\n\n";
        assert_eq!(text, expected);
    }
}
