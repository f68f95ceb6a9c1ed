//! `wasi:logging`: lines of a guest, which go where those of `haft:plugin/host` go. Grants nothing.

use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use crate::contract::bindings::haft::plugin::host::Level;
use crate::instance::state::GuestState;
use crate::wasi::drafts::wasi::logging::logging;

/// What the interface is called without a version.
const UNVERSIONED: &str = "wasi:logging/logging";

/// Links the interface under its name without a version.
pub(crate) fn link_unversioned(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut interface = linker.instance(UNVERSIONED)?;
    interface.func_wrap(
        "log",
        |mut store: StoreContextMut<'_, GuestState>, line: (logging::Level, String, String)| {
            store.data_mut().tell_line(line);
            Ok(())
        },
    )
}

impl GuestState {
    fn tell_line(&mut self, (level, context, message): (logging::Level, String, String)) {
        let level = match level {
            logging::Level::Trace => Level::Trace,
            logging::Level::Debug => Level::Debug,
            logging::Level::Info => Level::Info,
            logging::Level::Warn => Level::Warn,
            logging::Level::Error | logging::Level::Critical => Level::Error,
        };
        self.tell(level, &if context.is_empty() { message } else { format!("{context}: {message}") });
    }
}

impl logging::Host for GuestState {
    async fn log(&mut self, level: logging::Level, context: String, message: String) -> wasmtime::Result<()> {
        self.tell_line((level, context, message));
        Ok(())
    }
}
