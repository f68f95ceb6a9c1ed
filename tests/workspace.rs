//! A workspace for tool calls of tests, and the session that each call gets.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use haft::backend::confine::Confiner;
use haft::call::{ToolCall, ToolResult};
use haft::event::{Event, Events};
use haft::grant::{Grant, Root};
use haft::limit::Limits;
use haft::tool::{Caller, Client, Context, Notes, Session, Tool, ToolError, Whole};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A temporary directory as a workspace, and the events of its calls.
pub(crate) struct Workspace {
    directory: tempfile::TempDir,
    pub(crate) grant: Grant,
    pub(crate) cancel: CancellationToken,
    pub(crate) received: Arc<Mutex<Vec<(Instant, Event)>>>,
    events: Events,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::resolve(Path::new("/"), directory.path()).unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let sink = received.clone();
        let events = Events::to(move |event| sink.lock().unwrap().push((Instant::now(), event.clone())));
        let grant = Grant::none().with_write(root.clone()).with_workspace(root);
        let grant = grant.with_read_anywhere().with_network(true);
        Self { directory, grant, cancel: CancellationToken::new(), received, events }
    }

    /// A workspace without listeners and without a journal.
    pub(crate) fn unheard() -> Self {
        Self { events: Events::none(), ..Self::new() }
    }

    /// The path of `name` in the workspace.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The names of all files in the workspace that end with `suffix`, in order.
    pub(crate) fn files(&self, suffix: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.ends_with(suffix)).collect();
        names.sort();
        names
    }

    pub(crate) async fn call(&self, tool: &dyn Tool, arguments: Value) -> Result<ToolResult, ToolError> {
        let call = ToolCall { id: "call-1".into(), tool: tool.def().name.clone(), arguments };
        let (limits, session) = (Limits::default(), Session::default());
        let (events, cancel, notes) = (&self.events, &self.cancel, &Notes::default());
        let (grant, limits, whole) = (&self.grant, &limits, &Whole::default());
        let (client, caller) = (Client::default(), Caller::new(&session));
        let context =
            Context { grant, limits, events, cancel, notes, whole, client, caller, approved: false };
        tool.call(&call, &context).await
    }
}

/// Confines children with the tested haft as the helper, because this process is the test binary. With
/// `HAFT_TEST_UNCONFINED` it only watches them, for tests on an emulated kernel (`.ci/steps/arm`).
pub(crate) fn confiner() -> Confiner {
    let confiner = Confiner::with_helper(env!("CARGO_BIN_EXE_haft"));
    if std::env::var_os("HAFT_TEST_UNCONFINED").is_none() {
        return confiner;
    }
    eprintln!("SKIPPED: what holds children, which are not confined");
    confiner.without_layers()
}
