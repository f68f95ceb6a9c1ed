//! `wasi:cli/environment` as guests see it: the granted variables, and the words of a command line for commands alone. Reading an empty environment is
//! recorded for hints. `state` collects the values.

use wasmtime::component::HasData;
use wasmtime_wasi::cli::WasiCliCtxView;
use wasmtime_wasi::p2::bindings::cli::environment;

use crate::denials::denied_access::DeniedAccess;
use crate::instance::state::GuestState;

/// The type under which wasmtime finds [`Environment`] in a store.
pub(crate) struct HasEnvironment;

/// A guest's view of its environment.
pub(crate) struct Environment<'a> {
    inner: WasiCliCtxView<'a>,
    granted_none: bool,
    arguments: &'a [String],
    denied: &'a mut DeniedAccess,
}

impl HasData for HasEnvironment {
    type Data<'a> = Environment<'a>;
}

/// The view of one store.
pub(crate) fn view(state: &mut GuestState) -> Environment<'_> {
    let inner = WasiCliCtxView { ctx: state.wasi.cli(), table: &mut state.table };
    let granted_none = state.grant.env().is_empty() && state.grant.values().is_empty();
    Environment { inner, granted_none, arguments: &state.arguments, denied: &mut state.denied }
}

impl environment::Host for Environment<'_> {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        self.denied.environment = self.granted_none;
        self.inner.get_environment()
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(self.arguments.to_vec())
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        self.inner.initial_cwd()
    }
}
