//! Authoring of plugins: templates, the toolchains of other languages, and the metadata of components. Runs
//! only the author's own tools, on the author's machine.
//!
//! - [`language`]: the catalogue `LANGUAGES`, one file per language.
//! - [`Project`]: a folder with a program.toml whose component is built from source.
//! - [`template`]: creates a new project, completely or not at all.
//! - [`Build`]: the interface for languages: tools, bindings, the adapter.
//! - [`record`]: the sources of built components, to find components that are older than them.
//! - [`suite`]: the tests of a plugin, run in fresh instances.
//! - [`pack`]: the sections that haft appends to a component, and packages of several parts.
//! - [`agent_plugin`]: the files that make a package an Agent Plugin for other clients.

pub mod agent_plugin;
pub mod archive;
pub mod bindings;
mod build;
pub mod check;
pub mod declaration;
pub mod language;
pub mod pack;
mod project;
pub mod record;
mod sources;
pub mod suite;
pub mod sweep;
pub mod template;
mod toolchain;
pub mod watch;
pub mod wit;
mod workshop;

pub use self::build::{Build, read};
pub use self::language::{Facts, LANGUAGES, Language, Style};
pub use self::project::Project;
pub use self::toolchain::{BuildLog, Interrupted, Need, Tool};
pub use self::workshop::{Built, Workshop};
