//! Linux: the one that ticks some hundred times a second.

use rustix::time::ClockId;

/// See [`super`].
pub(in super::super) const FILE_CLOCK: ClockId = ClockId::RealtimeCoarse;
