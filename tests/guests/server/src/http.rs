//! Requests and answers, with plain `wasi:http`.

use serde_json::{Value, json};
use wasip2::http::types::{
    Fields, IncomingBody, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam,
};
use wasip2::io::streams::{InputStream, OutputStream};

/// Bytes read or written at a time.
const PIECE: usize = 4096;

/// A request.
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) authority: String,
    headers: Vec<(String, Vec<u8>)>,
    pub(crate) message: Value,
}

impl Asked {
    pub(crate) fn read(request: &IncomingRequest) -> Self {
        let headers = request.headers().entries();
        let path = request.path_with_query().unwrap_or_default();
        let authority = request.authority().unwrap_or_default();
        let body = request.consume().map(|body| read_all(&body)).unwrap_or_default();
        Self { path, authority, headers, message: serde_json::from_slice(&body).unwrap_or_default() }
    }

    pub(crate) fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name))?;
        String::from_utf8(value.clone()).ok()
    }

    /// What a request of the stateless protocol would have and this one has not.
    pub(crate) fn lacks_statelessness(&self) -> Option<&'static str> {
        let meta = &self.message["params"]["_meta"];
        let version = "2026-07-28";
        let has = [
            ("version in its headers", self.header("mcp-protocol-version").as_deref() == Some(version)),
            ("method in its headers", self.header("mcp-method").as_deref() == Some(self.method())),
            (
                "name in its headers",
                self.header("mcp-name").as_deref() == self.message["params"]["name"].as_str(),
            ),
            ("version", meta["io.modelcontextprotocol/protocolVersion"] == version),
            ("client", meta["io.modelcontextprotocol/clientInfo"]["name"] == "haft"),
            ("capabilities", meta["io.modelcontextprotocol/clientCapabilities"].is_object()),
        ];
        has.iter().find(|(_, has)| !has).map(|(what, _)| *what)
    }
}

pub(crate) fn read_all(body: &IncomingBody) -> Vec<u8> {
    let Ok(stream) = body.stream() else { return Vec::new() };
    let mut all = Vec::new();
    while let Ok(piece) = InputStream::blocking_read(&stream, PIECE as u64) {
        all.extend(piece);
    }
    all
}

/// An answer that has begun.
pub(crate) struct Answer {
    body: OutgoingBody,
    stream: OutputStream,
}

impl Answer {
    /// Begins an answer; nothing where the host has none to give.
    pub(crate) fn begin(out: ResponseOutparam, status: u16, headers: &[(&str, &[u8])]) -> Option<Self> {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
        let response = OutgoingResponse::new(Fields::from_list(&headers).ok()?);
        response.set_status_code(status).ok()?;
        let body = response.body().ok()?;
        ResponseOutparam::set(out, Ok(response));
        let stream = body.write().ok()?;
        Some(Self { body, stream })
    }

    /// Begins a stream of events.
    pub(crate) fn events(out: ResponseOutparam) -> Option<Self> {
        Self::begin(out, 200, &[("content-type", b"text/event-stream")])
    }

    /// Writes, and whether somebody reads.
    pub(crate) fn write(&self, bytes: &[u8]) -> bool {
        bytes.chunks(PIECE).all(|piece| self.stream.blocking_write_and_flush(piece).is_ok())
    }

    pub(crate) fn event(&self, message: &Value) -> bool {
        let mut message = message.clone();
        message["jsonrpc"] = json!("2.0");
        self.write(format!("event: message\ndata: {message}\n\n").as_bytes())
    }

    pub(crate) fn finish(self) {
        drop(self.stream);
        let _ = OutgoingBody::finish(self.body, None);
    }
}

/// A whole answer.
pub(crate) fn whole(out: ResponseOutparam, status: u16, content_type: &str, body: &[u8]) {
    if let Some(answer) = Answer::begin(out, status, &[("content-type", content_type.as_bytes())]) {
        answer.write(body);
        answer.finish();
    }
}

/// A message: as JSON, or as the only event of a stream. `session` is the one that it opens.
pub(crate) fn message(out: ResponseOutparam, as_event: bool, session: Option<&str>, message: &Value) {
    let content_type: &[u8] =
        if as_event { b"text/event-stream" } else { b"application/json; charset=utf-8" };
    let mut headers = vec![("Content-Type", content_type)];
    headers.extend(session.map(|session| ("Mcp-Session-Id", session.as_bytes())));
    let Some(answer) = Answer::begin(out, 200, &headers) else { return };
    let mut message = message.clone();
    message["jsonrpc"] = json!("2.0");
    if as_event {
        answer.write(b"id: 1\ndata: \n\n: a comment\r\n\r\n");
        answer.event(&message);
    } else {
        answer.write(message.to_string().as_bytes());
    }
    answer.finish();
}
