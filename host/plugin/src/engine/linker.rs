//! Everything that components may import. Most know WASI 0.2 and nothing later, so that what is linked for WASI 0.3 is
//! made when the first component asks for it.

use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::p2::bindings::sockets::network::LinkOptions;
use wasmtime_wasi::p2::bindings::{cli, filesystem, random, sockets};
use wasmtime_wasi::random::WasiRandom;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView};
use wasmtime_wasi::{WasiView, p2};

use crate::contract::act::consent as act;
use crate::contract::bindings::haft::plugin::host::add_to_linker as add_host;
use crate::instance::state::GuestState;
use crate::wasi::config::host as config;
use crate::wasi::drafts::wasi as drafts;
use crate::wasi::environment;
use crate::wasi::files;
use crate::wasi::logging;
use crate::wasi::network;
use crate::wasi::p3;
use haft_core::sync::TryOnceLock;

/// What components of one engine may import.
pub(super) struct Imports {
    linker: Linker<GuestState>,
    /// The same, and WASI 0.3.
    with_p3: TryOnceLock<Linker<GuestState>>,
}

impl Imports {
    pub(super) fn new(engine: &wasmtime::Engine) -> wasmtime::Result<Self> {
        Ok(Self { linker: linker(engine)?, with_p3: TryOnceLock::new() })
    }

    /// Links a component to everything it imports.
    pub(super) fn link(&self, component: &Component) -> wasmtime::Result<InstancePre<GuestState>> {
        if !is_later(component) {
            return self.linker.instantiate_pre(component);
        }
        let with_p3 = || {
            let mut linker = self.linker.clone();
            p3::add_to_linker(&mut linker)?;
            act::add_to_linker(&mut linker)?;
            wasmtime::error::Ok(linker)
        };
        self.with_p3.get_or_try_init(with_p3)?.instantiate_pre(component)
    }
}

/// Whether a component imports what no component of WASI 0.2 does.
fn is_later(component: &Component) -> bool {
    let (imports, engine) = (component.component_type(), component.engine());
    imports.imports(engine).any(|(name, _)| p3::is_interface(name) || act::is_interface(name))
}

/// WASI 0.2, with haft's own implementation of files, environment and two socket interfaces, HTTP requests, which are
/// refused where no host is granted, and drafts of WASI for what a plugin keeps.
fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    link_basics(&mut linker)?;
    link_sockets(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    filesystem::types::add_to_linker::<GuestState, files::HasFiles>(&mut linker, files::guest_files)?;
    filesystem::preopens::add_to_linker::<GuestState, files::HasFiles>(&mut linker, files::guest_files)?;
    cli::environment::add_to_linker::<GuestState, environment::HasEnvironment>(
        &mut linker,
        environment::view,
    )?;
    sockets::udp_create_socket::add_to_linker::<GuestState, network::HasLookup>(&mut linker, network::view)?;
    sockets::ip_name_lookup::add_to_linker::<GuestState, network::HasLookup>(&mut linker, network::view)?;
    add_host::<GuestState, HasSelf>(&mut linker, |state| state)?;
    drafts::config::store::add_to_linker::<GuestState, HasSelf>(&mut linker, |state| state)?;
    drafts::keyvalue::store::add_to_linker::<GuestState, HasSelf>(&mut linker, |state| state)?;
    drafts::keyvalue::atomics::add_to_linker::<GuestState, HasSelf>(&mut linker, |state| state)?;
    drafts::keyvalue::batch::add_to_linker::<GuestState, HasSelf>(&mut linker, |state| state)?;
    drafts::logging::logging::add_to_linker::<GuestState, HasSelf>(&mut linker, |state| state)?;
    config::link_earlier(&mut linker)?;
    logging::link_unversioned(&mut linker)?;
    Ok(linker)
}

/// `wasi:io`, `wasi:clocks`, `wasi:random` and `wasi:cli` as wasmtime implements them, without the environment. wasmtime's
/// function that links all of WASI is not called: it would have the interfaces compiled that haft implements itself.
fn link_basics(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    p2::add_to_linker_proxy_interfaces_async(linker)?;
    random::insecure::add_to_linker::<_, WasiRandom>(linker, |state| state.ctx().ctx.random())?;
    random::insecure_seed::add_to_linker::<_, WasiRandom>(linker, |state| state.ctx().ctx.random())?;
    cli::exit::add_to_linker::<_, WasiCli>(linker, GuestState::cli)?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(linker, GuestState::cli)?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(linker, GuestState::cli)?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(linker, GuestState::cli)?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(linker, GuestState::cli)?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, GuestState::cli)
}

/// `wasi:sockets` as wasmtime implements it, without what haft refuses: names, and the creation of UDP sockets.
fn link_sockets(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    sockets::tcp::add_to_linker::<_, WasiSockets>(linker, GuestState::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<_, WasiSockets>(linker, GuestState::sockets)?;
    sockets::udp::add_to_linker::<_, WasiSockets>(linker, GuestState::sockets)?;
    sockets::instance_network::add_to_linker::<_, WasiSockets>(linker, GuestState::sockets)?;
    sockets::network::add_to_linker::<_, WasiSockets>(linker, &LinkOptions::default(), GuestState::sockets)
}

type HasSelf = wasmtime::component::HasSelf<GuestState>;
