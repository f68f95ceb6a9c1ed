//! Serves any number of clients over streamable HTTP, at `/mcp`. Requests without the token, or from foreign web
//! pages, are refused before their body is read. Time, sizes and numbers are bounded.

mod admission;
mod connection;
mod endpoint;
mod gate;
mod public;
mod response;
mod session;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::admission::{Admission, Token, TokenError};
use self::connection::{ConnectionSlots, WriteTimeoutStream};
use self::endpoint::Endpoint;
use self::gate::{Gate, HttpConnection};
use self::public::Public;
pub use self::public::Readiness;
use self::session::Home;
use super::handler::ServerShared;
use super::snapshot::ToolSnapshots;
use super::stdio::GRACE;
use haft_core::tool::inline::InlineThreads;
use haft_core::trace::Wire;

/// The path that is served.
pub const PATH: &str = "/mcp";

/// Headers of a request. Clients send a dozen.
const MAX_HEADERS: usize = 64;

/// Maximum number of bytes of a request's headers.
const MAX_HEAD: usize = 64 << 10;

/// Time limit for writing the last answers when haft ends.
const SETTLING: Duration = Duration::from_millis(500);

/// Time limit for the end of interrupted streams.
const FLUSH: Duration = Duration::from_secs(1);

/// Maximum number of connections that are accepted at the end, as many as the kernel queues for tokio's listener: clients
/// that go on connecting do not delay the end.
const BACKLOG: usize = 1024;

/// The pause after a connection could not be accepted for lack of a file descriptor, which lasts for a while.
const PAUSE: Duration = Duration::from_millis(50);

/// Settings of the HTTP server.
#[derive(Debug)]
pub struct Settings {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The admission of clients.
    pub admission: Admission,
    /// The URL of the server for clients, if it differs from the host that they name (RFC 9728, "resource").
    pub url: Option<String>,
    /// Names that clients may call this machine, besides those of the loopback interface and the
    /// address itself.
    pub hosts: Vec<String>,
    /// The limits on concurrent clients.
    pub room: Room,
    /// The time limits for slow clients.
    pub patience: Patience,
    /// The missing parts, with updates.
    pub readiness: watch::Receiver<Readiness>,
    /// The end of the server.
    pub drain: Drain,
}

/// The shutdown of a server.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    /// The time during which the server accepts calls and reports that it is not ready.
    pub time: Duration,
    /// Cancelled to skip this time.
    pub hurry: CancellationToken,
}

/// Limits on concurrent clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Sessions.
    pub sessions: usize,
    /// Connections, of which a client has one or two. A few of them are reserved for unauthenticated clients.
    pub connections: usize,
}

/// Time limits for slow clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The time for a new connection to show the token, in a request's headers; without a token, for its first
    /// request.
    pub first: Duration,
    /// Time limit for the headers of a request, from the end of the previous request.
    pub headers: Duration,
    /// For the body of a request.
    pub body: Duration,
    /// For a client to read anything at all of an answer.
    pub reading: Duration,
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: Acceptor,
    drain: Drain,
}

/// Accepts and serves connections.
struct Acceptor {
    gate: Arc<Gate>,
    patience: Patience,
    slots: ConnectionSlots,
    threads: InlineThreads,
}

impl Default for Patience {
    /// Longer than any well-meaning client takes, on any network.
    fn default() -> Self {
        let (first, headers) = (Duration::from_secs(10), Duration::from_mins(1));
        Self { first, headers, body: Duration::from_secs(30), reading: Duration::from_secs(30) }
    }
}

