//! Batches of messages, which clients of 2025-03-26 may send: each message is handled as if it had come alone, and what answers
//! them is one list.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::Value;
use serde_json::value::RawValue;

use super::refusal::HttpResponse;
use crate::server::bounds::MAX_BATCH;
use haft_core::net::{Frames, Framing};
use haft_core::scan::Scan;

/// Bytes of the event that answers one message.
const MAX_EVENT: usize = 16 << 20;

/// Whether a body is a batch of a client that may send one: later versions have none, and the first with a header for its
/// version is the next one.
pub(super) fn is_meant(headers: &HeaderMap, scan: &Scan) -> bool {
    let version = headers.get("mcp-protocol-version");
    scan.is_batch() && version.is_none_or(|version| version == "2025-03-26")
}

/// The messages of a batch; `None` where it is none that can be taken.
pub(super) fn messages(body: &Bytes) -> Option<Vec<Bytes>> {
    let messages = serde_json::from_slice::<Vec<&RawValue>>(body).ok()?;
    let is_meant = (1..=MAX_BATCH).contains(&messages.len());
    is_meant.then(|| messages.iter().map(|one| Bytes::copy_from_slice(one.get().as_bytes())).collect())
}

/// The answer to a batch, of those to its messages; notifications alone have none.
pub(super) fn joined(answers: &[Value]) -> HttpResponse {
    let (status, text) = match answers {
        [] => (StatusCode::ACCEPTED, Vec::new()),
        // JSON values can be written.
        answers => (StatusCode::OK, serde_json::to_vec(answers).unwrap_or_default()),
    };
    let mut answer = Response::new(Full::new(Bytes::from(text)).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// The answer to one message, in a body of JSON or of events.
pub(super) async fn answer_in(answer: HttpResponse) -> Option<Value> {
    let is_stream = answer
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    // A body of haft's own: no byte of it can fail.
    let Ok(body) = answer.into_body().collect().await;
    let body = body.to_bytes();
    if !is_stream {
        return serde_json::from_slice(&body).ok();
    }
    let (mut frames, mut events) = (Frames::new(Framing::Events, MAX_EVENT), Vec::new());
    let _whole = frames.push(&body, &mut events);
    frames.finish(&mut events);
    let mut messages = events.iter().filter_map(|event| serde_json::from_slice::<Value>(event).ok());
    messages.rfind(|message| message.get("method").is_none() && message.get("id").is_some())
}
