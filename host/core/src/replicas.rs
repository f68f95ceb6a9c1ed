//! The state that several processes share if they serve one program behind a load balancer: a key, used ids, and
//! the state of long calls. The implementor of [`Replicas`] chooses the storage.

use std::fmt::Debug;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretBox;

/// The length of the key in bytes.
pub const KEY_BYTES: usize = 32;

/// Minimum age of a claim, and of a task after its last write, before the removal.
pub const KEPT: Duration = Duration::from_hours(1);

/// The signing key of all replicas.
pub type SharedKey = SecretBox<[u8; KEY_BYTES]>;

/// A future that completes when a replica asks to cancel the task. While it is polled, other replicas see the task
/// as running.
pub type Cancelled = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The shared state of the replicas of one server. Names are at most 64 hexadecimal digits.
///
/// # Errors
/// Every function fails if the storage is full or does not answer within a few seconds.
#[async_trait]
pub trait Replicas: Debug + Send + Sync {
    /// Returns the shared key. Stores `new` if there is no key.
    async fn key(&self, new: SharedKey) -> io::Result<SharedKey>;

    /// Claims `name` for [`KEPT`] at least; returns `false` if it was claimed before. After an error it may be
    /// claimed.
    async fn claim(&self, name: &str) -> io::Result<bool>;

    /// Stores the state of the task `name`.
    async fn store(&self, name: &str, state: Vec<u8>) -> io::Result<()>;

    /// Returns the last stored state of the task `name`, if it has not expired.
    async fn load(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Waits, in the replica that runs the task `name`, for requests to cancel it.
    async fn listen(&self, name: &str) -> io::Result<Cancelled>;

    /// Returns whether a replica runs the task `name`. With `cancel`, asks it to stop.
    async fn reach(&self, name: &str, cancel: bool) -> io::Result<bool>;
}
