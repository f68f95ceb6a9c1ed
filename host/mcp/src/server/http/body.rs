//! Reading the bodies of requests. Small ones, as nearly all are, are always read; large ones share an amount of
//! memory, so that many of them at once are turned away and not held.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{HeaderMap, StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::response::Refusal;
use haft_core::json;

/// Bytes of a body: a file to be written, in JSON.
pub(super) const MAX_BODY: usize = 8 << 20;

/// Bytes of a body that is always read: a call with a screenful of arguments.
const SMALL: usize = 64 << 10;

/// Bytes of all larger bodies at once: sixteen whole ones.
const MAX_BODIES: usize = 16 * MAX_BODY;

/// What all bodies of a server have room in.
pub(super) struct Bodies {
    room: Arc<Semaphore>,
    patience: Duration,
}

/// A body, and the room that it takes.
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl Whole {
    /// The same with U+FFFD in the place of everything that is no character.
    pub(super) fn of_whole_characters(mut self) -> Self {
        if let Cow::Owned(whole) = json::whole_characters(&self.bytes) {
            self.bytes = whole.into();
        }
        self
    }
}

impl Bodies {
    /// Each is waited for so long.
    pub(super) fn new(patience: Duration) -> Self {
        Self { room: Arc::new(Semaphore::new(MAX_BODIES)), patience }
    }

    /// All of a body.
    pub(super) async fn read(&self, body: Incoming) -> Result<Whole, Refusal> {
        let whole = tokio::time::timeout(self.patience, self.collect(body)).await;
        whole.unwrap_or_else(|_| {
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"))
        })
    }

    async fn collect(&self, mut body: Incoming) -> Result<Whole, Refusal> {
        let (mut bytes, mut room) = (BytesMut::new(), None);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                Refusal::new(StatusCode::BAD_REQUEST, format!("the body cannot be read: {error}"))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > MAX_BODY {
                return Err(too_large());
            }
            if bytes.len() + data.len() > SMALL {
                self.reserve(data.len(), &mut room)?;
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Whole { bytes: bytes.freeze(), _room: room })
    }

    /// Takes room for so many bytes more.
    fn reserve(&self, bytes: usize, room: &mut Option<OwnedSemaphorePermit>) -> Result<(), Refusal> {
        let count = u32::try_from(bytes).unwrap_or(u32::MAX);
        let more = self.room.clone().try_acquire_many_owned(count).map_err(|_| {
            let why = "too many large bodies at once; try again later";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
        })?;
        match room {
            Some(room) => room.merge(more),
            None => *room = Some(more),
        }
        Ok(())
    }
}

/// Whether a body is said to be too large, before any of it came.
pub(super) fn is_too_large(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > MAX_BODY as u64)
}

/// The answer to one that is.
pub(super) fn too_large() -> Refusal {
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {} MiB", MAX_BODY >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S11: what many send at the same time is bounded, and given back.
    #[test]
    fn s11_large_bodies_share_their_room() {
        let bodies = Bodies::new(Duration::ZERO);
        let mut held = Vec::new();
        for _ in 0..16 {
            let mut room = None;
            bodies.reserve(MAX_BODY / 2, &mut room).unwrap();
            bodies.reserve(MAX_BODY / 2, &mut room).unwrap();
            held.push(room);
        }
        assert!(bodies.reserve(1, &mut None).is_err());
        held.pop();
        let mut room = None;
        assert!(bodies.reserve(MAX_BODY, &mut room).is_ok() && bodies.reserve(1, &mut room).is_err());
    }
}
