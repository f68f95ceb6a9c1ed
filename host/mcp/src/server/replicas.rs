//! The shared state of the processes on one machine: in a folder of their user, or else in the memory of one process.

mod folder;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use haft_core::replicas::{Inbox, KEPT, KEY_BYTES, Replicas, RunningTask, SharedKey};
use haft_core::sync::Lock;
use secrecy::ExposeSecret;

use self::folder::Folder;

/// Maximum number of claims: more answers than people give within [`KEPT`].
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

/// The shared state in the memory of one process.
#[derive(Debug, Default)]
pub(super) struct Memory(Lock<State>);

#[derive(Default)]
struct State {
    key: Option<SharedKey>,
    claims: HashMap<String, Instant>,
    tasks: HashMap<String, (Instant, Vec<u8>)>,
    /// The inbox of each task until it ends.
    running: HashMap<String, Weak<Inbox>>,
}

impl State {
    fn remove_expired(&mut self) {
        self.claims.retain(|_, since| since.elapsed() < KEPT);
        self.tasks.retain(|_, (since, _)| since.elapsed() < KEPT);
        self.running.retain(|_, running| running.strong_count() > 0);
    }

    fn bytes(&self) -> u64 {
        self.tasks.values().map(|(_, state)| state.len() as u64).sum()
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

#[async_trait]
impl Replicas for Memory {
    async fn key(&self, new: SharedKey) -> io::Result<SharedKey> {
        let mut state = self.0.lock();
        let key: [u8; KEY_BYTES] = *state.key.get_or_insert(new).expose_secret();
        Ok(SharedKey::new(Box::new(key)))
    }

    async fn claim(&self, name: &str) -> io::Result<bool> {
        let mut state = self.0.lock();
        state.remove_expired();
        if state.claims.len() >= MAX_CLAIMS {
            return Err(too_many_claims());
        }
        let is_claimed = state.claims.contains_key(name);
        state.claims.entry(name.to_owned()).or_insert_with(Instant::now);
        Ok(!is_claimed)
    }

    async fn store(&self, name: &str, content: Vec<u8>) -> io::Result<()> {
        let mut state = self.0.lock();
        state.tasks.insert(name.to_owned(), (Instant::now(), content));
        Ok(())
    }

    async fn load(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut state = self.0.lock();
        state.remove_expired();
        Ok(state.tasks.get(name).map(|(_, content)| content.clone()))
    }

    async fn run(&self, name: &str, inbox: Inbox) -> io::Result<RunningTask> {
        let mut state = self.0.lock();
        state.remove_expired();
        if state.tasks.len() >= MAX_TASKS || state.bytes() >= MAX_BYTES {
            return Err(too_many_tasks());
        }
        let running = Arc::new(inbox);
        state.running.insert(name.to_owned(), Arc::downgrade(&running));
        Ok(Box::new(running))
    }

    async fn reach(&self, name: &str, message: &[u8]) -> io::Result<bool> {
        let running = self.0.lock().running.get(name).and_then(Weak::upgrade);
        if let Some(inbox) = running.as_ref().filter(|_| !message.is_empty()) {
            inbox(message);
        }
        Ok(running.is_some())
    }

    fn silence(&self) -> Duration {
        Duration::ZERO
    }
}
