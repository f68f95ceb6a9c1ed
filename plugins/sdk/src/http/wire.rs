//! Sends a request over `wasi:http`, and receives its response. No wait exceeds the deadline.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method, OutgoingBody,
    OutgoingRequest, RequestOptions, Scheme, http_error_code,
};
use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::{InputStream, OutputStream, StreamError};

use super::body::Response;
use super::error::{Error, ErrorKind};
use super::request::{Request, Timeouts};

/// Bytes asked for at a time.
const CHUNK: u64 = 64 << 10;

/// Sends a request and waits for the head of its answer.
pub(super) fn exchange(request: &Request, deadline: Instant) -> Result<Response, Error> {
    let outgoing = outgoing(request)?;
    let body = outgoing.body().map_err(|()| internal("the request has no body"))?;
    let options = options(&request.timeouts, deadline)?;
    let answer = outgoing_handler::handle(outgoing, Some(options)).map_err(|code| translate(&code))?;
    send_body(body, &request.body, deadline)?;
    let incoming = answered(&answer, deadline)?;
    let headers = incoming.headers().entries();
    let status = incoming.status();
    let body = Stream::of(incoming, deadline)?;
    Ok(Response::new(request.url.clone(), status, headers, body))
}

fn outgoing(request: &Request) -> Result<OutgoingRequest, Error> {
    let invalid = |what: &str| Error::new(ErrorKind::Invalid, format!("the {what} cannot be sent"));
    let headers = Fields::new();
    for (name, value) in &request.headers {
        let refused =
            |error| Error::new(ErrorKind::Invalid, format!("the header `{name}` cannot be sent: {error:?}"));
        headers.append(name, value.as_bytes()).map_err(refused)?;
    }
    let outgoing = OutgoingRequest::new(headers);
    let scheme = if request.url.scheme() == "https" { Scheme::Https } else { Scheme::Http };
    let query = request.url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = format!("{}{query}", request.url.path());
    outgoing.set_method(&method(&request.method)).map_err(|()| invalid("method"))?;
    outgoing.set_scheme(Some(&scheme)).map_err(|()| invalid("scheme"))?;
    outgoing.set_authority(Some(request.url.authority())).map_err(|()| invalid("host"))?;
    outgoing.set_path_with_query(Some(&path)).map_err(|()| invalid("path"))?;
    Ok(outgoing)
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

/// What the host does not know stays bounded by the deadline.
fn options(timeouts: &Timeouts, deadline: Instant) -> Result<RequestOptions, Error> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(too_late());
    }
    let options = RequestOptions::new();
    let nanoseconds =
        |timeout: Duration| Some(u64::try_from(timeout.min(left).as_nanos()).unwrap_or(u64::MAX));
    let _ = options.set_connect_timeout(nanoseconds(timeouts.connect));
    let _ = options.set_first_byte_timeout(nanoseconds(timeouts.first_byte));
    let _ = options.set_between_bytes_timeout(nanoseconds(timeouts.between_bytes));
    Ok(options)
}

fn send_body(body: OutgoingBody, bytes: &[u8], deadline: Instant) -> Result<(), Error> {
    if !bytes.is_empty() {
        let stream = body.write().map_err(|()| internal("the request's body cannot be written"))?;
        write(&stream, bytes, deadline)?;
    }
    OutgoingBody::finish(body, None).map_err(|code| translate(&code))
}

fn write(stream: &OutputStream, mut bytes: &[u8], deadline: Instant) -> Result<(), Error> {
    while !bytes.is_empty() {
        let room = stream.check_write().map_err(|error| broken(&error))?;
        if room == 0 {
            wait(&stream.subscribe(), deadline)?;
            continue;
        }
        let count = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let (now, later) = bytes.split_at(count);
        stream.write(now).map_err(|error| broken(&error))?;
        bytes = later;
    }
    stream.flush().map_err(|error| broken(&error))
}

fn answered(answer: &FutureIncomingResponse, deadline: Instant) -> Result<IncomingResponse, Error> {
    loop {
        match answer.get() {
            Some(Ok(Ok(response))) => return Ok(response),
            Some(Ok(Err(code))) => return Err(translate(&code)),
            Some(Err(())) => return Err(internal("the answer was taken twice")),
            None => wait(&answer.subscribe(), deadline)?,
        }
    }
}

/// Waits until `what` is ready, or fails when the time is up.
fn wait(what: &Pollable, deadline: Instant) -> Result<(), Error> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timer = subscribe_duration(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
    if poll(&[what, &timer]).contains(&0) { Ok(()) } else { Err(too_late()) }
}

