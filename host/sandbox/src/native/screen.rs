//! `capture-pane` and `send-keys`: the content of the backend's pane, and keys for it. They refuse all panes
//! except haft's own.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::run_shell::{duration, failed};
use crate::{Backend, BackendError, Snapshot};
use haft_core::call::{Hints, ToolCall, ToolDef, ToolResult};
use haft_core::limit::Limits;
use haft_core::tool::{Context, Keep, Tool, ToolError, clip};

/// The name of the capture tool.
pub const CAPTURE: &str = "capture-pane";
/// The name of the keys tool.
pub const SEND: &str = "send-keys";

/// Limit on the characters of one result, which is the end of the screen with the latest output.
const MAX_CHARACTERS: usize = 8000;
/// Limit on a delay; for a longer one the tool is called again.
const MAX_DELAY: Duration = Duration::from_hours(1);
/// Limit on the characters of one literal text.
const MAX_LITERAL: usize = 10_000;
/// Limit on the keys of one call.
const MAX_KEYS: usize = 200;
/// The valid delays, for messages.
const DELAYS: &str = "expected a delay like 500ms, 2s, 1m, at most 1h";

/// Returns the limits of one call: the longest delay and time for a slow target.
pub fn limits() -> Limits {
    Limits { time: MAX_DELAY + Duration::from_mins(2), ..Limits::default() }
}

/// The `capture-pane` or the `send-keys` tool.
#[derive(Debug)]
pub struct PaneTool {
    def: ToolDef,
    backend: Arc<dyn Backend>,
    types: bool,
}

fn flag(description: &str, default: bool) -> Value {
    json!({"type": "boolean", "default": default, "description": description})
}

fn delays(what: &str) -> [Value; 2] {
    let text = format!("Delay before {what}: 500ms, 2s, 1m, or seconds");
    [
        json!({"type": ["string", "integer"], "description": text}),
        json!({"type": "integer", "minimum": 0, "description": "The delay in milliseconds, instead of `delay`"}),
    ]
}

impl PaneTool {
    /// Creates the capture tool for the pane of `backend`.
    pub fn capturing(backend: Arc<dyn Backend>) -> Self {
        let description = format!(
            "Show the content of the tmux pane on the target ({}): the visible lines, or lines `start` to \
             `end` of the history. Long output is cut at the start.",
            backend.summary()
        );
        let [delay, delay_ms] = delays("looking");
        let parameters = json!({
            "type": "object",
            "properties": {
                "target": {"type": "string", "description": "The pane; default haft's own"},
                "start": {"type": ["string", "integer"], "description": "First line; \"-\" for the beginning of the history, negative numbers count into it"},
                "end": {"type": ["string", "integer"], "description": "Last line; \"-\" for the end of what is visible"},
                "join_wrapped_lines": flag("Join lines that were wrapped", true),
                "preserve_trailing_spaces": flag("Keep spaces at the ends of lines", false),
                "include_escape_sequences": flag("Keep colours as escape sequences", false),
                "escape_non_printable": flag("Write non-printable characters as octal numbers", false),
                "include_alternate_screen": flag("Show the alternate screen, if there is one", false),
                "delay": delay,
                "delay_ms": delay_ms,
            },
            "additionalProperties": false,
        });
        let hints = Hints { read_only: true, ..Hints::default() };
        let def = ToolDef { name: CAPTURE.into(), description, parameters, hints, ..ToolDef::default() };
        Self { def, backend, types: false }
    }

    /// Creates the keys tool for the pane of `backend`.
    pub fn typing(backend: Arc<dyn Backend>) -> Self {
        let description = format!(
            "Type into the tmux pane on the target ({}): `literal_text` as it is, then `keys` by name, then \
             Enter if `enter`. The key C-c interrupts the running command.",
            backend.summary()
        );
        let [delay, delay_ms] = delays("typing");
        let parameters = json!({
            "type": "object",
            "properties": {
                "target": {"type": "string", "description": "The pane; default haft's own"},
                "literal_text": {"type": "string", "maxLength": MAX_LITERAL, "description": "Text to type as it is"},
                "keys": {
                    "type": "array", "maxItems": MAX_KEYS, "items": {"type": "string"},
                    "description": "Keys by name: C-c, C-z, Enter, Up, Down, Escape, F1, …",
                },
                "enter": flag("Press Enter at the end", false),
                "delay": delay,
                "delay_ms": delay_ms,
            },
            "additionalProperties": false,
        });
        let hints = Hints { destructive: true, open_world: true, ..Hints::default() };
        let def = ToolDef { name: SEND.into(), description, parameters, hints, ..ToolDef::default() };
        Self { def, backend, types: true }
    }

    async fn capture(&self, arguments: &Value, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let snapshot = snapshot(arguments);
        snapshot.flags().map_err(|error| ToolError::InvalidArguments(error.to_string()))?;
        delayed(arguments, context).await?;
        let captured = self.backend.capture(&snapshot).await.map_err(|error| failed(&error))?;
        // A screen ends with lines that were never written.
        let text = captured.text.trim_end_matches('\n');
        let mut shown = clip(text, MAX_CHARACTERS, Keep::Tail);
        if captured.fell_back {
            shown.push_str("\n[notice] alternate screen was not active; captured main pane instead.");
        }
        Ok(ToolResult::success(shown))
    }

