//! Connections that become `WebSockets`. haft passes on no other protocol: it could not judge what follows.

use std::future::poll_fn;
use std::io;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy, split};

use super::paused::Paused;
use haft_core::secret::Redactor;

const PROTOCOL: &str = "websocket";
/// Compression, which hides secrets.
const EXTENSIONS: HeaderName = HeaderName::from_static("sec-websocket-extensions");
/// Bytes that are read at once.
const BUFFER: usize = 16 << 10;

/// Returns whether a request asks to make its connection a WebSocket.
pub(super) fn is_asked(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    let is_token = |name: &str| name.trim().eq_ignore_ascii_case("upgrade");
    let names_upgrade =
        |value: &HeaderValue| value.to_str().is_ok_and(|names| names.split(',').any(is_token));
    let mut protocols = headers.get_all(UPGRADE).iter();
    request.version() == Version::HTTP_11
        && headers.get_all(CONNECTION).iter().any(names_upgrade)
        && protocols.next().is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(PROTOCOL.as_bytes()))
        && protocols.next().is_none()
}

/// Makes a head one that asks for a WebSocket, or agrees to one.
pub(super) fn ask(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    headers.remove(EXTENSIONS);
}

/// Passes bytes on in both directions, those for the child without secrets.
pub(super) async fn pass_on(inside: OnUpgrade, outside: OnUpgrade, redactor: Redactor) {
    let Ok((inside, outside)) = tokio::try_join!(inside, outside) else { return };
    let (from_child, to_child) = split(TokioIo::new(inside));
    let (from_host, to_host) = split(TokioIo::new(outside));
    // An error at either end ends both directions; an end alone ends one.
    let _ = tokio::try_join!(pass(from_child, to_host), redact(from_host, to_child, redactor));
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    copy(&mut from, &mut to).await?;
    to.shutdown().await
}

/// Passes bytes on. The secrets in them keep their length: a frame names its own.
async fn redact(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    redactor: Redactor,
) -> io::Result<()> {
    let mut stream = Paused::new(redactor, true);
    let mut buffer = vec![0; BUFFER];
    loop {
        let clean = tokio::select! {
            biased;
            read = from.read(&mut buffer) => match read? {
                0 => {
                    to.write_all(&stream.finish()).await?;
                    return to.shutdown().await;
                }
                read => stream.push(buffer.get(..read).unwrap_or_default()),
            },
            released = poll_fn(|context| stream.poll_release(context)) => released.into(),
        };
        to.write_all(&clean).await?;
        to.flush().await?;
    }
}
