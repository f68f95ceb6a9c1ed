//! What a server tells while it works: progress and log messages become events of the call, within bounds.

use std::sync::Arc;

use serde_json::Value;

use crate::call::Call;
use crate::contract::haft_host::{EVENT_TARGET, MAX_MESSAGE, MAX_MESSAGES};
use haft_core::event::{Event, Events};

/// Where the news of one call go.
pub(super) struct News {
    plugin: Arc<str>,
    call: String,
    events: Events,
    told: usize,
    /// The last progress; messages may overtake each other.
    done: f64,
}

impl News {
    /// The news of a call.
    pub(super) fn of(call: &Call) -> Self {
        let (plugin, events, call) = (call.plugin.clone(), call.events.clone(), call.id.clone());
        Self { plugin, call, events, told: 0, done: f64::NEG_INFINITY }
    }

    /// Nobody's.
    pub(super) fn none() -> Self {
        let (plugin, call, events) = (Arc::from(""), String::new(), Events::none());
        Self { plugin, call, events, told: 0, done: f64::NEG_INFINITY }
    }

    /// Passes a notification on, if it is one for people.
    pub(super) fn tell(&mut self, method: &str, params: &Value) {
        self.told += 1;
        if self.told > MAX_MESSAGES {
            return;
        }
        match method {
            "notifications/progress" => self.progress(params),
            "notifications/message" => self.log(params),
            _ => {}
        }
    }

    fn progress(&mut self, params: &Value) {
        let number = |name: &str| params.get(name).and_then(Value::as_f64);
        let is_own = params.get("progressToken").and_then(Value::as_str) == Some(&self.call);
        let Some(done) = number("progress").filter(|done| is_own && *done > self.done) else { return };
        self.done = done;
        let message = text(params.get("message").unwrap_or(&Value::Null));
        let (call, total) = (self.call.clone(), number("total"));
        self.events.emit(|| Event::Progress { call, done, total, message });
    }

    fn log(&self, params: &Value) {
        let (plugin, message) = (&*self.plugin, text(params.get("data").unwrap_or(&Value::Null)));
        if params.get("level").and_then(Value::as_str) == Some("debug") {
            return tracing::debug!(plugin, "{message}");
        }
        tracing::info!(target: EVENT_TARGET, plugin, "{message}");
        let call = self.call.clone();
        self.events.emit(|| Event::Info { call, message });
    }
}

/// A text, or any other value as JSON; cut to [`MAX_MESSAGE`] characters.
fn text(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    text.chars().take(MAX_MESSAGE).collect()
}
