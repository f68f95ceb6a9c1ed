//! Makes connections for guests: resolves a name once, connects to the addresses that were checked, and verifies the
//! host by TLS. Knows neither grants nor HTTP.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use wasmtime_wasi_http::{Error, Result};

use haft_core::grant::{Destination, Scheme};

/// Maximum number of concurrent name lookups of all guests. Each holds a thread until the system's resolver gives
/// up, even if its request was cancelled.
const MAX_LOOKUPS: usize = 8;

/// Time limit for a name lookup: twice the wait of the system's resolver for one server.
const LOOKUP: Duration = Duration::from_secs(10);

/// Maximum number of tried addresses of one name.
const MAX_ADDRESSES: usize = 8;

/// Delay before the next address is tried concurrently (RFC 8305, section 5).
const HEAD_START: Duration = Duration::from_millis(250);

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(crate) struct Connector {
    lookups: Arc<Semaphore>,
    /// Made at the first need: reading the system's certificates takes a while.
    tls: OnceLock<TlsConnector>,
}

impl Default for Connector {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)), tls: OnceLock::new() }
    }
}

impl Connector {
    /// Returns all addresses of a destination, those to be tried first in front.
    pub(super) async fn look_up(&self, destination: &Destination) -> Result<Vec<SocketAddr>> {
        if let Some(address) = destination.address() {
            return Ok(vec![(address, destination.port()).into()]);
        }
        let looked_up = timeout(LOOKUP, self.resolve(destination)).await.map_err(|_| Error::DnsTimeout)?;
        looked_up.map(alternating).map_err(|error| {
            // The system's message begins with a prefix that repeats the context.
            let text = error.to_string();
            let reason = text.rsplit(": ").next().map(str::to_owned);
            Error::DnsError { rcode: reason, info_code: None }
        })
    }

    async fn resolve(&self, destination: &Destination) -> io::Result<Vec<SocketAddr>> {
        let permit = self.lookups.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (name, port) = (destination.name().to_owned(), destination.port());
        let looking = spawn_blocking(move || {
            let _permit = permit;
            Ok((name.as_str(), port).to_socket_addrs()?.collect())
        });
        looking.await?
    }

    /// Connects to one of `addresses`, which must not be empty.
    pub(super) async fn connect(&self, addresses: Vec<SocketAddr>) -> Result<TcpStream> {
        let stream = race(addresses).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => Error::ConnectionRefused,
            io::ErrorKind::TimedOut => Error::ConnectionTimeout,
            _ => Error::DestinationUnavailable,
        })?;
        // A request is written at once; Nagle's algorithm would delay it.
        stream.set_nodelay(true).map_err(Error::Connect)?;
        Ok(stream)
    }

    /// Returns the connection for HTTP: encrypted if the destination requires it, with a certificate for exactly
    /// its host.
    pub(super) async fn secure(
        &self,
        stream: TcpStream,
        destination: &Destination,
    ) -> Result<Box<dyn Stream>> {
        if destination.scheme() == Scheme::Http {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(destination.name().to_owned());
        let name = name.map_err(|_| Error::HttpRequestUriInvalid)?;
        let stream = self.tls().await?.connect(name, stream).await.map_err(Error::Tls)?;
        Ok(Box::new(stream))
    }

    async fn tls(&self) -> Result<TlsConnector> {
        if let Some(tls) = self.tls.get() {
            return Ok(tls.clone());
        }
        let failed = |error: &dyn std::fmt::Display| {
            Error::Tls(io::Error::other(format!("the system's certificates cannot be used: {error}")))
        };
        let made = spawn_blocking(tls).await.map_err(|error| failed(&error))?;
        let made = made.map_err(|error| failed(&error))?;
        Ok(self.tls.get_or_init(|| made).clone())
    }
}

/// TLS with the system's certificates, offering only HTTP/1.1, and without session resumption: a server must not be
/// able to link the connections of two plugins.
fn tls() -> std::result::Result<TlsConnector, rustls::Error> {
    let mut config = haft_core::net::tls(true)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Returns addresses of IPv4 and IPv6 in turn, so that an unreachable kind costs little time.
fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (one, other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    let mut mixed = Vec::new();
    while one.len() + other.len() > 0 {
        mixed.extend(one.next().into_iter().chain(other.next()));
    }
    mixed
}

/// Tries one address after the other, without waiting for slow ones.
async fn race(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter().take(MAX_ADDRESSES);
    let mut attempts = JoinSet::new();
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        let is_last = waiting.next().map(|address| attempts.spawn(TcpStream::connect(address))).is_none();
        let patience = if is_last { Duration::MAX } else { HEAD_START };
        match timeout(patience, attempts.join_next()).await {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            Ok(Some(Ok(Err(error)))) => failure = error,
            Ok(Some(Err(error))) => failure = error.into(),
            Ok(None) if is_last => return Err(failure),
            Ok(None) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn both_kinds_of_addresses_take_turns() {
        let mixed = alternating(addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"]));
        assert_eq!(mixed, addresses(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]));
        assert_eq!(alternating(Vec::new()), []);
    }

    #[tokio::test]
    async fn an_address_that_leads_nowhere_does_not_keep_from_the_next() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        let closed = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
        let stream = race(vec![closed, good]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
        assert_eq!(race(vec![closed, closed]).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(race(Vec::new()).await.is_err());
    }
}
