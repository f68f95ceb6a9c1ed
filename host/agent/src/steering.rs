//! Prompts that a person gives while the agent works. The model gets them at its next step, after the answers to
//! its calls and before its next turn.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::provider::Prompt;
use crate::{Agent, History, SessionError};
use haft_core::sync::Lock;

/// The queue of prompts that the model has not yet received. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Steering(Arc<Lock<VecDeque<Prompt>>>);

/// The maximum number of queued prompts: more than a user types during one call.
const MAX_WAITING: usize = 64;

impl Steering {
    /// Queues a prompt; returns whether there was room.
    pub fn say(&self, prompt: impl Into<Prompt>) -> bool {
        let mut waiting = self.0.lock();
        let has_room = waiting.len() < MAX_WAITING;
        if has_room {
            waiting.push_back(prompt.into());
        }
        has_room
    }

    /// Removes and returns the next prompt.
    pub fn take(&self) -> Option<Prompt> {
        self.0.lock().pop_front()
    }
}

impl Agent {
    /// Takes prompts from `steering` while the agent works.
    #[must_use]
    pub fn steered_by(self, steering: Steering) -> Self {
        Self { steering, ..self }
    }

    /// Adds the queued prompts to the conversation; returns whether there were any.
    pub(super) fn hear(&self, history: &mut History) -> Result<bool, SessionError> {
        let mut has_heard = false;
        while let Some(prompt) = self.steering.take() {
            history.push_prompt(prompt)?;
            has_heard = true;
        }
        Ok(has_heard)
    }
}
