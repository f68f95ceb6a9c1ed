//! `wasi:cli/environment` of WASI 0.3.

use wasmtime_wasi::p2::bindings::cli::environment::Host as Earlier;
use wasmtime_wasi::p3::bindings::cli::environment::Host;

use crate::wasi::environment::Environment;

impl Host for Environment<'_> {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        Earlier::get_environment(self)
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Earlier::get_arguments(self)
    }

    fn get_initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Earlier::initial_cwd(self)
    }
}
