//! Answers of the HTTP server, and the refusals among them: a status and one line of text.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use rmcp::model::{ErrorData, RequestId};

use crate::server::message;

/// The type of a body that is one JSON object or list.
pub(super) const JSON: &str = "application/json";

/// The type of a body that is a stream of events.
pub(super) const EVENTS: &str = "text/event-stream";

/// The response to any request.
pub(super) type HttpResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A response of `text`, which is `content_type`.
pub(super) fn whole(status: StatusCode, content_type: &'static str, text: impl Into<Bytes>) -> HttpResponse {
    let mut answer = Response::new(Full::new(text.into()).boxed_unsync());
    *answer.status_mut() = status;
    if !content_type.is_empty() {
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    answer
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> HttpResponse {
    whole(status, "", Bytes::new())
}

/// Why a request is not answered.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    why: String,
    /// Whether `why` is a message of JSON-RPC.
    is_message: bool,
    /// Whether it is the end of the connection too.
    is_end: bool,
    /// `WWW-Authenticate`.
    challenge: Option<HeaderValue>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into(), is_message: false, is_end: false, challenge: None }
    }

    /// An error of JSON-RPC, of the request `id` where that can be told.
    pub(super) fn error(status: StatusCode, id: Option<RequestId>, error: ErrorData) -> Self {
        Self { is_message: true, ..Self::new(status, message::refusal(id, error, false).to_string()) }
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
        let mut answer = if self.is_message {
            whole(self.status, JSON, self.why)
        } else {
            whole(self.status, "", self.why + "\n")
        };
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
