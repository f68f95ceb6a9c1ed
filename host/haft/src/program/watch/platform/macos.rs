//! macOS: the only one that tells the time of day.

use rustix::time::ClockId;

/// See [`super`].
pub(in super::super) const FILE_CLOCK: ClockId = ClockId::Realtime;
