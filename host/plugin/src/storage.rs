//! Where a plugin keeps things between its calls: a store of keys and values, and two directories of its own, one of
//! which may be emptied at any time. How much, the grant of each call says; without a grant nothing is made or opened.

use std::io;
use std::path::Path;
use std::sync::Arc;

use haft_core::grant::{Grant, Root};
use haft_core::sync::Lock;
use haft_state::{FileQuota, Homes, Kept, Owner, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The place of one plugin. Clones share it.
#[derive(Clone, Debug)]
pub struct Storage(Arc<Place>);

#[derive(Debug)]
struct Place {
    homes: Homes,
    owner: Owner,
    /// Opened at its first use, with the quota that it was opened for.
    store: Lock<Option<(u64, Store)>>,
    /// Calls that use the store follow each other: one of haft's threads is enough for them.
    turns: Arc<Semaphore>,
}

/// One of the two directories, opened for one call.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    pub(crate) kept: Kept,
    pub(crate) root: Root,
    pub(crate) quota: Arc<FileQuota>,
}

/// What a guest calls a private directory.
pub(crate) fn name(kept: Kept) -> &'static str {
    match kept {
        Kept::State => "/state",
        Kept::Cache => "/cache",
    }
}

/// The private directories that `grant` allows, with their quotas.
pub(crate) fn granted(grant: &Grant) -> impl Iterator<Item = (Kept, u64)> {
    let state = grant.state().map(|bytes| (Kept::State, bytes));
    state.into_iter().chain(grant.cache().map(|bytes| (Kept::Cache, bytes)))
}

impl Storage {
    /// What `owner` keeps below `homes`.
    pub fn new(homes: Homes, owner: Owner) -> Self {
        let turns = Arc::new(Semaphore::new(1));
        Self(Arc::new(Place { homes, owner, store: Lock::default(), turns }))
    }

    /// The store, with room for `quota` bytes.
    pub(crate) fn store(&self, quota: u64) -> Store {
        let mut store = self.0.store.lock();
        match &*store {
            Some((own, store)) if *own == quota => store.clone(),
            _ => store.insert((quota, self.0.homes.store(&self.0.owner, quota))).1.clone(),
        }
    }

    /// Waits until no other call of this process uses the store.
    ///
    /// # Errors
    /// None of them ended in time.
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit, ()> {
        let turn = tokio::time::timeout(haft_state::WAIT, self.0.turns.clone().acquire_owned()).await;
        turn.map_err(drop)?.map_err(drop)
    }

    /// Opens a private directory for a call, made where it does not exist.
    pub(crate) fn open(&self, kept: Kept, quota: u64) -> io::Result<PrivateDirectory> {
        let quota = FileQuota::open(&self.0.homes, kept, &self.0.owner, quota)?;
        let root = Root::resolve(Path::new("/"), quota.directory())?;
        Ok(PrivateDirectory { kept, root, quota: Arc::new(quota) })
    }
}
