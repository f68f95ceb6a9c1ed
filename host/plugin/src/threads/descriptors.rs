//! Raises the limit of haft's file descriptors for the files that guests open: the default of many systems is 1024.
//! Stays within the permitted maximum.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::threads::permits::MAX_GUESTS;
use crate::wasi::capability::MAX_RESOURCES;
use haft_core::limit::original_open_files;

/// Number of descriptors that all guests may open together, and for haft as many as one guest: a guest with all of
/// its files open must not prevent another guest, or a child process, from opening one.
const NEEDED: u64 = ((MAX_GUESTS + 1) * MAX_RESOURCES) as u64;

/// Raises the soft limit of open files to the needed or the allowed number.
pub(crate) fn make_room() {
    // Stored first, because children get the original limit.
    original_open_files();
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let limit = maximum.map_or(NEEDED, |maximum| maximum.min(NEEDED));
    if current.is_some_and(|current| current < limit)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum })
    {
        tracing::debug!(%error, "limit of open files not raised");
    }
}
