//! Handles each method. Requests run concurrently; messages that begin or stop a prompt are handled in the order of
//! arrival.

use std::collections::HashMap;
use std::future::ready;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AgentCapabilities, CancelNotification, CancelRequestNotification, CloseSessionRequest,
    CloseSessionResponse, DeleteSessionRequest, DeleteSessionResponse, Error, Implementation,
    InitializeRequest, InitializeResponse, ListSessionsRequest, ListSessionsResponse, LoadSessionRequest,
    LoadSessionResponse, McpServer, McpServerHttp, McpServerSse, NewSessionRequest, NewSessionResponse,
    PromptCapabilities, PromptRequest, PromptResponse, RequestId, ResumeSessionRequest,
    ResumeSessionResponse, SessionCapabilities, SessionCloseCapabilities, SessionDeleteCapabilities,
    SessionId, SessionInfo, SessionListCapabilities, SessionResumeCapabilities,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
    SetSessionModeResponse, StopReason,
};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::content;
use crate::host::{Host, Opening, StdioServer};
use crate::message::{self, Message, Params, told};
use crate::output::{self, Line, MAX_LINE, Outbox};
use crate::session::{MODE, MODEL, Session, failed};
use crate::sessions::Sessions;
use haft_core::report::{plain, shortened};
use haft_core::secret::Redactor;
use haft_core::sync::Lock;

/// The maximum number of concurrent requests: more than any editor has threads at work.
const MAX_REQUESTS: usize = 64;

/// Time limit for the end of calls after the editor disconnects: that of a cancelled call of a tool.
const ENDING: Duration = Duration::from_secs(5);

/// The maximum number of MCP servers of a session, with [`MAX_WORDS`] words and variables each.
const MAX_SERVERS: usize = 32;

/// The maximum number of words of a command line, and of variables, of an MCP server.
const MAX_WORDS: usize = 256;

/// The number of sessions on a page of a list.
const PAGE: usize = 50;

struct Connection {
    host: Arc<dyn Host>,
    client: Arc<Client>,
    sessions: Sessions,
    is_initialized: AtomicBool,
    prompts: Lock<HashMap<RequestId, CancellationToken>>,
}

/// The result of a request. A session that it opened is greeted after the response.
type Done = Result<(Value, Option<Arc<Session>>), Error>;

type Work = Pin<Box<dyn Future<Output = Done> + Send>>;

/// Serves the conversations of `host` to the editor at `input` and `output` until it hangs up or `stop` is
/// cancelled. Secrets of `redactor` are redacted in the output.
///
/// # Errors
/// A thread for reading or writing cannot be started.
pub async fn serve(
    host: Arc<dyn Host>,
    redactor: Redactor,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    stop: CancellationToken,
) -> io::Result<()> {
    let gone = stop.child_token();
    let outbox = Outbox::start(output, redactor, gone.clone())?;
    let mut lines = output::start(input)?;
    let connection = Arc::new(Connection {
        host,
        client: Arc::new(Client::new(outbox.clone())),
        sessions: Sessions::default(),
        is_initialized: AtomicBool::default(),
        prompts: Lock::default(),
    });
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = gone.cancelled() => break,
            line = lines.recv() => match line {
                Some(line) => connection.handle(line, &mut tasks),
                None => break,
            },
        }
        while tasks.try_join_next().is_some() {}
    }
    connection.sessions.cancel_all();
    let ended = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(ENDING, ended).await;
    tasks.abort_all();
    let _ = tokio::time::timeout(ENDING, connection.sessions.close_all()).await;
    outbox.close().await;
    Ok(())
}

impl Connection {
    fn handle(self: &Arc<Self>, line: Line, tasks: &mut JoinSet<()>) {
        let message = match line {
            Line::Whole(line) => message::parse(&line),
            Line::TooLong(id) => {
                let why = format!("a message longer than {} MiB", MAX_LINE >> 20);
                Err(Box::new(message::Refusal { id, error: told(Error::invalid_request(), &why) }))
            }
        };
        match message {
            Ok(Some(Message::Request { id, method, params })) => self.request(id, &method, &params, tasks),
            Ok(Some(Message::Notification { method, params })) => self.notification(&method, &params),
            Ok(Some(Message::Answer { id, outcome })) => self.client.answered(&id, outcome),
            Ok(None) => {}
            Err(refusal) => {
                self.client.answer(&refusal.id.unwrap_or(RequestId::Null), Err(refusal.error));
            }
        }
    }

