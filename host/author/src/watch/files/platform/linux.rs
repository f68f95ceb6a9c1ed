//! Linux: the one that ticks some hundred times a second.

use rustix::time::ClockId;

/// The clock that file systems take times from.
pub(super) const FILE_CLOCK: ClockId = ClockId::RealtimeCoarse;
