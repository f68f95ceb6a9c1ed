//! Tools on other machines, over NATS: a gate sends names and arguments, a worker runs the call through its own
//! toolbox, with its own rights. Neither ever sends a right, and no call is run twice.
//!
//! # One call
//! - **Choose:** the gate's fleet knows which workers there are, which tools they have and which have a place free; a call
//!   waits a bounded time for one.
//! - **Send:** the call goes to that one worker, below the digest of the program: a worker with another program.lock
//!   listens elsewhere.
//! - **Claim:** a call that may change anything is claimed, in a key-value bucket, by the worker that runs it. Whoever
//!   gives it up claims it too, so that exactly one of the two happens.
//! - **Answer:** the answer comes back, or the news that the worker is gone: then a call that only reads is asked again
//!   elsewhere, and of any other the claim tells whether it ran.
//!
//! The protocol stands in docs/protocol.md.

mod error;

mod identity;

mod passenger;

mod message;

mod subjects;

mod settings;

mod link;

mod stores;

mod payload;

mod claims;

mod worker;

mod gate;

mod journal;

mod replicas;

pub use self::error::LinkError;
pub use self::gate::{Gate, Health, NatsTool, WorkerHealth};
pub use self::identity::{Identity, definition};
pub use self::journal::{Fetched, JournalError, Shipper, fetch};
pub use self::link::Link;
pub use self::message::Known;
pub use self::passenger::{About, Passenger};
pub use self::replicas::SharedState;
pub use self::settings::{DEFAULT_PREFIX, Login, Server, Settings, Tls};
pub use self::stores::StoreHealth;
pub use self::worker::{Place, Reading, Worker, WorkerSettings};
