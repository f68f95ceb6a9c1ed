//! Runs cases on the component under test. Each call has a fresh instance.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::case::{Case, Http, Wanted};
use super::folder::CaseFolder;
use super::verdict::{Outcome, judge};
use super::{FOLDER, read_snapshot, snapshot_path};
use crate::pack;
use haft_core::call::{ToolCall, ToolDef, ToolResult};
use haft_core::event::{Event, Events};
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::report::nearest;
use haft_core::sync::Lock;
use haft_core::tool::{Session, Toolbox};
use haft_plugin_host::{
    CannedResponse, GrantPlace, OutgoingRequest, Plugin, PluginOptions, PluginTool, Responder,
};

/// A component under test.
pub struct Bench {
    plugin: Plugin,
    limits: Limits,
    tests: PathBuf,
    cancel: CancellationToken,
}

/// The result of a case.
#[derive(Debug)]
pub struct Ran {
    /// The differences from the expected result; empty if the case passed.
    pub complaints: Vec<String>,
    /// Whether the result was stored as the new snapshot.
    pub blessed: bool,
    /// The duration of the call.
    pub time: Duration,
}

impl Bench {
    /// Returns a bench for the component `plugin` of the project in `folder`. Calls have `limits`, unless a
    /// case sets its own. `cancel` ends the running call.
    pub fn new(plugin: Plugin, limits: Limits, folder: &Path, cancel: CancellationToken) -> Self {
        Self { plugin, limits, tests: folder.join(FOLDER), cancel }
    }

    /// Returns the default limits of a call.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the tools of the component.
    pub fn tools(&self) -> &[ToolDef] {
        self.plugin.tools()
    }

    /// Runs a case of the file `file`. With `bless`, the result of a snapshot case is stored instead of
    /// compared.
    ///
    /// # Errors
    /// A file or folder of the case cannot be read or created.
    pub async fn run(&self, file: &Path, case: &Case, bless: bool) -> anyhow::Result<Ran> {
        if !self.tools().iter().any(|tool| tool.name == case.tool) {
            return Ok(Ran {
                complaints: vec![self.no_tool(&case.tool)],
                blessed: false,
                time: Duration::ZERO,
            });
        }
        let folder = CaseFolder::new(case, &self.tests)?;
        let replies = Arc::new(Replies::new(case, &self.tests)?);
        let grant = folder.grant(&case.grant)?;
        let (call, limits) = ((case.tool.as_str(), case.arguments.clone()), case.limits.over(self.limits));
        let begun = Instant::now();
        let (result, decisions) = self.call(call, limits, grant, replies.clone()).await?;
        let (time, result) =
            (begun.elapsed(), ToolResult { content: folder.masked(&result.content), ..result });
        let path = snapshot_path(&self.tests, file, &case.name);
        let blessed = bless && case.wanted == Wanted::Snapshot && !result.is_error;
        if blessed {
            pack::write(&path, result.content.as_bytes())?;
        }
        let kept = match &case.wanted {
            Wanted::Snapshot => {
                read_snapshot(&path).with_context(|| format!("cannot read `{}`", path.display()))?
            }
            _ => None,
        };
        let outcome = Outcome { result: &result, decisions: &decisions, kept: kept.as_deref() };
        let mut complaints: Vec<String> = judge(&case.wanted, &outcome).into_iter().collect();
        complaints.extend(replies.complaints());
        complaints.extend(case.after.iter().filter_map(|(path, text)| left(&folder, path, text)));
        Ok(Ran { complaints, blessed, time })
    }

