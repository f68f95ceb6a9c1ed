//! Redacts calls, answers and events: every text in them. Does not decide what is a secret.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::{REDACTED, Redactor, Stream};
use crate::call::{Attachment, McpAnswer, ToolCall, ToolResult};
use crate::event::{Event, Events};
use crate::sync::Lock;

impl Redactor {
    /// Returns the redacted call; borrows the call if it holds no secret, because its arguments may have
    /// many megabytes.
    pub fn call<'c>(&self, call: &'c ToolCall) -> Cow<'c, ToolCall> {
        if !self.hides(&call.id) && !self.hides(&call.tool) && !self.hides_in(&call.arguments) {
            return Cow::Borrowed(call);
        }
        let text = |text: &str| self.redact(text).into_owned();
        let mut arguments = call.arguments.clone();
        self.clean(&mut arguments);
        Cow::Owned(ToolCall { id: text(&call.id), tool: text(&call.tool), arguments })
    }

    /// Returns the redacted answer.
    pub fn result(&self, result: ToolResult) -> ToolResult {
        if self.is_empty() {
            return result;
        }
        let ToolResult { content, is_error, attachments, mut structured, mut mcp } = result;
        if let Some(value) = &mut structured {
            self.clean(value);
        }
        if let Some(mcp) = &mut mcp {
            self.clean_mcp(mcp);
        }
        let attachments = attachments.into_iter().map(|attachment| self.attachment(attachment)).collect();
        ToolResult { content: self.redact_owned(content), is_error, attachments, structured, mcp }
    }

    /// Redacts every text in the answer of an MCP server, and the bytes that are not among the attachments.
    fn clean_mcp(&self, answer: &mut McpAnswer) {
        match answer {
            McpAnswer::Result(result) => {
                McpAnswer::each_binary(result, |_, place| {
                    let data = place.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
                    if let Some(data) = data {
                        *place = BASE64_STANDARD.encode(self.redact_bytes(data)).into();
                    }
                });
                self.clean(result);
            }
            McpAnswer::Error { message, data, .. } => {
                *message = self.redact_owned(std::mem::take(message));
                if let Some(data) = data {
                    self.clean(data);
                }
            }
        }
    }

    /// Returns the redacted file.
    pub fn attachment(&self, attachment: Attachment) -> Attachment {
        let Attachment { name, media_type, data } = attachment;
        let name = name.map(|name| self.redact_owned(name));
        Attachment { name, media_type: self.redact_owned(media_type), data: self.redact_bytes(data) }
    }

    /// Redacts every text in `value`.
    pub fn clean(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        // An explicit stack in place of recursion: a tool controls the depth of the value.
        let mut work = vec![value];
        while let Some(value) = work.pop() {
            match value {
                Value::String(text) => *text = self.redact_owned(std::mem::take(text)),
                Value::Number(number) if self.hides(&number.to_string()) => *value = REDACTED.into(),
                Value::Array(items) => work.extend(items),
                Value::Object(fields) => {
                    if fields.keys().any(|key| self.hides(key)) {
                        let clean = std::mem::take(fields).into_iter();
                        fields.extend(clean.map(|(key, value)| (self.redact_owned(key), value)));
                    }
                    work.extend(fields.values_mut());
                }
                _ => {}
            }
        }
    }

    /// Returns whether [`clean`](Self::clean) would change `value`.
    fn hides_in(&self, value: &Value) -> bool {
        let mut work = if self.is_empty() { Vec::new() } else { vec![value] };
        while let Some(value) = work.pop() {
            let is_hidden = match value {
                Value::String(text) => self.hides(text),
                Value::Number(number) => self.hides(&number.to_string()),
                Value::Array(items) => {
                    work.extend(items);
                    false
                }
                Value::Object(fields) => {
                    work.extend(fields.values());
                    fields.keys().any(|key| self.hides(key))
                }
                _ => false,
            };
            if is_hidden {
                return true;
            }
        }
        false
    }

    fn hides(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Owned(_))
    }
}

// Output of child processes and text of models arrive in pieces, which may be delayed for a moment. Other events are
// forwarded immediately, and none is dropped.

/// Forwards the redacted events of one call, or of one turn of a model.
#[derive(Debug)]
pub struct RedactingEvents {
    to: Events,
    /// The sink that redacts and passes on.
    events: Events,
    /// The state of streamed output; `None` without secrets or without a listener.
    streams: Option<Arc<Lock<Streams>>>,
}

#[derive(Debug)]
struct Streams {
    stdout: Stream,
    stderr: Stream,
    partial: Stream,
    text: Stream,
    thought: Stream,
}

