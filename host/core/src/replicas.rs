//! The state that several processes share if they serve one program behind a load balancer: a key, used ids, and
//! the state of long calls. The implementor of [`Replicas`] chooses the storage.

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretBox;

/// The length of the key in bytes.
pub const KEY_BYTES: usize = 32;

/// Minimum age of a claim, and of a task after its last write, before the removal.
pub const KEPT: Duration = Duration::from_hours(1);

/// The signing key of all replicas.
pub type SharedKey = SecretBox<[u8; KEY_BYTES]>;

/// A running task: all replicas see the task as running until this value is dropped.
pub type RunningTask = Box<dyn Any + Send>;

/// Receives the messages to a task.
pub type Inbox = Box<dyn Fn(&[u8]) + Send + Sync>;

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

    /// Registers this replica as the one that runs the task `name`. Messages to the task go to `inbox`.
    async fn run(&self, name: &str, inbox: Inbox) -> io::Result<RunningTask>;

    /// Returns whether a replica runs the task `name`, and sends it `message`, unless it is empty. A message is JSON of at
    /// most 1 MiB, without line breaks.
    async fn reach(&self, name: &str, message: &[u8]) -> io::Result<bool>;

    /// The age of a running task's last stored state from which [`reach`](Self::reach) is to be asked whether the
    /// task still runs: zero where the answer is certain and costs nothing.
    fn silence(&self) -> Duration;
}
