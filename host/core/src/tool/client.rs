//! The client that makes a call, where several clients share one process: a number, not a right.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// A client, as against others of the same process. The default is haft's own: the command line and its agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client(Option<Known>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Known {
    /// One with a session or connection of its own.
    Numbered(u64),
    /// One that is known by what it says of itself.
    Named(u64),
}

impl Client {
    /// The default.
    pub const HAFT: Self = Self(None);

    /// Another client than any before.
    pub fn another() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(Some(Known::Numbered(NEXT.fetch_add(1, Ordering::Relaxed))))
    }

    /// The client that calls itself `name`, the same for every request that it makes.
    pub fn named(name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(Some(Known::Named(hasher.finish())))
    }
}
