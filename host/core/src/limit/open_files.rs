//! How many files a child may have open unless it asks for more. haft raises its own limit, since
//! guests hold descriptors of the host; children get back what was there before, because some
//! programs close or poll every number below it.

use std::sync::OnceLock;

use rustix::process::{Resource, getrlimit};

/// The soft limit of open files when it was first asked for; `None` for no limit. To be asked
/// for before the limit is raised.
pub fn original() -> Option<u64> {
    static ORIGINAL: OnceLock<Option<u64>> = OnceLock::new();
    *ORIGINAL.get_or_init(|| getrlimit(Resource::Nofile).current)
}
