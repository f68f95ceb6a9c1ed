//! haft's connections to the hosts of secrets, in the machine's network, with the system's certificates.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower_service::Service;

use super::super::connect;
use super::super::message::Request;
use super::request::WithoutTrailers;
use haft_core::net;
use haft_core::sync::Lock;

/// Limit on the bytes of an answer's head.
const MAX_HEAD: usize = 256 << 10;

/// Sends the requests of one connection of the child.
pub(super) type Client = Pool<HttpsConnector<Dial>, WithoutTrailers>;

/// Connects to one address, whatever the name.
#[derive(Clone, Debug)]
pub(super) struct Dial {
    /// The granted name that led to the address.
    name: Option<String>,
    pub(super) address: SocketAddr,
    /// The connection that is open already, until it is used.
    first: Arc<Lock<Option<TcpStream>>>,
}

impl Dial {
    pub(super) fn new(name: Option<&str>, address: SocketAddr, first: TcpStream) -> Self {
        Self { name: name.map(str::to_owned), address, first: Arc::new(Lock::new(Some(first))) }
    }

    /// Returns the first connection, or opens another one.
    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        let first = self.first.lock().take();
        match first {
            Some(first) => Ok(first),
            None => opened(self.name.as_deref(), self.address).await,
        }
    }
}

impl Service<Uri> for Dial {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let dial = self.clone();
        Box::pin(async move { dial.connect().await.map(TokioIo::new) })
    }
}

/// Opens a connection to an address that the judge permitted, and to which `name` led.
pub(super) async fn opened(name: Option<&str>, address: SocketAddr) -> io::Result<TcpStream> {
    let request = Request { id: 0, is_v6: address.is_ipv6(), wait: Some(NonZeroU64::MAX), address };
    let (error, socket) = connect::open_for(name, &request).await;
    let socket = socket.filter(|_| error == 0).ok_or_else(|| io::Error::from_raw_os_error(error))?;
    let stream = TcpStream::from_std(std::net::TcpStream::from(socket))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Returns a client for requests over connections of `dial`, over HTTP/2 only if the child speaks it: a connection that is upgraded
/// cannot be one of HTTP/2.
///
/// # Errors
/// The system's certificates cannot be used.
pub(super) fn client(dial: Dial, is_h2: bool) -> Result<Client, rustls::Error> {
    let connector = HttpsConnectorBuilder::new().with_tls_config(config()?).https_or_http();
    let connector = if is_h2 {
        connector.enable_all_versions().wrap_connector(dial)
    } else {
        connector.enable_http1().wrap_connector(dial)
    };
    let mut pool = Pool::builder(TokioExecutor::new());
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
