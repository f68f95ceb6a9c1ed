//! The response to a request: its head, and its body as a stream. Buffers at most the requested bytes of a body,
//! whatever length the server declares and whatever the compression expands to.

use std::borrow::Cow;
use std::io::{self, Cursor, ErrorKind as IoErrorKind, Read};

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use url::Url;

use super::error::{Error, ErrorKind};

/// Bytes read at a time.
const CHUNK: usize = 64 << 10;

/// The answer to a request. Reading it gives the body as it was sent; [`read`](Self::read) unpacks it.
pub struct Response {
    url: Url,
    redirects: usize,
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Box<dyn Read>,
}

/// What was read of a body.
#[derive(Debug)]
pub struct Bytes {
    /// The bytes themselves, unpacked.
    pub bytes: Vec<u8>,
    /// Whether there is more.
    pub cut: bool,
    /// Why the rest is missing, where it should be there.
    pub broken: Option<Error>,
}

impl Response {
    pub(super) fn new(
        url: Url,
        status: u16,
        headers: Vec<(String, Vec<u8>)>,
        body: impl Read + 'static,
    ) -> Self {
        Self { url, redirects: 0, status, headers, body: Box::new(body) }
    }

    /// An answer for tests outside a component.
    pub fn for_tests(url: Url, status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Self {
        let headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        Self::new(url, status, headers, Cursor::new(body.into()))
    }

    pub(super) fn after_redirects(self, redirects: usize) -> Self {
        Self { redirects, ..self }
    }

    /// Where the answer came from: the last URL that the request was redirected to.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// How many redirects led there.
    pub fn redirects(&self) -> usize {
        self.redirects
    }

    /// The status, such as 200.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The first header of this name, in any case of its letters. Bytes that are not UTF-8 are
    /// replaced.
    pub fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        let header = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        header.map(|(_, value)| String::from_utf8_lossy(value))
    }

    /// Reads the body, unpacked, and stops after `most` bytes. What arrived before an error is kept.
    ///
    /// `gzip` and `deflate` are unpacked; a server that packs its answers otherwise was not asked to.
    pub fn read(self, most: usize) -> Bytes {
        let packed = self.header("content-encoding").map(|value| value.trim().to_ascii_lowercase());
        let body = self.body;
        match packed.as_deref() {
            None | Some("" | "identity") => read(body, most),
            Some("gzip" | "x-gzip") => read(MultiGzDecoder::new(body), most),
            Some("deflate") => read(ZlibDecoder::new(body), most),
            Some(other) => {
                let why = format!("the answer is packed as `{other}`, which nobody asked for");
                Bytes { bytes: Vec::new(), cut: false, broken: Some(Error::new(ErrorKind::Other, why)) }
            }
        }
    }
}

impl Read for Response {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.body.read(buffer)
    }
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { url, status, .. } = self;
        f.debug_struct("Response").field("url", &url.as_str()).field("status", status).finish_non_exhaustive()
    }
}

fn read(mut body: impl Read, most: usize) -> Bytes {
    let mut read = Bytes { bytes: Vec::new(), cut: false, broken: None };
    let mut buffer = vec![0; CHUNK];
    loop {
        match body.read(&mut buffer) {
            Ok(0) => return read,
            Ok(count) => {
                let room = most - read.bytes.len();
                read.bytes.extend(buffer.iter().take(count.min(room)));
                read.cut = count > room;
                if read.cut {
                    return read;
                }
            }
            Err(error) if error.kind() == IoErrorKind::Interrupted => {}
            Err(error) => {
                read.broken = Some(broken(error));
                return read;
            }
        }
    }
}

/// An error of the stream itself as it is, one of unpacking as such.
fn broken(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => error,
        Err(error) => Error::new(ErrorKind::Other, format!("the answer cannot be unpacked: {error}")),
    }
}
