//! An event sink that redacts secrets. Output of child processes and text of models arrive in pieces, which may
//! be delayed for a moment. Other events are forwarded immediately, and none is dropped.

use std::sync::Arc;

use super::{Redactor, Stream};
use crate::event::{Event, Events};
use crate::sync::Lock;

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
        let some = |text: String| (!text.is_empty()).then_some(text);
        let text = |text: &str| redactor.redact(text).into_owned();
        Some(match event {
            // The name of a plugin is no secret.
            Event::Compiling { .. } | Event::Compiled { .. } | Event::Trimmed { .. } => event.clone(),
            Event::Running { call } => Event::Running { call: text(call) },
            Event::Asked { model } => Event::Asked { model: text(model) },
            Event::Summarised { messages, model } => {
                Event::Summarised { messages: *messages, model: text(model) }
            }
            Event::Said(piece) => Event::Said(some(self.text.push(piece))?),
            Event::Thought(piece) => Event::Thought(some(self.thought.push(piece))?),
            Event::Retrying { reason, delay } => {
                // The withheld text is void with the rest of the attempt.
                self.text.finish();
                self.thought.finish();
                Event::Retrying { reason: text(reason), delay: *delay }
            }
            Event::NotShown { reason } => Event::NotShown { reason: text(reason) },
            Event::Started(call) => Event::Started(redactor.call(call).into_owned()),
            Event::Stdout { call, chunk } => {
                Event::Stdout { call: call.clone(), chunk: some(self.stdout.push(chunk))? }
            }
            Event::Stderr { call, chunk } => {
                Event::Stderr { call: call.clone(), chunk: some(self.stderr.push(chunk))? }
            }
            Event::Partial { call, text } => {
                Event::Partial { call: call.clone(), text: some(self.partial.push(text))? }
            }
            Event::Info { call, message } => Event::Info { call: call.clone(), message: text(message) },
            Event::Progress { call, done, total, message } => {
                let message = text(message);
                Event::Progress { call: call.clone(), done: *done, total: *total, message }
            }
            Event::Decided { call, decision } => {
                Event::Decided { call: call.clone(), decision: text(decision) }
            }
            Event::Within { .. } => self.within(redactor, event)?,
            Event::Completed { call, result, duration } => Event::Completed {
                call: redactor.call(call).into_owned(),
                result: redactor.result(result.clone()),
                duration: *duration,
            },
        })
    }

    /// Redacts an event within an agent. The agent's own session has withheld pieces already: they are not a part
    /// of the streams here.
    fn within(&mut self, redactor: &Redactor, event: &Event) -> Option<Event> {
        let text = |text: &str| redactor.redact(text).into_owned();
        Some(match event {
            Event::Within { agent, parent, event } => {
                let event = Box::new(self.within(redactor, event)?);
                Event::Within { agent: agent.clone(), parent: parent.clone(), event }
            }
            Event::Said(piece) => Event::Said(text(piece)),
            Event::Thought(piece) => Event::Thought(text(piece)),
            Event::Stdout { call, chunk } => Event::Stdout { call: call.clone(), chunk: text(chunk) },
            Event::Stderr { call, chunk } => Event::Stderr { call: call.clone(), chunk: text(chunk) },
            Event::Partial { call, text: piece } => Event::Partial { call: call.clone(), text: text(piece) },
            Event::Retrying { reason, delay } => Event::Retrying { reason: text(reason), delay: *delay },
            other => return self.clean(redactor, other),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use secrecy::SecretString;

    use super::*;

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