    fn request(self: &Arc<Self>, id: RequestId, method: &str, params: &Params, tasks: &mut JoinSet<()>) {
        let work = if tasks.len() >= MAX_REQUESTS {
            Err(told(Error::internal_error(), &format!("{MAX_REQUESTS} requests are under way")))
        } else {
            self.begin(&id, method, params)
        };
        match work {
            Ok(work) => {
                let answering = Answering { client: self.client.clone(), id, is_answered: false };
                tasks.spawn(async move {
                    match work.await {
                        Ok((answer, opened)) => {
                            answering.answer(Ok(answer));
                            if let Some(session) = opened {
                                session.greet().await;
                            }
                        }
                        Err(error) => answering.answer(Err(error)),
                    }
                });
            }
            Err(error) => self.client.answer(&id, Err(error)),
        }
    }

    fn notification(&self, method: &str, params: &Params) {
        match method {
            "session/cancel" => {
                if let Ok(CancelNotification { session_id, .. }) = params.read()
                    && let Ok(session) = self.sessions.find(&session_id)
                {
                    session.cancel();
                }
            }
            "$/cancel_request" => {
                if let Ok(CancelRequestNotification { request_id, .. }) = params.read()
                    && let Some(prompt) = self.prompts.lock().get(&request_id)
                {
                    prompt.cancel();
                }
            }
            _ => {}
        }
    }

    fn begin(self: &Arc<Self>, id: &RequestId, method: &str, params: &Params) -> Result<Work, Error> {
        let connection = self.clone();
        if method != "initialize" && !self.is_initialized.load(Ordering::SeqCst) {
            return Err(told(Error::invalid_request(), "expected `initialize` as the first request"));
        }
        let work: Work = match method {
            "initialize" => Box::pin(ready(value(&self.initialize(&params.read()?)))),
            "session/new" => Box::pin(connection.new_session(params.read()?)),
            "session/load" if self.host.keeps() => Box::pin(connection.load(params.read()?)),
            "session/resume" if self.host.keeps() => Box::pin(connection.resume(params.read()?)),
            "session/list" if self.host.keeps() => Box::pin(connection.list(params.read()?)),
            "session/delete" if self.host.keeps() => Box::pin(connection.delete(params.read()?)),
            "session/close" => Box::pin(connection.close(params.read()?)),
            "session/set_mode" => Box::pin(ready(Ok(self.set_mode(&params.read()?)?))),
            "session/set_config_option" => Box::pin(connection.set_option(params.read()?)),
            "session/prompt" => self.prompt(id, params.read()?)?,
            "authenticate" => {
                let why = "haft has no sign-in; set the provider's key in program.toml";
                return Err(told(Error::invalid_params(), why));
            }
            _ => {
                let method = method.chars().take(MAX_SHOWN).collect::<String>();
                return Err(told(Error::method_not_found(), &method));
            }
        };
        Ok(work)
    }

    fn initialize(&self, request: &InitializeRequest) -> InitializeResponse {
        self.client.initialized(&request.client_capabilities);
        self.is_initialized.store(true, Ordering::SeqCst);
        let keeps = self.host.keeps();
        let mut sessions = SessionCapabilities::new().close(SessionCloseCapabilities::new());
        if keeps {
            sessions = sessions
                .list(SessionListCapabilities::new())
                .resume(SessionResumeCapabilities::new())
                .delete(SessionDeleteCapabilities::new());
        }
        let prompts = PromptCapabilities::new().image(true).embedded_context(true);
        let capabilities = AgentCapabilities::new()
            .load_session(keeps)
            .prompt_capabilities(prompts)
            .session_capabilities(sessions);
        InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(Implementation::new("haft", env!("CARGO_PKG_VERSION")))
    }

