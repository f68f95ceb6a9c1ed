//! Answers a server's requests and receives its notifications. Refuses sampling, and elicitation if no user can be
//! asked.
#![expect(deprecated, reason = "servers of all versions ask for roots, sampling and logging")]

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest,
    CustomResult, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode,
    FormElicitationCapability, Implementation, JsonObject, ListRootsResult, LoggingMessageNotificationParam,
    ProtocolVersion, ResourceUpdatedNotificationParam, Root, RootsCapabilities, SKILLS_EXTENSION_ID,
    ServerJsonRpcMessage, ServerNotification, TASKS_EXTENSION_ID, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use tokio::sync::{Notify, broadcast};

use super::calls::{self, Listener, SentCalls, shortened};
use super::listing::MAX_URI;
use haft_core::sync::Lock;
use haft_core::tool::{ElicitationMode, ElicitationQuestion, Elicitor, Reply};

/// Maximum size in bytes of a form or a URL that the user sees. Neither can be cut.
const MAX_SHOWN: usize = 64 << 10;

/// What a server reports: changes of its lists, and news of its calls.
#[derive(Debug, Default)]
pub(super) struct ServerNews {
    is_due: AtomicBool,
    said: Notify,
    /// The calls that the server may report about.
    pub(super) calls: SentCalls,
}

impl ServerNews {
    /// Handles what `message` reports, before any later message of the connection is handled.
    pub(super) fn note(&self, message: &ServerJsonRpcMessage) {
        let ServerJsonRpcMessage::Notification(own) = message else { return };
        match &own.notification {
            ServerNotification::ToolListChangedNotification(_)
            | ServerNotification::PromptListChangedNotification(_)
            | ServerNotification::ResourceListChangedNotification(_) => self.say(),
            other => self.calls.hear(other),
        }
    }

    /// Marks the list as changed.
    pub(super) fn say(&self) {
        self.is_due.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        self.said.notify_one();
    }

    /// Returns whether the list is to be requested, and resets the mark.
    pub(super) fn take(&self) -> bool {
        self.is_due.swap(false, Ordering::SeqCst)
    }

    /// Waits until a change is reported.
    pub(super) async fn heard(&self) {
        self.said.notified().await;
    }
}

/// Maximum number of a server's questions that wait for the user; further ones are declined. Each question
/// occupies a place of [`MAX_OPEN`](super::bounded::MAX_OPEN).
const MAX_QUESTIONS: u32 = 16;

/// The extension for user interfaces (MCP Apps), and the media type of an interface.
const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";
const UI_TYPE: &str = "text/html;profile=mcp-app";

/// Answers the requests of one server.
#[derive(Clone, Debug)]
pub(super) struct ServerRequestHandler {
    pub(super) server: String,
    /// The working directory of the server, if the server may know it.
    pub(super) workspace: Option<std::path::PathBuf>,
    /// The user who answers if the caller has none.
    pub(super) elicitor: Option<Arc<dyn Elicitor>>,
    pub(super) asking: Arc<AskingClock>,
    /// Notified when the server reports changes of its lists.
    pub(super) changed: Arc<ServerNews>,
    /// The URIs of resources that have changed.
    pub(super) updates: broadcast::Sender<Arc<str>>,
}

