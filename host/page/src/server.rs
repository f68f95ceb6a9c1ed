//! The server of the dashboard: HTTP on a loopback address, for browsers admitted by a one-time link.
//!
//! If the system supports it, the server listens on a separate loopback address (`127.83.12.9`): a browser sends a
//! cookie to every port of a host, and other pages of this machine must not get this one.

mod gate;
mod keys;
mod reply;
mod site;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

pub use self::keys::Link;
pub use self::site::Places;
use self::site::Site;
use crate::Catalogue;
use haft_core::random;

/// The maximum number of connections: a browser has six.
const MAX_CONNECTIONS: usize = 64;

/// The maximum number of headers of a request.
const MAX_HEADERS: usize = 64;

/// The maximum size of a request's headers in bytes.
const MAX_HEAD: usize = 16 << 10;

/// Time limit for the headers of a request, after the end of the previous request.
const HEADERS: Duration = Duration::from_mins(1);

/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// The number of threads that read the journal and the sessions.
const READERS: usize = 2;

/// A listening server.
pub struct Server {
    listener: StdListener,
    site: Arc<Site>,
}

impl Server {
    /// Listens at `address`, or at an unused loopback address. Admits no browser before there is a link.
    ///
    /// # Errors
    /// The address is not a loopback address or cannot be used, or the directories of `places` cannot be created.
    pub fn bind(
        address: Option<SocketAddr>,
        places: Places,
        catalogue: Arc<dyn Catalogue>,
    ) -> io::Result<Self> {
        let listener = match address {
            Some(address) => listen(address)?,
            None => own_address()?,
        };
        listener.set_nonblocking(true)?;
        let site = Arc::new(Site::new(listener.local_addr()?, places, catalogue)?);
        Ok(Self { listener, site })
    }

    /// Returns a new link, which admits one browser once. Invalidates the previous link.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn link(&self) -> io::Result<Link> {
        self.site.keys.link()
    }

    /// Returns a function that makes further links while the server runs.
    pub fn links(&self) -> impl Fn() -> io::Result<Link> + Send + 'static {
        let site = self.site.clone();
        move || site.keys.link()
    }

    /// Serves until `stop` is cancelled, on a separate thread: no other work waits for a browser.
    ///
    /// # Errors
    /// The thread or its runtime cannot be started.
    pub fn start(self, stop: CancellationToken) -> io::Result<JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(READERS)
            .build()?;
        let run = move || {
            runtime.block_on(stop.run_until_cancelled(self.run()));
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("haft-page".into()).spawn(run)
    }

    async fn run(self) {
        let Self { listener, site } = self;
        let _stops = site.watch();
        let Ok(listener) = TcpListener::from_std(listener) else { return };
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let accepted = listener.accept().await;
            match (accepted, room.clone().try_acquire_owned()) {
                (Ok((stream, _)), Ok(place)) => drop(tokio::spawn(serve(stream, site.clone(), place))),
                (Ok(_), Err(_)) => {}
                (Err(error), _) => {
                    tracing::warn!(%error, "a connection to the dashboard was not accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

async fn serve(stream: TcpStream, site: Arc<Site>, _place: OwnedSemaphorePermit) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let site = site.clone();
        async move { Ok::<_, Infallible>(site.answer(request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "connection to the dashboard ended");
    }
}

fn listen(address: SocketAddr) -> io::Result<StdListener> {
    if !haft_core::net::is_loopback_address(address.ip()) {
        let why = format!(
            "`{address}` is reachable from other machines; expected an address such as `127.0.0.1:8080`"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    StdListener::bind(address)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen at `{address}`: {error}")))
}

/// Listens on a loopback address that no other program's pages use or, on systems with a single loopback address,
/// on that address.
fn own_address() -> io::Result<StdListener> {
    let [second, third, fourth] = random::bytes()?;
    // Neither the network address nor the broadcast address.
    let address = Ipv4Addr::new(127, second.clamp(1, 254), third, fourth.clamp(2, 254));
    StdListener::bind(SocketAddr::new(IpAddr::V4(address), 0))
        .or_else(|_| listen(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)))
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("listener", &self.listener).finish_non_exhaustive()
    }
}
