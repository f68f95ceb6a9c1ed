//! The imports that every guest may use and that grant nothing: `wasi:io`, `wasi:clocks`, `wasi:random`, and
//! `wasi:cli` without the environment, as wasmtime implements them. wasmtime's function that links all of WASI is
//! not called, because it would compile the interfaces that haft implements itself.

use wasmtime::component::Linker;
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::p2::bindings::{cli, random};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView};
use wasmtime_wasi::{WasiCtxBuilder, p2, p3};

use crate::call::Call;
use crate::wasi::capability::{Capability, HasCapability, NewGuest};

/// Maximum number of random bytes in one request.
const MAX_RANDOM: u64 = 1 << 20;

/// The beginning of the version of every interface of WASI 0.3.
const LATER: &str = "@0.3.";

/// Interfaces without state.
pub(crate) struct Basics;

impl Capability for Basics {
    fn new(_: &NewGuest<'_>) -> Self {
        Self
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
        cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, S::cli)
    }

    fn has_later(interface: &str) -> bool {
        interface.starts_with("wasi:") && interface.contains(LATER)
    }

    fn link_later<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        p3::cli::add_to_linker(linker)?;
        p3::clocks::add_to_linker(linker)?;
        p3::random::add_to_linker(linker)
    }

    fn configure(&self, wasi: &mut WasiCtxBuilder, _: &Call) {
        wasi.allow_blocking_current_thread(true).max_random_size(MAX_RANDOM);
    }
}
