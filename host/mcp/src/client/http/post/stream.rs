//! The streams of events of a server: their messages, within bounds, and the attempts to open the session's own stream,
//! which announces changes between the requests.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_client::{SseError, StreamableHttpClient, StreamableHttpError};
use sse_stream::Sse;
use tokio::time::sleep;
use tokio_stream::Stream;

use super::{Error, Events, HttpClient, MAX_BODY, addressed, is_session_lost, passed_on};
use crate::client::handler::ServerNews;
use crate::client::http::FIRST_PAUSE;
use crate::client::message;
use haft_core::net::chain;

/// The longest pause between two attempts to open the session's own stream. Only the end of the session ends the attempts.
const MAX_SILENCE: Duration = Duration::from_mins(1);

impl HttpClient {
    /// Opens a stream. The session's own stream is opened with as many attempts as necessary, because calls go on without
    /// it.
    pub(super) async fn open(
        &self,
        uri: &Arc<str>,
        session: Option<&Arc<str>>,
        last_event: Option<&String>,
        headers: &HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Error> {
        // Any other stream belongs to the answer to a request, and rmcp limits the attempts to resume it.
        let is_own = last_event.is_none() || self.last.lock().as_ref() == last_event;
        let (mut pause, mut is_first) = (FIRST_PAUSE, true);
        let events = loop {
            match self.open_once(uri, session, last_event, headers).await {
                Err(error) if is_own && !is_final(&error) => {
                    tracing::debug!(%error, "no stream of changes yet");
                }
                events => break events?,
            }
            sleep(pause).await;
            (pause, is_first) = ((pause * 2).min(MAX_SILENCE), false);
        };
        if !is_own {
            return Ok(messages(events, None, self.news.clone()));
        }
        if !is_first {
            // The server could not announce a change before this stream.
            self.news.say();
        }
        let last = self.last.clone();
        let note = move |event: &Result<Sse, SseError>| {
            if let Ok(Sse { id: Some(id), .. }) = event {
                *last.lock() = Some(id.clone());
            }
        };
        Ok(messages(Box::pin(events.inspect(note)), None, self.news.clone()))
    }

    async fn open_once(
        &self,
        uri: &Arc<str>,
        session: Option<&Arc<str>>,
        last_event: Option<&String>,
        headers: &HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Error> {
        let token = self.bearer().await?;
        let (has_session, session, last_event) = (session.is_some(), session.cloned(), last_event.cloned());
        let events = self.client.get_stream(uri.clone(), session, last_event, token, headers.clone()).await;
        events.map_err(|error| match error {
            // The request has nothing else that the server could refuse with such a status.
            StreamableHttpError::Client(error)
                if has_session && error.status().is_some_and(|status| is_session_lost(status, "session")) =>
            {
                // The request of the list finds the session lost, and a new session has a new stream.
                self.news.say();
                StreamableHttpError::ServerDoesNotSupportSse
            }
            error => passed_on(error),
        })
    }
}

/// Returns whether another attempt cannot succeed: rmcp makes none after these errors either.
fn is_final(error: &Error) -> bool {
    matches!(
        error,
        StreamableHttpError::ServerDoesNotSupportSse
            | StreamableHttpError::AuthRequired(_)
            | StreamableHttpError::InsufficientScope(_)
    )
}

/// Returns a body whose events have at most [`MAX_BODY`] bytes. An empty line ends an event.
pub(super) fn bounded(
    bytes: impl Stream<Item = Result<Bytes, reqwest::Error>>,
) -> impl Stream<Item = Result<Bytes, io::Error>> {
    let (mut size, mut last) = (0, b'\n');
    bytes.map(move |chunk| {
        let chunk = chunk.map_err(|error| io::Error::other(chain(&error)))?;
        for byte in chunk.iter().filter(|byte| **byte != b'\r') {
            let is_end = *byte == b'\n' && last == b'\n';
            size = if is_end { 0 } else { size + 1 };
            last = *byte;
        }
        if size > MAX_BODY {
            return Err(io::Error::other(format!("an event has more than {} MiB", MAX_BODY >> 20)));
        }
        Ok(chunk)
    })
}

/// Returns the events that are messages, one message each, of which those of a stream that answers the request `asked`
/// are addressed to it. Other events (`event: ping`, heartbeats) contain no message; their ids are recorded.
pub(super) fn messages(events: Events, asked: Option<RequestId>, news: Arc<ServerNews>) -> Events {
    Box::pin(events.flat_map(move |event| {
        let (first, more) = match event {
            Ok(event) => {
                let (first, more) = split(event, asked.as_ref(), &news);
                (Ok(first), more)
            }
            Err(error) => (Err(error), Vec::new()),
        };
        let more = more.into_iter().map(|text| Ok(Sse { data: Some(text), ..Sse::default() }));
        stream::iter(std::iter::once(first).chain(more))
    }))
}

/// Returns an event with the first of its messages, and its other messages.
fn split(event: Sse, asked: Option<&RequestId>, news: &ServerNews) -> (Sse, Vec<String>) {
    let mut first = Sse { event: None, data: None, ..event };
    let Some(data) = event.data.filter(|data| !data.trim().is_empty()) else { return (first, Vec::new()) };
    let messages = message::read(data.as_bytes()).unwrap_or_else(|why| {
        tracing::debug!(why, "skipped an event that is not a message");
        Vec::new()
    });
    for message in &messages {
        news.note(message);
    }
    let texts = messages.into_iter().map(|one| addressed(one, asked));
    let mut texts = texts.filter_map(|one| serde_json::to_string(&one).ok());
    first.data = texts.next();
    (first, texts.collect())
}
