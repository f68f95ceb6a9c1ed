//! The loop: ask a model, run what it calls, tell it what came of it, until it has nothing more
//! to call. Runs nothing itself: every call goes through the [`Toolbox`], which holds exactly
//! the tools this agent may use.

mod budget;
mod compact;
mod history;
mod loop_guard;
mod outcome;
mod output;
mod plan;
mod prompt;
pub mod provider;
mod routing;
mod session;
mod steering;
mod summary;
mod totals;
mod turn_calls;
mod window;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

pub use self::budget::Budget;
pub use self::compact::CompactError;
pub use self::history::History;
pub use self::outcome::{End, Outcome};
use self::output::{Answers, Verdict};
pub use self::plan::{PLAN, planned};
pub use self::prompt::{system_prompt, with_agents_md, with_skills};
pub use self::routing::{Routed, route};
pub use self::session::{
    Begun, Ended, Entry, Known, Line, Restored, Saved, SessionError, SessionLog, Sessions, Summarised,
    Summary, Turned, UNKNOWN, Unanswered,
};
pub use self::steering::Steering;
use self::totals::Totals;
use self::turn_calls::TurnCalls;
use self::window::{READER, Room};
use crate::provider::{Ask, Failure, OutputSchema, Prompt, Provider, ProviderError, Stop, Turn, Usage};
use haft_core::event::Event;
use haft_core::secret::RedactingEvents;
use haft_core::sync::Lock;
use haft_core::tool::{Session, Toolbox, bytes};
use haft_core::trace::{self, Operation};

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
    /// Rough tokens (bytes / 4) of the conversation that the model is shown; of a longer one the beginning is left
    /// out of what is sent. `None`: no limit.
    pub history_budget: Option<u32>,
    /// Whether the provider's fast model sums up what is left out. `None`: where it is another than its default one.
    pub summarise: Option<bool>,
    /// The form of the final answer: [`Outcome::output`] is valid against it. The model is told of it after `system`,
    /// and asked again where its answer is not valid, three times. `None`: any words will do.
    pub output: Option<Arc<OutputSchema>>,
    /// What a run may cost.
    pub budget: Budget,
}

/// How often a turn is asked for with less of the conversation, where the vendor says that it is too long.
const MAX_SHRINKS: u32 = 8;
/// Turns without a word or a call that the model is asked to go on after, one after the other.
const MAX_EMPTY_TURNS: u32 = 2;
/// What it is asked then: the same request again would be answered by the same nothing.
const AFTER_NOTHING: &str =
    "[Your last turn was empty. Go on with the task, or say what came of it if it is done.]";

impl AgentSettings {
    /// 50: more than an honest task takes, few enough that a loop ends.
    pub(crate) const DEFAULT_MAX_TURNS: u32 = 50;
    /// 2: a second try may hit a transient fault, a fourth never does.
    pub(crate) const DEFAULT_MAX_REPEATS: u32 = 2;
    /// 100,000: with tools and an answer it fits the smallest models that vendors host today.
    pub(crate) const DEFAULT_HISTORY_BUDGET: u32 = 100_000;

