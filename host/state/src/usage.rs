//! Opens the data of plugins and measures it.

use std::path::Path;

use crate::owner::{Homes, Kept, Owner, size_of};
use crate::store::Store;

/// The bytes that a plugin stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys and values, as the quota counts them.
    pub entries: u64,
    /// Files in the private directory.
    pub files: u64,
    /// Files in the cache directory.
    pub cache: u64,
}

impl Homes {
    /// Returns the key-value store of a plugin with a quota of `quota` bytes. Creates and opens nothing yet.
    pub fn store(&self, owner: &Owner, quota: u64) -> Store {
        Store::new(self.clone(), owner.clone(), quota)
    }

    /// Returns the bytes that a plugin stores. Unreadable data counts as 0.
    pub fn usage(&self, owner: &Owner) -> Usage {
        Usage {
            entries: self.store(owner, 0).used().unwrap_or_default(),
            files: size_of(&self.files(Kept::State, owner)).unwrap_or_default(),
            cache: size_of(&self.files(Kept::Cache, owner)).unwrap_or_default(),
        }
    }

    /// Returns the bytes of the plugin or package `name` of the program.toml at `program`, for all plugins of a
    /// package.
    pub fn usage_of(&self, program: &Path, name: &str) -> Usage {
        self.owners(program, name).iter().fold(Usage::default(), |sum, owner| {
            let Usage { entries, files, cache } = self.usage(owner);
            Usage { entries: sum.entries + entries, files: sum.files + files, cache: sum.cache + cache }
        })
    }
}