    /// Calls a tool without any rights; returns the result.
    pub(super) async fn bare_call(
        &self,
        tool: &str,
        arguments: &Value,
        limits: Limits,
    ) -> anyhow::Result<ToolResult> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let replies = Arc::new(Replies::default());
        Ok(self.call((tool, arguments), limits, Grant::none(), replies).await?.0)
    }

    /// Makes a call. Returns the result, and the decisions about its rights.
    async fn call(
        &self,
        (name, arguments): (&str, Map<String, Value>),
        limits: Limits,
        grant: Grant,
        responder: Arc<dyn Responder>,
    ) -> anyhow::Result<(ToolResult, Vec<String>)> {
        let plugin =
            self.plugin.with(PluginOptions { responder: Some(responder), ..PluginOptions::default() });
        let mut toolbox = Toolbox::default();
        for def in plugin.tools().iter().filter(|def| def.name == name) {
            let tool = PluginTool::new(&plugin, def, def.name.clone(), GrantPlace::Plugin);
            toolbox.insert(Arc::new(tool), grant.clone(), limits, "the test")?;
        }
        let decisions = Arc::new(Lock::new(Vec::new()));
        let heard = decisions.clone();
        let events = Events::to(move |event| {
            if let Event::Decided { decision, .. } = event {
                heard.lock().push(decision.clone());
            }
        });
        let session = Session { events, cancel: self.cancel.child_token(), ..Session::default() };
        let arguments = Value::Object(arguments);
        let call = ToolCall { id: "test".into(), tool: name.to_owned(), arguments };
        let result = toolbox.dispatch(call, &session).await;
        let decisions = std::mem::take(&mut *decisions.lock());
        Ok((result, decisions))
    }

    fn no_tool(&self, name: &str) -> String {
        let near = nearest(name, self.tools().iter().map(|tool| tool.name.as_str()));
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        format!("the plugin has no tool `{name}`{near}")
    }
}

/// Compares a file after the call with its expected content; returns the difference.
fn left(folder: &CaseFolder, path: &Path, wanted: &str) -> Option<String> {
    let shown = path.display();
    match folder.read(path) {
        Ok(text) if text == wanted => None,
        Ok(text) => Some(format!("expected `{wanted}` in `{shown}`\ngot      `{text}`")),
        Err(error) => Some(format!("expected the file `{shown}` afterwards: {error}")),
    }
}

// Responds to the requests of a case's tool: each request of the case must be made exactly once, in any order,
// and no other request.

/// Limit on the reported unexpected requests.
const MAX_UNEXPECTED: usize = 10;

/// Limit on the bytes of a body in a file: the limit of guests.
const MAX_BODY: u64 = 256 << 20;

#[derive(Default)]
pub(super) struct Replies(Lock<State>);

#[derive(Default)]
struct State {
    /// The responses that were not requested yet.
    waiting: Vec<(Http, Vec<u8>)>,
    unexpected: Vec<String>,
}

impl Replies {
    /// Reads the responses of `case`; bodies in files are below `tests`.
    pub(super) fn new(case: &Case, tests: &Path) -> anyhow::Result<Self> {
        let of_http = |http: &Http| match &http.body_file {
            None => Ok(http.body.clone().into_bytes()),
            Some(file) => {
                body(tests, file).with_context(|| format!("cannot read `{}` below `tests`", file.display()))
            }
        };
        let waiting = case.http.iter().map(|http| Ok((http.clone(), of_http(http)?)));
        let waiting = waiting.collect::<anyhow::Result<_>>()?;
        Ok(Self(Lock::new(State { waiting, unexpected: Vec::new() })))
    }

    pub(super) fn complaints(&self) -> Vec<String> {
        let state = self.0.lock();
        let unexpected = state
            .unexpected
            .iter()
            .map(|asked| format!("the plugin requested `{asked}`, for which the test has no answer"));
        let waiting =
            state.waiting.iter().map(|(http, _)| format!("the plugin did not request `{}`", http.request));
        unexpected.chain(waiting).collect()
    }
}

/// Reads a body from a file, which must be inside `tests`.
fn body(tests: &Path, file: &Path) -> io::Result<Vec<u8>> {
    let opened = Dir::open_ambient_dir(tests, ambient_authority())?.open(file)?;
    if opened.metadata()?.len() > MAX_BODY {
        return Err(io::Error::other(format!("it has more than {} MiB", MAX_BODY >> 20)));
    }
    let mut bytes = Vec::new();
    opened.take(MAX_BODY).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Responder for Replies {
    fn respond(&self, asked: OutgoingRequest) -> Option<CannedResponse> {
        let mut state = self.0.lock();
        let request = format!("{} {}", asked.method, asked.url);
        let sent = |part: &String| String::from_utf8_lossy(&asked.body).contains(part.as_str());
        let is_meant = |http: &Http| http.request == request && http.sent.as_ref().is_none_or(sent);
        let Some(index) = state.waiting.iter().position(|(http, _)| is_meant(http)) else {
            if state.unexpected.len() < MAX_UNEXPECTED {
                state.unexpected.push(request);
            }
            return None;
        };
        let (http, body) = state.waiting.remove(index);
        Some(CannedResponse { status: http.status, headers: http.headers.into_iter().collect(), body })
    }
}
