//! One HTTP exchange: sends a request to a checked address with the injected headers, and passes on the response
//! without the injected secrets. Every wait and every size is bounded.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, HOST, HeaderMap, HeaderValue};
use hyper::{Request, Response, Uri};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, spawn};
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{Error, RequestOptions, Result, WasiBody};

use super::body::{MAX_RESPONSE, RequestBody, ResponseBody};
use super::client::{Connector, Stream};
use super::injection::Injections;
use crate::denials::denied_access::{NetworkDecisions, Refusal};
use haft_core::grant::{Destination, Grant};
use haft_core::trace::TraceParent;
use haft_core::upstream::Upstream;

/// A response, and the task that runs while its body is read.
pub(super) type Sent = (Response<WasiBody>, Box<dyn Future<Output = Result<()>> + Send>);

/// Maximum number of bytes of an answer's headers; servers themselves send 8 to 32 KiB at most.
const MAX_HEADER_BYTES: u32 = 64 << 10;

const MAX_HEADERS: usize = 256;

/// Default time limit from the name lookup to the encrypted connection.
const CONNECT: Duration = Duration::from_secs(10);

/// The longest wait for a connection; beyond, the kernel itself gives up.
const MAX_CONNECT: Duration = Duration::from_mins(2);

/// Default time limit until the response begins, and between two pieces of it.
const QUIET: Duration = Duration::from_mins(1);

/// The longest silence: what slow reports and models take. The call's own limit ends it sooner.
const MAX_QUIET: Duration = Duration::from_mins(10);

/// Time limits of the parts of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timeouts {
    connect: Duration,
    first_byte: Duration,
    between_bytes: Duration,
}

impl Timeouts {
    pub(super) fn from_options(options: Option<&RequestOptions>) -> Self {
        let options = options.copied().unwrap_or_default();
        Self {
            connect: options.connect_timeout.unwrap_or(CONNECT).min(MAX_CONNECT),
            first_byte: options.first_byte_timeout.unwrap_or(QUIET).min(MAX_QUIET),
            between_bytes: options.between_bytes_timeout.unwrap_or(QUIET).min(MAX_QUIET),
        }
    }
}

pub(super) struct Exchange {
    pub(super) client: Arc<Connector>,
    pub(super) grant: Arc<Grant>,
    pub(super) injections: Injections,
    pub(super) decisions: NetworkDecisions,
    pub(super) open: Arc<Semaphore>,
    pub(super) destination: Destination,
    pub(super) what: String,
    pub(super) trace: Option<TraceParent>,
}

