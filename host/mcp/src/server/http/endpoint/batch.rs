//! Batches of messages, which clients of 2025-03-26 may send: each is handled as if it had come alone, and what answers them
//! is one list.

use hyper::StatusCode;
use rmcp::model::JsonRpcMessage;
use serde_json::value::RawValue;

use super::{Endpoint, ended, take};
use crate::server::http::response::{self, HttpResponse, JSON, Refusal};
use crate::server::http::sessions::SessionGuard;
use crate::server::message::{self, MAX_BATCH};
use haft_core::scan::Scan;

/// The messages of a batch; `None` where it is none that can be taken.
pub(super) fn messages(body: &[u8]) -> Option<Vec<&RawValue>> {
    let messages = serde_json::from_slice::<Vec<&RawValue>>(body).ok()?;
    (1..=MAX_BATCH).contains(&messages.len()).then_some(messages)
}

impl Endpoint {
    /// Answers a batch in a session, message by message. What its calls tell comes in the stream without a request.
    pub(super) async fn answer_batch(
        &self,
        session: &SessionGuard,
        messages: &[&RawValue],
    ) -> Result<HttpResponse, Refusal> {
        let mut answers = Vec::new();
        for text in messages {
            let text = text.get().as_bytes();
            match message::parse(text, &Scan::from_message(text)) {
                Ok(JsonRpcMessage::Request(request)) => {
                    answers.push(ended(self.begin_in(session, request, false, false).0).await?);
                }
                Ok(message) => take(session, message),
                Err(invalid) => {
                    answers.push(message::refusal(invalid.id, invalid.error, false).to_string().into());
                }
            }
        }
        if answers.is_empty() {
            return Ok(response::empty(StatusCode::ACCEPTED));
        }
        let text = [&b"["[..], &answers.join(&b","[..]), b"]"].concat();
        Ok(response::whole(StatusCode::OK, JSON, text))
    }
}
