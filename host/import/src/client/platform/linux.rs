//! Linux: `$XDG_CONFIG_HOME`.

use std::path::PathBuf;

use super::Machine;

/// Where desktop applications keep their files.
pub(super) fn applications(machine: &Machine) -> PathBuf {
    machine.config.clone()
}