impl Exchange {
    pub(super) async fn run(self, request: Request<WasiBody>, timeouts: Timeouts) -> Result<Sent> {
        let permit = timeout(timeouts.connect, self.open.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = permit else { return Err(Error::ConnectionLimitReached) };
        let stream = timeout(timeouts.connect, self.reach()).await.unwrap_or(Err(Error::ConnectionTimeout));
        let stream = stream.inspect_err(|error| self.note_failure(error)).map_err(coded)?;
        let (request, injected) = self.prepared(request)?;
        let (response, connection) = exchange(stream, request, timeouts.first_byte).await?;
        let response = self.visible(response, injected, timeouts.between_bytes)?;
        let connection = async move {
            connection.await;
            drop(permit);
            Ok(())
        };
        Ok((response, Box::new(connection)))
    }

    /// Returns a connection to the destination, at an address that the grant allows.
    async fn reach(&self) -> Result<Box<dyn Stream>> {
        let found = self.client.look_up(&self.destination).await;
        let stream = if let Some(upstream) = Upstream::of(self.destination.host()) {
            // In a closed network only the proxy knows the name's addresses.
            found.ok().map(|found| self.allowed(found)).transpose()?;
            self.decisions.allow(format_args!("{} (through the proxy)", self.what));
            let opened = upstream.connect(self.destination.host(), self.destination.port()).await;
            opened.map_err(Error::Connect)?
        } else {
            let stream = self.client.connect(self.allowed(found?)?).await?;
            let peer = stream.peer_addr().map_err(Error::Connect)?;
            self.decisions.allow(format_args!("{} ({})", self.what, peer.ip()));
            stream
        };
        self.client.secure(stream, &self.destination).await
    }

    /// Returns the permitted addresses; a refusal if there is none.
    fn allowed(&self, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>> {
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in addresses {
            match self.grant.may_connect(&self.destination, address.ip()) {
                Ok(()) => allowed.push(address),
                Err(why) => _ = refused.get_or_insert((address.ip(), why)),
            }
        }
        match refused {
            Some((address, why)) if allowed.is_empty() => {
                self.decisions.refuse(&self.what, format_args!("{why} ({address})"));
                self.decisions.hint(Refusal::Address(self.destination.clone(), address, why));
                Err(Error::DestinationIpProhibited)
            }
            _ => Ok(allowed),
        }
    }

    /// Records a connection that failed without being refused.
    fn note_failure(&self, error: &Error) {
        match error {
            Error::DestinationIpProhibited => {}
            Error::Tls(error) => {
                let why = format!("no encrypted connection to `{}`: {error}", self.destination);
                self.decisions.hint(Refusal::Other(why));
            }
            error => self.decisions.allow(format_args!("{} (not reached: {error})", self.what)),
        }
    }

    fn prepared(&self, request: Request<WasiBody>) -> Result<(Request<RequestBody>, bool)> {
        let mut request = request.map(RequestBody::new);
        // The form for a server; a complete URL would be for a proxy.
        *request.uri_mut() = match request.uri().path_and_query() {
            Some(path) => path.as_str().parse().map_err(|_| Error::HttpRequestUriInvalid)?,
            None => Uri::from_static("/"),
        };
        let host = HeaderValue::from_str(&self.destination.authority());
        request.headers_mut().insert(HOST, host.map_err(|_| Error::HttpRequestUriInvalid)?);
        if let Some(trace) = &self.trace {
            note_trace(trace, request.headers_mut());
        }
        let injected = self.injections.add(&self.destination, request.headers_mut());
        Ok((request, injected))
    }

    fn visible(
        &self,
        mut response: Response<Incoming>,
        injected: bool,
        quiet: Duration,
    ) -> Result<Response<WasiBody>> {
        if let Some(coding) = coding(response.headers()).filter(|_| injected) {
            let why = "the answer is compressed although haft requested no compression; haft cannot check it \
                for secrets";
            self.decisions.hint(Refusal::Other(format!("`{}` {why}", self.destination)));
            return Err(Error::HttpResponseContentCoding(Some(coding)));
        }
        let length =
            response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > MAX_RESPONSE) {
            return Err(Error::HttpResponseBodySize(length));
        }
        self.injections.hide_in(response.headers_mut());
        let injections = &self.injections;
        Ok(response.map(|body| WasiBody::new(ResponseBody::new(body, injections.masker(), quiet))))
    }
}

/// Adds the trace context to a request (W3C Trace Context), and replaces the guest's.
fn note_trace(trace: &TraceParent, headers: &mut HeaderMap) {
    let state = trace.state.as_deref().and_then(|state| HeaderValue::from_str(state).ok());
    for (name, value) in
        [("traceparent", HeaderValue::try_from(trace.to_string()).ok()), ("tracestate", state)]
    {
        match value {
            Some(value) => drop(headers.insert(name, value)),
            None => drop(headers.remove(name)),
        }
    }
}

fn coding(headers: &HeaderMap) -> Option<String> {
    let codings = headers.get_all(CONTENT_ENCODING).iter();
    let mut codings = codings.map(|coding| String::from_utf8_lossy(coding.as_bytes()).trim().to_owned());
    codings.find(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
}

async fn exchange(
    stream: Box<dyn Stream>,
    request: Request<RequestBody>,
    first_byte: Duration,
) -> Result<(Response<Incoming>, AbortOnDropJoinHandle<()>)> {
    let mut builder = http1::Builder::new();
    builder.max_header_size(MAX_HEADER_BYTES as usize).max_headers(MAX_HEADERS);
    let (mut sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| failure(&error))?;
    let connection = spawn(async move {
        // The error reaches the caller with the answer.
        let _ = connection.await;
    });
    let response = timeout(first_byte, sender.send_request(request)).await;
    let response = response.map_err(|_| Error::HttpResponseTimeout)?.map_err(|error| failure(&error))?;
    Ok((response, connection))
}

fn coded(error: Error) -> Error {
    let Error::Tls(error) = error else { return error };
    match error.get_ref().and_then(|cause| cause.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(_)) => Error::TlsCertificateError,
        Some(rustls::Error::AlertReceived(alert)) => Error::TlsAlertReceived {
            alert_id: Some(u8::from(*alert)),
            alert_message: Some(format!("{alert:?}")),
        },
        _ => Error::TlsProtocolError,
    }
}

fn failure(error: &hyper::Error) -> Error {
    let cause = std::error::Error::source(error);
    if let Some(Error::HttpRequestBodySize(size)) = cause.and_then(|cause| cause.downcast_ref()) {
        return Error::HttpRequestBodySize(*size);
    }
    if error.is_parse_too_large() {
        return Error::HttpResponseHeaderSectionSize(Some(MAX_HEADER_BYTES));
    }
    if error.is_parse() || error.is_user() {
        return Error::HttpProtocolError;
    }
    Error::ConnectionTerminated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_waits_as_it_wishes_within_bounds() {
        let usual = Timeouts { connect: CONNECT, first_byte: QUIET, between_bytes: QUIET };
        assert_eq!(Timeouts::from_options(None), usual);
        let from_seconds = |seconds| {
            let wish = Some(Duration::from_secs(seconds));
            let options = RequestOptions {
                connect_timeout: wish,
                first_byte_timeout: wish,
                between_bytes_timeout: wish,
            };
            Timeouts::from_options(Some(&options))
        };
        let second = Duration::from_secs(1);
        assert_eq!(from_seconds(1), Timeouts { connect: second, first_byte: second, between_bytes: second });
        let most = Timeouts { connect: MAX_CONNECT, first_byte: MAX_QUIET, between_bytes: MAX_QUIET };
        assert_eq!(from_seconds(1_000_000), most);
    }

    #[test]
    fn a_compressed_body_is_told_by_its_header() {
        let coded = |value: &'static str| {
            coding(&HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(value))]))
        };
        assert_eq!(coding(&HeaderMap::new()), None);
        assert_eq!((coded(""), coded("Identity")), (None, None));
        assert_eq!(coded("gzip"), Some("gzip".into()));
        assert_eq!(coded("identity, br"), Some("identity, br".into()));
    }
}
