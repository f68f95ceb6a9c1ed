//! The record of a child's connections.

use std::fmt;
use std::net::SocketAddr;

use haft_core::sync::Lock;

/// Limit on the addresses that are recorded for one child.
const MAX_NOTED: usize = 256;

/// The connections of a child to one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The name that led to the address, if one did.
    pub name: Option<String>,
    /// Other names that led to it.
    pub others: Vec<String>,
    /// The address.
    pub address: SocketAddr,
    /// The number of opened connections; 0 if an earlier call opened them. With a secret, of requests.
    pub count: u32,
    /// The name of the secret that haft sent, if this is about requests with one.
    pub secret: Option<String>,
    /// The bytes of TCP's streams; `None` if the bytes of one connection are not known.
    pub bytes: Option<Bytes>,
}

/// Bytes of a stream in both directions, without headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Sent by the child.
    pub sent: u64,
    /// Received by the child; TCP counts the end of the other side as one byte.
    pub received: u64,
}

/// The connections of one child, in the order of their first use.
#[derive(Debug, Default)]
pub(in crate::confine) struct Record(Lock<Vec<Connection>>);

impl Connection {
    /// The start of the journal's text about a connection.
    pub const NOTED: &str = "connected: ";

    /// Returns the text for the journal.
    pub fn noted(&self) -> String {
        format!("{}{self}", Self::NOTED)
    }
}

impl Record {
    pub(in crate::confine) fn list(&self) -> Vec<Connection> {
        self.0.lock().clone()
    }

    /// Returns the recorded connections, and begins another record.
    pub(super) fn take(&self) -> Vec<Connection> {
        std::mem::take(&mut *self.0.lock())
    }

    pub(super) fn add(&self, new: &Connection) {
        self.change((new.name.as_deref(), new.address, new.secret.as_deref()), |known| {
            known.others.clone_from(&new.others);
            known.count = known.count.saturating_add(1);
        });
    }

    /// Records bytes of a connection; `None`: they are not known.
    pub(super) fn count(&self, name: Option<&str>, address: SocketAddr, bytes: Option<Bytes>) {
        self.change((name, address, None), |known| {
            known.bytes = known.bytes.zip(bytes).map(|(known, more)| known.plus(more));
        });
    }

    fn change(
        &self,
        (name, address, secret): (Option<&str>, SocketAddr, Option<&str>),
        change: impl FnOnce(&mut Connection),
    ) {
        let mut all = self.0.lock();
        let is_full = all.len() >= MAX_NOTED;
        let is_known = |known: &&mut Connection| {
            (known.name.as_deref(), known.address, known.secret.as_deref()) == (name, address, secret)
        };
        let known = all.iter_mut().find(is_known);
        match known {
            Some(known) => change(known),
            None if is_full => {}
            None => {
                let (name, bytes) = (name.map(str::to_owned), Some(Bytes::default()));
                let secret = secret.map(str::to_owned);
                let mut new = Connection { name, others: Vec::new(), address, count: 0, secret, bytes };
                change(&mut new);
                all.push(new);
            }
        }
    }
}

impl Bytes {
    fn plus(self, more: Self) -> Self {
        Self {
            sent: self.sent.saturating_add(more.sent),
            received: self.received.saturating_add(more.received),
        }
    }

    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(earlier.sent),
            received: self.received.saturating_sub(earlier.received),
        }
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, address, count, secret, bytes, .. } = self;
        match name {
            Some(name) => write!(f, "{name} ({address})")?,
            None => write!(f, "{address}")?,
        }
        if let Some(secret) = secret {
            write!(f, " with the secret `{secret}`")?;
        }
        match count {
            0 => f.write_str(", opened earlier")?,
            1 => {}
            count => write!(f, ", {count} times")?,
        }
        match bytes {
            // The bytes are those of the connection.
            _ if secret.is_some() => Ok(()),
            Some(Bytes { sent, received }) => write!(f, ", sent {sent} bytes, received {received} bytes"),
            None => f.write_str(", bytes unknown"),
        }
    }
}