    async fn send(&self, arguments: &Value, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let literal = arguments.get("literal_text").and_then(Value::as_str).unwrap_or_default();
        let keys = arguments.get("keys").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let keys: Vec<String> = keys.iter().filter_map(|key| Some(key.as_str()?.to_owned())).collect();
        let enter = arguments.get("enter").and_then(Value::as_bool).unwrap_or_default();
        if literal.is_empty() && keys.is_empty() && !enter {
            let message = "send-keys requires at least one of: keys, literal_text, or enter=true";
            return Err(ToolError::InvalidArguments(message.into()));
        }
        if literal.contains('\0') {
            return Err(ToolError::InvalidArguments(
                "`literal_text` has a NUL character, which cannot be typed".into(),
            ));
        }
        delayed(arguments, context).await?;
        let target = word(arguments, "target");
        let sent = self.backend.send(target.as_deref(), literal, &keys, enter).await;
        let pane = sent.map_err(|error| failed(&error))?;
        Ok(ToolResult::success(format!("sent keys to tmux pane {pane}")))
    }
}

async fn delayed(arguments: &Value, context: &Context<'_>) -> Result<(), ToolError> {
    let delay = delay(arguments).map_err(ToolError::InvalidArguments)?;
    tokio::select! {
        () = tokio::time::sleep(delay) => Ok(()),
        () = context.cancel.cancelled() => Err(failed(&BackendError::Cancelled)),
    }
}

fn delay(arguments: &Value) -> Result<Duration, String> {
    let argument = |name| arguments.get(name).filter(|value: &&Value| !value.is_null());
    let time = match (argument("delay"), argument("delay_ms")) {
        (Some(_), Some(_)) => return Err("provide either `delay` or `delay_ms`, not both".into()),
        (None, None) => Duration::ZERO,
        (None, Some(value)) => Duration::from_millis(value.as_u64().ok_or(DELAYS)?),
        (Some(Value::Number(number)), None) => Duration::from_secs(number.as_u64().ok_or(DELAYS)?),
        (Some(Value::String(text)), None) => duration(text)
            .ok_or_else(|| format!("`delay` is `{}`; {DELAYS}", haft_core::report::plain(text)))?,
        (Some(_), None) => return Err(format!("`delay` is not a duration; {DELAYS}")),
    };
    if time > MAX_DELAY { Err(format!("the delay is too long; {DELAYS}")) } else { Ok(time) }
}

fn word(arguments: &Value, name: &str) -> Option<String> {
    match arguments.get(name)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn snapshot(arguments: &Value) -> Snapshot {
    let is = |name, default| arguments.get(name).and_then(Value::as_bool).unwrap_or(default);
    Snapshot {
        target: word(arguments, "target"),
        start: word(arguments, "start"),
        end: word(arguments, "end"),
        join: is("join_wrapped_lines", true),
        trailing: is("preserve_trailing_spaces", false),
        escapes: is("include_escape_sequences", false),
        octal: is("escape_non_printable", false),
        alternate: is("include_alternate_screen", false),
    }
}

#[async_trait]
impl Tool for PaneTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn has_fixed_rights(&self) -> bool {
        true
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        if self.types {
            self.send(&call.arguments, context).await
        } else {
            self.capture(&call.arguments, context).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TM03: a delay is accepted in every documented form, and refused otherwise.
    #[test]
    fn a_delay_is_understood_or_refused() {
        let of = |value: Value| delay(&value);
        let all = [
            (json!({}), 0),
            (json!({"delay": "500ms"}), 500),
            (json!({"delay": "2"}), 2000),
            (json!({"delay": 3}), 3000),
            (json!({"delay": "1m"}), 60_000),
            (json!({"delay": "1h"}), 3_600_000),
            (json!({"delay_ms": 250}), 250),
        ];
        for (value, milliseconds) in all {
            assert_eq!(of(value.clone()), Ok(Duration::from_millis(milliseconds)), "{value}");
        }
        let both = of(json!({"delay": "1s", "delay_ms": 5})).unwrap_err();
        assert_eq!(both, "provide either `delay` or `delay_ms`, not both");
        for value in [
            json!("1d"),
            json!("soon"),
            json!(""),
            json!("-1s"),
            json!("999h"),
            json!(-1),
            json!(1.5),
            json!([]),
        ] {
            assert!(of(json!({ "delay": value.clone() })).unwrap_err().contains("500ms, 2s, 1m"), "{value}");
        }
    }

    /// TM02: omitted arguments have the reference's defaults.
    #[test]
    fn wrapped_lines_are_joined_unless_it_is_switched_off() {
        assert_eq!(snapshot(&json!({})), Snapshot { join: true, ..Snapshot::default() });
        let numbers = snapshot(&json!({"start": -5, "end": "-", "join_wrapped_lines": false}));
        assert_eq!(
            (numbers.start.as_deref(), numbers.end.as_deref(), numbers.join),
            (Some("-5"), Some("-"), false)
        );
    }
}
