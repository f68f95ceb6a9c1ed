//! Guests that access the web, with plain `wasi:http`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use haft_plugin::Error;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    Fields, FutureIncomingResponse, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions,
    Scheme,
};
use wasip2::io::streams::{InputStream, StreamError};

/// Hops of a guest that follows redirects.
const MAX_HOPS: usize = 5;

/// Bytes read or written at a time.
const PIECE: u64 = 4096;

deed! {
    /// Makes a request and tells the whole answer; `follow` where it leads to. `wait_ms` is for
    /// each part of it, `scheme` and `authority` take the place of those of the URL.
    HttpGet, "http_get" {
        url: String,
        method: Option<String>,
        headers: Option<BTreeMap<String, String>>,
        follow: Option<bool>,
        wait_ms: Option<u64>,
        authority: Option<String>
    } |self, _context| {
        let mut url = self.url.clone();
        for _ in 0..MAX_HOPS {
            let ask = Ask { url: &url, ..Ask::of(&self) };
            let response = answer(&ask.send(None)?)?;
            let location = response.headers().get("location").into_iter().next();
            match location.filter(|_| self.follow == Some(true)) {
                Some(location) => url = String::from_utf8(location)?,
                None => return Ok(told(&response)?.into()),
            }
        }
        Err(Error::failed("too many hops"))
    }
}

deed! {
    /// Reads an answer to its end and keeps nothing of it.
    HttpDrain, "http_drain" { url: String } |self, _context| {
        let response = answer(&Ask::plain(&self.url).send(None)?)?;
        let mut read = 0;
        let ended = read_all(&response, |piece| read += piece.len());
        ended.map_err(|error| Error::failed(format!("{error} after {read} bytes")))?;
        Ok(format!("read {read} bytes").into())
    }
}

deed! {
    /// Sends so many bytes.
    HttpPost, "http_post" { url: String, bytes: u64 } |self, _context| {
        let response = Ask { method: Method::Post, ..Ask::plain(&self.url) }.send(Some(self.bytes))?;
        Ok(told(&answer(&response)?)?.into())
    }
}

deed! {
    /// Begins so many requests one after the other, keeping none, and says how the last one ended.
    HttpMany, "http_many" { url: String, count: u32 } |self, _context| {
        let mut last = String::new();
        for _ in 0..self.count {
            last = match Ask::plain(&self.url).send(None).and_then(|response| answer(&response)) {
                Ok(response) => response.status().to_string(),
                Err(error) => format!("{error:?}"),
            };
        }
        Ok(last.into())
    }
}

deed! {
    /// Begins so many requests at once and waits for all, reading none.
    HttpHold, "http_hold" { url: String, count: u32, wait_ms: u64 } |self, _context| {
        let ask = Ask { wait: Some(self.wait_ms), ..Ask::plain(&self.url) };
        let begun = (0..self.count).map(|_| ask.send(None)).collect::<Result<Vec<_>, _>>()?;
        let mut counts = BTreeMap::<String, u32>::new();
        let mut kept = Vec::new();
        for response in &begun {
            let ended = match answer(response) {
                Ok(response) => {
                    let status = response.status().to_string();
                    kept.push(response);
                    status
                }
                Err(error) => format!("{error:?}"),
            };
            *counts.entry(ended).or_default() += 1;
        }
        Ok(format!("{counts:?}").into())
    }
}

/// A request to be made.
struct Ask<'a> {
    method: Method,
    url: &'a str,
    authority: Option<&'a str>,
    headers: Vec<(String, Vec<u8>)>,
    wait: Option<u64>,
}

impl<'a> Ask<'a> {
    fn plain(url: &'a str) -> Self {
        Self { method: Method::Get, url, authority: None, headers: Vec::new(), wait: None }
    }

    fn of(deed: &'a HttpGet) -> Self {
        let headers = deed.headers.iter().flatten();
        Self {
            method: deed.method.clone().map_or(Method::Get, Method::Other),
            url: &deed.url,
            authority: deed.authority.as_deref(),
            headers: headers.map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect(),
            wait: deed.wait_ms,
        }
    }

    fn send(&self, body: Option<u64>) -> Result<FutureIncomingResponse, Error> {
        let wrong = |what: &'static str| move |()| Error::failed(what);
        let request = OutgoingRequest::new(Fields::from_list(&self.headers)?);
        let (scheme, rest) =
            self.url.split_once("://").ok_or_else(|| Error::failed("expected a whole URL"))?;
        let (authority, path) =
            rest.find('/').and_then(|slash| rest.split_at_checked(slash)).unwrap_or((rest, "/"));
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            other => Scheme::Other(other.to_owned()),
        };
        request.set_method(&self.method).map_err(wrong("the method is none"))?;
        request.set_scheme(Some(&scheme)).map_err(wrong("the scheme is none"))?;
        let authority = self.authority.unwrap_or(authority);
        request.set_authority(Some(authority)).map_err(wrong("the authority is none"))?;
        request.set_path_with_query(Some(path)).map_err(wrong("the path is none"))?;
        let sent = body.map(|_| request.body()).transpose().map_err(wrong("no body"))?;
        let response = handle(request, Some(self.options()))?;
        if let (Some(sent), Some(bytes)) = (sent, body) {
            // Whoever does not want the rest says so in the answer.
            let _ = write_all(&sent, bytes);
            let _ = OutgoingBody::finish(sent, None);
        }
        Ok(response)
    }

    fn options(&self) -> RequestOptions {
        let options = RequestOptions::new();
        let nanoseconds =
            self.wait.and_then(|wait| u64::try_from(Duration::from_millis(wait).as_nanos()).ok());
        let _ = options.set_connect_timeout(nanoseconds);
        let _ = options.set_first_byte_timeout(nanoseconds);
        let _ = options.set_between_bytes_timeout(nanoseconds);
        options
    }
}

fn answer(response: &FutureIncomingResponse) -> Result<IncomingResponse, Error> {
    response.subscribe().block();
    let ready = response.get().ok_or_else(|| Error::failed("ready and not there"))?;
    let ready = ready.map_err(|()| Error::failed("asked twice"))?;
    ready.map_err(|code| Error::failed(format!("{code:?}")))
}

/// The status, the headers and the body.
fn told(response: &IncomingResponse) -> Result<String, Error> {
    let mut text = format!("{}\n", response.status());
    for (name, value) in response.headers().entries() {
        writeln!(text, "{name}: {}", String::from_utf8_lossy(&value))?;
    }
    let mut body = Vec::new();
    read_all(response, |piece| body.extend_from_slice(piece)).map_err(Error::failed)?;
    Ok(format!("{text}\n{}", String::from_utf8_lossy(&body)))
}

fn read_all(response: &IncomingResponse, mut with: impl FnMut(&[u8])) -> Result<(), String> {
    let body = response.consume().map_err(|()| "consumed twice")?;
    let stream: InputStream = body.stream().map_err(|()| "read twice")?;
    loop {
        match stream.blocking_read(PIECE) {
            Ok(piece) => with(&piece),
            Err(StreamError::Closed) => return Ok(()),
            Err(StreamError::LastOperationFailed(error)) => return Err(error.to_debug_string()),
        }
    }
}

fn write_all(body: &OutgoingBody, bytes: u64) -> Result<(), Error> {
    let stream = body.write().map_err(|()| Error::failed("written twice"))?;
    let mut left = bytes;
    while left > 0 {
        let take = left.min(PIECE);
        stream.blocking_write_and_flush(&vec![b'x'; usize::try_from(take)?])?;
        left -= take;
    }
    Ok(())
}