    async fn new_session(self: Arc<Self>, request: NewSessionRequest) -> Done {
        let opening = opening(request.cwd, request.mcp_servers)?;
        let _place = self.sessions.make_room(&*self.host, None).await?;
        let conversation = self.host.begin(opening.clone()).await.map_err(failed)?;
        let session = Arc::new(Session::new(&self.client, conversation, opening));
        self.sessions.add(&session);
        let options = session.options().await;
        let modes = session.modes();
        let answer = NewSessionResponse::new(session.id.clone()).modes(modes).config_options(options);
        opened(&answer, session)
    }

    async fn load(self: Arc<Self>, request: LoadSessionRequest) -> Done {
        let opening = opening(request.cwd, request.mcp_servers)?;
        let session = self.open(&request.session_id, opening).await?;
        session.replay().await;
        let modes = session.modes();
        let answer = LoadSessionResponse::new().modes(modes).config_options(session.options().await);
        opened(&answer, session)
    }

    async fn resume(self: Arc<Self>, request: ResumeSessionRequest) -> Done {
        let opening = opening(request.cwd, request.mcp_servers)?;
        let session = self.open(&request.session_id, opening).await?;
        let modes = session.modes();
        let answer = ResumeSessionResponse::new().modes(modes).config_options(session.options().await);
        opened(&answer, session)
    }

    /// Opens an earlier session, even if it is open here.
    async fn open(&self, id: &SessionId, opening: Opening) -> Result<Arc<Session>, Error> {
        let open = self.sessions.find(id).ok();
        if open.is_none() && !self.host.knows(&id.0) {
            return Err(told(Error::session_not_found(id.clone()), "no session with this id is stored here"));
        }
        // No other request may begin a prompt meanwhile.
        let _working = open.as_ref().map(Session::begin_work).transpose()?;
        // A session without a prompt is not saved.
        let is_unkept = open.as_ref().is_some_and(|open| !open.has_said());
        if let Some(open) = &open {
            open.rest().await;
        }
        let _place = self.sessions.make_room(&*self.host, Some(id)).await?;
        let conversation = if is_unkept {
            self.host.begin(Opening { id: Some(id.0.to_string()), ..opening.clone() }).await
        } else {
            self.host.resume(&id.0, opening.clone()).await
        };
        // On failure, the open session stays.
        let session = Arc::new(Session::new(&self.client, conversation.map_err(failed)?, opening));
        self.sessions.replace(&session);
        Ok(session)
    }

    async fn wake(&self, session: &Session) -> Result<(), Error> {
        let _place = self.sessions.make_room(&*self.host, Some(&session.id)).await?;
        session.wake(&*self.host).await
    }

    async fn list(self: Arc<Self>, request: ListSessionsRequest) -> Done {
        let from = match request.cursor.as_deref() {
            None => 0,
            Some(cursor) => cursor.parse().map_err(|_| told(Error::invalid_params(), "an unknown cursor"))?,
        };
        let all = self.host.list(request.cwd).await.map_err(failed)?;
        let next = from + PAGE;
        let cursor = (next < all.len()).then(|| next.to_string());
        let page = all.into_iter().skip(from).take(PAGE).map(|summary| {
            SessionInfo::new(summary.id, summary.folder).title(summary.title).updated_at(summary.changed)
        });
        value(&ListSessionsResponse::new(page.collect()).next_cursor(cursor))
    }

    async fn delete(self: Arc<Self>, request: DeleteSessionRequest) -> Done {
        self.sessions.close(&request.session_id).await;
        self.host.remove(&request.session_id.0).await.map_err(failed)?;
        value(&DeleteSessionResponse::new())
    }

    async fn close(self: Arc<Self>, request: CloseSessionRequest) -> Done {
        if !self.sessions.close(&request.session_id).await {
            self.sessions.find(&request.session_id)?;
        }
        value(&CloseSessionResponse::new())
    }

    async fn set_option(self: Arc<Self>, request: SetSessionConfigOptionRequest) -> Done {
        let session = self.sessions.find(&request.session_id)?;
        let chosen = request.value.as_value_id();
        match (request.config_id.0.as_ref(), chosen) {
            (MODE, Some(mode)) => session.use_mode(&mode.0)?,
            (MODEL, Some(model)) => {
                // The model cannot change during a prompt.
                let _working = session.begin_work()?;
                self.wake(&session).await?;
                session.use_model(&*self.host, &model.0).await?;
            }
            _ => return Err(told(Error::invalid_params(), "unknown option")),
        }
        value(&SetSessionConfigOptionResponse::new(session.options().await))
    }

