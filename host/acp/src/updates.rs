//! What an editor is shown of a session: events as updates. Calls get ids of their own, since models use theirs again.
//! What tools print is shown as it comes, by its end and not too often.

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
use haft_core::call::{ToolCall, ToolResult};
use haft_core::event::Event;
use haft_core::sync::Lock;
use haft_core::tool::{Keep, Question, clip};

/// How often what a tool prints is shown: as fast as anybody reads.
const PACE: Duration = Duration::from_millis(250);

/// Characters of what a tool prints that are shown while it works: two screens.
const MAX_TAIL: usize = 4000;

/// What is shown of one session.
pub(crate) struct Updates {
    client: Arc<Client>,
    session: SessionId,
    workspace: Option<PathBuf>,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    /// Whether a prompt is being worked on: what comes later is shown to nobody.
    is_open: bool,
    calls: HashMap<String, Shown>,
    /// Calls and messages so far.
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

    /// The session.
    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    /// The id that the editor knows a call by.
    pub(crate) fn call_id(&self, call: &str) -> Option<ToolCallId> {
        self.state.lock().calls.get(call).map(|shown| shown.id.clone())
    }

    /// What the call of a question would change in a file.
    pub(crate) fn difference(&self, question: &Question) -> Option<ToolCallContent> {
        let (tool, arguments) = (question.tool.clone(), question.arguments.clone());
        let call = ToolCall { id: question.call.clone(), tool, arguments };
        tool_call::change(&call, self.workspace.as_deref())
    }

    /// An id for a call that the editor is shown no more of than the question about it.
    pub(crate) fn new_call_id(&self) -> ToolCallId {
        new_call_id(&mut self.state.lock())
    }

    /// Such a question was decided.
    pub(crate) fn decided(&self, id: ToolCallId, is_allowed: bool) {
        let status = if is_allowed { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
        self.update_call(id, ToolCallUpdateFields::new().status(status));
    }

    /// A prompt is worked on from now on.
    pub(crate) fn open(&self) {
        self.state.lock().is_open = true;
    }

    /// It is not any more. Calls that have no answer are shown as failed.
    pub(crate) fn rest(&self) {
        let mut state = self.state.lock();
        state.is_open = false;
        for (_, shown) in state.calls.drain() {
            self.update_call(shown.id, ToolCallUpdateFields::new().status(ToolCallStatus::Failed));
        }
    }

    /// Something happened.
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
                let text = format!("[{reason}; asking again in {:.1} s]\n", delay.as_secs_f64());
                self.say(&state, SessionUpdate::AgentThoughtChunk, &text);
                // What is said next is another message: what was said so far does not count.
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

    /// Shows what a person said before.
    pub(crate) fn user_said(&self, content: ContentBlock) {
        self.client.update(&self.session, SessionUpdate::UserMessageChunk(ContentChunk::new(content)));
    }

    /// Shows a message of the agent's, all of it.
    pub(crate) fn agent_said(&self, text: &str) {
        let mut state = self.state.lock();
        state.last_message += 1;
        self.say(&state, SessionUpdate::AgentMessageChunk, text);
    }

    /// Shows a call that was made before.
    pub(crate) fn called(&self, call: &ToolCall, result: &ToolResult) {
        let mut state = self.state.lock();
        self.begin(&mut state, call);
        self.end(&mut state, call, result);
    }

    /// Tells how many tokens of the window are used, and what the session has cost.
    pub(crate) fn usage(&self, used: u64, window: u64, dollars: Option<f64>) {
        let cost = dollars.map(|dollars| Cost::new(dollars, "USD"));
        let usage = UsageUpdate::new(used, window).cost(cost);
        self.client.update(&self.session, SessionUpdate::UsageUpdate(usage));
    }

    /// Tells which commands the session has.
    pub(crate) fn commands(&self, commands: &[Command]) {
        let input =
            |argument: &str| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(argument));
        let command = |Command { name, argument, about }: &Command| {
            let input = Some(*argument).filter(|argument| !argument.is_empty()).map(input);
            AvailableCommand::new(*name, *about).input(input)
        };
        let commands = AvailableCommandsUpdate::new(commands.iter().map(command).collect());
        self.client.update(&self.session, SessionUpdate::AvailableCommandsUpdate(commands));
    }

    /// Tells what the user has to know. The protocol gives notices to editors that say they show them; others get a message
    /// of the agent's.
    pub(crate) fn notice(&self, text: &str) {
        if self.client.takes_notices() {
            let notice = Notice::new(NoticeSeverity::Warning, text);
            self.client.update(&self.session, SessionUpdate::Notice(notice));
        } else {
            self.agent_said(&format!("[{text}]\n\n"));
        }
    }

    /// Tells what the session is about.
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
        // A tool that calls another one in its own place is shown once.
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

    /// Shows what a tool printed.
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
