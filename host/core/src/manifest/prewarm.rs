//! `[prewarm]`: instances of plugins that are made before they are called.

use super::catalogue::PREWARM;
use super::section::Section;

/// `[prewarm]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prewarm {
    /// Bytes of linear memory of all instances that wait for a call; 0 for none.
    pub memory: u64,
}

impl Default for Prewarm {
    fn default() -> Self {
        Self { memory: Self::DEFAULT_MEMORY }
    }
}

impl Prewarm {
    /// Sixteen interpreters, or a hundred small tools.
    pub const DEFAULT_MEMORY: u64 = 256 << 20;
    /// What a large machine has for it.
    pub(crate) const MAX_MEMORY: u64 = 64 << 30;

    pub(super) fn read(root: &Section<'_>) -> Self {
        let section = root.get("prewarm", |entry| entry.section(&PREWARM));
        let memory =
            section.and_then(|section| section.get("memory", |entry| entry.size(0..=Self::MAX_MEMORY)));
        Self { memory: memory.unwrap_or(Self::DEFAULT_MEMORY) }
    }
}