    fn set_mode(&self, request: &SetSessionModeRequest) -> Done {
        self.sessions.find(&request.session_id)?.use_mode(&request.mode_id.0)?;
        value(&SetSessionModeResponse::new())
    }

    fn prompt(self: &Arc<Self>, id: &RequestId, request: PromptRequest) -> Result<Work, Error> {
        let session = self.sessions.find(&request.session_id)?;
        let prompt = content::prompt(request.prompt)?;
        let working = session.begin_work()?;
        self.prompts.lock().insert(id.clone(), working.cancel.clone());
        let (connection, id) = (self.clone(), id.clone());
        Ok(Box::pin(async move {
            // Loading a program takes seconds; a cancellation is answered earlier.
            let woken = tokio::select! {
                biased;
                () = working.cancel.cancelled() => None,
                woken = connection.wake(&session) => Some(woken),
            };
            let answer = match woken {
                None => Ok(PromptResponse::new(StopReason::Cancelled)),
                Some(Ok(())) => session.prompt(&*connection.host, prompt, &working).await,
                Some(Err(error)) => Err(error),
            };
            connection.prompts.lock().remove(&id);
            drop(working);
            answer.and_then(|answer| value(&answer))
        }))
    }
}

/// The maximum number of characters of a method's name in an error.
const MAX_SHOWN: usize = 200;

/// A request that is always answered, even after a panic in haft's code.
struct Answering {
    client: Arc<Client>,
    id: RequestId,
    is_answered: bool,
}

impl Answering {
    fn answer(mut self, outcome: Result<Value, Error>) {
        self.is_answered = true;
        self.client.answer(&self.id, outcome);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if !self.is_answered {
            self.client.answer(&self.id, Err(Error::internal_error()));
        }
    }
}

fn value(answer: &impl Serialize) -> Done {
    Ok((serde_json::to_value(answer).map_err(Error::into_internal_error)?, None))
}

fn opened(answer: &impl Serialize, session: Arc<Session>) -> Done {
    Ok((value(answer)?.0, Some(session)))
}

/// Returns the parameters of a session. Only servers on standard streams are accepted: the response to `initialize`
/// declares no others.
fn opening(folder: PathBuf, servers: Vec<McpServer>) -> Result<Opening, Error> {
    let wrong = |why: &str| Err(told(Error::invalid_params(), why));
    if !folder.is_absolute() {
        return wrong("`cwd` is not an absolute path");
    }
    if servers.len() > MAX_SERVERS {
        return wrong(&format!("more than {MAX_SERVERS} MCP servers"));
    }
    let (mut taken, mut left_out) = (Vec::new(), Vec::new());
    for server in servers {
        let server = match server {
            McpServer::Stdio(server) => server,
            McpServer::Http(McpServerHttp { name, .. }) | McpServer::Sse(McpServerSse { name, .. }) => {
                let name = shortened(&plain(&name), MAX_SHOWN);
                let way = "program.toml may declare it in `[[mcp_servers]]`";
                left_out.push(format!(
                    "the MCP server `{name}` of the editor is left out: its transport is HTTP; {way}"
                ));
                continue;
            }
            _ => continue,
        };
        if server.args.len() >= MAX_WORDS || server.env.len() > MAX_WORDS {
            return wrong(&format!("more than {MAX_WORDS} words or variables of an MCP server"));
        }
        let Some(command) = server.command.to_str() else {
            return wrong("the command of an MCP server is not valid UTF-8");
        };
        let command = std::iter::once(command.to_owned()).chain(server.args).collect();
        let env = server.env.into_iter().map(|variable| (variable.name, variable.value)).collect();
        taken.push(StdioServer { name: server.name, command, env });
    }
    Ok(Opening { id: None, folder, servers: taken, left_out })
}

#[cfg(test)]
mod tests;
