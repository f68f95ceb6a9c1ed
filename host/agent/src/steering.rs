//! What a person says while the agent works. The model is told at its next step, between the answers to its calls and its
//! next turn.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::provider::Prompt;
use crate::{Agent, History, SessionError};
use haft_core::sync::Lock;

/// What was said and is not told yet. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Steering(Arc<Lock<VecDeque<Prompt>>>);

/// Things that wait to be told: more than anybody types during one call.
const MAX_WAITING: usize = 64;

impl Steering {
    /// Says something; whether there was room for it.
    pub fn say(&self, said: impl Into<Prompt>) -> bool {
        let mut waiting = self.0.lock();
        let has_room = waiting.len() < MAX_WAITING;
        if has_room {
            waiting.push_back(said.into());
        }
        has_room
    }

    /// The next that is not told yet, which is not told then.
    pub fn take(&self) -> Option<Prompt> {
        self.0.lock().pop_front()
    }
}

impl Agent {
    /// The same, which is told what is said to `steering` while it works.
    #[must_use]
    pub fn steered_by(self, steering: Steering) -> Self {
        Self { steering, ..self }
    }

    /// Adds what was said meanwhile; whether there was anything.
    pub(super) fn hear(&self, history: &mut History) -> Result<bool, SessionError> {
        let mut has_heard = false;
        while let Some(said) = self.steering.take() {
            history.push_prompt(said)?;
            has_heard = true;
        }
        Ok(has_heard)
    }
}
