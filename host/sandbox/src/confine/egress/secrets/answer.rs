//! Answers to a child: those of hosts, without the secrets that they repeat, and haft's own.

use std::borrow::Cow;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::ext::ReasonPhrase;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::paused::Paused;
use haft_core::secret::Redactor;

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

/// Returns the answer of a host, with secrets redacted in headers, in trailers, and in a body that is not compressed.
pub(super) fn redacted(answer: Response<Incoming>, redactor: &Redactor) -> Response<AnswerBody> {
    let (mut parts, body) = answer.into_parts();
    redact_headers(&mut parts.headers, redactor);
    // Words of the host beside the status, which nothing reads.
    parts.extensions.remove::<ReasonPhrase>();
    if body.is_end_stream() {
        return Response::from_parts(parts, body.boxed_unsync());
    }
    let stream = (!is_compressed(&parts.headers)).then(|| {
        let is_text = is_text(&parts.headers);
        if is_text {
            // A redacted text has another length.
            parts.headers.remove(CONTENT_LENGTH);
        }
        Paused::new(redactor.clone(), !is_text)
    });
    let body = Redacted { body, stream, redactor: redactor.clone(), trailers: None };
    Response::from_parts(parts, body.boxed_unsync())
}

/// Replaces secrets in values, and removes headers whose name contains one.
fn redact_headers(headers: &mut HeaderMap, redactor: &Redactor) {
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    for name in names {
        if redactor.redact(name.as_str()) != name.as_str() {
            headers.remove(name);
        }
    }
    for value in headers.values_mut() {
        let clean = redactor.redact_bytes(value.as_bytes().to_vec());
        if clean != value.as_bytes() {
            *value = HeaderValue::from_bytes(&clean).unwrap_or(HeaderValue::from_static(""));
        }
    }
}

fn is_compressed(headers: &HeaderMap) -> bool {
    let encodings = headers.get_all(CONTENT_ENCODING).iter();
    encodings
        .map(HeaderValue::as_bytes)
        .any(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity"))
}

/// Returns whether a body is a text. Without a type it is taken for one.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(|value| value.as_bytes().to_ascii_lowercase());
    let kind = kind.map(|kind| String::from_utf8_lossy(&kind).into_owned());
    kind.is_none_or(|kind| TEXTS.iter().any(|part| kind.contains(part)))
}

/// A body whose secrets are replaced while it is passed on.
struct Redacted {
    body: Incoming,
    /// `None` for a compressed body.
    stream: Option<Paused>,
    redactor: Redactor,
    trailers: Option<HeaderMap>,
}

impl Body for Redacted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let own = &mut *self;
        loop {
            let frame = match (Pin::new(&mut own.body).poll_frame(context), &mut own.stream) {
                (Poll::Ready(frame), _) => frame,
                (Poll::Pending, Some(stream)) => {
                    return stream.poll_release(context).map(|clean| Some(Ok(Frame::data(clean.into()))));
                }
                (Poll::Pending, None) => return Poll::Pending,
            };
            let clean = match frame {
                Some(Ok(frame)) => match (frame.into_data(), &mut own.stream) {
                    (Ok(data), Some(stream)) => match stream.push(&data) {
                        Cow::Borrowed(unchanged) => data.slice_ref(unchanged),
                        Cow::Owned(clean) => clean.into(),
                    },
                    (Ok(data), None) => data,
                    (Err(frame), _) => {
                        own.trailers = frame.into_trailers().ok();
                        continue;
                    }
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    let rest = own.stream.as_mut().map(Paused::finish).unwrap_or_default();
                    if rest.is_empty() {
                        let trailers = own.trailers.take().map(|mut trailers| {
                            redact_headers(&mut trailers, &own.redactor);
                            Ok(Frame::trailers(trailers))
                        });
                        return Poll::Ready(trailers);
                    }
                    rest.into()
                }
            };
            if !clean.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(clean))));
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        if self.stream.as_ref().is_none_or(Paused::keeps_length) {
            self.body.size_hint()
        } else {
            SizeHint::default()
        }
    }
}
