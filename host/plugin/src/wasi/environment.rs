//! `wasi:cli`, with the granted variables and, for commands only, arguments; and the imports that every guest may use
//! and that grant nothing: `wasi:io`, `wasi:clocks` and `wasi:random`, as wasmtime implements them. wasmtime's function
//! that links all of WASI is not called, because it would compile the interfaces that haft implements itself. Reading
//! an empty environment is recorded for hints.

use wasmtime::component::Linker;
use wasmtime_wasi::cli::{WasiCli, WasiCliCtxView, WasiCliView};
use wasmtime_wasi::p2::bindings::cli::environment::{self, Host};
use wasmtime_wasi::p2::bindings::{cli, random};
use wasmtime_wasi::p3::bindings::cli::environment as later;
use wasmtime_wasi::random::{WasiRandom, WasiRandomView};
use wasmtime_wasi::{WasiCtxBuilder, p2, p3};

use crate::call::Call;
use crate::wasi::capability::{Capability, Has, HasCapability, NewGuest, View};
use haft_core::limit::Limits;

/// Maximum number of random bytes in one request.
const MAX_RANDOM: u64 = 1 << 20;

/// The beginning of the version of every interface of WASI 0.3.
const LATER: &str = "@0.3.";

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
        p2::add_to_linker_proxy_interfaces_async(linker)?;
        random::insecure::add_to_linker::<_, WasiRandom>(linker, S::random)?;
        random::insecure_seed::add_to_linker::<_, WasiRandom>(linker, S::random)?;
        cli::exit::add_to_linker::<_, WasiCli>(linker, S::cli)?;
        cli::terminal_input::add_to_linker::<_, WasiCli>(linker, S::cli)?;
        cli::terminal_output::add_to_linker::<_, WasiCli>(linker, S::cli)?;
        cli::terminal_stdin::add_to_linker::<_, WasiCli>(linker, S::cli)?;
        cli::terminal_stdout::add_to_linker::<_, WasiCli>(linker, S::cli)?;
        cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, S::cli)?;
        environment::add_to_linker::<S, Has<Self>>(linker, S::view)
    }

    fn has_later(interface: &str) -> bool {
        interface.starts_with("wasi:") && interface.contains(LATER)
    }

    fn link_later<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        p3::cli::add_to_linker(linker)?;
        p3::clocks::add_to_linker(linker)?;
        p3::random::add_to_linker(linker)?;
        later::add_to_linker::<S, Has<Self>>(linker, S::view)
    }

    fn configure(&self, wasi: &mut WasiCtxBuilder, call: &Call) {
        wasi.allow_blocking_current_thread(true).max_random_size(MAX_RANDOM);
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
