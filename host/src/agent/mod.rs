//! The loop: ask a model, run what it calls, tell it what came of it, until it has nothing more
//! to call. Runs nothing itself: every call goes through the [`Toolbox`], which holds exactly
//! the tools this agent may use.

mod brake;
mod history;
mod outcome;
mod prompt;
mod routing;
mod work;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

pub use self::history::History;
pub use self::outcome::{End, Outcome};
pub use self::prompt::{system_prompt, with_skills};
pub use self::routing::{Routed, route};
use self::work::Work;
use crate::event::Event;
use crate::provider::{Ask, Exchange, Provider, ProviderError, Stop, Turn, Usage};
use crate::secret::Telling;
use crate::tool::{Session, Toolbox};

/// How an agent goes about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    /// What the model is told first; nothing when empty.
    pub system: String,
    /// The model to ask; the provider's own when `None`.
    pub model: Option<String>,
    /// How often the model is asked at most for one prompt.
    pub max_turns: u32,
    /// How often a call that failed is run again before it is refused.
    pub max_repeats: u32,
}

impl AgentSettings {
    /// 50: more than an honest task takes, few enough that a loop ends.
    pub const DEFAULT_MAX_TURNS: u32 = 50;
    /// 2: a second try may meet a passing fault, a fourth never does.
    pub const DEFAULT_MAX_REPEATS: u32 = 2;

    /// The defaults, with a system prompt that names `workspace`.
    pub fn for_workspace(workspace: Option<&Path>) -> Self {
        Self {
            system: system_prompt(workspace),
            model: None,
            max_turns: Self::DEFAULT_MAX_TURNS,
            max_repeats: Self::DEFAULT_MAX_REPEATS,
        }
    }
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self::for_workspace(None)
    }
}

/// A model with the tools that it may use.
pub struct Agent {
    provider: Arc<dyn Provider>,
    toolbox: Toolbox,
    settings: AgentSettings,
}

impl Agent {
    /// An agent that asks `provider` and may use everything in `toolbox`, and nothing else.
    pub fn new(provider: Arc<dyn Provider>, toolbox: Toolbox, settings: AgentSettings) -> Self {
        Self { provider, toolbox, settings }
    }

    /// Says `prompt` and works until the model is done, a bound is met or `session` is cancelled.
    ///
    /// `history` is valid at every moment, also after an error and when the future is dropped:
    /// a turn goes into it together with the answers to its calls.
    pub async fn run(
        &self,
        history: &mut History,
        prompt: &str,
        session: &Session,
    ) -> Result<Outcome, ProviderError> {
        history.say(prompt);
        let mut tally = Tally::new(self.model());
        let mut work = Work::new(&self.toolbox, session, self.settings.max_repeats);
        for _ in 0..self.settings.max_turns {
            let Some(turn) = self.infer(history, session).await else {
                return Ok(tally.close(End::Cancelled));
            };
            let turn = turn?;
            tally.count(&turn);
            if let Some(end) = end(&turn) {
                history.record(Exchange::new(turn.reply, []));
                return Ok(tally.close(end));
            }
            let answers = work.run(&turn.reply.calls).await;
            history.record(Exchange::new(turn.reply, answers));
        }
        let end = if session.cancel.is_cancelled() { End::Cancelled } else { End::TurnCap };
        Ok(tally.close(end))
    }

    /// The model's next turn; `None` when cancelled before it came.
    async fn infer(&self, history: &History, session: &Session) -> Option<Result<Turn, ProviderError>> {
        let tools = self.toolbox.defs();
        let (model, system) = (self.model(), self.settings.system.as_str());
        let ask = Ask { model, system, messages: history.messages(), tools: &tools };
        if session.cancel.is_cancelled() {
            return None;
        }
        let telling = Telling::new(&session.redactor, &session.events);
        telling.events().emit(|| Event::Asked { model: model.to_owned() });
        let turn = session.cancel.run_until_cancelled(self.provider.turn(&ask, telling.events())).await;
        telling.finish("");
        turn
    }

    fn model(&self) -> &str {
        self.settings.model.as_deref().unwrap_or_else(|| self.provider.model())
    }
}

/// Whether `turn` is the last, and of what kind.
fn end(turn: &Turn) -> Option<End> {
    match turn.stop {
        // Calls of a turn that was held back or declined are not the model's last word on them.
        Stop::Filtered => Some(End::Filtered),
        Stop::Refused => Some(End::Refused),
        Stop::Length if turn.reply.calls.is_empty() => Some(End::Length),
        Stop::Done if turn.reply.calls.is_empty() => Some(End::Final),
        Stop::Length | Stop::Done | Stop::Paused => None,
    }
}

/// What a run has come to so far.
struct Tally {
    started: Instant,
    said: Vec<String>,
    turns: u32,
    usage: Usage,
    model: String,
}

impl Tally {
    fn new(model: &str) -> Self {
        Self {
            started: Instant::now(),
            said: Vec::new(),
            turns: 0,
            usage: Usage::default(),
            model: model.to_owned(),
        }
    }

    fn count(&mut self, turn: &Turn) {
        self.turns += 1;
        self.usage += turn.usage;
        self.model.clone_from(&turn.model);
        self.said.push(turn.reply.text.clone());
    }

    /// The last words where the model came to an end by itself, else all that it said on the way.
    fn close(self, end: End) -> Outcome {
        let text = match end {
            End::TurnCap | End::Cancelled => {
                let said: Vec<_> = self.said.into_iter().filter(|text| !text.trim().is_empty()).collect();
                said.join("\n\n")
            }
            _ => self.said.into_iter().next_back().unwrap_or_default(),
        };
        let elapsed = self.started.elapsed();
        Outcome { end, text, turns: self.turns, usage: self.usage, model: self.model, elapsed }
    }
}