impl RedactingEvents {
    /// Passes events to `to`, redacted by `redactor`.
    pub fn new(redactor: &Redactor, to: &Events) -> Self {
        if redactor.is_empty() || !to.has_listener() {
            return Self { to: to.clone(), events: to.clone(), streams: None };
        }
        let stream = || Stream::new(redactor.clone());
        let (stdout, stderr, partial) = (stream(), stream(), stream());
        let streams = Streams { stdout, stderr, partial, text: stream(), thought: stream() };
        let streams = Arc::new(Lock::new(streams));
        let (redactor, shared, next) = (redactor.clone(), streams.clone(), to.clone());
        let events = Events::to(move |event| {
            let clean = shared.lock().clean(&redactor, event);
            if let Some(event) = clean {
                next.emit(|| event);
            }
        });
        Self { to: to.clone(), events, streams: Some(streams) }
    }

    /// Returns the sink to emit to.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Emits the withheld text, at the end of `call`.
    pub fn finish(&self, call: &str) {
        let Some(streams) = &self.streams else { return };
        let mut streams = streams.lock();
        let emit = |text: String, event: fn(String, String) -> Event| {
            if !text.is_empty() {
                self.to.emit(|| event(call.to_owned(), text));
            }
        };
        emit(streams.stdout.finish(), |call, chunk| Event::Stdout { call, chunk });
        emit(streams.stderr.finish(), |call, chunk| Event::Stderr { call, chunk });
        emit(streams.partial.finish(), |call, text| Event::Partial { call, text });
        emit(streams.thought.finish(), |_, text| Event::Thought(text));
        emit(streams.text.finish(), |_, text| Event::Said(text));
    }
}

impl Streams {
    /// Returns the redacted event, if there is a part to emit now.
    fn clean(&mut self, redactor: &Redactor, event: &Event) -> Option<Event> {
        let mut clean = event.clone();
        let (stream, piece) = match &mut clean {
            Event::Said(piece) => (&mut self.text, piece),
            Event::Thought(piece) => (&mut self.thought, piece),
            Event::Stdout { chunk, .. } => (&mut self.stdout, chunk),
            Event::Stderr { chunk, .. } => (&mut self.stderr, chunk),
            Event::Partial { text, .. } => (&mut self.partial, text),
            other => {
                if matches!(other, Event::Retrying { .. }) {
                    // The withheld text is void with the rest of the attempt.
                    self.text.finish();
                    self.thought.finish();
                }
                redact(redactor, other);
                return Some(clean);
            }
        };
        *piece = stream.push(piece);
        (!piece.is_empty()).then_some(clean)
    }
}

