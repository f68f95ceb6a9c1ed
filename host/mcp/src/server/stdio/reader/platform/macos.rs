//! macOS: `POLLHUP`, which comes unasked.

use rustix::event::PollFlags;

/// What to ask `poll(2)` for.
pub(super) const HUNG_UP: PollFlags = PollFlags::HUP;
