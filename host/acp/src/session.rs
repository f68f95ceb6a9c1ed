//! A conversation of an editor, loaded or unloaded. It processes one prompt at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_client_protocol_schema::v1::{
    Error, PromptResponse, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption,
    SessionId, SessionMode, SessionModeState, StopReason,
};
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use crate::approver::AtEditor;
use crate::client::Client;
use crate::host::{Command, Conversation, Failure, Host, Invoked, Opening, Turn};
use crate::message::told;
use crate::updates::Updates;
use haft_agent::provider::Prompt;
use haft_agent::{End, Outcome};
use haft_core::event::Events;
use haft_core::report::{plain, shortened};
use haft_core::sync::Lock;
use haft_core::tool::Approvals;

pub(crate) const MODEL: &str = "model";

/// The maximum number of characters of a title.
const MAX_TITLE: usize = 60;

pub(crate) struct Session {
    pub(crate) id: SessionId,
    opening: Opening,
    updates: Arc<Updates>,
    approvals: Approvals,
    /// The conversation; `None` while it is unloaded.
    conversation: Mutex<Option<Box<dyn Conversation>>>,
    is_awake: AtomicBool,
    has_said: AtomicBool,
    is_planning: AtomicBool,
    /// The notices of its opening that the user has not seen yet.
    notices: Lock<Vec<String>>,
    /// The commands that were last sent to the editor.
    told_commands: Lock<Vec<Command>>,
    /// The cost of the prompts in US dollars, if known.
    cost: Lock<Option<f64>>,
    /// Whether the editor has closed it: it is not loaded again.
    is_closed: AtomicBool,
    /// The cancellation of the current prompt.
    turn: Lock<Option<CancellationToken>>,
}

/// A running prompt, until this is dropped.
pub(crate) struct Working {
    session: Arc<Session>,
    pub(crate) cancel: CancellationToken,
}

impl Session {
    pub(crate) fn new(
        client: &Arc<Client>,
        conversation: Box<dyn Conversation>,
        mut opening: Opening,
    ) -> Self {
        let notices = Lock::new(std::mem::take(&mut opening.left_out));
        let id = SessionId::new(conversation.id());
        let workspace = conversation.workspace().map(std::path::Path::to_owned);
        let updates = Arc::new(Updates::new(client.clone(), id.clone(), workspace));
        let asked = AtEditor { updates: updates.clone() };
        let has_said = !conversation.messages().is_empty();
        Self {
            id,
            opening,
            updates,
            approvals: Approvals::by(asked),
            conversation: Mutex::new(Some(conversation)),
            is_awake: AtomicBool::new(true),
            has_said: AtomicBool::new(has_said),
            is_planning: AtomicBool::new(false),
            notices,
            told_commands: Lock::default(),
            cost: Lock::default(),
            is_closed: AtomicBool::new(false),
            turn: Lock::default(),
        }
    }

    pub(crate) fn is_awake(&self) -> bool {
        self.is_awake.load(Ordering::SeqCst)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.turn.lock().is_none()
    }

    /// Returns whether unloading loses nothing.
    pub(crate) fn can_rest(&self, host: &dyn Host) -> bool {
        self.is_idle() && (host.keeps() || !self.has_said.load(Ordering::SeqCst))
    }

    pub(crate) fn has_said(&self) -> bool {
        self.has_said.load(Ordering::SeqCst)
    }

    /// Begins work; fails if a prompt is running.
    pub(crate) fn begin_work(self: &Arc<Self>) -> Result<Working, Error> {
        let mut turn = self.turn.lock();
        if turn.is_some() {
            return Err(told(Error::invalid_request(), "the previous prompt is still running"));
        }
        let cancel = turn.insert(CancellationToken::new()).clone();
        Ok(Working { session: self.clone(), cancel })
    }

    pub(crate) fn cancel(&self) {
        if let Some(turn) = &*self.turn.lock() {
            turn.cancel();
        }
    }

    /// Sends the commands and the notices that the user has not yet seen.
    pub(crate) async fn greet(&self) {
        if let Some(conversation) = &mut *self.conversation.lock().await {
            self.tell_opening(conversation.as_mut());
        }
    }

    fn tell_opening(&self, conversation: &mut dyn Conversation) {
        let commands = conversation.commands();
        if commands != *self.told_commands.lock() {
            self.updates.commands(&commands);
            *self.told_commands.lock() = commands;
        }
        let notices = std::mem::take(&mut *self.notices.lock()).into_iter().chain(conversation.notices());
        notices.for_each(|notice| self.updates.notice(&notice));
    }

