//! Components of the `act:tools` world of other hosts: tools listed by the component, arguments in
//! CBOR, answers in parts.

mod about;
mod text;

pub use self::about::{About, Asked};
use super::failure::LoadError;
use super::world::exported_version;

/// The interface that makes a component one of this world; its version follows.
const INTERFACE: &str = "act:tools/tool-provider@";

/// The versions that are spoken here, for people.
const SUPPORTED: &str = "0.1";

/// Whether a version is one of [`SUPPORTED`]: within 0.1 nothing changes its shape.
fn is_spoken(version: &str) -> bool {
    version.starts_with("0.1.")
}

/// Whether the world is among `exports`, of whatever else there may be; another version of it is
/// an error.
pub(super) fn is_exported(exports: &[&str]) -> Result<bool, LoadError> {
    exported_version(exports, INTERFACE, "act:tools", SUPPORTED, is_spoken)
}
