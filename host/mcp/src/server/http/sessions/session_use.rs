//! How long a session may be left alone, and what becomes of it then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, InitializeRequestParams, JsonRpcMessage};

use crate::server::handler::Handler;

/// How long a session may be left alone: a person comes back from lunch to the same one.
pub(super) const IDLE: Duration = Duration::from_hours(1);

/// How long a session has to have been left alone to be closed for a new one, where all places are taken.
pub(super) const ABANDONED: Duration = Duration::from_mins(10);

/// The same bound for a session whose client sent nothing after opening it; clients send something at once.
const UNUSED: Duration = Duration::from_mins(1);

/// How long a session may be used without rmcp that does not rest, since its client has a stream: rmcp takes it for one
/// left alone meanwhile.
pub(super) const KEPT: Duration = Duration::from_mins(30);

/// Bytes of what opened a session that may rest. Clients send a tenth.
const MAX_OPENING: usize = 4 << 10;

/// A session, whoever uses it.
pub(super) struct SessionUse {
    /// The caller that opened it; nobody else uses it.
    pub(super) owner: Arc<str>,
    /// Requests and streams under way.
    pub(super) open: usize,
    pub(super) last: Instant,
    /// Whether its client came back after it was opened.
    pub(super) came_back: bool,
    /// Whether its client takes events without data, as revisions from 2025-11-25 on have them.
    pub(super) primes: bool,
    /// What handles its requests.
    pub(super) handler: Option<Arc<Handler>>,
    /// Whether rmcp has it.
    pub(super) is_awake: bool,
    /// When rmcp had a message of it: a session of which it has none for long is over.
    pub(super) kept: Instant,
    /// How it was opened, where that is short.
    pub(super) opening: Option<Opening>,
    /// How often rmcp is about to say that it is over, although it only rests.
    pub(super) rests: usize,
}

impl SessionUse {
    pub(super) fn new(owner: Arc<str>) -> Self {
        let now = Instant::now();
        Self {
            owner,
            open: 0,
            last: now,
            came_back: false,
            primes: false,
            handler: None,
            is_awake: true,
            kept: now,
            opening: None,
            rests: 0,
        }
    }

    /// What may answer its next request without rmcp.
    pub(super) fn quick_handler(&self) -> Option<Arc<Handler>> {
        self.handler.clone().filter(|_| !self.is_awake || self.kept.elapsed() < KEPT)
    }

    /// Whether rmcp may let go of it.
    pub(super) fn may_rest(&self, ready: Duration) -> bool {
        let is_quiet = self.is_awake && self.open == 0 && self.kept.elapsed() >= ready;
        is_quiet && self.opening.is_some() && self.handler.as_ref().is_some_and(|handler| !handler.is_busy())
    }

    /// Whether it rests and its client has gone for good.
    pub(super) fn is_over(&self) -> bool {
        !self.is_awake && self.open == 0 && self.last.elapsed() >= IDLE
    }

    /// Whether it may be closed for a new one.
    pub(super) fn gives_way(&self) -> bool {
        let enough = if self.came_back { ABANDONED } else { UNUSED };
        self.open == 0 && self.last.elapsed() >= enough
    }
}

/// What opens a session, as JSON: one piece of memory.
pub(super) struct Opening(Box<[u8]>);

impl Opening {
    /// That of a client's first message, where it is short.
    pub(super) fn of(message: &ClientJsonRpcMessage) -> Option<Self> {
        let JsonRpcMessage::Request(request) = message else { return None };
        let ClientRequest::InitializeRequest(initialize) = &request.request else { return None };
        let text = serde_json::to_vec(&initialize.params).ok()?;
        (text.len() <= MAX_OPENING).then(|| Self(text.into()))
    }

    pub(super) fn params(&self) -> Option<InitializeRequestParams> {
        serde_json::from_slice(&self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ago(time: Duration) -> Instant {
        Instant::now().checked_sub(time).unwrap()
    }

    fn unowned() -> SessionUse {
        SessionUse::new(Arc::default())
    }

    /// C05: a client that is being served keeps its session.
    #[test]
    fn c05_only_a_session_that_was_left_gives_way() {
        let long = ago(ABANDONED + UNUSED);
        for (gives_way, used) in [
            (true, SessionUse { last: long, came_back: true, ..unowned() }),
            (true, SessionUse { last: ago(UNUSED), ..unowned() }),
            (false, SessionUse { last: ago(UNUSED), came_back: true, ..unowned() }),
            (false, SessionUse { last: long, open: 1, ..unowned() }),
            (false, unowned()),
        ] {
            assert_eq!(used.gives_way(), gives_way);
        }
    }
}