    pub(crate) async fn prompt(
        &self,
        host: &dyn Host,
        prompt: Prompt,
        working: &Working,
    ) -> Result<PromptResponse, Error> {
        let mut slot = self.awake(host).await?;
        if working.cancel.is_cancelled() {
            return Ok(PromptResponse::new(StopReason::Cancelled));
        }
        let Some(conversation) = slot.as_mut() else { return Err(Error::internal_error()) };
        self.tell_opening(conversation.as_mut());
        let first = (!self.has_said.load(Ordering::SeqCst)).then(|| title(&prompt.text));
        let updates = self.updates.clone();
        let events = Events::to(move |event| updates.hear(event));
        let (cancel, approvals) = (working.cancel.clone(), self.approvals.clone());
        let turn = Turn { events, cancel, approvals, is_planning: self.is_planning() };
        self.updates.room().await;
        self.updates.open();
        let invoked = self.invoked(conversation.as_mut(), prompt, &turn).await;
        if working.cancel.is_cancelled() {
            return Ok(PromptResponse::new(StopReason::Cancelled));
        }
        let Some(prompt) = invoked? else { return Ok(PromptResponse::new(StopReason::EndTurn)) };
        let outcome = conversation.prompt(prompt, turn).await;
        if let Ok(outcome) = &outcome {
            self.tell_usage(outcome, conversation.window());
        }
        self.tell_opening(conversation.as_mut());
        self.has_said.store(!conversation.messages().is_empty(), Ordering::SeqCst);
        if let Ok(outcome) = &outcome
            && !matches!(outcome.end, End::Cancelled | End::Failed | End::Invalid)
            && let Some(why) = outcome.shortfall()
        {
            self.updates.agent_said(&format!("[{why}]"));
        }
        self.updates.rest();
        if let Some(title) = first {
            self.updates.title(&title);
        }
        if working.cancel.is_cancelled() {
            return Ok(PromptResponse::new(StopReason::Cancelled));
        }
        stop_reason(&outcome.map_err(failed)?).map(PromptResponse::new)
    }

    /// Runs the command in `prompt`, if there is one. Returns the prompt for the model, unless the prompt was only a
    /// command.
    async fn invoked(
        &self,
        conversation: &mut dyn Conversation,
        prompt: Prompt,
        turn: &Turn,
    ) -> Result<Option<Prompt>, Error> {
        let commands = conversation.commands();
        let Some((name, argument)) = command(&prompt.text, &commands) else { return Ok(Some(prompt)) };
        match conversation.command(name, argument, turn).await.map_err(failed)? {
            Invoked::Text(text) => {
                self.updates.agent_said(&text);
                Ok(None)
            }
            Invoked::Prompt(Prompt { text, attachments }) => {
                Ok(Some(Prompt { text, attachments: [prompt.attachments, attachments].concat() }))
            }
        }
    }

    /// Sends the fill of the context window, with size 0 if unknown, and the cost of the session since its opening.
    fn tell_usage(&self, outcome: &Outcome, (used, window): (usize, Option<u32>)) {
        let used = u64::try_from(used).unwrap_or(u64::MAX);
        let mut cost = self.cost.lock();
        if let Some(more) = outcome.usage.cost {
            *cost = Some(cost.unwrap_or_default() + more.dollars());
        }
        self.updates.usage(used, window.unwrap_or_default().into(), *cost);
    }

