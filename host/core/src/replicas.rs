//! What several processes share that serve one program together, behind any balancer: a key, a record of what was used,
//! and what becomes of long calls. Where that is, whoever implements [`Replicas`] knows.

use std::fmt::Debug;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretBox;

/// Bytes of the key.
pub const KEY_BYTES: usize = 32;

/// How long a claim is kept at least, and a task after it was written last.
pub const KEPT: Duration = Duration::from_hours(1);

/// The key that all replicas sign with.
pub type SharedKey = SecretBox<[u8; KEY_BYTES]>;

/// Ends when somebody wants a task to be cancelled. While it is polled, others hear that the task runs.
pub type Cancelled = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the replicas of one server share. Names are hexadecimal digits, 64 at most.
///
/// # Errors
/// Every function fails where what is shared cannot be reached in a few seconds, or is full.
#[async_trait]
pub trait Replicas: Debug + Send + Sync {
    /// The key of all of them: `new`, where there was none.
    async fn key(&self, new: SharedKey) -> io::Result<SharedKey>;

    /// Claims `name`, for [`KEPT`] at least. Whether nobody had. After an error it may be claimed.
    async fn claim(&self, name: &str) -> io::Result<bool>;

    /// Writes down how far the task `name` is.
    async fn store(&self, name: &str, state: Vec<u8>) -> io::Result<()>;

    /// What was written of the task `name` last, where that is not too long ago.
    async fn load(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Listens, as the one that runs the task `name`, for others that want it to be cancelled.
    async fn listen(&self, name: &str) -> io::Result<Cancelled>;

    /// Whether a replica runs the task `name`. With `cancel` it is told to stop.
    async fn reach(&self, name: &str, cancel: bool) -> io::Result<bool>;
}
