//! The limit of open files for child processes. haft raises its own limit, since guests hold descriptors of the
//! host; children get the original limit, because some programs close or poll every descriptor below the limit.

use std::sync::OnceLock;

use rustix::process::{Resource, getrlimit};

/// Returns the soft limit of open files at the first call; `None` for no limit. To be called before the limit is
/// raised.
pub fn original() -> Option<u64> {
    static ORIGINAL: OnceLock<Option<u64>> = OnceLock::new();
    *ORIGINAL.get_or_init(|| getrlimit(Resource::Nofile).current)
}
