//! Linux: the coarse clock, which ticks some hundred times per second.

use rustix::time::ClockId;

/// The clock of file timestamps.
pub(super) const FILE_CLOCK: ClockId = ClockId::RealtimeCoarse;