impl Server {
    /// Listens at the address of `settings`, for clients of `snapshots`.
    pub async fn bind(snapshots: ToolSnapshots, settings: Settings) -> io::Result<Self> {
        let Settings { address, admission, url, mut hosts, room, patience, readiness, drain } = settings;
        let listener = TcpListener::bind(address).await.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen at `{address}`: {error}"))
        })?;
        let address = listener.local_addr()?;
        hosts.extend(url.as_deref().and_then(admission::host_of));
        let public = Public::new(snapshots.clone(), url, readiness);
        let shared = ServerShared::new(snapshots, admission.caller_id(), Wire::Http);
        let home = shared.snapshots.machine.as_deref().map(|machine| Home::named(machine, address.port()));
        let endpoint = Endpoint::new(room.sessions, home);
        let gate = Arc::new(Gate::new(shared, (admission, public), hosts, endpoint, patience.body));
        let slots = ConnectionSlots::new(within_file_limit(room.connections));
        let threads = InlineThreads::start("haft-http", 0)?;
        Ok(Self { listener, address, acceptor: Acceptor { gate, patience, slots, threads }, drain })
    }

    /// Returns the listening address, with the assigned port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is cancelled, then for the time of [`Drain`], and then waits a bounded time for running
    /// calls.
    pub async fn run(self, stop: CancellationToken) -> io::Result<()> {
        let Self { listener, acceptor, drain, .. } = self;
        let (closing, public) = (CancellationToken::new(), &acceptor.gate.public);
        let ending = async {
            stop.cancelled().await;
            public.ending.cancel();
            // Without monitoring and calls no wait is necessary.
            if public.is_watched() || !acceptor.gate.shared.calls.running.is_empty() {
                let _ = tokio::time::timeout(drain.time, drain.hurry.cancelled()).await;
            }
        };
        tokio::select! {
            () = acceptor.accept(&listener, &closing) => {}
            () = ending => {}
        }
        acceptor.accept_last(listener, &closing).await?;
        // New connections are refused and open ones are notified; neither has begun a call.
        if (public.is_watched() || acceptor.slots.have_unauthenticated()) && !drain.hurry.is_cancelled() {
            // The last accepted client may be about to call.
            tokio::time::sleep(SETTLING).await;
        }
        acceptor.gate.ended.cancel();
        acceptor.gate.shared.calls.wait_until_idle(GRACE).await;
        acceptor.gate.shared.calls.closing.cancel();
        // Answers are written first; then streams that wait for notifications are ended.
        closing.cancel();
        if !acceptor.are_closed_within(SETTLING).await {
            acceptor.gate.endpoint.closing.cancel();
            acceptor.are_closed_within(FLUSH).await;
        }
        Ok(())
    }
}

/// Returns `most`, but at most half of the open files that this process may have.
fn within_file_limit(most: usize) -> usize {
    let half = getrlimit(Resource::Nofile).current.map(|files| usize::try_from(files / 2).unwrap_or(most));
    let affordable = half.map_or(most, |half| half.min(most));
    if affordable < most {
        tracing::warn!(
            most,
            affordable,
            "fewer connections than `max_connections`: the limit of open files is too low"
        );
    }
    affordable
}

impl Acceptor {
    /// Returns whether every connection was closed in time.
    async fn are_closed_within(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.slots.are_empty()).await.is_ok()
    }

    async fn accept(&self, listener: &TcpListener, closing: &CancellationToken) {
        loop {
            match listener.accept().await {
                Ok((stream, source)) => match stream.into_std() {
                    // Another runtime polls the stream from now on.
                    Ok(stream) => self.serve_in_background(stream, source, closing).await,
                    Err(error) => tracing::warn!(%error, "a connection cannot be served"),
                },
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Accepts the connections that the kernel has established, and closes the listener, which would reset them: a
    /// load balancer does not send a request again that it has sent on such a connection.
    async fn accept_last(&self, listener: TcpListener, closing: &CancellationToken) -> io::Result<()> {
        let listener = listener.into_std()?;
        for _ in 0..BACKLOG {
            let Ok((stream, source)) = listener.accept() else { break };
            stream.set_nonblocking(true)?;
            self.serve_in_background(stream, source, closing).await;
        }
        Ok(())
    }

    async fn serve_in_background(
        &self,
        stream: std::net::TcpStream,
        source: SocketAddr,
        closing: &CancellationToken,
    ) {
        let place = self.slots.admit(source.ip()).await;
        // Every message is written at once; waiting for more data would delay it.
        let _ = stream.set_nodelay(true);
        let (gate, patience, closing) = (self.gate.clone(), self.patience, closing.clone());
        let connection = Arc::new(HttpConnection { place, local: stream.local_addr().ok() });
        let serve = async move || {
            let stream = TcpStream::from_std(stream)?;
            serve(stream, gate, &connection, patience, closing).await.map_err(io::Error::other)
        };
        let work = async move || {
            if let Err(error) = serve().await {
                tracing::debug!(%error, "connection ended");
            }
        };
        self.threads.run(work).await;
    }
}

/// Answers the requests of one connection until either side closes it.
async fn serve(
    stream: TcpStream,
    gate: Arc<Gate>,
    connection: &Arc<HttpConnection>,
    patience: Patience,
    closing: CancellationToken,
) -> hyper::Result<()> {
    let own = connection.clone();
    let service = service_fn(move |request| {
        let (gate, connection) = (gate.clone(), own.clone());
        async move { Ok::<_, Infallible>(gate.answer(request, &connection).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.headers)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(WriteTimeoutStream::new(stream, patience.reading)), service);
    let mut served = std::pin::pin!(served);
    tokio::select! {
        ended = &mut served => return ended,
        () = closing.cancelled() => {}
        () = connection.place.wait_until_evicted(patience.first) => {}
    }
    // A connection without a request yet has no answer to wait for.
    if !connection.place.is_authenticated() {
        return Ok(());
    }
    served.as_mut().graceful_shutdown();
    served.await
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}
