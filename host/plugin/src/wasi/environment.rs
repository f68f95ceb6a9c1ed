//! `wasi:cli/environment`: the granted variables, and command-line arguments for commands only. Reading an empty
//! environment is recorded for hints.

use wasmtime::component::Linker;
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::cli::WasiCliCtxView;
use wasmtime_wasi::p2::bindings::cli::environment::{self, Host};
use wasmtime_wasi::p3::bindings::cli::environment as later;

use crate::call::Call;
use crate::wasi::capability::{Capability, Has, HasCapability, NewGuest, View};
use haft_core::limit::Limits;

/// A guest's environment besides the granted variables, which wasmtime keeps.
#[derive(Default)]
pub(crate) struct Environment {
    /// A command's arguments, beginning with its name; empty for all other guests.
    pub(crate) arguments: Vec<String>,
}

impl Capability for Environment {
    fn new(_: &NewGuest<'_>) -> Self {
        Self::default()
    }

    fn link<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        environment::add_to_linker::<S, Has<Self>>(linker, S::view)
    }

    fn link_later<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        later::add_to_linker::<S, Has<Self>>(linker, S::view)
    }

    fn configure(&self, wasi: &mut WasiCtxBuilder, call: &Call) {
        for name in call.grant.env() {
            if let Some(value) = std::env::var_os(name) {
                wasi.env(name, value.to_string_lossy());
            }
        }
        for (name, value) in call.grant.values() {
            wasi.env(name, value);
        }
        if let Some(workspace) = call.grant.base() {
            wasi.initial_cwd(workspace.path().to_string_lossy());
        }
    }

    fn renew(&mut self, _: &Limits) {
        self.arguments.clear();
    }
}

impl View<'_, Environment> {
    fn inner(&mut self) -> WasiCliCtxView<'_> {
        WasiCliCtxView { ctx: self.shared.wasi.cli(), table: &mut self.shared.table }
    }
}

impl Host for View<'_, Environment> {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        let grant = &self.shared.call.grant;
        self.shared.denied.environment = grant.env().is_empty() && grant.values().is_empty();
        Host::get_environment(&mut self.inner())
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(self.own.arguments.clone())
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Host::initial_cwd(&mut self.inner())
    }
}

impl later::Host for View<'_, Environment> {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        Host::get_environment(self)
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Host::get_arguments(self)
    }

    fn get_initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Host::initial_cwd(self)
    }
}
