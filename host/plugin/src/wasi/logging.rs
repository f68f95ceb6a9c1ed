//! `wasi:logging`: a guest's log lines, which haft handles like those of `haft:plugin/host`. Grants nothing.

use tracing::Level;
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use crate::wasi::capability::{Capability, Has, HasCapability, NewGuest, View};
use crate::wasi::drafts::wasi::logging::logging;

/// The name of the interface without a version.
const UNVERSIONED: &str = "wasi:logging/logging";

/// An interface without state.
pub(crate) struct Logging;

impl Capability for Logging {
    fn new(_: &NewGuest<'_>) -> Self {
        Self
    }

    fn link<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        logging::add_to_linker::<S, Has<Self>>(linker, S::view)?;
        let mut unversioned = linker.instance(UNVERSIONED)?;
        unversioned.func_wrap(
            "log",
            |mut store: StoreContextMut<'_, S>,
             (level, context, message): (logging::Level, String, String)| {
                store.data_mut().view().tell(level, &context, message);
                Ok(())
            },
        )
    }
}

impl View<'_, Logging> {
    fn tell(&mut self, level: logging::Level, context: &str, message: String) {
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

impl logging::Host for View<'_, Logging> {
    async fn log(&mut self, level: logging::Level, context: String, message: String) -> wasmtime::Result<()> {
        self.tell(level, &context, message);
        Ok(())
    }
}
