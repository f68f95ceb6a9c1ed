//! Tools that are WebAssembly components, and the only home of wasmtime.
//!
//! - [`Engine`]: one a process; compiles components, keeps the compiled code, owns the threads
//!   that guests run on.
//! - [`Plugin`]: one component and what it says of itself. Listing its tools needs no code of
//!   it when the component has been seen before.
//! - [`PluginTool`]: one of its tools, behind the [`Tool`](haft_core::tool::Tool) trait.
//!
//! A call gets a fresh instance that nothing else ever uses. It may be made ahead of the call. Where
//! program.toml asks for it, an instance serves several calls with the same rights.

mod component;
mod contract;
mod denials;
mod engine;
mod failure;
mod instance;
mod plugin;
mod threads;
mod tool;
mod wasi;

pub use self::component::cache::Cache;
pub use self::component::inspect;
pub use self::component::listing::Uncallable;
pub use self::component::sections::{ACT_SECTION, PROGRAM_SECTION, WIT_SECTION};
pub use self::component::source::Source;
pub use self::contract::Contract;
pub use self::contract::haft_host::EVENT_TARGET;
pub use self::denials::grant_place::GrantPlace;
pub use self::engine::{Engine, EngineOptions};
pub use self::failure::LoadError;
pub use self::plugin::Plugin;
pub use self::threads::landlock::LandlockState;
pub use self::tool::PluginTool;
pub use self::wasi::http::{Injection, InjectionError};
