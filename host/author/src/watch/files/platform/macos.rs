//! macOS: the only one that tells the time of day.

use rustix::time::ClockId;

/// The clock that file systems take times from.
pub(super) const FILE_CLOCK: ClockId = ClockId::Realtime;
