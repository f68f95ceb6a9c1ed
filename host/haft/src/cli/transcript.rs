//! A conversation with its calls and answers, as Markdown for people. It cannot be read back: the session's file
//! serves that purpose.

use std::fmt::Write;

use haft_agent::provider::{Message, Reply};
use haft_agent::{Ended, Entry, Line, Summarised};
use haft_core::call::{Attachment, ToolCall, ToolResult};
use haft_core::tool::{Difference, Keep, clip, in_a_line, in_full};

/// Maximum characters of a call's arguments on a line.
const MAX_LINE: usize = 160;

/// Maximum characters of an answer. The session has the complete answer.
const MAX_ANSWER: usize = 4000;

/// Returns a conversation.
pub(super) fn of_messages(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        match message {
            Message::User(prompt) => person(&mut text, &prompt.text, &prompt.attachments),
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
            Entry::Said { text: prompt, attachments } => person(&mut text, prompt, attachments),
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

fn person(text: &mut String, prompt: &str, attachments: &[Attachment]) {
    // Writing to a `String` cannot fail.
    let _ = write!(text, "## You\n\n{}\n\n", prompt.trim_end());
    for attachment in attachments {
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

/// Returns a text as a quotation in Markdown.
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
    use haft_agent::provider::{Exchange, Prompt, RequestedCall};

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
