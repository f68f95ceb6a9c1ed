//! WASI 0.3: the same files, network, HTTP, environment and standard streams, with asynchronous functions and with
//! streams in the place of handles that are polled. What a guest may do is decided where it is decided for WASI 0.2:
//! files by [`Files`](crate::wasi::files::Files), HTTP by the hooks of [`Http`](crate::wasi::http::Http), TCP by the check
//! of addresses in its context, and names and datagrams are refused here as there.

mod environment;
mod files;
mod network;

use wasmtime::component::Linker;
use wasmtime_wasi::p3::{
    self,
    bindings::{cli, filesystem, sockets},
};

use crate::instance::state::GuestState;
use crate::wasi::environment::{HasEnvironment, view as environment_view};
use crate::wasi::files::{HasFiles, guest_files};
use crate::wasi::network::{HasLookup, view as network_view};

/// The beginning of the version of every interface of WASI 0.3.
const VERSION: &str = "@0.3.";

/// Whether an interface is one of WASI 0.3.
pub(crate) fn is_interface(name: &str) -> bool {
    name.starts_with("wasi:") && name.contains(VERSION)
}

/// Links WASI 0.3 beside what is linked already.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    // All of it but files, which are haft's own.
    p3::cli::add_to_linker(linker)?;
    p3::clocks::add_to_linker(linker)?;
    p3::random::add_to_linker(linker)?;
    p3::sockets::add_to_linker(linker)?;
    wasmtime_wasi_http::p3::add_to_linker(linker)?;
    filesystem::types::add_to_linker::<GuestState, HasFiles>(linker, guest_files)?;
    filesystem::preopens::add_to_linker::<GuestState, HasFiles>(linker, guest_files)?;
    cli::environment::add_to_linker::<GuestState, HasEnvironment>(linker, environment_view)?;
    sockets::ip_name_lookup::add_to_linker::<GuestState, HasLookup>(linker, network_view)?;
    network::refuse_datagrams(linker)
}
