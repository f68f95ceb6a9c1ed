//! Converts the events of a session to updates for the editor. Calls get new ids, because models reuse theirs.
//! Output of tools is shown as it arrives, shortened to its end and limited in rate.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_client_protocol_schema::v1::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, ContentBlock, ContentChunk, Cost,
    MessageId, Notice, NoticeSeverity, SessionId, SessionInfoUpdate, SessionUpdate, ToolCallContent,
    ToolCallId, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, UnstructuredCommandInput, UsageUpdate,
};

use crate::client::Client;
use crate::host::Command;
use crate::tool_call;
use haft_agent::provider::Message;
use haft_core::call::{ToolCall, ToolResult};
use haft_core::event::Event;
use haft_core::sync::Lock;
use haft_core::tool::{Keep, Question, clip};

/// The shortest interval of updates about the output of a tool.
const PACE: Duration = Duration::from_millis(250);

/// The maximum number of characters shown of a running tool's output: two screens.
const MAX_TAIL: usize = 4000;

/// The display of one session.
pub(crate) struct Updates {
    pub(crate) client: Arc<Client>,
    session: SessionId,
    workspace: Option<PathBuf>,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    /// Whether a prompt is running: later events are not shown.
    is_open: bool,
    calls: HashMap<String, Shown>,
    /// The numbers of calls and messages so far.
    last_call: u64,
    last_message: u64,
}

/// A call that was shown and is not answered.
struct Shown {
    id: ToolCallId,
    tail: String,
    told: Option<Instant>,
}

impl Updates {
    pub(crate) fn new(client: Arc<Client>, session: SessionId, workspace: Option<PathBuf>) -> Self {
        Self { client, session, workspace, state: Lock::default() }
    }

    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    pub(crate) fn call_id(&self, call: &str) -> Option<ToolCallId> {
        self.state.lock().calls.get(call).map(|shown| shown.id.clone())
    }

    /// Returns the difference that the call of a question would make to a file.
    pub(crate) fn difference(&self, question: &Question) -> Option<ToolCallContent> {
        let (tool, arguments) = (question.tool.clone(), question.arguments.clone());
        let call = ToolCall { id: question.call.clone(), tool, arguments };
        tool_call::difference(&call, self.workspace.as_deref())
    }

    /// Returns an id for a call of which the editor only shows a question.
    pub(crate) fn new_call_id(&self) -> ToolCallId {
        new_call_id(&mut self.state.lock())
    }

    /// Shows the decision about such a question.
    pub(crate) fn decided(&self, id: ToolCallId, is_allowed: bool) {
        let status = if is_allowed { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
        self.update_call(id, ToolCallUpdateFields::new().status(status));
    }

    pub(crate) fn open(&self) {
        self.state.lock().is_open = true;
    }

    /// Ends a prompt. Unanswered calls are shown as failed.
    pub(crate) fn rest(&self) {
        let mut state = self.state.lock();
        state.is_open = false;
        for (_, shown) in state.calls.drain() {
            self.update_call(shown.id, ToolCallUpdateFields::new().status(ToolCallStatus::Failed));
        }
    }

    pub(crate) fn hear(&self, event: &Event) {
        let mut state = self.state.lock();
        if !state.is_open {
            return;
        }
        match event {
            Event::Asked { .. } => state.last_message += 1,
            Event::Said(text) => self.say(&state, SessionUpdate::AgentMessageChunk, text),
            Event::Thought(text) => self.say(&state, SessionUpdate::AgentThoughtChunk, text),
            Event::Retrying { reason, delay } => {
                let text = format!("[{reason}; retrying in {:.1} s]\n", delay.as_secs_f64());
                self.say(&state, SessionUpdate::AgentThoughtChunk, &text);
                // The text so far does not count: later text is another message.
                state.last_message += 1;
            }
            Event::NotShown { reason } => {
                self.say(&state, SessionUpdate::AgentMessageChunk, &format!("[{reason}]\n\n"));
            }
            Event::Started(call) => self.begin(&mut state, call),
            Event::Running { call } => {
                if let Some(shown) = state.calls.get(call) {
                    let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
                    self.update_call(shown.id.clone(), fields);
                }
            }
            Event::Stdout { call, chunk }
            | Event::Stderr { call, chunk }
            | Event::Partial { call, text: chunk } => {
                self.print(&mut state, call, chunk);
            }
            Event::Info { call, message } => self.print(&mut state, call, &format!("{message}\n")),
            Event::Progress { call, done, total, message } => {
                let total = total.map(|total| format!("/{total}")).unwrap_or_default();
                self.print(&mut state, call, &format!("{done}{total} {message}\n"));
            }
            Event::Completed { call, result, .. } => self.end(&mut state, call, result),
            _ => {}
        }
    }

    /// Waits until the editor has read most of the messages.
    pub(crate) async fn room(&self) {
        self.client.outbox().room().await;
    }

    /// Shows `messages`, as fast as the editor reads them.
    pub(crate) async fn replay(&self, messages: &[Message]) {
        for message in messages {
            self.room().await;
            match message {
                Message::User(prompt) => {
                    if !prompt.text.is_empty() {
                        self.user_said(prompt.text.as_str().into());
                    }
                    for file in &prompt.attachments {
                        self.room().await;
                        self.user_said(tool_call::picture(file).unwrap_or_else(|| file.mention().into()));
                    }
                }
                Message::Turn(exchange) => {
                    self.agent_said(&exchange.reply().text);
                    for (requested, result) in exchange.answered() {
                        self.room().await;
                        self.called(&requested.call, result);
                    }
                }
            }
        }
    }

    /// Shows an earlier prompt of the person.
    fn user_said(&self, content: ContentBlock) {
        self.client.update(&self.session, SessionUpdate::UserMessageChunk(ContentChunk::new(content)));
    }

    /// Shows a complete message of the agent.
    pub(crate) fn agent_said(&self, text: &str) {
        let mut state = self.state.lock();
        state.last_message += 1;
        self.say(&state, SessionUpdate::AgentMessageChunk, text);
    }

    /// Shows an earlier call.
    fn called(&self, call: &ToolCall, result: &ToolResult) {
        let mut state = self.state.lock();
        self.begin(&mut state, call);
        self.end(&mut state, call, result);
    }

    /// Sends the used tokens, the context window, and the cost of the session.
    pub(crate) fn usage(&self, used: u64, window: u64, dollars: Option<f64>) {
        let cost = dollars.map(|dollars| Cost::new(dollars, "USD"));
        let usage = UsageUpdate::new(used, window).cost(cost);
        self.client.update(&self.session, SessionUpdate::UsageUpdate(usage));
    }

    pub(crate) fn commands(&self, commands: &[Command]) {
        let input =
            |argument: &String| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(argument));
        let command = |Command { name, argument, about }: &Command| {
            let input = Some(argument).filter(|argument| !argument.is_empty()).map(input);
            AvailableCommand::new(name, about).input(input)
        };
        let commands = AvailableCommandsUpdate::new(commands.iter().map(command).collect());
        self.client.update(&self.session, SessionUpdate::AvailableCommandsUpdate(commands));
    }

