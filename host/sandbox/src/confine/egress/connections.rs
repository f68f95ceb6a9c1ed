//! The connections of one child, with their bytes.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::sleep;

use super::record::{Connection, Record};
use super::traffic::{Missing, Traffic};

/// Number of looks for the reports about ended sockets, and the time between two: the kernel sends a report some
/// microseconds after the end.
const LOOKS: usize = 50;
const ROUND: Duration = Duration::from_millis(1);

/// The connections of one child.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    record: Arc<Record>,
    /// Set with the first connection.
    traffic: OnceLock<Option<Arc<Traffic>>>,
}

impl Connections {
    /// Returns the connections since the last call of this function.
    pub(crate) fn take(&self) -> Vec<Connection> {
        self.settle(Missing::Late);
        self.record.take()
    }

    /// Returns the connections of a child that has ended.
    pub(crate) async fn finished(&self) -> Vec<Connection> {
        for _ in 0..LOOKS {
            if self.settle(Missing::UnderWay) {
                break;
            }
            sleep(ROUND).await;
        }
        self.settle(Missing::Lost);
        self.record.take()
    }

    fn settle(&self, missing: Missing) -> bool {
        let traffic = self.traffic.get().and_then(Option::as_ref);
        traffic.is_none_or(|traffic| traffic.settle(&self.record, missing))
    }

    /// Records the bytes of `socket`, which is handed over for the connection to `address`.
    pub(super) fn follow(&self, socket: &OwnedFd, name: Option<String>, address: SocketAddr) {
        match self.traffic.get_or_init(|| Traffic::shared().ok()) {
            Some(traffic) => traffic.follow(socket, &self.record, (name, address)),
            None => self.record.count(name.as_deref(), address, None),
        }
    }

    /// Records an opened connection.
    pub(super) fn add(&self, new: &Connection) {
        self.record.add(new);
    }
}
