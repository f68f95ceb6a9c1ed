//! Serving any number of clients over HTTP (MCP's "streamable HTTP"), at `/mcp`. Whoever cannot show
//! the token, or comes from a foreign page, is turned away before anything of it is read; whoever
//! is slow, many or large meets a bound.

mod gate;
mod origin;
mod sessions;
mod stream;
mod token;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use self::gate::Gate;
use self::stream::Patient;
pub use self::token::{Token, TokenError};
use super::handler::Shared;
use super::offer::Offers;
use super::stdio::GRACE;

/// The path that is served.
pub const PATH: &str = "/mcp";

/// Connections at once, of all clients: a client has one or two. Each holds a few buffers.
const MAX_CONNECTIONS: usize = 256;

/// Headers of a request. Clients send a dozen.
const MAX_HEADERS: usize = 64;

/// Bytes of a request's headers.
const MAX_HEAD: usize = 64 << 10;

/// How long the last answers may take to be written when haft ends.
const SETTLING: Duration = Duration::from_millis(500);

/// How long streams may take to end that were cut off.
const FLUSH: Duration = Duration::from_secs(1);

/// A pause after a connection could not be accepted: there is no file descriptor for it, and that
/// does not change at once.
const PAUSE: Duration = Duration::from_millis(50);

/// What is said to whoever comes when all connections are taken.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// How clients are served.
#[derive(Debug)]
pub struct Settings {
    /// Where to listen.
    pub address: SocketAddr,
    /// What a client has to show; `None` lets everybody in who reaches the address.
    pub token: Option<Token>,
    /// Names that clients may call this machine, besides those of the loopback interface and the
    /// address itself.
    pub hosts: Vec<String>,
    /// How long to wait for slow clients.
    pub patience: Patience,
}

/// How long to wait for slow clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For the headers of a request, from the end of the one before.
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
    doors: Doors,
}

/// What becomes of connections.
struct Doors {
    gate: Arc<Gate>,
    shared: Shared,
    patience: Patience,
    places: Arc<Semaphore>,
}

impl Default for Patience {
    /// Longer than any client takes that means well, on any network.
    fn default() -> Self {
        let (headers, body) = (Duration::from_mins(1), Duration::from_secs(30));
        Self { headers, body, reading: Duration::from_secs(30) }
    }
}

impl Server {
    /// Listens at the address of `settings`, for clients of `offers`.
    pub async fn bind(offers: Offers, settings: Settings) -> io::Result<Self> {
        let Settings { address, token, hosts, patience } = settings;
        let listener = TcpListener::bind(address).await.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen at `{address}`: {error}"))
        })?;
        let address = listener.local_addr()?;
        let shared = Shared::new(offers);
        let gate = Arc::new(Gate::new(&shared, token, hosts, patience.body));
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Ok(Self { listener, address, doors: Doors { gate, shared, patience, places } })
    }

    /// Where it listens: the port that was found, where any was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is cancelled, and the calls under way then to their end, for a while.
    pub async fn run(self, stop: CancellationToken) -> io::Result<()> {
        let Self { listener, doors, .. } = self;
        let closing = CancellationToken::new();
        tokio::select! {
            () = doors.accept(&listener, &closing) => {}
            () = stop.cancelled() => {}
        }
        drop(listener);
        doors.shared.calls.over(GRACE).await;
        doors.shared.calls.close();
        // Answers are written to their end; what waits for news that will not come is cut off after.
        closing.cancel();
        if !doors.are_empty_within(SETTLING).await {
            doors.gate.close();
            doors.are_empty_within(FLUSH).await;
        }
        Ok(())
    }
}

impl Doors {
    /// Whether every connection was closed in time.
    async fn are_empty_within(&self, time: Duration) -> bool {
        let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
        tokio::time::timeout(time, self.places.acquire_many(all)).await.is_ok()
    }

    async fn accept(&self, listener: &TcpListener, closing: &CancellationToken) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => match self.places.clone().try_acquire_owned() {
                    Ok(place) => self.connected(stream, place, closing.clone()),
                    Err(_) => drop(stream.try_write(FULL)),
                },
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn connected(&self, stream: TcpStream, place: OwnedSemaphorePermit, closing: CancellationToken) {
        // Every message is written whole; waiting for more only delays it.
        let _ = stream.set_nodelay(true);
        let (gate, patience) = (self.gate.clone(), self.patience);
        let local = stream.local_addr().ok();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let gate = gate.clone();
                async move { Ok::<_, Infallible>(gate.answer(request, local).await) }
            });
            let io = TokioIo::new(Patient::new(stream, patience.reading));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(patience.headers)
                .max_headers(MAX_HEADERS)
                .max_header_size(MAX_HEAD)
                .max_buf_size(MAX_HEAD)
                .serve_connection(io, service);
            let mut connection = std::pin::pin!(connection);
            let served = tokio::select! {
                served = &mut connection => served,
                () = closing.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = served {
                tracing::debug!(%error, "connection ended");
            }
            drop(place);
        });
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}
