//! haft's connections to the hosts of secrets, in the machine's network, with the system's certificates.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower_service::Service;

use super::super::connect;
use super::super::message::Request;
use super::buffered::Buffered;
use super::request::WithoutTrailers;
use haft_core::net;
use haft_core::sync::Lock;

/// Limit on the bytes of an answer's head.
const MAX_HEAD: usize = 256 << 10;
/// Time after an address's connection or answer during which the address is taken to be there. Idle connections are not
/// used after it: many servers close theirs after five seconds.
const FRESH: Duration = Duration::from_secs(4);
/// Limit on the idle connections to one address.
const MAX_IDLE: usize = 16;

pub(super) type Client = Pool<HttpsConnector<Dial>, WithoutTrailers>;

/// One address, for all connections of a child to it.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) dial: Dial,
    http1: Client,
    any_version: Client,
}

/// Connects to one address, whatever the name.
#[derive(Clone, Debug)]
pub(super) struct Dial {
    /// The granted name that led to the address.
    name: Option<String>,
    pub(super) address: SocketAddr,
    state: Arc<Lock<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Connections that are open already and unused, with their times.
    unused: Vec<(Instant, TcpStream)>,
    /// The time of the last connection or answer.
    last: Option<Instant>,
}

impl Route {
    /// Returns the route to an address to which `name` led.
    ///
    /// # Errors
    /// The system's certificates cannot be used.
    pub(super) fn new(name: Option<&str>, address: SocketAddr) -> Result<Self, rustls::Error> {
        let dial = Dial { name: name.map(str::to_owned), address, state: Arc::default() };
        let [http1, any_version] = [false, true].map(|is_h2| client(dial.clone(), is_h2));
        Ok(Self { dial, http1: http1?, any_version: any_version? })
    }

    /// Returns the client for a connection of the child: it speaks HTTP/2 only if the child does, because a connection of
    /// HTTP/2 cannot be upgraded.
    pub(super) fn client(&self, is_h2: bool) -> &Client {
        if is_h2 { &self.any_version } else { &self.http1 }
    }
}

impl Dial {
    /// Returns whether it connects to `address`, to which `name` led.
    pub(super) fn is_to(&self, name: Option<&str>, address: SocketAddr) -> bool {
        (self.name.as_deref(), self.address) == (name, address)
    }

    /// Opens a connection unless the address was there a moment ago: the child learns that an address cannot be reached.
    pub(super) async fn check(&self) -> io::Result<()> {
        if self.state.lock().last.is_some_and(is_fresh) {
            return Ok(());
        }
        let stream = opened(self.name.as_deref(), self.address).await?;
        let mut state = self.state.lock();
        let now = Instant::now();
        state.last = Some(now);
        state.unused.retain(|(since, _)| is_fresh(*since));
        state.unused.push((now, stream));
        Ok(())
    }

    pub(super) fn answered(&self) {
        self.state.lock().last = Some(Instant::now());
    }

    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        let unused = self.state.lock().unused.pop().filter(|(since, _)| is_fresh(*since));
        match unused {
            Some((_, stream)) => Ok(stream),
            None => opened(self.name.as_deref(), self.address).await,
        }
    }
}

fn is_fresh(since: Instant) -> bool {
    since.elapsed() < FRESH
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Buffered>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let dial = self.clone();
        Box::pin(async move { Ok(TokioIo::new(Buffered::new(dial.connect().await?, None))) })
    }
}

/// Opens a connection to an address that the judge permitted, and to which `name` led.
async fn opened(name: Option<&str>, address: SocketAddr) -> io::Result<TcpStream> {
    let request = Request { id: 0, is_v6: address.is_ipv6(), wait: Some(NonZeroU64::MAX), address };
    let (error, socket) = connect::open_for(name, &request).await;
    let socket = socket.filter(|_| error == 0).ok_or_else(|| io::Error::from_raw_os_error(error))?;
    let stream = TcpStream::from_std(std::net::TcpStream::from(socket))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn client(dial: Dial, is_h2: bool) -> Result<Client, rustls::Error> {
    let connector = HttpsConnectorBuilder::new().with_tls_config(config()?).https_or_http();
    let connector = if is_h2 {
        connector.enable_all_versions().wrap_connector(dial)
    } else {
        connector.enable_http1().wrap_connector(dial)
    };
    let mut pool = Pool::builder(TokioExecutor::new());
    pool.pool_timer(TokioTimer::new()).pool_idle_timeout(FRESH).pool_max_idle_per_host(MAX_IDLE);
    pool.http1_max_buf_size(MAX_HEAD).http1_preserve_header_case(true);
    Ok(pool.build(connector))
}

/// Returns the configuration of all connections, so that they share TLS sessions.
fn config() -> Result<ClientConfig, rustls::Error> {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let mut config = net::tls(true)?;
    // The connector offers what it may use.
    config.alpn_protocols.clear();
    Ok(CONFIG.get_or_init(|| config).clone())
}
