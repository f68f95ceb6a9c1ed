//! What the caller of an agent is told of what it came to. An end before the task is done is an error that says why, how
//! far it came, and where to look.

use std::fmt::Write;
use std::time::Duration;

use super::ready::Done;
use haft_core::call::ToolResult;
use haft_manifest::units::format_duration;

/// The answer to the call of `agent`, which ran out of `time` if that is given.
pub(super) fn answered(agent: &str, done: &Done, time: Option<Duration>) -> ToolResult {
    let Done { outcome, session } = done;
    let Some(why) = outcome.shortfall() else {
        // An agent that is done at the last moment is done.
        let structured = outcome.output.clone().filter(serde_json::Value::is_object);
        return ToolResult { structured, ..ToolResult::success(&outcome.text) };
    };
    let why = time.map_or(why, |time| format!("it was stopped after {}", format_duration(time)));
    let turns = if outcome.turns == 1 { "turn" } else { "turns" };
    let mut text = format!("agent `{agent}` did not finish, after {} {turns}: {why}", outcome.turns);
    if let Some(id) = session {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\nhint: `haft replay {id}` shows what it did");
    }
    if !outcome.text.trim().is_empty() {
        let _ = write!(text, "\n\nWhat it said until then:\n\n{}", outcome.text);
    }
    ToolResult::error(text)
}

#[cfg(test)]
mod tests {
    use haft_agent::{End, Outcome};

    use super::*;

    fn done(end: End, text: &str) -> Done {
        let outcome = Outcome {
            end,
            text: text.into(),
            turns: 2,
            usage: haft_agent::provider::Usage::default(),
            model: "m".into(),
            elapsed: Duration::ZERO,
            failure: None,
            output: None,
            detail: None,
            agents: std::collections::BTreeMap::default(),
        };
        Done { outcome, session: Some("3f9ac801".into()) }
    }

    #[test]
    fn only_a_task_that_is_done_is_a_success() {
        assert_eq!(answered("a", &done(End::Final, "so"), None), ToolResult::success("so"));
        let capped = answered("a", &done(End::TurnCap, "half"), None);
        assert!(
            capped.is_error && capped.content.contains("after 2 turns: reached max turns"),
            "{}",
            capped.content
        );
        assert!(capped.content.contains("haft replay 3f9ac801") && capped.content.ends_with("half"));
        let late = answered("a", &done(End::Cancelled, ""), Some(Duration::from_mins(1)));
        assert!(late.is_error && late.content.contains("it was stopped after 1m"), "{}", late.content);
    }
}
