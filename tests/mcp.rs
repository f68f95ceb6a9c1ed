//! MCP servers as sources of tools: a strict and a faulty server of these tests, over pipes and over HTTP.

mod cli;
pub(crate) mod fake;
mod faults;
mod http;
mod http_fake;
mod identity_provider;
mod notifications;
mod oauth;
mod oauth_cli;
mod oauth_fake;
mod protocol;
mod skills;
mod values;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use haft::call::ToolResult;
use haft::grant::RightsTable;
use haft::manifest::ServerLimits;
use haft::mcp::client::{Config, Endpoint, Host, Server, ServerError, ServerTool, ToolList, Values};
use haft::secret::Redactor;
use haft::tool::{Elicitor, ToolError};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::common::HANG;
use crate::common::wait::eventually_some;
use crate::workspace::{Workspace, confiner};

/// Values that the test sets.
#[derive(Debug)]
struct FixedValues(Vec<(String, String)>);

#[async_trait]
impl Values for FixedValues {
    fn identity(&self) -> String {
        format!("{:?}", self.0)
    }

    async fn read(&self) -> Result<Vec<(String, SecretString)>, String> {
        Ok(self.0.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect())
    }
}

fn values(pairs: &[(&str, &str)]) -> Arc<dyn Values> {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Arc::new(FixedValues(pairs.collect()))
}

fn host(workspace: &Workspace) -> Host {
    let (grant, table) = (workspace.grant.clone(), RightsTable::Sandbox);
    Host { confiner: confiner(), grant, table, elicitor: None, cache: None }
}

/// A server in a workspace.
pub(crate) struct Fixture {
    workspace: Workspace,
    pub(crate) server: Arc<Server>,
}

impl Fixture {
    /// The fake server with the behaviour `like`.
    pub(crate) fn new(like: &Value) -> Self {
        Self::with(like, HANG, |host| host)
    }

    /// The fake server with a short time limit for a request, after its first answer; a timely answer may take
    /// several attempts.
    async fn hasty() -> Self {
        let fixture = Self::with(&json!({}), LIMIT, |host| host);
        fixture.text_in_time("echo", json!({})).await;
        fixture
    }

    pub(crate) fn with(like: &Value, timeout: Duration, change: impl FnOnce(Host) -> Host) -> Self {
        let environment = values(&[(fake::LIKE, &like.to_string()), ("OWN", "value")]);
        Self::of(
            Endpoint::Stdio { command: fake::command(), folder: "/".into(), home: "/".into(), environment },
            timeout,
            change,
        )
    }

    fn of(endpoint: Endpoint, timeout: Duration, change: impl FnOnce(Host) -> Host) -> Self {
        let workspace = Workspace::new();
        let config = Config {
            name: "fake".into(),
            endpoint,
            timeout,
            limits: ServerLimits::default(),
            on_use: false,
            max_result: 1000,
            redactor: Redactor::default(),
        };
        Self { server: Server::new(config, change(host(&workspace))), workspace }
    }

    fn host(&self) -> Host {
        host(&self.workspace)
    }

    fn folder(&self) -> PathBuf {
        self.workspace.path("")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.workspace.path(name)
    }

    async fn list(&self) -> Result<Arc<ToolList>, ServerError> {
        self.server.list().await
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<ToolResult, ToolError> {
        let listed = haft::mcp::client::RemoteTool {
            name: tool.into(),
            title: None,
            description: String::new(),
            parameters: json!({ "type": "object" }),
            mended: Vec::new(),
            output: None,
            hints: haft::call::Hints::default(),
        };
        self.workspace.call(&ServerTool::new(&self.server, &ToolList::default(), &listed), arguments).await
    }

    /// The text of a successful answer.
    pub(crate) async fn text(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await.unwrap();
        assert!(!result.is_error, "{}", result.content);
        result.content
    }

    /// The text of the first answer within the time limit; late answers are repeated.
    async fn text_in_time(&self, tool: &str, arguments: Value) -> String {
        let answered = async || match self.call(tool, arguments.clone()).await {
            Ok(result) => Some(result.content),
            Err(error) => {
                assert!(error.to_string().contains("did not answer"), "{error}");
                None
            }
        };
        eventually_some("a call is answered in time", answered).await
    }

    pub(crate) async fn error(&self, tool: &str, arguments: Value) -> String {
        match self.call(tool, arguments).await {
            Ok(result) if result.is_error && result.mcp.is_some() => result.content,
            result => result.unwrap_err().to_string(),
        }
    }
}

/// True if a process with `text` in its environment or command line runs.
pub(crate) fn is_running(text: &str) -> bool {
    !running(text).is_empty()
}

/// The processes with `text` in their environment or command line.
fn running(text: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let names = |pid: &i32| {
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let both = [read("environ"), read("cmdline")].concat();
        String::from_utf8_lossy(&both).contains(text)
    };
    pids.filter(|pid| *pid != i32::try_from(std::process::id()).unwrap()).filter(names).collect()
}

/// A short time limit of a request.
const LIMIT: Duration = Duration::from_secs(1);

/// An elicitor that always gives one answer.
#[derive(Debug)]
struct Sayer(haft::tool::Reply);

#[async_trait]
impl Elicitor for Sayer {
    async fn ask(&self, question: &haft::tool::ElicitationQuestion) -> haft::tool::Reply {
        assert!(question.server == "fake" && question.message.starts_with("Who"));
        self.0.clone()
    }
}

/// The file name of a path, without the directories of the test run.
fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}
