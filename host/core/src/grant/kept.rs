//! How much data a component may keep between its calls. The plugin host chooses the location.

use super::Grant;

/// The limit of each kind in bytes; `None`: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    state: Option<u64>,
    cache: Option<u64>,
}

impl Kept {
    /// Returns the limits that both allow.
    pub(super) fn intersect(self, other: Self) -> Self {
        let least = |ours: Option<u64>, theirs: Option<u64>| Some(ours?.min(theirs?));
        Self { state: least(self.state, other.state), cache: least(self.cache, other.cache) }
    }
}

impl Grant {
    /// Allows `bytes` of state for keys and values, and as many for files. The larger of two limits counts.
    #[must_use]
    pub fn with_state(mut self, bytes: u64) -> Self {
        self.kept.state = self.kept.state.max(Some(bytes));
        self
    }

    /// Allows `bytes` of cache files, which may be removed at any time. The larger of two limits counts.
    #[must_use]
    pub fn with_cache(mut self, bytes: u64) -> Self {
        self.kept.cache = self.kept.cache.max(Some(bytes));
        self
    }

    /// Returns the limit for keys and values in bytes, which is also the limit for files; `None`: nothing.
    pub fn state(&self) -> Option<u64> {
        self.kept.state
    }

    /// Returns the limit for cache files in bytes; `None`: nothing.
    pub fn cache(&self) -> Option<u64> {
        self.kept.cache
    }
}
