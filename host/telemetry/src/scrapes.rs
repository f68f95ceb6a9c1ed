//! Serves metrics to Prometheus at a separate address: `GET /metrics`, and nothing else. Every client that reaches
//! the address is answered, except pages in browsers and, at a loopback address, requests for a foreign host name:
//! a page whose name resolves to that address (DNS rebinding) sends no `Origin`.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Telemetry;
use haft_core::net::{is_loopback, is_loopback_address};

/// The path of the metrics.
pub const METRICS: &str = "/metrics";

/// The content type of Prometheus's text format.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A header that browsers send to trustworthy addresses: https, and loopback names.
const FETCHED: &str = "sec-fetch-site";

/// The maximum number of connections: two Prometheus servers and a reserve. More wait.
const CONNECTIONS: usize = 16;

/// How long the headers of a request may take.
const HEAD: Duration = Duration::from_secs(10);

/// How long a connection is kept: usually longer than the scrape interval.
const KEPT: Duration = Duration::from_mins(5);

/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// The listener for scrapes.
#[derive(Debug)]
pub struct Scrapes {
    listener: TcpListener,
    address: SocketAddr,
}

impl Scrapes {
    /// Listens at `address`; port 0 for any port.
    ///
    /// # Errors
    /// The address cannot be used.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen for `--metrics` at `{address}`: {error}"))
        })?;
        Ok(Self { address: listener.local_addr()?, listener })
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests with the metrics of `telemetry`, once it exists.
    pub async fn serve(self, telemetry: impl Fn() -> Option<Telemetry> + Send + Sync + 'static) {
        let (telemetry, room) = (Arc::new(telemetry), Arc::new(Semaphore::new(CONNECTIONS)));
        // The semaphore is never closed.
        while let Ok(place) = room.clone().acquire_owned().await {
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let (telemetry, is_local) = (telemetry.clone(), is_loopback_address(self.address.ip()));
            tokio::spawn(async move {
                let _ = tokio::time::timeout(KEPT, connection(stream, &*telemetry, is_local)).await;
                drop(place);
            });
        }
    }
}

async fn connection(
    stream: TcpStream,
    telemetry: &(impl Fn() -> Option<Telemetry> + Sync),
    is_local: bool,
) -> hyper::Result<()> {
    let service = service_fn(|request| {
        let is_foreign = is_local && !is_called_by_its_own_name(&request);
        std::future::ready(Ok::<_, Infallible>(answer(&request, is_foreign, telemetry)))
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD);
    server.serve_connection(TokioIo::new(stream), service).await
}

/// Returns whether the host of a request, if it has one, is this machine.
fn is_called_by_its_own_name<B>(request: &Request<B>) -> bool {
    let Some(host) = request.headers().get(HOST) else { return true };
    let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    host.is_some_and(|host| is_loopback(host.host()))
}

fn answer<B>(
    request: &Request<B>,
    is_foreign: bool,
    telemetry: impl Fn() -> Option<Telemetry>,
) -> Response<Full<Bytes>> {
    let headers = request.headers();
    let (status, text) = if is_foreign || headers.contains_key(ORIGIN) || headers.contains_key(FETCHED) {
        (StatusCode::FORBIDDEN, "web pages may not read metrics\n".into())
    } else if request.uri().path() != METRICS {
        (StatusCode::NOT_FOUND, format!("not found; metrics are at `{METRICS}`\n"))
    } else if !matches!(*request.method(), Method::GET | Method::HEAD) {
        (StatusCode::METHOD_NOT_ALLOWED, "expected GET\n".into())
    } else {
        match telemetry().and_then(|telemetry| telemetry.exposition()) {
            Some(text) => (StatusCode::OK, text),
            None => (StatusCode::SERVICE_UNAVAILABLE, "no measurements yet\n".into()),
        }
    };
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(FORMAT));
    answer
}
