//! The version of a contract for which a component was built, read from the names of its exports.

use crate::failure::LoadError;

/// Returns whether an interface, which `prefix` names up to its version, is among `exports` in a supported
/// version. An unsupported version alone is an error.
pub(crate) fn exported_version(
    exports: &[&str],
    prefix: &str,
    world: &'static str,
    supported: &'static str,
    is_spoken: fn(&str) -> bool,
) -> Result<bool, LoadError> {
    let versions = || exports.iter().filter_map(|name| name.strip_prefix(prefix));
    if versions().any(is_spoken) {
        return Ok(true);
    }
    let other =
        versions().next().map(|found| LoadError::WrongVersion { world, found: found.to_owned(), supported });
    other.map_or(Ok(false), Err)
}