    /// Shows a notice to the user. The protocol allows notices only for editors with that capability; others get a
    /// message of the agent.
    pub(crate) fn notice(&self, text: &str) {
        if self.client.takes_notices() {
            let notice = Notice::new(NoticeSeverity::Warning, text);
            self.client.update(&self.session, SessionUpdate::Notice(notice));
        } else {
            self.agent_said(&format!("[{text}]\n\n"));
        }
    }

    pub(crate) fn title(&self, title: &str) {
        let info = SessionInfoUpdate::new().title(title.to_owned());
        self.client.update(&self.session, SessionUpdate::SessionInfoUpdate(info));
    }

    fn say(&self, state: &State, update: fn(ContentChunk) -> SessionUpdate, text: &str) {
        if !text.is_empty() {
            let message = MessageId::new(format!("message-{}", state.last_message));
            let chunk = ContentChunk::new(text.into()).message_id(message);
            self.client.update(&self.session, update(chunk));
        }
    }

    fn begin(&self, state: &mut State, call: &ToolCall) {
        // A tool that calls another tool under its own id is shown once.
        if state.calls.contains_key(&call.id) {
            return;
        }
        let id = new_call_id(state);
        let shown = tool_call::shown(id.clone(), call, self.workspace.as_deref());
        self.client.update(&self.session, SessionUpdate::ToolCall(shown));
        state.calls.insert(call.id.clone(), Shown { id, tail: String::new(), told: None });
    }

    fn end(&self, state: &mut State, call: &ToolCall, result: &ToolResult) {
        if let Some(shown) = state.calls.remove(&call.id) {
            self.update_call(shown.id, tool_call::answered(call, result, self.workspace.as_deref()));
        }
    }

    fn print(&self, state: &mut State, call: &str, text: &str) {
        let Some(shown) = state.calls.get_mut(call) else { return };
        shown.tail.push_str(text);
        shown.tail = clip(&shown.tail, MAX_TAIL, Keep::Tail);
        if shown.told.is_some_and(|told| told.elapsed() < PACE) {
            return;
        }
        shown.told = Some(Instant::now());
        let content = vec![tool_call::text(&shown.tail).into()];
        self.update_call(shown.id.clone(), ToolCallUpdateFields::new().content(content));
    }

    fn update_call(&self, id: ToolCallId, fields: ToolCallUpdateFields) {
        self.client.update(&self.session, SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields)));
    }
}

fn new_call_id(state: &mut State) -> ToolCallId {
    state.last_call += 1;
    ToolCallId::new(format!("call-{}", state.last_call))
}
