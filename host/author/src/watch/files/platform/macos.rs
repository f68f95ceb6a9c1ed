//! macOS: its only real-time clock.

use rustix::time::ClockId;

/// The clock of file timestamps.
pub(super) const FILE_CLOCK: ClockId = ClockId::Realtime;
