//! The connections of the server. Authenticated clients keep theirs; unauthenticated connections share a few places
//! for a short time and are evicted by newer ones, so that silent connections cannot lock out a client. Writes time
//! out if the client does not read; reads have separate bounds for each request.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use haft_core::sync::Lock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The divisor of all places for connections that are not authenticated yet.
const SHARE: usize = 8;

/// Minimum number of places for unauthenticated connections: clients that connect concurrently are unauthenticated
/// at first too.
const MIN_SHARE: usize = 16;

/// Time during which a new connection is not evicted, enough to read data that the client sends at once. The kernel
/// queues later connections meanwhile.
const GRACE: Duration = Duration::from_millis(100);

/// Minimum idle time of a client's connection before it is closed for another client's: a client that makes several
/// requests in a row is not cut off between two of them.
const IDLE: Duration = Duration::from_secs(5);

/// Size in bytes of the prefix of an IPv6 address that identifies a provider's customer.
const NETWORK: usize = 8;

/// The places of a server. Clones share them.
#[derive(Clone)]
pub(super) struct ConnectionSlots(Arc<SharedSlots>);

struct SharedSlots {
    /// Places of unauthenticated connections.
    unauthenticated_room: usize,
    /// Places of authenticated connections.
    room: usize,
    state: Lock<State>,
    /// Notified when an unauthenticated connection closes or authenticates.
    changed: Notify,
    open: TaskTracker,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Connections that have not shown the token, in order of arrival.
    unauthenticated: BTreeMap<u64, Unauthenticated>,
    authenticated: HashMap<u64, Authenticated>,
}

struct Unauthenticated {
    source: IpAddr,
    since: Instant,
    closed: CancellationToken,
}

struct Authenticated {
    /// Running requests.
    busy: usize,
    last: Instant,
    closed: CancellationToken,
}

/// The place of one connection, free after the drop.
pub(super) struct ConnectionSlot {
    slots: ConnectionSlots,
    number: u64,
    closed: CancellationToken,
    /// Whether the connection is authenticated.
    is_authenticated: AtomicBool,
    _open: TaskTrackerToken,
}

/// A running request on a connection. A drop ends it.
pub(super) struct RequestGuard {
    slots: ConnectionSlots,
    number: u64,
}

impl ConnectionSlots {
    /// Creates a table of at most `most` connections.
    pub(super) fn new(most: usize) -> Self {
        let unauthenticated_room = (most / SHARE).max(MIN_SHARE).min(most / 2).max(1);
        let (state, changed, open) = Default::default();
        Self(Arc::new(SharedSlots {
            unauthenticated_room,
            room: most.saturating_sub(unauthenticated_room).max(1),
            state,
            changed,
            open,
        }))
    }

    /// Returns the place of a connection from `source`. If all are taken, evicts the oldest unauthenticated
    /// connection of the source that has the most.
    pub(super) async fn admit(&self, source: IpAddr) -> ConnectionSlot {
        loop {
            let changed = self.0.changed.notified();
            let wait = match self.try_admit(source) {
                Ok(place) => return place,
                Err(wait) => wait,
            };
            tokio::select! { () = changed => {} () = tokio::time::sleep(wait) => {} }
        }
    }

    /// Returns a place, or the wait if every unauthenticated connection is new.
    fn try_admit(&self, source: IpAddr) -> Result<ConnectionSlot, Duration> {
        let mut state = self.0.state.lock();
        if state.unauthenticated.len() >= self.0.unauthenticated_room
            && let Some(number) = state.next_to_evict()
        {
            let age = state
                .unauthenticated
                .get(&number)
                .map_or(GRACE, |unauthenticated| unauthenticated.since.elapsed());
            if age < GRACE {
                return Err(GRACE.saturating_sub(age));
            }
            if let Some(unauthenticated) = state.unauthenticated.remove(&number) {
                unauthenticated.closed.cancel();
            }
        }
        let (number, closed) = (state.next, CancellationToken::new());
        state.next += 1;
        let unauthenticated =
            Unauthenticated { source: network(source), since: Instant::now(), closed: closed.clone() };
        state.unauthenticated.insert(number, unauthenticated);
        drop(state);
        let (slots, is_authenticated, open) = (self.clone(), AtomicBool::new(false), self.0.open.token());
        Ok(ConnectionSlot { slots, number, closed, is_authenticated, _open: open })
    }

