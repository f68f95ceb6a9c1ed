//! macOS: the library of the user.

use std::path::PathBuf;

use super::Machine;

/// Where desktop applications keep their files.
pub(super) fn applications(machine: &Machine) -> PathBuf {
    machine.home.join("Library/Application Support")
}
