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

mod act;
mod answer;
mod bindings;
mod cache;
mod clock;
mod compilations;
mod contract;
mod decisions;
mod descriptors;
mod disk;
mod engine;
mod environment;
mod failure;
mod files;
mod floats;
mod hints;
mod host;
mod http;
pub mod inspect;
mod instance;
mod leftover;
mod listing;
mod loaded;
mod meet;
mod network;
mod noted;
mod output;
mod places;
mod pool;
mod restock;
mod reuse;
mod sections;
mod shares;
mod source;
mod state;
mod stock;
mod threads;
mod tool;
mod typed;
mod wall;
mod walls;
mod wanted;
mod world;
mod writable;

pub use self::cache::Cache;
pub use self::contract::Contract;
pub use self::engine::{Engine, EngineOptions};
pub use self::failure::LoadError;
pub use self::host::TOLD;
pub use self::http::{Injection, InjectionError};
pub use self::listing::Uncallable;
pub use self::loaded::Plugin;
pub use self::sections::{ACT_SECTION, PROGRAM_SECTION, WIT_SECTION};
pub use self::source::Source;
pub use self::tool::{GrantPlace, PluginTool};
pub use self::wall::WallState;
