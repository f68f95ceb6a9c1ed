//! The shared state of the processes on one machine: in a folder of their user, or else in the memory of one process.

mod folder;
mod memory;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use haft_core::replicas::Replicas;

use self::folder::Folder;
pub(super) use self::memory::Memory;

/// Maximum number of claims: more answers than people give within [`KEPT`](haft_core::replicas::KEPT).
const MAX_CLAIMS: usize = 16_384;

/// Maximum number of tasks with a stored state.
const MAX_TASKS: usize = 4096;

/// Maximum size in bytes of all stored states.
const MAX_BYTES: u64 = 1 << 30;

/// Returns the state that all processes of this user share in `folder`, which no tool may reach. The folder is created for
/// this user alone. Without a writable folder, the state is that of this process.
pub fn of_user(folder: PathBuf) -> Arc<dyn Replicas> {
    match Folder::create(folder) {
        Ok(folder) => Arc::new(folder),
        Err(error) => {
            tracing::warn!("approvals and tasks are valid only in this process: {error}");
            Arc::new(Memory::default())
        }
    }
}

fn too_many_claims() -> io::Error {
    io::Error::other(format!("more than {MAX_CLAIMS} answers within an hour"))
}

fn too_many_tasks() -> io::Error {
    io::Error::other(format!(
        "the stored tasks have reached the limit of {MAX_TASKS} tasks or {MAX_BYTES} bytes"
    ))
}
