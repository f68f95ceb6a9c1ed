//! The host functions of `haft:plugin/host` (logging, progress, cancellation, and the path of the workspace), and
//! `wasi:logging`, whose lines are handled alike. None of them grants a right.

use tracing::Level;
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use crate::call::ActiveCall;
use crate::contract::bindings::haft::plugin::host::{self, Host};
use crate::wasi::capability::{Capability, Has, HasCapability, NewGuest, View};
use crate::wasi::drafts::wasi::logging::logging;
use haft_core::event::Event;

/// Maximum number of forwarded messages of one call, which bounds a guest in a loop.
pub(crate) const MAX_MESSAGES: usize = 1000;

/// Maximum number of characters of one message.
pub(crate) const MAX_MESSAGE: usize = 2000;

/// The `tracing` target of messages that are also events, so that a subscriber that shows events can filter them out.
pub const EVENT_TARGET: &str = "haft::told";

/// The name of `wasi:logging` without a version.
const UNVERSIONED: &str = "wasi:logging/logging";

pub(crate) struct HostFunctions;

impl Capability for HostFunctions {
    fn new(_: &NewGuest<'_>) -> Self {
        Self
    }

    fn link<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        host::add_to_linker::<S, Has<Self>>(linker, S::view)?;
        logging::add_to_linker::<S, Has<Self>>(linker, S::view)?;
        let mut unversioned = linker.instance(UNVERSIONED)?;
        unversioned.func_wrap(
            "log",
            |mut store: StoreContextMut<'_, S>,
             (level, context, message): (logging::Level, String, String)| {
                store.data_mut().view().log_line(level, &context, message);
                Ok(())
            },
        )
    }
}

impl ActiveCall {
    /// Returns `message`, cut to [`MAX_MESSAGE`] characters; `None` after [`MAX_MESSAGES`] messages of the call.
    fn bounded(&mut self, message: &str) -> Option<String> {
        self.logged += 1;
        (self.logged <= MAX_MESSAGES).then(|| message.chars().take(MAX_MESSAGE).collect())
    }

    pub(crate) fn tell(&mut self, level: Level, message: &str) {
        let Some(message) = self.bounded(message) else { return };
        let plugin = &*self.plugin;
        match level {
            Level::TRACE => return tracing::trace!(plugin, "{message}"),
            Level::DEBUG => return tracing::debug!(plugin, "{message}"),
            Level::INFO => tracing::info!(target: EVENT_TARGET, plugin, "{message}"),
            Level::WARN => tracing::warn!(target: EVENT_TARGET, plugin, "{message}"),
            Level::ERROR => tracing::error!(target: EVENT_TARGET, plugin, "{message}"),
        }
        self.events.emit(|| Event::Info { call: self.id.clone(), message });
    }

    pub(crate) fn progress(&mut self, done: f64, total: Option<f64>, message: &str) {
        let Some(message) = self.bounded(message) else { return };
        self.events.emit(|| Event::Progress { call: self.id.clone(), done, total, message });
    }
}

impl Host for View<'_, HostFunctions> {
    fn log(&mut self, level: host::Level, message: String) {
        let level = match level {
            host::Level::Trace => Level::TRACE,
            host::Level::Debug => Level::DEBUG,
            host::Level::Info => Level::INFO,
            host::Level::Warn => Level::WARN,
            host::Level::Error => Level::ERROR,
        };
        self.shared.call.tell(level, &message);
    }

    fn progress(&mut self, done: f64, total: Option<f64>, message: String) {
        self.shared.call.progress(done, total, &message);
    }

    fn cancelled(&mut self) -> bool {
        self.shared.call.should_end()
    }

    fn workspace(&mut self) -> Option<String> {
        let workspace = self.shared.call.grant.base()?.path().to_string_lossy().into_owned();
        self.shared.is_location_known = true;
        Some(workspace)
    }

    fn home(&mut self) -> Option<String> {
        let grant = &self.shared.call.grant;
        if grant.base().is_none() && grant.preopens().is_empty() {
            return None;
        }
        etcetera::home_dir().ok().map(|home| home.to_string_lossy().into_owned())
    }
}

impl View<'_, HostFunctions> {
    fn log_line(&mut self, level: logging::Level, context: &str, message: String) {
        let level = match level {
            logging::Level::Trace => Level::TRACE,
            logging::Level::Debug => Level::DEBUG,
            logging::Level::Info => Level::INFO,
            logging::Level::Warn => Level::WARN,
            logging::Level::Error | logging::Level::Critical => Level::ERROR,
        };
        let line = if context.is_empty() { message } else { format!("{context}: {message}") };
        self.shared.call.tell(level, &line);
    }
}

impl logging::Host for View<'_, HostFunctions> {
    async fn log(&mut self, level: logging::Level, context: String, message: String) -> wasmtime::Result<()> {
        self.log_line(level, &context, message);
        Ok(())
    }
}
