//! Batches of messages, which clients of 2025-03-26 may send: each message is handled as if sent alone, and the
//! answers are returned as one list.

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use serde_json::value::RawValue;

use super::{Endpoint, ended};
use crate::server::http::response::{self, HttpResponse, JSON, Refusal};
use crate::server::http::session::SessionGuard;
use crate::server::message::{self, MAX_BATCH};
use haft_core::scan::Scan;

/// Returns the messages of a batch; `None` if it is not a valid batch.
pub(super) fn messages(body: &[u8]) -> Option<Vec<&RawValue>> {
    let messages = serde_json::from_slice::<Vec<&RawValue>>(body).ok()?;
    (1..=MAX_BATCH).contains(&messages.len()).then_some(messages)
}

impl Endpoint {
    /// Answers a batch in a session, message by message. Notifications of its calls are sent in the session's own
    /// stream.
    pub(super) async fn answer_batch(
        &self,
        headers: &HeaderMap,
        session: &SessionGuard,
        body: &Bytes,
        messages: &[&RawValue],
    ) -> Result<HttpResponse, Refusal> {
        let mut answers: Vec<Bytes> = Vec::new();
        for text in messages {
            let text = body.slice_ref(text.get().as_bytes());
            let scan = Scan::from_message(&text);
            let refusal = |id, error| message::refusal(id, error, false).to_string().into();
            let message = self.parsed(text, scan).await?;
            // A request of another revision would wait for an answer that no batch has.
            if message.as_ref().is_ok_and(|message| !is_of_session(headers, message)) {
                let id = message.ok().and_then(JsonRpcMessage::into_request).map(|(_, id)| id);
                answers.push(refusal(id, ErrorData::invalid_request("not a request of a batch", None)));
                continue;
            }
            match message {
                Ok(JsonRpcMessage::Request(request)) => {
                    let id = request.id.clone();
                    match self.begin_in(session, request, false, false) {
                        Ok((begun, _)) => answers.push(ended(begun).await?),
                        Err(error) => answers.push(refusal(Some(id), error)),
                    }
                }
                Ok(message) => session.take(message),
                Err(invalid) => answers.push(refusal(invalid.id, invalid.error)),
            }
        }
        if answers.is_empty() {
            return Ok(response::empty(StatusCode::ACCEPTED));
        }
        let text = [&b"["[..], &answers.join(&b","[..]), b"]"].concat();
        Ok(response::whole(StatusCode::OK, JSON, text))
    }
}

/// Returns whether a message of a batch belongs to the session: it neither has a revision without sessions, nor
/// opens a session.
fn is_of_session(headers: &HeaderMap, message: &ClientJsonRpcMessage) -> bool {
    let opens = matches!(message, JsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::InitializeRequest(_)));
    !opens && message::is_of_session(headers, Some(message)).unwrap_or(false)
}
