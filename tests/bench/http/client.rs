//! A client with a session and one persistent connection, without a library, so that its cost is small compared to
//! the server's.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Server, TOKEN};

/// The protocol revision of the clients.
const VERSION: &str = "2025-11-25";

/// Longer than any answer takes.
const HANG: Duration = Duration::from_mins(1);

/// Bytes read at once.
const BUFFER: usize = 16 << 10;

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    host: String,
    session: String,
    received: Vec<u8>,
    next: u64,
}

impl Client {
    /// Connects, and opens a session.
    pub(crate) fn open(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let (host, session) = (server.address.to_string(), String::new());
        let mut client = Self { stream, host, session, received: Vec::new(), next: 0 };
        let own = json!({"name": "bench", "version": "0"});
        let open = json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": own});
        let answer = client.request("initialize", &open);
        let session = header(&answer, "mcp-session-id");
        // Some servers have no sessions.
        session.unwrap_or_default().clone_into(&mut client.session);
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        client.send(&initialized);
        client.answer();
        client
    }

    /// Sends a request and waits for the answer.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> String {
        self.ask(method, params);
        self.answer()
    }

    /// Sends a request.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) {
        self.next += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.send(&message);
    }

    fn send(&mut self, message: &Value) {
        let body = message.to_string();
        let session = match &*self.session {
            "" => String::new(),
            session => format!("mcp-session-id: {session}\r\nmcp-protocol-version: {VERSION}\r\n"),
        };
        let text = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{body}",
            self.host,
            body.len(),
        );
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    fn answer(&mut self) -> String {
        loop {
            if let Some(answer) = self.receive() {
                return answer;
            }
        }
    }

    /// Reads once; the answer, if it is complete.
    pub(crate) fn receive(&mut self) -> Option<String> {
        let mut buffer = [0; BUFFER];
        match self.stream.read(&mut buffer) {
            Ok(0) => panic!("the server hung up: {}", String::from_utf8_lossy(&self.received)),
            Ok(read) => self.received.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) => panic!("nothing came back: {error}"),
        }
        is_whole(&self.received).then(|| String::from_utf8(std::mem::take(&mut self.received)).unwrap())
    }
}

/// Whether bytes are a complete response.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let body = &bytes[end + 4..];
    match header(head, "content-length") {
        Some(length) => body.len() >= length.parse().unwrap(),
        None if header(head, "transfer-encoding").is_some() => body.ends_with(b"0\r\n\r\n"),
        None => true,
    }
}

/// The value of a header of a response.
pub(crate) fn header<'r>(response: &'r str, name: &str) -> Option<&'r str> {
    let mut lines =
        response.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    lines.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}
