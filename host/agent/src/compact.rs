//! What a person may want of the room that a conversation takes: to know how full it is, and to have the conversation summed
//! up before it is full.

use std::ops::Range;

use crate::provider::Usage;
use crate::session::Summary;
use crate::summary::Part;
use crate::{Agent, History, SessionError};
use haft_core::tool::Session;

/// Why a conversation was not summed up.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// The session cannot be kept.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The model of this name gave nothing that can be used.
    #[error("`{0}` gave no summary; the conversation is as before")]
    NoSummary(String),
}

impl Agent {
    /// What `model` makes of a part of the conversation, and what that cost.
    pub(super) async fn sum_up(
        &self,
        history: &mut History,
        range: Range<usize>,
        model: &str,
        session: &Session,
    ) -> (Option<Summary>, Option<Usage>) {
        let (window, messages) = history.window();
        let known = self.provider.context_window(model);
        let tokens = if model == self.model() { window.tokens() } else { known };
        let part = Part::new(window, messages, range, tokens);
        part.sum_up(self.provider.as_ref(), model, session).await
    }

    /// Has the provider's fast model sum up all but the last message now, whatever room there is; how many messages the
    /// summary stands for, and what it cost. `None` where there is nothing more to sum up.
    ///
    /// # Errors
    /// The session cannot be kept, or the model gives nothing that can be used: the conversation is as before then.
    pub async fn compact(
        &self,
        history: &mut History,
        session: &Session,
    ) -> Result<Option<(usize, Usage)>, CompactError> {
        let (window, messages) = history.window();
        window.begin(self.model(), self.room());
        let Some(range) = window.cut(messages) else { return Ok(None) };
        let (start, left_out) = (range.start, range.end);
        let (summary, usage) = self.sum_up(history, range, self.provider.model_fast(), session).await;
        let Some(summary) = summary else {
            history.window().0.uncut(start);
            return Err(CompactError::NoSummary(self.provider.model_fast().to_owned()));
        };
        let usage = usage.unwrap_or_default();
        history.sum_up(summary, usage)?;
        Ok(Some((left_out, usage)))
    }

    /// How much of what the model reads the conversation takes by now, in tokens, and how much it reads where that is known.
    pub fn fill(&self, history: &mut History) -> (usize, Option<u32>) {
        let (window, messages) = history.window();
        window.begin(self.model(), self.room());
        window.fill(messages)
    }
}