    /// Returns the conversation, and loads it if necessary.
    async fn awake(&self, host: &dyn Host) -> Result<MutexGuard<'_, Option<Box<dyn Conversation>>>, Error> {
        let mut slot = self.conversation.lock().await;
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(told(Error::session_not_found(self.id.clone()), "the session was closed"));
        }
        if slot.is_none() {
            let opening = self.opening.clone();
            let opened = if self.has_said.load(Ordering::SeqCst) {
                host.resume(&self.id.0, opening).await
            } else {
                host.begin(Opening { id: Some(self.id.0.to_string()), ..opening }).await
            };
            *slot = Some(opened.map_err(failed)?);
            self.is_awake.store(true, Ordering::SeqCst);
        }
        Ok(slot)
    }

    pub(crate) async fn wake(&self, host: &dyn Host) -> Result<(), Error> {
        self.awake(host).await.map(drop)
    }

    /// Unloads the program. The messages are kept if the host saves them.
    pub(crate) async fn rest(&self) {
        self.unload(self.conversation.lock().await).await;
    }

    async fn unload(&self, mut slot: MutexGuard<'_, Option<Box<dyn Conversation>>>) {
        self.is_awake.store(false, Ordering::SeqCst);
        if let Some(conversation) = slot.take() {
            conversation.close().await;
        }
    }

    /// Unloads the program if the session is idle; returns whether it did.
    pub(crate) async fn rest_if_idle(&self) -> bool {
        let Ok(slot) = self.conversation.try_lock() else { return false };
        let is_idle = self.is_idle();
        if is_idle {
            self.unload(slot).await;
        }
        is_idle
    }

    /// Cancels the current prompt and unloads the program, for good.
    pub(crate) async fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.cancel();
        self.rest().await;
    }

    pub(crate) async fn replay(&self) {
        if let Some(conversation) = &*self.conversation.lock().await {
            self.updates.replay(conversation.messages()).await;
        }
    }

    /// Returns the options of the user: the mode and, if there is a choice, the model.
    pub(crate) async fn options(&self) -> Vec<SessionConfigOption> {
        let mode = mode_option(self.is_planning());
        let slot = self.conversation.lock().await;
        let (models, current) = slot.as_ref().map(|conversation| conversation.models()).unwrap_or_default();
        if models.len() < 2 {
            return vec![mode];
        }
        let models: Vec<_> =
            models.into_iter().map(|model| SessionConfigSelectOption::new(model.id, model.name)).collect();
        let option = SessionConfigOption::select(MODEL, "Model", current, models);
        vec![mode, option.category(SessionConfigOptionCategory::Model)]
    }

    /// Returns all modes and the current one.
    pub(crate) fn modes(&self) -> SessionModeState {
        let modes = MODES
            .map(|(id, name, description)| SessionMode::new(id, name).description(description.to_owned()));
        SessionModeState::new(mode(self.is_planning()), modes.to_vec())
    }

    /// Returns whether tools only read, from the next prompt on.
    fn is_planning(&self) -> bool {
        self.is_planning.load(Ordering::SeqCst)
    }

    pub(crate) fn use_mode(&self, id: &str) -> Result<(), Error> {
        self.is_planning.store(is_plan(id)?, Ordering::SeqCst);
        Ok(())
    }

    /// Uses another model from now on.
    pub(crate) async fn use_model(&self, host: &dyn Host, id: &str) -> Result<(), Error> {
        let mut slot = self.awake(host).await?;
        let Some(conversation) = slot.as_mut() else { return Err(Error::internal_error()) };
        if !conversation.models().0.iter().any(|model| model.id == id) {
            return Err(told(Error::invalid_params(), "this session has no model of this name"));
        }
        conversation.use_model(id).await.map_err(failed)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.session.updates.rest();
        *self.session.turn.lock() = None;
    }
}

pub(crate) fn failed(Failure(why): Failure) -> Error {
    let mut error = Error::internal_error();
    error.message = why;
    error
}

/// Returns the stop reason of the protocol; an error if the model could not be asked.
fn stop_reason(outcome: &Outcome) -> Result<StopReason, Error> {
    Ok(match outcome.end {
        End::Final => StopReason::EndTurn,
        End::Length | End::Budget => StopReason::MaxTokens,
        End::TurnCap => StopReason::MaxTurnRequests,
        End::Filtered | End::Refused => StopReason::Refusal,
        End::Cancelled => StopReason::Cancelled,
        End::Failed | End::Invalid => {
            let hint = outcome.failure.as_ref().and_then(haft_agent::provider::ProviderError::hint);
            let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            return Err(failed(Failure(outcome.shortfall().unwrap_or_default() + &hint)));
        }
    })
}

/// Returns the name of the command in a prompt, and its argument. The model gets a text with another word after `/`.
fn command<'a>(text: &'a str, commands: &[Command]) -> Option<(&'a str, &'a str)> {
    let line = text.trim().strip_prefix('/')?;
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    commands.iter().any(|command| command.name == name).then(|| (name, argument.trim()))
}

/// Returns the title of a session: its first words.
fn title(text: &str) -> String {
    shortened(&plain(&text.split_whitespace().collect::<Vec<_>>().join(" ")), MAX_TITLE)
}

// Only the user chooses a mode. It is sent as the protocol's session modes, and as the option that replaces them in
// newer editors.

pub(crate) const MODE: &str = "mode";

/// The id, name and description of each mode: with the rights of the program, and read only.
const MODES: [(&str, &str, &str); 2] = [
    ("default", "Default", "Tools act with the rights of the program"),
    ("plan", "Plan", "Tools only read: no writing, no sending"),
];

fn mode_option(is_planning: bool) -> SessionConfigOption {
    let modes: Vec<_> = MODES
        .iter()
        .map(|(id, name, description)| {
            SessionConfigSelectOption::new(*id, *name).description((*description).to_owned())
        })
        .collect();
    let option = SessionConfigOption::select(MODE, "Mode", mode(is_planning), modes);
    option.category(SessionConfigOptionCategory::Mode)
}

fn is_plan(id: &str) -> Result<bool, Error> {
    let [default, plan] = MODES.map(|(id, ..)| id);
    match id {
        id if id == default => Ok(false),
        id if id == plan => Ok(true),
        _ => Err(told(Error::invalid_params(), "unknown mode")),
    }
}

fn mode(is_planning: bool) -> &'static str {
    let [default, plan] = MODES.map(|(id, ..)| id);
    if is_planning { plan } else { default }
}
