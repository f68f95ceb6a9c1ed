//! A connection of the child that leads to haft: opens TLS if its host is one of a secret, and passes it on untouched if
//! it is for another granted host at the same address.

use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use super::Shared;
use super::buffered::Buffered;
use super::forward::Forward;
use super::outside::Route;
use haft_core::grant::{Destination, Scheme};
use haft_core::sync::Lock;

/// Time limit for the child's part of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Time limit for the head of a request; a connection without one is closed.
const HEAD: Duration = Duration::from_mins(2);
/// Limit on the bytes of a request's head.
const MAX_HEAD: usize = 128 << 10;
/// Limit on the requests of one connection at one time.
const MAX_STREAMS: u32 = 128;

pub(super) struct Intercepted {
    pub(super) shared: Arc<Shared>,
    /// The granted hosts at the address, as in URLs.
    pub(super) hosts: Vec<String>,
    pub(super) route: Arc<Route>,
}

impl Intercepted {
    pub(super) async fn serve(self, stream: TcpStream) {
        let served = if self.first(Scheme::Https).is_some() {
            self.serve_tls(stream).await
        } else {
            let destination = self.first(Scheme::Http);
            self.serve_http(stream, destination, false).await
        };
        if let Err(error) = served {
            tracing::debug!(%error, "a connection with a secret ended");
        }
    }

    fn destination(&self, scheme: Scheme, host: &str) -> Option<Destination> {
        self.shared.destination(scheme, host, self.route.dial.address.port())
    }

    fn first(&self, scheme: Scheme) -> Option<Destination> {
        self.hosts.iter().find_map(|host| self.destination(scheme, host))
    }

    async fn serve_tls(self, stream: TcpStream) -> anyhow::Result<()> {
        let hello = LazyConfigAcceptor::new(Acceptor::default(), Buffered::new(stream, Some(Vec::new())));
        let start = timeout(HANDSHAKE, hello).await??;
        let name = start.client_hello().server_name().map(str::to_ascii_lowercase);
        // Only a client that asks for an address names no host.
        let is_meant = |host: &&String| match &name {
            Some(name) => *host == name,
            None => Destination::new("https", host).is_some_and(|host| host.address().is_some()),
        };
        let meant = self.hosts.iter().find(is_meant);
        let destination = meant.and_then(|host| self.destination(Scheme::Https, host));
        match (destination, meant) {
            (None, Some(_)) => self.pass_on(start).await,
            (destination, _) => {
                let shown = destination.as_ref().map(|destination| destination.name().to_owned());
                let shown = shown.or(name).unwrap_or_else(|| "localhost".to_owned());
                let config = self.shared.authority.config(&shown)?;
                let mut stream = timeout(HANDSHAKE, start.into_stream(config)).await??;
                stream.get_mut().0.seen = None;
                let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                self.serve_http(stream, destination, is_h2).await
            }
        }
    }

    async fn pass_on(self, start: StartHandshake<Buffered>) -> anyhow::Result<()> {
        let Buffered { mut stream, seen } = start.io;
        let mut outside = self.route.dial.connect().await?;
        outside.write_all(&seen.unwrap_or_default()).await?;
        copy_bidirectional(&mut stream, &mut outside).await?;
        Ok(())
    }

    /// Answers the requests of a connection to `destination`; `None` if it is for a host that is not granted.
    async fn serve_http(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        destination: Option<Destination>,
        is_h2: bool,
    ) -> anyhow::Result<()> {
        let Self { shared, route, .. } = self;
        let forward = Arc::new(Forward { shared, destination, route, is_h2, upgraded: Lock::default() });
        let service = service_fn(|request| {
            let forward = forward.clone();
            async move { Ok::<_, std::convert::Infallible>(forward.answer(request).await) }
        });
        let mut server = auto::Builder::new(TokioExecutor::new()).preserve_header_case(true);
        server.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(MAX_HEAD);
        let head = u32::try_from(MAX_HEAD)?;
        server
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(head)
            .max_concurrent_streams(MAX_STREAMS);
        let result = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
        forward.upgraded().await;
        result.map_err(anyhow::Error::from_boxed)
    }
}
