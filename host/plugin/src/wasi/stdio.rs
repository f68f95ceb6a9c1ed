//! A guest's standard streams: what it reads is handed to it before it begins, what it writes is captured.

pub(crate) mod input;
pub(crate) mod output;

use wasmtime_wasi::WasiCtxBuilder;

use self::input::Input;
use self::output::Captured;
use crate::call::Call;
use crate::wasi::capability::{Capability, NewGuest};
use haft_core::limit::Limits;

/// The three streams.
#[derive(Default)]
pub(crate) struct Stdio {
    pub(crate) stdin: Input,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
}

impl Capability for Stdio {
    fn new(_: &NewGuest<'_>) -> Self {
        Self::default()
    }

    fn configure(&self, wasi: &mut WasiCtxBuilder, _: &Call) {
        wasi.stdin(self.stdin.clone()).stdout(self.stdout.clone()).stderr(self.stderr.clone());
    }

    fn renew(&mut self, _: &Limits) {
        self.stdin.fill(Vec::new());
        self.stdout.clear();
        self.stderr.clear();
    }
}
