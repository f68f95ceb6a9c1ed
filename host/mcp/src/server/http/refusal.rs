//! Answers of the HTTP server, and the refusals among them: a status and one line of text.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONNECTION, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

/// The response to any request.
pub(super) type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

/// Why a request is not answered.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    why: String,
    /// Whether it is the end of the connection too.
    is_end: bool,
    /// `WWW-Authenticate`.
    challenge: Option<HeaderValue>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into(), is_end: false, challenge: None }
    }

    /// This refusal, after which the connection is closed.
    pub(super) fn and_close(self) -> Self {
        Self { is_end: true, ..self }
    }

    /// This refusal, with what a client has to show.
    pub(super) fn with_challenge(self, challenge: Option<HeaderValue>) -> Self {
        Self { challenge, ..self }
    }

    pub(super) fn into_response(self) -> HttpResponse {
        tracing::info!(status = self.status.as_u16(), why = self.why, "request refused");
        let mut answer = Response::new(Full::new(Bytes::from(self.why + "\n")).boxed());
        *answer.status_mut() = self.status;
        if let Some(challenge) = self.challenge {
            answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
        }
        if self.is_end {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}
