//! The agent loop: asks a model, runs its calls, returns the results to it, and ends when the model makes no more
//! calls. This crate runs no tool itself: every call goes through the [`Toolbox`], which holds exactly the tools
//! that this agent may use.

mod history;
mod outcome;
mod output;
mod prompt;
pub mod provider;
mod routing;
mod session;
mod summary;
mod turn_calls;
mod window;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::history::{History, Steering};
use self::outcome::Totals;
pub use self::outcome::{End, Outcome};
use self::output::{Answers, Verdict};
pub use self::prompt::{PLAN, planned, system_prompt, with_agents_md, with_skills};
pub use self::routing::{Routed, route};
pub use self::session::{
    Begun, Ended, Entry, Known, Line, Restored, Saved, SessionError, SessionLog, Sessions, Summarised,
    UNKNOWN, Unanswered,
};
pub use self::summary::CompactError;
use self::turn_calls::TurnCalls;
use self::window::{READER, Room};
use crate::provider::{Ask, Failure, OutputSchema, Prompt, Provider, ProviderError, Stop, Turn, Usage};
use haft_core::event::Event;
use haft_core::secret::RedactingEvents;
use haft_core::sync::Lock;
pub use haft_core::tool::Most as Budget;
use haft_core::tool::{Session, Toolbox, bytes};
use haft_core::trace::{self, Operation};

/// Settings of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    /// The system prompt; no system prompt if empty.
    pub system: String,
    /// The model to ask; `None`: the default model of the provider.
    pub model: Option<String>,
    /// The maximum number of model turns for one prompt.
    pub max_turns: u32,
    /// The maximum number of repetitions of a failed call before it is refused.
    pub max_repeats: u32,
    /// The part of the conversation that is sent to the model, in rough tokens (bytes / 4). The beginning of a
    /// longer conversation is omitted from the request. `None`: no limit.
    pub history_budget: Option<u32>,
    /// Whether the fast model of the provider summarises the messages that are omitted. `None`: yes, if the fast
    /// model is not the default model.
    pub summarise: Option<bool>,
    /// The schema of the final answer: [`Outcome::output`] is valid against it. The schema is appended to `system`,
    /// and the model is asked again, at most three times, if its answer is not valid. `None`: free text.
    pub output: Option<Arc<OutputSchema>>,
    /// The maximum cost of a run.
    pub budget: Budget,
}

/// The maximum number of shorter requests of one turn after the vendor reported that the conversation is too long.
const MAX_SHRINKS: u32 = 8;
/// The maximum number of consecutive turns without text or call after which the model is asked to continue.
const MAX_EMPTY_TURNS: u32 = 2;
/// The prompt after an empty turn: repeating the request unchanged would give another empty turn.
const AFTER_NOTHING: &str =
    "[Your last turn was empty. Go on with the task, or report the result if it is done.]";

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            system: system_prompt(None),
            model: None,
            // More than a useful task takes, few enough to end a loop.
            max_turns: 50,
            // A second repeat may outlast a transient fault; a fourth attempt never succeeds.
            max_repeats: 2,
            // Together with the tools and an answer, it fits the smallest models that vendors host today.
            history_budget: Some(100_000),
            summarise: None,
            output: None,
            budget: Budget::default(),
        }
    }
}

/// A model together with the tools that it may use.
pub struct Agent {
    provider: Arc<dyn Provider>,
    /// The current tools; [`ToolNews`] replaces them.
    toolbox: Lock<Arc<Toolbox>>,
    news: Option<Arc<dyn ToolNews>>,
    settings: AgentSettings,
    spent: Usage,
    steering: Steering,
}

/// Reports changes of the tools while an agent works.
#[async_trait]
pub trait ToolNews: Send + Sync {
    /// Returns the new set of tools, or `None` if it has not changed since the last call.
    async fn renewed(&self) -> Option<Toolbox>;
}

