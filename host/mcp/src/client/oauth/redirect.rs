//! The redirect URI of a login: a port of 127.0.0.1 that is open while a user logs in (RFC 8252, section 7.3).
//! Returns the browser's query and does not check it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// The path that the browser is sent back to.
const PATH: &str = "/callback";
/// Maximum number of bytes of a request's head: codes of some servers have 2 KiB.
const MAX_HEAD: usize = 32 << 10;
/// Maximum number of concurrent connections. Browsers open some that they do not use.
const MAX_CONNECTIONS: usize = 16;
/// Maximum time for a connection to send its request, and to read the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The open port.
pub(super) struct Callback {
    port: u16,
    found: Mutex<mpsc::Receiver<(String, Browser)>>,
    accepting: AbortHandle,
}

impl Callback {
    /// Opens `port`, or any free port.
    pub(super) async fn open(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await?;
        let port = listener.local_addr()?.port();
        let (send, found) = mpsc::channel(1);
        let accepting = tokio::spawn(accept(listener, port, send)).abort_handle();
        Ok(Self { port, found: Mutex::new(found), accepting })
    }

    /// Returns the redirect URI for the authorization server.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Returns the next requested address, and the connection to the browser.
    pub(super) async fn next(&self) -> (String, Browser) {
        match self.found.lock().await.recv().await {
            Some(found) => found,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, port: u16, found: mpsc::Sender<(String, Browser)>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else { return };
        let found = found.clone();
        tokio::spawn(async move {
            let mut stream = stream;
            let target = timeout(PATIENCE, target(&mut stream)).await.ok().flatten();
            let browser = Browser(stream);
            match target {
                Some(target) if target.split('?').next() == Some(PATH) => {
                    // A send without a receiver fails.
                    let _ = found.send((format!("http://127.0.0.1:{port}{target}"), browser)).await;
                }
                Some(_) => browser.answer("404 Not Found", "Not found.").await,
                None => {}
            }
            drop(place);
        });
    }
}

/// Returns the target of the request, if it is a GET.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        head.extend_from_slice(piece.get(..count)?);
        if head.len() > MAX_HEAD {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let target = head.lines().next()?.strip_prefix("GET ")?.split(' ').next()?;
    Some(target.to_owned())
}

/// A browser that waits for an answer.
pub(super) struct Browser(TcpStream);

impl Browser {
    /// Shows the user a line.
    pub(super) async fn answer(mut self, status: &str, line: &str) {
        let page = format!("<!doctype html><title>haft</title><p>{line}</p>");
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
             content-security-policy: default-src 'none'\r\nreferrer-policy: no-referrer\r\ncache-control: no-store\r\n\
             connection: close\r\n\r\n",
            page.len()
        );
        // The login does not depend on the browser, which may have disconnected.
        let _ = timeout(PATIENCE, self.0.write_all((head + &page).as_bytes())).await;
        let _ = timeout(PATIENCE, self.0.shutdown()).await;
    }
}
