//! Events as JSON, for programs that follow a run. The format is stable: later versions only add kinds and keys.

use serde_json::{Value, json};

use super::Event;

impl Event {
    /// Returns the files left out of a request and the reason, if the event reports that, here or within an agent.
    pub fn not_shown(&self) -> Option<&str> {
        match self {
            Self::NotShown { reason } => Some(reason),
            Self::Within { event, .. } => event.not_shown(),
            _ => None,
        }
    }

    /// Returns the event as an object whose member `event` is its kind. An event within an agent has `agent`, such
    /// as `reviewer/searcher`, and `parent`, the call of the calling agent.
    pub fn json(&self) -> Value {
        match self {
            Self::Compiling { plugin, bytes } => {
                json!({ "event": "compiling", "plugin": plugin, "bytes": bytes })
            }
            Self::Compiled { plugin, duration } => {
                json!({ "event": "compiled", "plugin": plugin, "duration_ms": milliseconds(*duration) })
            }
            Self::Trimmed { left_out } => json!({ "event": "trimmed", "left_out": left_out }),
            Self::Summarised { messages, model } => {
                json!({ "event": "summarised", "messages": messages, "model": model })
            }
            Self::Asked { model } => json!({ "event": "asked", "model": model }),
            Self::Said(text) => json!({ "event": "said", "text": text }),
            Self::Thought(text) => json!({ "event": "thought", "text": text }),
            Self::Retrying { reason, delay } => {
                json!({ "event": "retrying", "reason": reason, "delay_ms": milliseconds(*delay) })
            }
            Self::NotShown { reason } => json!({ "event": "not_shown", "reason": reason }),
            Self::Started(call) => json!({ "event": "started", "call": call }),
            Self::Running { call } => json!({ "event": "running", "id": call }),
            Self::Stdout { call, chunk } => json!({ "event": "stdout", "id": call, "text": chunk }),
            Self::Stderr { call, chunk } => json!({ "event": "stderr", "id": call, "text": chunk }),
            Self::Info { call, message } => json!({ "event": "info", "id": call, "message": message }),
            Self::Progress { call, done, total, message } => json!({
                "event": "progress", "id": call, "done": done, "total": total, "message": message,
            }),
            Self::Partial { call, text } => json!({ "event": "partial", "id": call, "text": text }),
            Self::Decided { call, decision } => {
                json!({ "event": "decided", "id": call, "decision": decision })
            }
            Self::Within { agent, parent, event } => within(agent, parent, event.json()),
            Self::Completed { call, result, duration } => json!({
                "event": "completed", "call": call, "result": result, "duration_ms": milliseconds(*duration),
            }),
        }
    }
}

fn within(agent: &str, parent: &str, mut event: Value) -> Value {
    if let Some(object) = event.as_object_mut() {
        let path = match object.get("agent").and_then(Value::as_str) {
            Some(inner) => format!("{agent}/{inner}"),
            None => agent.to_owned(),
        };
        object.insert("agent".into(), path.into());
        object.entry("parent").or_insert_with(|| parent.into());
    }
    event
}

fn milliseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::call::{ToolCall, ToolResult};

    #[test]
    fn an_event_says_what_happened() {
        let call = ToolCall { id: "c1".into(), tool: "bash".into(), arguments: json!({ "command": "ls" }) };
        let result = ToolResult::error("no");
        let event = Event::Completed { call, result, duration: Duration::from_millis(7) };
        let expected = json!({
            "event": "completed",
            "call": { "id": "c1", "tool": "bash", "arguments": { "command": "ls" } },
            "result": { "content": "no", "is_error": true },
            "duration_ms": 7,
        });
        assert_eq!(event.json(), expected);
        let within = |agent: &str, parent: &str, event| Event::Within {
            agent: agent.into(),
            parent: parent.into(),
            event,
        };
        let inner = within("searcher", "c9", Box::new(Event::Said("x".into())));
        let expected = json!({ "event": "said", "text": "x", "agent": "reviewer/searcher", "parent": "c9" });
        assert_eq!(within("reviewer", "c1", Box::new(inner)).json(), expected);
        assert_eq!(Event::Said("a\n".into()).json(), json!({ "event": "said", "text": "a\n" }));
    }
}