/// Redacts every text of an event. Of an event within an agent, the agent's own session has withheld pieces already.
fn redact(redactor: &Redactor, event: &mut Event) {
    let text = match event {
        // The name of a plugin is no secret.
        Event::Compiling { .. } | Event::Compiled { .. } | Event::Trimmed { .. } => return,
        Event::Within { event, .. } => return redact(redactor, event),
        Event::Started(call) => {
            *call = redactor.call(call).into_owned();
            return;
        }
        Event::Completed { call, result, .. } => {
            *call = redactor.call(call).into_owned();
            *result = redactor.result(std::mem::take(result));
            return;
        }
        Event::Running { call: text }
        | Event::Asked { model: text }
        | Event::Summarised { model: text, .. }
        | Event::Said(text)
        | Event::Thought(text)
        | Event::Retrying { reason: text, .. }
        | Event::NotShown { reason: text }
        | Event::Stdout { chunk: text, .. }
        | Event::Stderr { chunk: text, .. }
        | Event::Partial { text, .. }
        | Event::Info { message: text, .. }
        | Event::Progress { message: text, .. }
        | Event::Decided { decision: text, .. } => text,
    };
    *text = redactor.redact_owned(std::mem::take(text));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use secrecy::SecretString;
    use serde_json::json;

    use super::*;

    /// CL04: no part of an answer shows a secret.
    #[test]
    fn every_part_of_an_answer_is_clean() {
        let redactor = Redactor::default();
        redactor.add(&["sk-4711-0815", "1234567890"].map(SecretString::from));
        let data = json!({ "sk-4711-0815": [{ "a": "x sk-4711-0815" }, 1_234_567_890, 42] });
        let result = ToolResult {
            content: "it is sk-4711-0815".into(),
            is_error: true,
            attachments: vec![Attachment {
                name: Some("sk-4711-0815.txt".into()),
                ..Attachment::new("text/plain", b"<sk-4711-0815>".into())
            }],
            structured: Some(data.clone()),
            mcp: Some(Box::new(McpAnswer::Result(json!({
                "content": [
                    { "type": "text", "text": "sk-4711-0815", "_meta": { "sk-4711-0815": 1 } },
                    { "type": "image", "data": BASE64_STANDARD.encode("(sk-4711-0815)"), "mimeType": "sk-4711-0815" },
                    { "type": "resource_link", "uri": "a://sk-4711-0815", "name": "sk-4711-0815" },
                ],
                "structuredContent": { "a": 1_234_567_890 },
            })))),
        };
        let clean = redactor.result(result);
        let told = serde_json::to_string(&clean.mcp).unwrap();
        assert!(!told.contains("4711") && !told.contains("1234567890"), "{told}");
        assert!(told.contains(&BASE64_STANDARD.encode("(***)")), "{told}");
        let error = McpAnswer::Error { code: 1, message: "sk-4711-0815".into(), data: Some(data.clone()) };
        let failed = ToolResult { mcp: Some(Box::new(error)), ..ToolResult::error("no") };
        assert!(!format!("{:?}", redactor.result(failed)).contains("4711"));
        assert_eq!(clean.content, "it is ***");
        assert_eq!(clean.structured, Some(json!({ "***": [{ "a": "x ***" }, "***", 42] })));
        assert_eq!(clean.attachments[0].data, b"<***>");
        assert_eq!(clean.attachments[0].name.as_deref(), Some("***.txt"));
        let call = ToolCall { id: "1".into(), tool: "sk-4711-0815".into(), arguments: data };
        assert!(!format!("{:?}", redactor.call(&call)).contains("4711"));
    }

    /// CL04: a call is copied only if a part of it contains a secret.
    #[test]
    fn a_call_without_secrets_is_not_copied() {
        let redactor = Redactor::default();
        redactor.add(&["sk-4711-0815", "1234567890"].map(SecretString::from));
        let call =
            |id: &str, tool: &str, arguments: Value| ToolCall { id: id.into(), tool: tool.into(), arguments };
        for hiding in [
            call("sk-4711-0815", "a", json!({})),
            call("1", "sk-4711-0815", json!({})),
            call("1", "a", json!({ "a": [1, { "b": "x sk-4711-0815" }], "c": 1 })),
            call("1", "a", json!({ "a": [{ "sk-4711-0815": 1 }] })),
            call("1", "a", json!({ "a": [{ "b": 1_234_567_890 }] })),
        ] {
            let told = redactor.call(&hiding);
            assert!(matches!(told, Cow::Owned(_)), "{hiding:?}");
            assert!(
                !format!("{told:?}").contains("4711") && !format!("{told:?}").contains("12345"),
                "{told:?}"
            );
        }
        let plain = call("1", "a", json!({ "a": [1, null, true, { "b": "x" }] }));
        assert!(matches!(redactor.call(&plain), Cow::Borrowed(_)));
    }

    /// CL04: a listener receives everything except secrets, regardless of their split.
    #[test]
    fn events_are_told_without_secrets() {
        let redactor = Redactor::default();
        redactor.add([&SecretString::from("sk-4711-0815")]);
        let received = Arc::new(Lock::new(Vec::new()));
        let own = received.clone();
        let to = Events::to(move |event| own.lock().push(event.clone()));
        let redacting = RedactingEvents::new(&redactor, &to);
        let stdout = |chunk: &str| Event::Stdout { call: "1".into(), chunk: chunk.into() };
        redacting.events().emit(|| Event::Partial { call: "1".into(), text: "a part of sk-4711".into() });
        redacting.events().emit(|| Event::Partial { call: "1".into(), text: "-0815.".into() });
        redacting.events().emit(|| stdout("a sk-47"));
        redacting.events().emit(|| Event::Info { call: "1".into(), message: "sk-4711-0815!".into() });
        redacting.events().emit(|| stdout("11-08"));
        redacting.events().emit(|| stdout("15 b sk-"));
        redacting.events().emit(|| Event::Said("sk-4711".into()));
        redacting.events().emit(|| Event::Retrying { reason: "sk-4711-0815?".into(), delay: Duration::ZERO });
        redacting.events().emit(|| Event::Thought("sk-4711-08".into()));
        redacting.events().emit(|| Event::Thought("15 hm".into()));
        let within = |event| Event::Within { agent: "a".into(), parent: "1".into(), event: Box::new(event) };
        redacting.events().emit(|| within(within(Event::Said("in sk-4711-0815".into()))));
        redacting
            .events()
            .emit(|| within(Event::Info { call: "2".into(), message: "of sk-4711-0815".into() }));
        redacting.finish("1");
        let received = format!("{:?}", received.lock());
        assert!(!received.contains("4711"), "{received}");
        for part in [
            "\"a \"",
            "\"a part of \"",
            "\"***.\"",
            "\"***!\"",
            "\"*** b \"",
            "\"sk-\"",
            "\"***?\"",
            "\"*** hm\"",
            "\"in ***\"",
            "\"of ***\"",
        ] {
            assert!(received.contains(part), "{part}: {received}");
        }
    }
}
