//! Writing plugins: templates, the toolchains of other languages, what haft adds to a component. It runs the author's
//! own tools on the author's machine, and never foreign ones.
//!
//! - [`language`]: the catalogue `LANGUAGES`, one file a language.
//! - [`Project`]: a folder with a program.toml whose component is built from source.
//! - [`template`]: a new project, whole or not at all.
//! - [`Build`]: what a language is given to build with: its tools, bindings, the adapter.
//! - [`record`]: what components were built of, and which are older than their sources.
//! - [`suite`]: the tests of a plugin, run in fresh instances.
//! - [`pack`]: what haft appends to a finished component, and packages of several parts.

pub mod archive;
pub mod bindings;
mod build;
pub mod check;
pub mod component;
pub mod declaration;
mod file;
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
pub use self::language::{LANGUAGES, Language, Style};
pub use self::project::Project;
pub use self::toolchain::{BuildLog, Interrupted, Need, Tool};
pub use self::workshop::{Built, Workshop};