impl ServerRequestHandler {
    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = self.workspace.is_some().then(RootsCapabilities::default);
        // Clients of haft may have users and show user interfaces. The list of a server's tools is one for all clients and
        // commands of haft, also for those who decline its questions.
        let both = ElicitationCapability::new().with_form(FormElicitationCapability::new());
        capabilities.elicitation = Some(both.with_url(UrlElicitationCapability::new()));
        let interfaces = JsonObject::from_iter([("mimeTypes".to_owned(), [UI_TYPE].as_slice().into())]);
        let extensions = [
            (SKILLS_EXTENSION_ID, JsonObject::new()),
            (TASKS_EXTENSION_ID, JsonObject::new()),
            (UI_EXTENSION, interfaces),
        ];
        capabilities.extensions = Some(extensions.map(|(id, settings)| (id.to_owned(), settings)).into());
        capabilities
    }

    /// Refuses a server's request for a model's answer. No other code decides about such requests.
    fn sampling(&self) -> ErrorData {
        let reason = "this client does not support sampling; return the data to the model instead";
        tracing::info!(server = self.server, "requested sampling and was refused");
        ErrorData::new(ErrorCode::METHOD_NOT_FOUND, reason, None)
    }

    /// Returns the user who answers a question about the call of `listener`, or a question without a call.
    pub(super) fn person_of(&self, listener: Option<&Listener>) -> Option<Arc<dyn Elicitor>> {
        let asking = listener.cloned().or_else(|| self.changed.calls.asking());
        asking.and_then(|listener| listener.person).or_else(|| self.elicitor.clone())
    }

    pub(super) async fn elicit(
        &self,
        key: Option<String>,
        params: ElicitRequestParams,
        elicitor: Option<&dyn Elicitor>,
    ) -> ElicitResult {
        let Some(elicitor) = elicitor else {
            tracing::info!(server = self.server, "wanted to ask a person, but no person can be asked");
            return ElicitResult::new(ElicitationAction::Decline);
        };
        let (message, mode) = match params {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                (message, ElicitationMode::Form(serde_json::to_value(requested_schema).unwrap_or_default()))
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                (message, ElicitationMode::Page(url))
            }
            _ => return ElicitResult::new(ElicitationAction::Decline),
        };
        if mode.size() > MAX_SHOWN {
            tracing::info!(server = self.server, "sent a question that is too long");
            return ElicitResult::new(ElicitationAction::Decline);
        }
        let server = self.server.clone();
        let question = ElicitationQuestion { server, key, message: shortened(message), mode };
        let now = self.asking.begin();
        if self.asking.count() > MAX_QUESTIONS {
            tracing::info!(server = self.server, "asks too many questions at once");
            return ElicitResult::new(ElicitationAction::Decline);
        }
        let reply = elicitor.ask(&question).await;
        drop(now);
        match reply {
            Reply::Accept(content) => {
                let mut result = ElicitResult::new(ElicitationAction::Accept);
                result.content = content;
                result
            }
            Reply::Decline => ElicitResult::new(ElicitationAction::Decline),
            Reply::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        }
    }

    pub(super) fn roots(&self) -> ListRootsResult {
        let root = |path: &std::path::PathBuf| Root::new(file_uri(path)).with_name("workspace");
        ListRootsResult::new(self.workspace.iter().map(root).collect())
    }
}

impl ClientHandler for ServerRequestHandler {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("haft", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(self.capabilities(), own).with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_message(
        &self,
        _asked: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(self.sampling())
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(self.roots())
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let person = self.person_of(None);
        tokio::select! {
            result = self.elicit(None, params, person.as_deref()) => Ok(result),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        // A form that haft does not understand is not shown to the user.
        if request.method == "elicitation/create" {
            return Ok(CustomResult::new(serde_json::json!({ "action": "decline" })));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }

    async fn on_logging_message(
        &self,
        message: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        // Its call has the message already, from the transport.
        calls::log(&self.server, &message);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.wake();
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.wake();
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.wake();
    }

    async fn on_resource_updated(
        &self,
        updated: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        // No listed resource has a longer URI, and messages wait here for slow clients.
        if updated.uri.len() <= MAX_URI {
            // A send without a receiver fails.
            let _ = self.updates.send(updated.uri.into());
        }
    }
}

/// Returns `file:///…` (RFC 8089).
fn file_uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// The total time of questions to users. This time does not count towards time limits.
#[derive(Debug, Default)]
pub(super) struct AskingClock(Lock<AskingState>);

#[derive(Debug, Default)]
struct AskingState {
    questions: u32,
    since: Option<Instant>,
    total: Duration,
}

impl AskingClock {
    pub(super) fn total(&self) -> Duration {
        let state = self.0.lock();
        state.total + state.since.map(|since| since.elapsed()).unwrap_or_default()
    }

    pub(super) fn count(&self) -> u32 {
        self.0.lock().questions
    }

    /// Counts until the returned guard is dropped.
    pub(super) fn begin(&self) -> AskingGuard<'_> {
        let mut state = self.0.lock();
        state.questions += 1;
        state.since.get_or_insert_with(Instant::now);
        AskingGuard(self)
    }
}

/// A question that is being asked.
pub(super) struct AskingGuard<'a>(&'a AskingClock);

impl Drop for AskingGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.questions -= 1;
        if state.questions == 0 {
            let asked = state.since.take().map(|since| since.elapsed());
            state.total += asked.unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MC05: the URI of the workspace is valid for any path.
    #[test]
    fn the_workspace_is_a_root_whatever_its_name() {
        assert_eq!(file_uri(Path::new("/a b/ö#?%")), "file:///a%20b/%C3%B6%23%3F%25");
    }
}
