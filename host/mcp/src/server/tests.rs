//! The shared state of replicas within one process, for tests.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use haft_core::replicas::{Cancelled, Replicas, SharedKey};
use haft_core::sync::Lock;
use secrecy::ExposeSecret;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct OneMap {
    key: Lock<Option<[u8; 32]>>,
    entries: Lock<HashMap<String, Vec<u8>>>,
    running: Lock<HashMap<String, Arc<Notify>>>,
    /// Whether the shared state is unreachable.
    pub(super) is_gone: AtomicBool,
}

impl OneMap {
    fn reached(&self) -> io::Result<()> {
        if self.is_gone.load(Ordering::Relaxed) { Err(io::Error::other("it is gone")) } else { Ok(()) }
    }

    /// Simulates the death of the replica that runs the tasks.
    pub(super) fn forget_running(&self) {
        self.running.lock().clear();
    }
}

#[async_trait]
impl Replicas for OneMap {
    async fn key(&self, new: SharedKey) -> io::Result<SharedKey> {
        self.reached()?;
        let key = *self.key.lock().get_or_insert(*new.expose_secret());
        Ok(SharedKey::new(Box::new(key)))
    }

    async fn claim(&self, name: &str) -> io::Result<bool> {
        self.reached()?;
        Ok(self.entries.lock().insert(format!("claim {name}"), Vec::new()).is_none())
    }

    async fn store(&self, name: &str, state: Vec<u8>) -> io::Result<()> {
        self.reached()?;
        self.entries.lock().insert(name.to_owned(), state);
        Ok(())
    }

    async fn load(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.reached()?;
        Ok(self.entries.lock().get(name).cloned())
    }

    async fn listen(&self, name: &str) -> io::Result<Cancelled> {
        self.reached()?;
        let notify = self.running.lock().entry(name.to_owned()).or_default().clone();
        Ok(Box::pin(async move { notify.notified().await }))
    }

    async fn reach(&self, name: &str, cancel: bool) -> io::Result<bool> {
        self.reached()?;
        let notify = self.running.lock().get(name).cloned();
        if cancel && let Some(notify) = &notify {
            notify.notify_one();
        }
        Ok(notify.is_some())
    }
}