impl Agent {
    /// Creates an agent that asks `provider` and may use exactly the tools in `toolbox`. If there are more tools
    /// than the provider accepts, the request contains the first ones, and the model finds the others with
    /// `find_tools`.
    pub fn new(provider: Arc<dyn Provider>, toolbox: Toolbox, mut settings: AgentSettings) -> Self {
        let toolbox = Lock::new(Arc::new(toolbox.at_most(provider.max_tools())));
        if let Some(schema) = &settings.output {
            settings.system = output::instructed(settings.system, schema);
        }
        let (news, spent, steering) = (None, Usage::default(), Steering::default());
        Self { provider, toolbox, news, settings, spent, steering }
    }

    /// Updates the tools of this agent from `news` before each turn.
    #[must_use]
    pub fn with_news(self, news: Arc<dyn ToolNews>) -> Self {
        Self { news: Some(news), ..self }
    }

    /// Takes prompts from `steering` while the agent works.
    #[must_use]
    pub fn steered_by(self, steering: Steering) -> Self {
        Self { steering, ..self }
    }

    /// Sets the model to ask.
    #[must_use]
    pub fn asking(mut self, model: String) -> Self {
        self.settings.model = Some(model);
        self
    }

    /// Counts `spent` as usage of each run before it begins, for example the cost of choosing the model.
    #[must_use]
    pub fn having_spent(self, spent: Usage) -> Self {
        Self { spent, ..self }
    }

    /// Adds `prompt` to the conversation and works until the model is done or unavailable, a limit is reached, or
    /// `session` is cancelled.
    ///
    /// `history` is valid at every moment, also after an error and after the future is dropped: a turn is added to
    /// it together with the answers to its calls.
    ///
    /// # Errors
    /// The session cannot be saved.
    pub async fn run(
        &self,
        history: &mut History,
        prompt: impl Into<Prompt>,
        session: &Session,
    ) -> Result<Outcome, SessionError> {
        history.push_prompt(prompt)?;
        self.go_on(history, session).await
    }

    /// Continues from the state of `history`: after a cancellation, an error, or the end of an earlier process.
    /// Runs the calls that have not run yet; no call runs twice.
    ///
    /// # Errors
    /// The session cannot be saved.
    pub async fn go_on(&self, history: &mut History, session: &Session) -> Result<Outcome, SessionError> {
        let lineage = session.lineage.path();
        let (provider, model) = (self.provider.name(), self.model());
        let span = session.trace.begin(|| Operation::Agent { name: lineage.as_deref(), provider, model });
        let session = &Session { trace: span.inside(), ..session.clone() };
        let outcome = self.work(history, session).await;
        span.end(&ended_of(&outcome));
        history.end(|| match &outcome {
            Ok(outcome) => {
                let error = outcome.failure.as_ref().map(ToString::to_string);
                Ended { end: Some(outcome.end), error }
            }
            Err(error) => Ended { end: None, error: Some(error.to_string()) },
        })?;
        outcome
    }

    async fn work(&self, history: &mut History, session: &Session) -> Result<Outcome, SessionError> {
        let mut totals = Totals::new(self.model(), &session.meter, self.settings.budget);
        if self.spent != Usage::default() {
            totals.add(self.provider.model_fast(), self.spent);
        }
        let session = &Session { meter: totals.meter.clone(), ..session.clone() };
        self.renewed().await;
        let mut work = TurnCalls::new(self.toolbox(), session, self.settings.max_repeats);
        history.window().0.begin(self.model(), self.room());
        if let Some(turn) = history.opened() {
            work.run(&turn).await?;
            history.close();
        }
        let (mut answers, mut empty) = (Answers::new(self.settings.output.as_deref()), 0);
        for _ in 0..self.settings.max_turns {
            if let Some(why) = totals.used_up() {
                return Ok(Outcome { detail: Some(why), ..totals.close(End::Budget) });
            }
            let turn = match self.infer(history, &mut totals, &mut answers, session).await? {
                Some(Ok(turn)) => turn,
                Some(Err(error)) if empty < MAX_EMPTY_TURNS && matches!(error.failure, Failure::Empty(_)) => {
                    empty += 1;
                    history.push_prompt(AFTER_NOTHING)?;
                    continue;
                }
                Some(Err(error)) => {
                    return Ok(Outcome { failure: Some(error), ..totals.close(End::Failed) });
                }
                None => return Ok(totals.close(End::Cancelled)),
            };
            empty = 0;
            history.window().0.count(turn.usage.input);
            totals.count(&turn);
            let end = end(&turn);
            history.open(turn)?;
            if end.is_none()
                && let Some(turn) = history.opened()
            {
                work.run(&turn).await?;
                if let Some(toolbox) = self.renewed().await {
                    work.toolbox = toolbox;
                }
            }
            history.close();
            let has_heard = history.hear(&self.steering)?;
            // The model wrote its final answer before it saw the new prompts.
            let end = end.filter(|end| !has_heard || *end != End::Final);
            let Some(end) = end else { continue };
            match answers.judge(end, totals.last_words()) {
                Verdict::Ended(output) => return Ok(Outcome { output, ..totals.close(end) }),
                Verdict::Again(prompt) => history.push_prompt(prompt)?,
                Verdict::Without { prompt, errors } => {
                    history.push_prompt(prompt)?;
                    return Ok(Outcome { detail: Some(errors), ..totals.close(End::Invalid) });
                }
            }
        }
        let end = if session.cancel.is_cancelled() { End::Cancelled } else { End::TurnCap };
        Ok(totals.close(end))
    }

