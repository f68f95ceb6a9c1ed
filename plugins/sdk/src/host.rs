//! The host's functions, and outside a component their stand-ins, so that `cargo test` can test a tool. Makes no
//! decisions.

#[cfg(target_family = "wasm")]
pub(crate) use crate::bindings::haft::plugin::host::{cancelled, log, progress};

#[cfg(target_family = "wasm")]
pub(crate) use crate::bindings::haft::plugin::host::{home, workspace};

#[cfg(not(target_family = "wasm"))]
pub(crate) use self::stand_in::{cancelled, log, progress};

#[cfg(not(target_family = "wasm"))]
mod stand_in {
    use crate::Level;

    pub(crate) fn log(level: Level, message: &str) {
        eprintln!("{level:?}: {message}");
    }

    pub(crate) fn progress(done: f64, total: Option<f64>, message: &str) {
        eprintln!("progress: {done} of {total:?}: {message}");
    }

    pub(crate) fn cancelled() -> bool {
        false
    }
}
