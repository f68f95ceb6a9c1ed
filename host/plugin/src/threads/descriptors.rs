//! Raises the limit of haft's file descriptors for the files that guests open: the default of many systems is 1024.
//! Stays within the permitted maximum.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::threads::permits::MAX_GUESTS;
use crate::wasi::capability::MAX_RESOURCES;
use haft_core::limit::original_open_files;

/// What all guests may open together, and as much as one of them for haft itself: a guest that
/// opens all it may must not keep another, or a child process, from opening one.
const NEEDED: u64 = ((MAX_GUESTS + 1) * MAX_RESOURCES) as u64;

/// Raises the soft limit of open files as far as it is needed and allowed.
pub(crate) fn make_room() {
    // Children get it back.
    original_open_files();
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let limit = maximum.map_or(NEEDED, |maximum| maximum.min(NEEDED));
    if current.is_some_and(|current| current < limit)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum })
    {
        tracing::debug!(%error, "limit of open files not raised");
    }
}