    /// Requests the next turn; `None` if the session was cancelled first.
    async fn infer(
        &self,
        history: &mut History,
        totals: &mut Totals,
        answers: &mut Answers<'_>,
        session: &Session,
    ) -> Result<Option<Result<Turn, ProviderError>>, SessionError> {
        let mut shrinks = 0;
        loop {
            self.fit(history, totals, session).await?;
            let Some(turn) = self.infer_once(history, answers, session).await else { return Ok(None) };
            totals.waste(self.model(), turn.as_ref().map_or_else(|error| *error.wasted, |turn| turn.wasted));
            let failure = turn.as_ref().err().map(|error| &error.failure);
            match failure.and_then(Failure::too_long) {
                Some(too_long) if shrinks < MAX_SHRINKS && history.window().0.shrink(too_long) => {
                    shrinks += 1;
                }
                Some(_) if history.window().0.leave_out_files() => {
                    let reason = "not shown to the model: all files; the conversation is too long with them";
                    session.events.emit(|| Event::NotShown { reason: reason.into() });
                }
                // Some servers require the definitions of the tools that the conversation calls.
                None if self.is_apart(answers) && failure.is_some_and(Failure::is_invalid_request) => {
                    answers.keeps_tools = true;
                }
                _ => return Ok(Some(turn)),
            }
        }
    }

    /// Leaves out the beginning of a conversation that is too long, and summarises it if a summary is possible.
    async fn fit(
        &self,
        history: &mut History,
        totals: &mut Totals,
        session: &Session,
    ) -> Result<(), SessionError> {
        let (window, messages) = history.window();
        let Some(range) = window.fit(messages) else { return Ok(()) };
        let left_out = range.end;
        let mut summary = None;
        if let Some(model) = self.summarist() {
            let (summed, usage) = self.sum_up(history, range, model, session).await;
            if let Some(usage) = usage {
                totals.add(model, usage);
            }
            summary = summed;
        }
        let redacting = RedactingEvents::new(&session.redactor, &session.events);
        let Some(summary) = summary else {
            redacting.events().emit(|| Event::Trimmed { left_out });
            return Ok(());
        };
        let model = summary.model.clone();
        history.sum_up(summary)?;
        redacting.events().emit(|| Event::Summarised { messages: left_out, model });
        Ok(())
    }

    /// Returns the model that summarises the omitted messages, if summaries are on.
    fn summarist(&self) -> Option<&str> {
        let fast = self.provider.model_fast();
        let is_meant = self.settings.summarise.unwrap_or(fast != self.provider.model());
        // With a cost limit, a summary of unknown cost would end the run.
        let is_told = self.settings.budget.cost.is_none() || self.provider.tells_cost(fast);
        (is_meant && is_told).then_some(fast)
    }

