//! Calls that wait for their client's answers. They stay in the memory of this process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{ErrorData, InputRequiredResult, InputResponses, ServerResult};

use super::{Call, CallAnswer};
use crate::server::conversation::BUSY;
use crate::server::questions::{Fingerprint, LIFE, UnusableAnswer};
use haft_core::random;
use haft_core::sync::Lock;

/// The beginning of every state. No signed state contains its last character.
const STATE: &str = "call.";

/// Time for a call to end after its questions have expired.
const MARGIN: Duration = Duration::from_mins(1);

/// Maximum number of calls that wait.
const MAX_KEPT: usize = 256;

/// Maximum number of these calls of one caller, if callers are identified: no caller takes the places of all others.
pub(super) const MAX_OF_CALLER: usize = MAX_KEPT / 8;

/// The waiting calls, by the state that their clients have. Clones share the calls.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptCalls(Arc<Lock<HashMap<String, KeptCall>>>);

struct KeptCall {
    /// The caller, if callers are identified.
    caller: Option<Arc<str>>,
    key: Fingerprint,
    since: Instant,
    call: Call,
}

impl std::fmt::Debug for KeptCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptCall").field("since", &self.since).finish_non_exhaustive()
    }
}

/// Returns whether a client's state names a waiting call.
pub(super) fn is_state(state: &str) -> bool {
    state.starts_with(STATE)
}

impl KeptCalls {
    /// Keeps a call of `caller` with open questions, and returns the questions.
    pub(super) fn keep(&self, caller: Option<Arc<str>>, key: Fingerprint, call: Call) -> CallAnswer {
        let Call { future, board, stop } = call;
        let questions = board.open();
        let internal = |error: std::io::Error| ErrorData::internal_error(error.to_string(), None);
        let state = format!("{STATE}{}", random::name::<{ random::KEY }>().map_err(internal)?);
        let mut kept = self.0.lock();
        for (_, expired) in kept.extract_if(|_, call| call.since.elapsed() > LIFE + MARGIN) {
            expired.call.stop.cancel();
        }
        let of_caller = || kept.values().filter(|own| own.caller == caller).count();
        if kept.len() >= MAX_KEPT || (caller.is_some() && of_caller() >= MAX_OF_CALLER) {
            stop.cancel();
            return Err(ErrorData::new(BUSY, "too many calls wait for answers: call again later", None));
        }
        // The call goes on by itself: its server may give up, and its time limits count.
        let running = tokio::spawn(future);
        let future = async move {
            running.await.unwrap_or_else(|error| Err(ErrorData::internal_error(error.to_string(), None)))
        };
        let call = Call { future: Box::pin(future), board, stop };
        kept.insert(state.clone(), KeptCall { caller, key, since: Instant::now(), call });
        Ok(ServerResult::InputRequiredResult(InputRequiredResult::new(Some(questions), Some(state))))
    }

    /// Returns the call that waits with `state`, and gives it the answers.
    ///
    /// # Errors
    /// No call of this caller, tool and arguments has the state, or the state was used.
    pub(super) fn take(
        &self,
        state: &str,
        key: &Fingerprint,
        answers: InputResponses,
    ) -> Result<Call, ErrorData> {
        let mut kept = self.0.lock();
        let is_own = kept.get(state).is_some_and(|call| call.key == *key);
        let call = is_own.then(|| kept.remove(state)).flatten();
        let foreign = || ErrorData::invalid_params(UnusableAnswer::Foreign.to_string(), None);
        let call = call.ok_or_else(foreign)?.call;
        drop(kept);
        call.board.answer(answers);
        Ok(call)
    }
}
