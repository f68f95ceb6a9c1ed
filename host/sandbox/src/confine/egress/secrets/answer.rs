//! Answers to a child: those of hosts, without the secrets that they repeat, and haft's own.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};

use haft_core::secret::{ByteStream, Redactor};

/// The body of an answer.
pub(super) type AnswerBody = UnsyncBoxBody<Bytes, hyper::Error>;

/// Parts of the types of bodies that are texts.
const TEXTS: &[&str] = &["text/", "json", "xml", "javascript", "form-urlencoded", "message/", "yaml", "toml"];

/// Returns an answer of haft itself.
pub(super) fn own(status: StatusCode, text: &str) -> Response<AnswerBody> {
    let body = Full::new(Bytes::from(format!("haft: {text}\n"))).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// Returns the answer of a host, with secrets redacted in headers and in texts that are not compressed.
pub(super) fn redacted(answer: Response<Incoming>, redactor: &Redactor) -> Response<AnswerBody> {
    let (mut parts, body) = answer.into_parts();
    redact_headers(&mut parts.headers, redactor);
    if body.is_end_stream() || !is_text(&parts.headers) {
        return Response::from_parts(parts, body.boxed_unsync());
    }
    // A redacted text has another length.
    parts.headers.remove(CONTENT_LENGTH);
    let body = Redacted { body, stream: ByteStream::new(redactor.clone()), trailers: None };
    Response::from_parts(parts, body.boxed_unsync())
}

fn redact_headers(headers: &mut HeaderMap, redactor: &Redactor) {
    for value in headers.values_mut() {
        let clean = std::str::from_utf8(value.as_bytes()).map(|text| redactor.redact(text).into_owned());
        if let Ok(clean) = clean
            && clean.as_bytes() != value.as_bytes()
        {
            *value = HeaderValue::try_from(clean).unwrap_or(HeaderValue::from_static(""));
        }
    }
}

/// Returns whether a body is a text. Without a type it is taken for one.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(|value| value.as_bytes().to_ascii_lowercase());
    let kind = kind.map(|kind| String::from_utf8_lossy(&kind).into_owned());
    !headers.contains_key(CONTENT_ENCODING)
        && kind.is_none_or(|kind| TEXTS.iter().any(|part| kind.contains(part)))
}

/// A body whose secrets are replaced while it is passed on.
struct Redacted {
    body: Incoming,
    stream: ByteStream,
    trailers: Option<HeaderMap>,
}

impl Body for Redacted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        loop {
            let clean = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.stream.push(&data),
                    Err(frame) => {
                        self.trailers = frame.into_trailers().ok();
                        continue;
                    }
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    let rest = self.stream.finish();
                    if rest.is_empty() {
                        return Poll::Ready(
                            self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))),
                        );
                    }
                    rest
                }
            };
            if !clean.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(clean.into()))));
            }
        }
    }
}