    /// Requests the next turn with as much of the conversation as fits the limits known so far.
    async fn infer_once(
        &self,
        history: &History,
        answers: &Answers<'_>,
        session: &Session,
    ) -> Option<Result<Turn, ProviderError>> {
        if session.cancel.is_cancelled() {
            return None;
        }
        let redacting = RedactingEvents::new(&session.redactor, &session.events);
        let toolbox = self.toolbox();
        let messages = history.visible(toolbox.find(READER).is_some());
        let (model, system) = (self.model(), self.settings.system.as_str());
        let tools = if self.is_apart(answers) { Vec::new() } else { toolbox.defs() };
        let ask = Ask { model, system, messages: &messages, tools: &tools, output: answers.schema };
        redacting.events().emit(|| Event::Asked { model: model.to_owned() });
        let span = session.trace.begin(|| Operation::Chat { provider: self.provider.name(), model });
        let turn = session.cancel.run_until_cancelled(self.provider.turn(&ask, redacting.events())).await;
        redacting.finish("");
        if let Some(turn) = &turn {
            span.end(&chat_ended(turn));
        }
        turn
    }

    /// Returns whether the next turn is requested without tools: if only the final answer is missing, some servers
    /// enforce the schema only in a request without tools.
    fn is_apart(&self, answers: &Answers<'_>) -> bool {
        let has_tools = !self.toolbox().defs().is_empty();
        has_tools && answers.is_without_tools() && self.provider.formats_alone(self.model())
    }

    fn toolbox(&self) -> Arc<Toolbox> {
        self.toolbox.lock().clone()
    }

    /// Replaces the tools if they have changed, and returns the new ones.
    async fn renewed(&self) -> Option<Arc<Toolbox>> {
        let renewed = self.news.as_ref()?.renewed().await?;
        let renewed = Arc::new(renewed.at_most(self.provider.max_tools()));
        *self.toolbox.lock() = renewed.clone();
        Some(renewed)
    }

    fn room(&self) -> Room {
        let tools: usize = self.toolbox().defs().into_iter().map(bytes).sum();
        Room {
            history: self.settings.history_budget,
            window: self.provider.context_window(self.model()),
            fixed: self.settings.system.len() + tools,
        }
    }

    fn model(&self) -> &str {
        self.settings.model.as_deref().unwrap_or_else(|| self.provider.model())
    }
}

fn ended_of(outcome: &Result<Outcome, SessionError>) -> trace::Ended<'_> {
    let error = match outcome {
        Ok(outcome) => outcome.failure.as_ref().map(|error| error.failure.kind()),
        Err(_) => Some("session"),
    };
    trace::Ended { error, ..trace::Ended::default() }
}

fn chat_ended(turn: &Result<Turn, ProviderError>) -> trace::Ended<'_> {
    match turn {
        Ok(turn) => trace::Ended {
            error: None,
            model: Some(&turn.model),
            finish: Some(turn.stop.name()),
            usage: Some(turn.usage),
        },
        Err(error) => trace::Ended { error: Some(error.failure.kind()), ..trace::Ended::default() },
    }
}

/// Returns whether haft, not a person, wrote this prompt.
fn is_own_question(prompt: &Prompt) -> bool {
    // Consecutive prompts are joined, so the text may hold [`AFTER_NOTHING`] several times. Only persons attach
    // files.
    let mut rest = prompt.text.as_str();
    while let Some(after) = rest.strip_prefix(AFTER_NOTHING) {
        rest = after.trim_start();
    }
    while let Some(before) = rest.strip_suffix(AFTER_NOTHING) {
        rest = before.trim_end();
    }
    let is_nothing_else = rest.is_empty() && !prompt.text.is_empty();
    prompt.attachments.is_empty() && (is_nothing_else || output::is_question(rest))
}

/// Returns the end of the run if `turn` is the last turn.
fn end(turn: &Turn) -> Option<End> {
    match turn.stop {
        // The calls of a filtered or refused turn are not run.
        Stop::Filtered => Some(End::Filtered),
        Stop::Refused => Some(End::Refused),
        Stop::Length if turn.reply.calls.is_empty() => Some(End::Length),
        Stop::Done if turn.reply.calls.is_empty() => Some(End::Final),
        Stop::Length | Stop::Done | Stop::Paused => None,
    }
}

#[cfg(test)]
mod tests;