/// The body of an answer. The order of the fields is that in which they must be dropped.
struct Stream {
    bytes: InputStream,
    _incoming: IncomingBody,
    _response: IncomingResponse,
    deadline: Instant,
    rest: io::Cursor<Vec<u8>>,
}

impl Stream {
    fn of(response: IncomingResponse, deadline: Instant) -> Result<Self, Error> {
        let body = response.consume().map_err(|()| internal("the answer has no body"))?;
        let stream = body.stream().map_err(|()| internal("the answer's body cannot be read"))?;
        Ok(Self {
            bytes: stream,
            _incoming: body,
            _response: response,
            deadline,
            rest: io::Cursor::default(),
        })
    }

    /// The next bytes; none at the end.
    fn next(&self) -> Result<Vec<u8>, Error> {
        loop {
            match self.bytes.read(CHUNK) {
                Ok(bytes) if bytes.is_empty() => wait(&self.bytes.subscribe(), self.deadline)?,
                Ok(bytes) if Instant::now() < self.deadline => return Ok(bytes),
                Ok(_) => return Err(too_late()),
                Err(StreamError::Closed) => return Ok(Vec::new()),
                Err(error) => return Err(broken(&error)),
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.rest.read(buffer)?;
        if read > 0 || buffer.is_empty() {
            return Ok(read);
        }
        self.rest = io::Cursor::new(self.next().map_err(io::Error::other)?);
        self.rest.read(buffer)
    }
}

fn too_late() -> Error {
    Error::new(ErrorKind::Timeout, "it took too long: the time for it is up")
}

fn internal(what: &str) -> Error {
    Error::new(ErrorKind::Other, what)
}

fn broken(error: &StreamError) -> Error {
    let code = match error {
        StreamError::LastOperationFailed(error) => http_error_code(error),
        StreamError::Closed => None,
    };
    let unknown = || Error::new(ErrorKind::Connection, "the connection broke off");
    code.as_ref().map_or_else(unknown, translate)
}

fn translate(code: &ErrorCode) -> Error {
    let (kind, text) = match code {
        ErrorCode::HttpRequestDenied => (ErrorKind::Denied, "access was denied"),
        ErrorCode::DestinationIpProhibited => {
            (ErrorKind::Denied, "access was denied: the host has a private or reserved address")
        }
        ErrorCode::DnsTimeout => (ErrorKind::Dns, "looking up the host's address took too long"),
        ErrorCode::DnsError(_) | ErrorCode::DestinationNotFound => {
            (ErrorKind::Dns, "the host's name was not found")
        }
        ErrorCode::DestinationUnavailable | ErrorCode::DestinationIpUnroutable => {
            (ErrorKind::Connection, "the host cannot be reached")
        }
        ErrorCode::ConnectionRefused => (ErrorKind::Connection, "the host refused the connection"),
        ErrorCode::ConnectionTerminated => (ErrorKind::Connection, "the connection broke off"),
        ErrorCode::ConnectionLimitReached => (ErrorKind::Connection, "too many connections are open"),
        ErrorCode::ConnectionTimeout => (ErrorKind::Timeout, "connecting took too long"),
        ErrorCode::ConnectionReadTimeout | ErrorCode::HttpResponseTimeout => {
            (ErrorKind::Timeout, "waiting for the answer took too long")
        }
        ErrorCode::ConnectionWriteTimeout => (ErrorKind::Timeout, "sending the request took too long"),
        ErrorCode::TlsCertificateError => (ErrorKind::Tls, "the host's certificate is not trusted"),
        ErrorCode::TlsProtocolError | ErrorCode::TlsAlertReceived(_) => {
            (ErrorKind::Tls, "no encrypted connection could be made")
        }
        ErrorCode::HttpResponseIncomplete => (ErrorKind::Connection, "the answer broke off"),
        ErrorCode::HttpProtocolError => (ErrorKind::Other, "the answer is not HTTP"),
        ErrorCode::HttpRequestUriInvalid => (ErrorKind::Invalid, "the URL's host or port is none"),
        ErrorCode::HttpRequestMethodInvalid => (ErrorKind::Invalid, "no request of this method is made"),
        ErrorCode::HttpResponseHeaderSectionSize(_) | ErrorCode::HttpResponseHeaderSize(_) => {
            (ErrorKind::Other, "the headers of the answer are too large")
        }
        ErrorCode::HttpResponseBodySize(size) => {
            let size = size.map(|size| format!(": {size} bytes")).unwrap_or_default();
            return Error::new(ErrorKind::Other, format!("the answer is too large{size}"));
        }
        ErrorCode::InternalError(Some(why)) => return Error::new(ErrorKind::Other, why.clone()),
        other => return Error::new(ErrorKind::Other, format!("the request failed: {other:?}")),
    };
    Error::new(kind, text)
}
