//! Linux: `POLLRDHUP`.

use rustix::event::PollFlags;

/// What to ask `poll(2)` for.
pub(super) const HUNG_UP: PollFlags = PollFlags::RDHUP;
