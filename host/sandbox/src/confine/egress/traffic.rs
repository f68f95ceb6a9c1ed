//! The connections of one child, with their bytes. haft does not relay connections that were handed over: the kernel
//! reports the bytes when a socket ends (`sock_diag(7)`, its groups of ended sockets), and on request for a socket that
//! is open. One listener for all children of this process. A lost report makes bytes unknown, and never a wrong number.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::time::sleep;

use haft_core::sync::Lock;

use super::record::{Bytes, Connection, Record};
use crate::confine::sys::platform::diagnostics::{self, Counted, Socket};

/// Limit on the followed sockets of this process; the bytes of others are unknown.
const MAX_FOLLOWED: usize = 8192;

/// Number of looks for the reports about ended sockets, and the time between two: the kernel sends a report some
/// microseconds after the end.
const LOOKS: usize = 50;
const ROUND: Duration = Duration::from_millis(1);

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

    pub(super) fn add(&self, new: &Connection) {
        self.record.add(new);
    }
}

/// The listener of this process, while it is used.
static SHARED: Lock<Weak<Traffic>> = Lock::new(Weak::new());

#[derive(Debug)]
struct Traffic {
    /// Answers questions about open sockets.
    queries: Lock<OwnedFd>,
    /// The handed over sockets by the kernel's number.
    followed: Lock<BTreeMap<u64, Followed>>,
}

/// The meaning of a missing report about an ended socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// It is under way.
    UnderWay,
    /// It is lost if it is missing again.
    Late,
    Lost,
}

#[derive(Debug)]
struct Followed {
    socket: Socket,
    record: Weak<Record>,
    name: Option<String>,
    address: SocketAddr,
    /// The bytes that are recorded already.
    recorded: Bytes,
    /// Whether its report was missing before.
    is_late: bool,
}

impl Traffic {
    /// Returns the listener of this process. Ends with its last user.
    ///
    /// # Errors
    /// The kernel does not report the bytes of sockets.
    fn shared() -> io::Result<Arc<Self>> {
        let mut shared = SHARED.lock();
        if let Some(traffic) = shared.upgrade() {
            return Ok(traffic);
        }
        let (listener, queries) = (diagnostics::ended_sockets()?, Lock::new(diagnostics::queries()?));
        let traffic = Arc::new(Self { queries, followed: Lock::default() });
        *shared = Arc::downgrade(&traffic);
        let weak = shared.clone();
        std::thread::Builder::new().name("haft-traffic".into()).spawn(move || listen(&weak, &listener))?;
        Ok(traffic)
    }

    /// Records the bytes of `socket`, which is handed over, for the connection to `address`.
    fn follow(&self, socket: &OwnedFd, record: &Arc<Record>, (name, address): (Option<String>, SocketAddr)) {
        let mut followed = self.followed.lock();
        if followed.len() >= MAX_FOLLOWED {
            followed.retain(|_, known| known.record.strong_count() > 0);
        }
        let found = Socket::of(socket, address).ok().filter(|_| followed.len() < MAX_FOLLOWED);
        let Some(socket) = found else { return record.count(name.as_deref(), address, None) };
        let (record, recorded, is_late) = (Arc::downgrade(record), Bytes::default(), false);
        followed.insert(socket.number, Followed { socket, record, name, address, recorded, is_late });
    }

    /// Records the bytes of the open sockets of `record` so far. Returns whether no report about an ended one is
    /// missing.
    fn settle(&self, record: &Arc<Record>, missing: Missing) -> bool {
        let mut is_settled = true;
        let queries = self.queries.lock();
        self.followed.lock().retain(|_, followed| {
            if !followed.is_of(record) {
                return true;
            }
            if let Ok(Some(counted)) = diagnostics::ask(&queries, &followed.socket) {
                followed.record(counted);
                return true;
            }
            let is_lost = missing == Missing::Lost || followed.is_late;
            if is_lost {
                record.count(followed.name.as_deref(), followed.address, None);
            }
            followed.is_late = missing == Missing::Late;
            is_settled &= is_lost;
            !is_lost
        });
        is_settled
    }

    fn ended(&self, counted: Counted) {
        if let Some(mut followed) = self.followed.lock().remove(&counted.number) {
            followed.record(counted);
        }
    }
}

impl Followed {
    fn is_of(&self, record: &Arc<Record>) -> bool {
        std::ptr::eq(self.record.as_ptr(), Arc::as_ptr(record))
    }

    fn record(&mut self, Counted { sent, received, .. }: Counted) {
        let bytes = Bytes { sent, received };
        let new = bytes.since(std::mem::replace(&mut self.recorded, bytes));
        if let Some(record) = self.record.upgrade().filter(|_| new != Bytes::default()) {
            record.count(self.name.as_deref(), self.address, Some(new));
        }
    }
}

/// Receives reports until no child of this process is followed any more.
fn listen(traffic: &Weak<Traffic>, listener: &OwnedFd) {
    loop {
        let reports = diagnostics::reports(listener);
        let Some(traffic) = traffic.upgrade() else { return };
        match reports {
            Ok(reports) => reports.into_iter().for_each(|counted| traffic.ended(counted)),
            // Reports were lost, or there was none for a while.
            Err(error) if diagnostics::is_passing(&error) => {}
            Err(error) => return tracing::debug!(%error, "bytes of record are no longer known"),
        }
    }
}
