//! The storage of a plugin between its calls: a key-value store, and two private directories, one of which may be
//! emptied at any time. The grant of each call limits the size; without a grant nothing is created or opened.

use std::io;
use std::path::Path;
use std::sync::Arc;

use haft_core::grant::{Grant, Root};
use haft_core::sync::Lock;
use haft_state::{FileQuota, Homes, Kept, Owner, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The place of one plugin. Clones share the place.
#[derive(Clone, Debug)]
pub struct Storage(Arc<Place>);

#[derive(Debug)]
struct Place {
    homes: Homes,
    owner: Owner,
    /// The store, opened at its first use, with its quota at that time.
    store: Lock<Option<(u64, Store)>>,
    /// Calls that use the store run one after the other, served by one of haft's threads.
    turns: Arc<Semaphore>,
}

/// One of the two directories, opened for one call.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    pub(crate) kept: Kept,
    pub(crate) root: Root,
    pub(crate) quota: Arc<FileQuota>,
}

pub(crate) fn name(kept: Kept) -> &'static str {
    match kept {
        Kept::State => "/state",
        Kept::Cache => "/cache",
    }
}

pub(crate) fn granted(grant: &Grant) -> impl Iterator<Item = (Kept, u64)> {
    let state = grant.state().map(|bytes| (Kept::State, bytes));
    state.into_iter().chain(grant.cache().map(|bytes| (Kept::Cache, bytes)))
}

impl Storage {
    /// Returns the storage of `owner` below `homes`.
    pub fn new(homes: Homes, owner: Owner) -> Self {
        let turns = Arc::new(Semaphore::new(1));
        Self(Arc::new(Place { homes, owner, store: Lock::default(), turns }))
    }

    pub(crate) fn store(&self, quota: u64) -> Store {
        let mut store = self.0.store.lock();
        match &*store {
            Some((own, store)) if *own == quota => store.clone(),
            _ => store.insert((quota, self.0.homes.store(&self.0.owner, quota))).1.clone(),
        }
    }

    /// Waits until no other call of this process uses the store.
    /// Errors: No call ended in time.
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit, ()> {
        let turn = tokio::time::timeout(haft_state::WAIT, self.0.turns.clone().acquire_owned()).await;
        turn.map_err(drop)?.map_err(drop)
    }

    pub(crate) fn open(&self, kept: Kept, quota: u64) -> io::Result<PrivateDirectory> {
        let quota = FileQuota::open(&self.0.homes, kept, &self.0.owner, quota)?;
        let root = Root::resolve(Path::new("/"), quota.directory())?;
        Ok(PrivateDirectory { kept, root, quota: Arc::new(quota) })
    }
}
