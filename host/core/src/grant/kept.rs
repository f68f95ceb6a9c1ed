//! How much a component may keep between its calls. Where, the plugin host says.

use super::Grant;

/// Bytes of each kind; `None`: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    state: Option<u64>,
    cache: Option<u64>,
}

impl Kept {
    /// What both allow.
    pub(super) fn intersect(self, other: Self) -> Self {
        let least = |ours: Option<u64>, theirs: Option<u64>| Some(ours?.min(theirs?));
        Self { state: least(self.state, other.state), cache: least(self.cache, other.cache) }
    }
}

impl Grant {
    /// Allows so many bytes of state: of keys and values, and as many of files. The larger of two counts.
    #[must_use]
    pub fn with_state(mut self, bytes: u64) -> Self {
        self.kept.state = self.kept.state.max(Some(bytes));
        self
    }

    /// Allows so many bytes of files that may be removed at any time. The larger of two counts.
    #[must_use]
    pub fn with_cache(mut self, bytes: u64) -> Self {
        self.kept.cache = self.kept.cache.max(Some(bytes));
        self
    }

    /// Bytes of keys and values that may be kept, and as many of files; `None`: nothing.
    pub fn state(&self) -> Option<u64> {
        self.kept.state
    }

    /// Bytes of files that may be kept until they are removed; `None`: nothing.
    pub fn cache(&self) -> Option<u64> {
        self.kept.cache
    }
}
