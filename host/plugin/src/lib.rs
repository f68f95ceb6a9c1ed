//! Tools that are WebAssembly components. The only crate that uses wasmtime.
//!
//! - [`Engine`]: one for each process; compiles components, caches the compiled code, owns the threads of guests.
//! - [`Plugin`]: one component and its tools. Listing the tools runs no code of a cached component.
//! - [`PluginTool`]: one of its tools, behind the [`Tool`](haft_core::tool::Tool) trait.
//!
//! A *guest* is one instance of a component. Each call gets a new instance, which may have been created before
//! the call. With `[plugins.reuse]`, an instance serves several calls with equal rights.

mod call;
mod component;
mod contract;
pub mod debug;
mod denials;
mod engine;
mod failure;
mod hook;
mod instance;
mod offer;
mod options;
mod plugin;
mod storage;
mod threads;
mod tool;
mod wasi;

/// Reads a component's file without running it: its exports, imports, sections and metadata.
pub mod inspect {
    pub use crate::component::sections::{
        Custom, Extern, ExternKind, Producer, Sections, read as read_sections,
    };
    pub use crate::contract::act::metadata::{ActMetadata, Asked};
}

pub use self::component::listing::Uncallable;
pub use self::component::sections::{ACT_SECTION, CONFIG_SECTION, PROGRAM_SECTION, WIT_SECTION};
pub use self::component::source::Source;
pub use self::contract::Contract;
pub use self::contract::haft_host::EVENT_TARGET;
pub use self::denials::GrantPlace;
pub use self::engine::{Engine, EngineOptions};
pub use self::failure::LoadError;
pub use self::hook::PluginHook;
pub use self::offer::PluginOffer;
pub use self::options::{Config, PluginOptions};
pub use self::plugin::Plugin;
pub use self::storage::Storage;
pub use self::threads::landlock::LandlockState;
pub use self::tool::PluginTool;
pub use self::wasi::http::{
    CannedResponse, Injection, InjectionError, Injections, OutgoingRequest, Responder,
};