    /// The defaults, with a system prompt that names `workspace`.
    pub fn for_workspace(workspace: Option<&Path>) -> Self {
        Self {
            system: system_prompt(workspace),
            model: None,
            max_turns: Self::DEFAULT_MAX_TURNS,
            max_repeats: Self::DEFAULT_MAX_REPEATS,
            history_budget: Some(Self::DEFAULT_HISTORY_BUDGET),
            summarise: None,
            output: None,
            budget: Budget::default(),
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
    /// Other ones where [`ToolNews`] tells of them.
    toolbox: Lock<Arc<Toolbox>>,
    news: Option<Arc<dyn ToolNews>>,
    settings: AgentSettings,
    spent: Usage,
    steering: Steering,
}

/// Tells of tools that come and go while an agent works.
#[async_trait]
pub trait ToolNews: Send + Sync {
    /// The tools from now on, where they are others than at the last time.
    async fn renewed(&self) -> Option<Toolbox>;
}

impl Agent {
    /// An agent that asks `provider` and may use everything in `toolbox`, and nothing else. Of more tools than the
    /// provider takes, the model is told of the first, and finds the others by `find_tools`.
    pub fn new(provider: Arc<dyn Provider>, toolbox: Toolbox, mut settings: AgentSettings) -> Self {
        let toolbox = Lock::new(Arc::new(toolbox.at_most(provider.max_tools())));
        if let Some(schema) = &settings.output {
            settings.system = output::instructed(settings.system, schema);
        }
        let (news, spent, steering) = (None, Usage::default(), Steering::default());
        Self { provider, toolbox, news, settings, spent, steering }
    }

    /// The same, whose tools are those that `news` tells of, from turn to turn.
    #[must_use]
    pub fn with_news(self, news: Arc<dyn ToolNews>) -> Self {
        Self { news: Some(news), ..self }
    }

    /// The same, which asks `model`.
    #[must_use]
    pub fn asking(mut self, model: String) -> Self {
        self.settings.model = Some(model);
        self
    }

    /// The same, whose runs have used this before they begin, such as to choose the model.
    #[must_use]
    pub fn having_spent(self, spent: Usage) -> Self {
        Self { spent, ..self }
    }

    /// Says `prompt` and works until the model is done or cannot be asked, a bound is met or `session` is cancelled.
    /// Fails where the session cannot be kept.
    ///
    /// `history` is valid at every moment, also after an error and when the future is dropped: a turn goes into it
    /// together with the answers to its calls.
    pub async fn run(
        &self,
        history: &mut History,
        prompt: impl Into<Prompt>,
        session: &Session,
    ) -> Result<Outcome, SessionError> {
        history.push_prompt(prompt)?;
        self.go_on(history, session).await
    }

    /// Works on from where `history` stands: after a cancellation, an error, or the end of the process it was in.
    /// Calls that were not made are made now; none is made twice.
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
        let mut totals = Totals::new(self.model(), &session.meter, self.settings.budget.most());
        if self.spent != Usage::default() {
            totals.add(self.provider.model_fast(), self.spent);
        }
        let session = &Session { meter: totals.meter(), ..session.clone() };
        self.renewed().await;
        let mut work = TurnCalls::new(self.toolbox(), session, self.settings.max_repeats);
        history.window().0.begin(self.model(), self.room());
        if let Some(turn) = history.opened() {
            work.run(&turn).await?;
            history.close();
        }
        let mut answers = Answers::new(self.settings.output.as_deref());
        let mut empty = 0;
        for _ in 0..self.settings.max_turns {
            if let Some(why) = self.settings.budget.used_up(&totals) {
                return Ok(totals.close_because(End::Budget, why));
            }
            let turn = match self.infer(history, &mut totals, &mut answers, session).await? {
                Some(Ok(turn)) => turn,
                Some(Err(error)) if says_nothing(&error) && empty < MAX_EMPTY_TURNS => {
                    empty += 1;
                    history.push_prompt(AFTER_NOTHING)?;
                    continue;
                }
                Some(Err(error)) => return Ok(totals.fail(error)),
                None => return Ok(totals.close(End::Cancelled)),
            };
            empty = 0;
            history.window().0.count(turn.usage.input);
            totals.count(&turn);
            let end = end(&turn);
            let Turn { reply, stop, usage, model, .. } = turn;
            history.open(Turned { reply, stop, usage, model })?;
            if end.is_none()
                && let Some(turn) = history.opened()
            {
                work.run(&turn).await?;
                if let Some(toolbox) = self.renewed().await {
                    work.renew(toolbox);
                }
            }
            history.close();
            let has_heard = self.hear(history)?;
            // Its last word was not about what was said meanwhile.
            let end = end.filter(|end| !has_heard || *end != End::Final);
            let Some(end) = end else { continue };
            match answers.judge(end, totals.last_words()) {
                Verdict::Ended(output) => return Ok(totals.close_with(end, output)),
                Verdict::Again(prompt) => history.push_prompt(prompt)?,
                Verdict::Without { prompt, errors } => {
                    history.push_prompt(prompt)?;
                    return Ok(totals.close_because(End::Invalid, errors));
                }
            }
        }
        let end = if session.cancel.is_cancelled() { End::Cancelled } else { End::TurnCap };
        Ok(totals.close(end))
    }

    /// The model's next turn; `None` when cancelled before it came.
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
                // Servers that want to know the tools of which the conversation has calls.
                None if self.is_apart(answers) && failure.is_some_and(Failure::is_invalid_request) => {
                    answers.keep_tools();
                }
                _ => return Ok(Some(turn)),
            }
        }
    }

    /// Leaves out the beginning of a conversation that has outgrown its room, and sums it up where that can be had.
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
            let told = self.sum_up(history, range, model, session).await;
            told.1.iter().for_each(|usage| totals.add(model, *usage));
            summary = told.0.map(|summary| (summary, told.1.unwrap_or_default()));
        }
        let redacting = RedactingEvents::new(&session.redactor, &session.events);
        let Some((summary, usage)) = summary else {
            redacting.events().emit(|| Event::Trimmed { left_out });
            return Ok(());
        };
        let model = summary.model.clone();
        history.sum_up(summary, usage)?;
        redacting.events().emit(|| Event::Summarised { messages: left_out, model });
        Ok(())
    }

    /// The model that sums up what is left out, if one does.
    fn summarist(&self) -> Option<&str> {
        let fast = self.provider.model_fast();
        let is_meant = self.settings.summarise.unwrap_or(fast != self.provider.model());
        // A summary whose cost nobody tells would be the end of a run that may cost so much and no more.
        let is_told = self.settings.budget.cost.is_none() || self.provider.tells_cost(fast);
        (is_meant && is_told).then_some(fast)
    }

    /// The next turn, asked for with as much of the conversation as fits by what is known so far.
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
        let ask = Ask { model, system, messages: &messages, tools: &tools, output: answers.schema() };
        redacting.events().emit(|| Event::Asked { model: model.to_owned() });
        let span = session.trace.begin(|| Operation::Chat { provider: self.provider.name(), model });
        let turn = session.cancel.run_until_cancelled(self.provider.turn(&ask, redacting.events())).await;
        redacting.finish("");
        if let Some(turn) = &turn {
            span.end(&told(turn));
        }
        turn
    }

    /// Whether the next turn is asked for without tools: where nothing is left but to write the answer down, some
    /// servers hold it to its form only so.
    fn is_apart(&self, answers: &Answers<'_>) -> bool {
        let has_tools = !self.toolbox().defs().is_empty();
        has_tools && answers.is_without_tools() && self.provider.formats_alone(self.model())
    }

    fn toolbox(&self) -> Arc<Toolbox> {
        self.toolbox.lock().clone()
    }

    /// Takes over the tools that there are now, where they are others.
    async fn renewed(&self) -> Option<Arc<Toolbox>> {
        let renewed = self.news.as_ref()?.renewed().await?;
        let renewed = Arc::new(renewed.at_most(self.provider.max_tools()));
        *self.toolbox.lock() = renewed.clone();
        Some(renewed)
    }

    /// What there is room for in a request.
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

