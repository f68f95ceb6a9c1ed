//! Linux: probes the kernel.

use crate::confine::layers::Layers;
use crate::confine::sys::platform::landlock_version;

/// Returns the layers that this kernel offers. Whether namespaces are available shows when they are first
/// created.
pub(super) fn offered() -> Layers {
    let seccomp = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    let landlock = landlock_version();
    Layers { namespaces: true, landlock, seccomp, capabilities: true, seatbelt: false }
}
