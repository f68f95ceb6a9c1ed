//! The commands for the size of a conversation: report how full the context window is, and summarise the
//! conversation before it is full.

use std::ops::Range;

use crate::provider::Usage;
use crate::session::Summary;
use crate::summary::Part;
use crate::{Agent, History, SessionError};
use haft_core::tool::Session;

/// Why a conversation was not summarised.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// The session cannot be saved.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The model of this name returned no usable summary.
    #[error("`{0}` gave no summary; the conversation is as before")]
    NoSummary(String),
}

impl Agent {
    /// Has `model` summarise a range of messages. Returns the summary and its cost.
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

    /// Has the provider's fast model summarise all messages but the last, however short the conversation is.
    /// Returns how many messages the summary replaces and its cost; `None` if there are no messages to summarise.
    ///
    /// # Errors
    /// The session cannot be saved, or the model returns no usable summary; the conversation then stays unchanged.
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

    /// Returns the tokens that the conversation takes now, and the tokens that the model reads, if known.
    pub fn fill(&self, history: &mut History) -> (usize, Option<u32>) {
        let (window, messages) = history.window();
        window.begin(self.model(), self.room());
        window.fill(messages)
    }
}