/// How a run ended, as a trace has it.
fn ended_of(outcome: &Result<Outcome, SessionError>) -> trace::Ended<'_> {
    let error = match outcome {
        Ok(outcome) => outcome.failure.as_ref().map(|error| error.failure.kind()),
        Err(_) => Some("session"),
    };
    trace::Ended { error, ..trace::Ended::default() }
}

/// How a question to a model ended, as a trace has it.
fn told(turn: &Result<Turn, ProviderError>) -> trace::Ended<'_> {
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

/// Whether the model took its turn, and neither said nor called anything.
fn says_nothing(error: &ProviderError) -> bool {
    matches!(error.failure, Failure::Empty(_))
}

/// Whether haft asked this by itself, and no person.
fn is_own_question(said: &Prompt) -> bool {
    // What is asked again before the model came to answer is joined. Files come from persons.
    let mut rest = said.text.as_str();
    while let Some(after) = rest.strip_prefix(AFTER_NOTHING) {
        rest = after.trim_start();
    }
    while let Some(before) = rest.strip_suffix(AFTER_NOTHING) {
        rest = before.trim_end();
    }
    let is_nothing_else = rest.is_empty() && !said.text.is_empty();
    said.attachments.is_empty() && (is_nothing_else || output::is_question(rest))
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

#[cfg(test)]
mod tests;
