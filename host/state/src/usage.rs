//! What is kept, opened and counted.

use std::path::Path;

use crate::owner::{Homes, Kept, Owner};
use crate::size::size_of;
use crate::store::Store;

/// Bytes that a plugin keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys and values, counted as the quota counts them.
    pub entries: u64,
    /// Files of the private directory.
    pub files: u64,
    /// Files of the cache directory.
    pub cache: u64,
}

impl Homes {
    /// The key-value store of a plugin, with room for `quota` bytes. Makes and opens nothing yet.
    pub fn store(&self, owner: &Owner, quota: u64) -> Store {
        Store::new(self.clone(), owner.clone(), quota)
    }

    /// How much a plugin keeps. What cannot be read counts as nothing.
    pub fn usage(&self, owner: &Owner) -> Usage {
        Usage {
            entries: self.store(owner, 0).used().unwrap_or_default(),
            files: size_of(&self.files(Kept::State, owner)).unwrap_or_default(),
            cache: size_of(&self.files(Kept::Cache, owner)).unwrap_or_default(),
        }
    }

    /// How much the plugin or package `name` of the program.toml at `program` keeps, all plugins of a package together.
    pub fn usage_of(&self, program: &Path, name: &str) -> Usage {
        self.owners(program, name).iter().fold(Usage::default(), |sum, owner| {
            let Usage { entries, files, cache } = self.usage(owner);
            Usage { entries: sum.entries + entries, files: sum.files + files, cache: sum.cache + cache }
        })
    }
}
