//! A haft tool in about ten lines of Rust.
//!
//! A tool is the struct of its arguments. Its doc comment is the description that a model reads,
//! the doc comments of its fields describe the arguments, and [`Tool::call`] does the work:
//!
//! ```
//! use haft_plugin::{Context, Error, Output, Tool};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! /// Greets somebody.
//! #[derive(Deserialize, JsonSchema)]
//! struct Hello {
//!     /// Who to greet.
//!     name: String,
//! }
//!
//! impl Tool for Hello {
//!     const NAME: &str = "hello";
//!
//!     fn call(self, _context: &Context) -> Result<Output, Error> {
//!         Ok(format!("hello {}", self.name).into())
//!     }
//! }
//!
//! haft_plugin::export!(Hello);
//! ```
//!
//! Every call runs in a fresh instance: a `static` never carries anything to the next one. Files
//! are plain [`std::fs`]; [`Context::path`] gives a path as a model writes it its meaning. The crate
//! has no opinion on permissions: the person who installs a tool decides its rights.
//!
//! `README.md` beside this crate shows the whole way from an empty folder to a tool that runs.

mod answer;
#[allow(
    clippy::allow_attributes_without_reason,
    clippy::panic,
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unsafe_code,
    unreachable_pub,
    unused_qualifications,
    reason = "generated; the only unsafe code of a plugin is this glue to the component ABI"
)]
#[doc(hidden)]
pub mod bindings;
mod context;
#[doc(hidden)]
pub mod export;
mod host;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "offers")]
#[allow(
    clippy::allow_attributes_without_reason,
    clippy::panic,
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unsafe_code,
    unreachable_pub,
    unused_qualifications,
    reason = "generated, as `bindings`"
)]
#[doc(hidden)]
pub mod offer_bindings;
#[cfg(feature = "offers")]
pub mod offers;
mod path;
mod schema;
pub mod testing;
mod tool;

pub use self::answer::{Content, Error, Output};
pub use self::bindings::haft::plugin::host::Level;
pub use self::context::Context;
pub use self::tool::{Hints, Tool};

/// The JSON Schema of a type, as text: what [`Tool::output_schema`] returns.
pub fn schema_of<T: schemars::JsonSchema>() -> String {
    schema::of::<T>().to_string()
}

#[cfg(test)]
mod tests;
