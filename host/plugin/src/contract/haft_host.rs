//! The host functions of `haft:plugin/host`: logging, progress, cancellation, and where the workspace is. None of them
//! grants anything.

use crate::contract::bindings::haft::plugin::host::{Host, Level};
use crate::instance::state::GuestState;
use haft_core::event::Event;

/// Messages of one call that are passed on; a guest in a loop could write for ever.
pub(crate) const MAX_MESSAGES: usize = 1000;

/// Characters of one message.
pub(crate) const MAX_MESSAGE: usize = 2000;

/// The `tracing` target of messages that are also events, so that a subscriber that shows events can filter them out.
pub const EVENT_TARGET: &str = "haft::told";

impl GuestState {
    /// `message`, cut to [`MAX_MESSAGE`] characters; `None` after [`MAX_MESSAGES`] messages of the call.
    fn bounded(&mut self, message: &str) -> Option<String> {
        self.run.logged += 1;
        (self.run.logged <= MAX_MESSAGES).then(|| message.chars().take(MAX_MESSAGE).collect())
    }

    /// A line of the guest, as far as it says no more than [`MAX_MESSAGES`] of them.
    pub(crate) fn tell(&mut self, level: Level, message: &str) {
        let Some(message) = self.bounded(message) else { return };
        let plugin = &*self.run.plugin;
        match level {
            Level::Trace => tracing::trace!(plugin, "{message}"),
            Level::Debug => tracing::debug!(plugin, "{message}"),
            Level::Info => tracing::info!(target: EVENT_TARGET, plugin, "{message}"),
            Level::Warn => tracing::warn!(target: EVENT_TARGET, plugin, "{message}"),
            Level::Error => tracing::error!(target: EVENT_TARGET, plugin, "{message}"),
        }
        let call = &self.run.call;
        if matches!(level, Level::Info | Level::Warn | Level::Error) {
            self.run.events.emit(|| Event::Info { call: call.clone(), message });
        }
    }
}

impl Host for GuestState {
    fn log(&mut self, level: Level, message: String) {
        self.tell(level, &message);
    }

    fn progress(&mut self, done: f64, total: Option<f64>, message: String) {
        let Some(message) = self.bounded(&message) else { return };
        let call = &self.run.call;
        self.run.events.emit(|| Event::Progress { call: call.clone(), done, total, message });
    }

    fn cancelled(&mut self) -> bool {
        self.run.should_end()
    }

    fn workspace(&mut self) -> Option<String> {
        let workspace = self.grant.base()?.path().to_string_lossy().into_owned();
        self.relative.set_location_known();
        Some(workspace)
    }

    fn home(&mut self) -> Option<String> {
        if self.grant.base().is_none() && self.grant.preopens().is_empty() {
            return None;
        }
        etcetera::home_dir().ok().map(|home| home.to_string_lossy().into_owned())
    }
}
