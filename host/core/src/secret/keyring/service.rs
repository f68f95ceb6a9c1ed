//! The desktop's keyring: the Secret Service of the session bus (specification 0.2 of
//! freedesktop.org). An entry is the item with the attributes `service` and `username`, which is what
//! `secret-tool`, Python's and Rust's keyring libraries write.
//!
//! The secret crosses the bus unencrypted (the specification's `plain`): the bus is a socket of this user alone, and
//! a process that could listen there could ask the service itself. Refuses to store anything.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;
use zbus::export::futures_core::Stream;
use zbus::message::{Body, Message};
use zbus::zvariant::{OwnedObjectPath, OwnedValue, Value};
use zbus::{Connection, MessageStream};

use crate::manifest::KeyringEntry;

/// Two minutes: as long as a person needs to find and type the password of the keyring.
const PATIENCE: Duration = Duration::from_mins(2);

const SERVICE: &str = "org.freedesktop.secrets";
const PATH: &str = "/org/freedesktop/secrets";

/// The Secret Service cannot be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServiceError {
    #[error("the desktop's keyring cannot be asked: {0}")]
    Bus(#[from] zbus::Error),
    #[error("the desktop's keyring is locked and was not opened")]
    Locked,
    #[error("the desktop's keyring did not answer within {} s", PATIENCE.as_secs())]
    TimedOut,
}

/// A connection with a session of the service.
struct Desktop {
    bus: Connection,
    session: OwnedObjectPath,
}

/// The entry's value; `None` where the service does not have it.
pub(super) async fn read(entry: &KeyringEntry) -> Result<Option<Vec<u8>>, ServiceError> {
    let read = async {
        let desktop = Desktop::connect().await?;
        let Some(item) = desktop.find(entry).await? else { return Ok(None) };
        desktop.secret(&item).await.map(Some)
    };
    timeout(PATIENCE, read).await.unwrap_or(Err(ServiceError::TimedOut))
}

impl Desktop {
    async fn connect() -> Result<Self, ServiceError> {
        let bus = Connection::session().await?;
        let session = call(&bus, PATH, "Service", "OpenSession", &("plain", Value::from(""))).await?;
        let (_, session): (OwnedValue, OwnedObjectPath) = session.deserialize()?;
        Ok(Self { bus, session })
    }

    /// The item of `entry`, unlocked.
    async fn find(&self, entry: &KeyringEntry) -> Result<Option<OwnedObjectPath>, ServiceError> {
        let attributes = HashMap::from([("service", &*entry.service), ("username", &*entry.user)]);
        let found = call(&self.bus, PATH, "Service", "SearchItems", &(attributes,)).await?;
        let (unlocked, locked): (Vec<OwnedObjectPath>, Vec<OwnedObjectPath>) = found.deserialize()?;
        if let Some(item) = unlocked.into_iter().next() {
            return Ok(Some(item));
        }
        let Some(item) = locked.into_iter().next() else { return Ok(None) };
        self.unlock(&item).await?;
        Ok(Some(item))
    }

    /// Has a person unlock `item`, if the service wants one to.
    async fn unlock(&self, item: &OwnedObjectPath) -> Result<(), ServiceError> {
        let unlocked = call(&self.bus, PATH, "Service", "Unlock", &(vec![item],)).await?;
        let (unlocked, prompt): (Vec<OwnedObjectPath>, OwnedObjectPath) = unlocked.deserialize()?;
        if unlocked.contains(item) {
            return Ok(());
        }
        // Listened for before it is asked for, so that a quick answer is not missed.
        let rule = "type='signal',interface='org.freedesktop.Secret.Prompt',member='Completed'";
        let bus = "org.freedesktop.DBus";
        self.bus.call_method(Some(bus), "/org/freedesktop/DBus", Some(bus), "AddMatch", &(rule,)).await?;
        let signals = MessageStream::from(&self.bus);
        call(&self.bus, prompt.as_str(), "Prompt", "Prompt", &("",)).await?;
        let completed = completed(signals, &prompt).await.ok_or(ServiceError::Locked)?;
        let (dismissed, _): (bool, OwnedValue) = completed.body().deserialize()?;
        if dismissed { Err(ServiceError::Locked) } else { Ok(()) }
    }

    async fn secret(&self, item: &OwnedObjectPath) -> Result<Vec<u8>, ServiceError> {
        type Secret = (OwnedObjectPath, Vec<u8>, Vec<u8>, String);
        let secret = call(&self.bus, item.as_str(), "Item", "GetSecret", &(&self.session,)).await?;
        let (_, _, value, _): Secret = secret.deserialize()?;
        Ok(value)
    }
}

/// Calls a method of one of the service's objects.
async fn call<B>(
    bus: &Connection,
    path: &str,
    interface: &str,
    method: &str,
    arguments: &B,
) -> Result<Body, ServiceError>
where
    B: serde::Serialize + zbus::zvariant::DynamicType,
{
    let interface = format!("org.freedesktop.Secret.{interface}");
    Ok(bus.call_method(Some(SERVICE), path, Some(interface), method, arguments).await?.body())
}

/// The signal that ends `prompt`; `None` when the bus is gone.
async fn completed(mut signals: MessageStream, prompt: &OwnedObjectPath) -> Option<Message> {
    loop {
        let message = poll_fn(|context| Pin::new(&mut signals).poll_next(context)).await?.ok()?;
        let header = message.header();
        let is_end = header.member().is_some_and(|member| member.as_str() == "Completed");
        if is_end && header.path().is_some_and(|path| path.as_str() == prompt.as_str()) {
            return Some(message);
        }
    }
}
