//! What is known of a guest's own directories (`/state`, `/cache`) in a call: what may be written there, and which
//! descriptors lead into them.

use std::sync::Arc;

use haft_state::Kept;

use crate::storage::PrivateDirectory;
use crate::wasi::disk_budget::{Disk, GoesOn};

/// The private directories of one guest.
#[derive(Default)]
pub(crate) struct PrivateDirectories {
    pub(super) disks: PrivateDisks,
    pub(super) handles: PrivateHandles,
}

/// What may be written in each of them in the call under way.
#[derive(Default)]
pub(super) struct PrivateDisks(Vec<(Kept, Arc<Disk>)>);

/// The descriptors that lead into one of them, and into which.
#[derive(Default)]
pub(super) struct PrivateHandles(Vec<(u32, Kept)>);

impl PrivateDirectories {
    /// A call begins, with these directories.
    pub(crate) fn begin(&mut self, directories: &[PrivateDirectory], call: &Arc<Disk>, goes_on: &GoesOn) {
        let disk = |one: &PrivateDirectory| Disk::private(call.clone(), one.quota.clone(), goes_on.clone());
        self.disks.0 = directories.iter().map(|one| (one.kept, Arc::new(disk(one)))).collect();
    }

    /// The call is over.
    pub(crate) fn end(&mut self) {
        self.disks.0.clear();
    }

    /// Whether a write was refused for the quota of this directory.
    pub(crate) fn is_full(&self, kept: Kept) -> bool {
        self.disks.get(kept).is_some_and(|disk| disk.is_exceeded())
    }
}

impl PrivateDisks {
    pub(super) fn get(&self, kept: Kept) -> Option<&Arc<Disk>> {
        self.0.iter().find(|(own, _)| *own == kept).map(|(_, disk)| disk)
    }
}

impl PrivateHandles {
    pub(super) fn get(&self, fd: u32) -> Option<Kept> {
        self.0.iter().find(|(own, _)| *own == fd).map(|(_, kept)| *kept)
    }

    pub(super) fn add(&mut self, fd: u32, kept: Kept) {
        self.0.push((fd, kept));
    }

    pub(super) fn drop(&mut self, fd: u32) {
        self.0.retain(|(own, _)| *own != fd);
    }
}
