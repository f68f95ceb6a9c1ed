//! Small servers for one test: they answer every request alike, and record the requests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::HANG;

/// A server. Its threads end with the test's process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    gone: Arc<Mutex<usize>>,
}

/// A connection, encrypted or not.
pub(crate) trait Connection: Read + Write {}

impl<T: Read + Write> Connection for T {}

/// Prepares a new connection before its first request.
type Greet = dyn Fn(TcpStream) -> Option<Box<dyn Connection>> + Send + Sync;

impl Server {
    /// Answers each request with the result of `answer` for its head.
    pub(crate) fn answering(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", move |head, stream| stream.write_all(&answer(head)).unwrap_or(()))
    }

    /// Answers every request with a text.
    pub(crate) fn saying(address: &str, text: &'static str) -> Self {
        Self::at(address, move |_, stream| stream.write_all(&ok(text)).unwrap_or(()))
    }

    /// Calls `serve` for each connection, with the head of its request.
    pub(crate) fn at(
        address: &str,
        serve: impl Fn(&str, &mut dyn Connection) + Send + Sync + 'static,
    ) -> Self {
        Self::greeting(address, |stream| Some(Box::new(stream)), serve)
    }

    /// Calls `serve` for each connection that `greet` has prepared, with the head of its request.
    pub(crate) fn greeting(
        address: &str,
        greet: impl Fn(TcpStream) -> Option<Box<dyn Connection>> + Send + Sync + 'static,
        serve: impl Fn(&str, &mut dyn Connection) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        let address = listener.local_addr().unwrap();
        let (seen, gone) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<usize>>::default());
        let (asked, left) = (seen.clone(), gone.clone());
        let (greet, serve): (Arc<Greet>, _) = (Arc::new(greet), Arc::new(serve));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (asked, left, greet, serve) = (asked.clone(), left.clone(), greet.clone(), serve.clone());
                thread::spawn(move || {
                    stream.set_read_timeout(Some(HANG)).unwrap();
                    let Some(mut stream) = greet(stream) else { return };
                    let head = head(&mut *stream);
                    asked.lock().unwrap().push(head.clone());
                    serve(&head, &mut *stream);
                    let _ = stream.flush();
                    while stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
                    *left.lock().unwrap() += 1;
                });
            }
        });
        Self { address, seen, gone }
    }

    /// `http://ADDRESS:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The heads of all requests so far.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// The number of connections that clients have closed.
    pub(crate) fn gone(&self) -> usize {
        *self.gone.lock().unwrap()
    }
}

/// The head of a request, possibly incomplete.
fn head(stream: &mut dyn Connection) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// An answer with a text.
pub(crate) fn ok(text: &str) -> Vec<u8> {
    with("200 OK", "", text)
}

/// An answer with a status and more headers, each ended by a line break.
pub(crate) fn with(status: &str, headers: &str, text: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{text}", text.len()).into_bytes()
}

/// A redirect to `to`.
pub(crate) fn redirect(to: &str) -> Vec<u8> {
    with("302 Found", &format!("location: {to}\r\n"), "")
}