    pub(super) fn have_unauthenticated(&self) -> bool {
        !self.0.state.lock().unauthenticated.is_empty()
    }

    pub(super) async fn are_empty(&self) {
        // New connections may begin nevertheless.
        self.0.open.close();
        self.0.open.wait().await;
    }
}

impl State {
    fn next_to_evict(&self) -> Option<u64> {
        let mut counts: HashMap<IpAddr, (usize, u64)> = HashMap::new();
        for (number, unauthenticated) in &self.unauthenticated {
            counts.entry(unauthenticated.source).or_insert((0, *number)).0 += 1;
        }
        // The oldest connection of the source with the most connections; of two such sources, the earlier one.
        let most = counts.into_values().max_by_key(|(count, first)| (*count, std::cmp::Reverse(*first)));
        most.map(|(_, first)| first)
    }

    /// Evicts connections to make room for a client. Returns whether there is room.
    fn make_room(&mut self, room: usize) -> bool {
        if self.authenticated.len() < room {
            return true;
        }
        let idle = |client: &&Authenticated| client.busy == 0 && client.last.elapsed() >= IDLE;
        let oldest =
            self.authenticated.iter().filter(|(_, client)| idle(client)).min_by_key(|(_, own)| own.last);
        let Some(number) = oldest.map(|(number, _)| *number) else { return false };
        if let Some(client) = self.authenticated.remove(&number) {
            client.closed.cancel();
        }
        true
    }
}

impl ConnectionSlot {
    /// Begins a request of an authenticated client. `None` if all places of clients are taken, or the connection
    /// was evicted meanwhile.
    pub(super) fn begin(&self) -> Option<RequestGuard> {
        let mut state = self.slots.0.state.lock();
        if let Some(unauthenticated) = state.unauthenticated.get(&self.number) {
            let (closed, last) = (unauthenticated.closed.clone(), Instant::now());
            if !state.make_room(self.slots.0.room) {
                return None;
            }
            state.unauthenticated.remove(&self.number);
            state.authenticated.insert(self.number, Authenticated { busy: 0, last, closed });
            self.is_authenticated.store(true, Ordering::Relaxed);
            self.slots.0.changed.notify_waiters();
        }
        state.authenticated.get_mut(&self.number)?.busy += 1;
        Some(RequestGuard { slots: self.slots.clone(), number: self.number })
    }

    pub(super) fn is_authenticated(&self) -> bool {
        self.is_authenticated.load(Ordering::Relaxed)
    }

    /// Returns when the connection must be closed: it is evicted, or still not authenticated after `patience`.
    pub(super) async fn wait_until_evicted(&self, patience: Duration) {
        let too_late = async {
            tokio::time::sleep(patience).await;
            if self.is_authenticated() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! { () = too_late => {} () = self.closed.cancelled() => {} }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut state = self.slots.0.state.lock();
        let was_unauthenticated = state.unauthenticated.remove(&self.number).is_some();
        state.authenticated.remove(&self.number);
        drop(state);
        if was_unauthenticated {
            self.slots.0.changed.notify_waiters();
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if let Some(client) = self.slots.0.state.lock().authenticated.get_mut(&self.number) {
            client.busy = client.busy.saturating_sub(1);
            client.last = Instant::now();
        }
    }
}

/// Returns the network of an address, which counts as one source.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets.iter_mut().skip(NETWORK).for_each(|octet| *octet = 0);
            Ipv6Addr::from(octets).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// A connection whose writes fail if the other side reads nothing for a while.
pub(super) struct WriteTimeoutStream {
    stream: TcpStream,
    patience: Duration,
    timer: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl WriteTimeoutStream {
    pub(super) fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, timer: Box::pin(tokio::time::sleep(patience)), is_waiting: false }
    }

    fn within<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.timer.as_mut().reset(tokio::time::Instant::now() + self.patience);
        }
        self.timer
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its input")))
    }
}

impl AsyncRead for WriteTimeoutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for WriteTimeoutStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.within(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
