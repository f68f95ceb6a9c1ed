//! The memory for instances that wait for a call, of all plugins together: one is only made where there is some left.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is counted: a page of WebAssembly's.
const UNIT: u64 = 64 << 10;

/// A bound of the linear memory of instances that wait.
pub(crate) struct WaitingMemory {
    bytes: u64,
    left: Arc<Semaphore>,
}

impl WaitingMemory {
    pub(crate) fn new(bytes: u64) -> Self {
        let units = usize::try_from(bytes / UNIT).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self { bytes, left: Arc::new(Semaphore::new(units)) }
    }

    /// All there may be.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether so many bytes are left.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        usize::try_from(bytes.div_ceil(UNIT)).is_ok_and(|units| units <= self.left.available_permits())
    }

    /// Takes so many bytes until the answer is dropped; `None` where they are not left.
    pub(crate) fn take(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).ok()?;
        self.left.clone().try_acquire_many_owned(units).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let memory = WaitingMemory::new(3 * UNIT);
        let first = memory.take(UNIT + 1).unwrap();
        assert!(memory.has(UNIT) && !memory.has(UNIT + 1));
        assert!(memory.take(2 * UNIT).is_none());
        drop(first);
        assert!(memory.take(3 * UNIT).is_some());
        assert!(WaitingMemory::new(0).take(1).is_none());
    }
}
