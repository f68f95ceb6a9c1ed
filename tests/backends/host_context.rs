//! The host under test: connected backends of every kind, closed at the end.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::backend::{
    self, Backend, BackendConfig, BackendError, CommandEnd, CommandOutcome, HostContext, OutputSink, Place,
    Stream,
};
use haft::call::{ToolCall, ToolResult};
use haft::event::Events;
use haft::grant::{Grant, Root};
use haft::limit::Limits;
use haft::lookup::find_on_path;
use haft::manifest::ContainerEngine;
use haft::tool::{Caller, Client, Context, Notes, Session, Tool, ToolError, Whole};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::common::HANG;
use crate::common::wait::eventually_some;
use crate::workspace::confiner;

/// Reports a skipped test. With `HAFT_TEST_BACKENDS` a skipped test is a failure.
pub(crate) fn skipped(what: &str) {
    assert!(std::env::var_os("HAFT_TEST_BACKENDS").is_none(), "not to be skipped here: {what}");
    eprintln!("SKIPPED: {what}; `.ci/steps/backends` brings it");
}

/// Whether `program` is on PATH; reports a skipped test if it is not.
pub(crate) fn has(program: &str) -> bool {
    let found = find_on_path(program).is_some();
    if !found {
        skipped(&format!("`{program}` is not installed"));
    }
    found
}

pub(crate) fn variable(name: &str, what: &str) -> Option<String> {
    let value = std::env::var(name).ok();
    if value.is_none() {
        skipped(what);
    }
    value
}

/// One kind of backend.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) choice: BackendConfig,
}

/// A session name that is unique among the tests.
pub(crate) fn session() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("t{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn paned(choice: BackendConfig) -> BackendConfig {
    BackendConfig { tmux: Some(true), session: Some(session()), ..choice }
}

pub(crate) fn local() -> Kind {
    Kind { name: "local", choice: BackendConfig::default() }
}

pub(crate) fn local_tmux() -> Option<Kind> {
    let choice = BackendConfig { shell: Some("bash".into()), ..paned(BackendConfig::default()) };
    has("tmux").then_some(Kind { name: "local, tmux", choice })
}

/// A local pane with each shell.
pub(crate) fn shells() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for (name, program, shell) in [
        ("local, tmux, bash", "bash", "bash"),
        ("local, tmux, dash", "dash", "dash"),
        ("local, tmux, busybox ash", "busybox", "ash"),
        ("local, tmux, zsh", "zsh", "zsh"),
    ] {
        if !has("tmux") || !has(program) {
            continue;
        }
        let shell = if shell == "ash" { ash() } else { shell.to_owned() };
        let choice = BackendConfig { shell: Some(shell), ..paned(BackendConfig::default()) };
        kinds.push(Kind { name, choice });
    }
    kinds
}

/// A link to busybox that makes it run as `ash`.
fn ash() -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("shells");
    std::fs::create_dir_all(&folder).unwrap();
    let link = folder.join("ash");
    // Another test may create it first.
    let _ = std::os::unix::fs::symlink(find_on_path("busybox").unwrap(), &link);
    link.to_str().unwrap().to_owned()
}

fn container_at(variable_name: &str) -> Option<BackendConfig> {
    let name = variable(variable_name, "no container to run commands in")?;
    Some(BackendConfig {
        place: Place::Container { name, engine: Some(ContainerEngine::Podman) },
        ..BackendConfig::default()
    })
}

pub(crate) fn container() -> Option<Kind> {
    let choice = container_at("HAFT_TEST_CONTAINER")?;
    Some(Kind { name: "container", choice })
}

pub(crate) fn container_tmux() -> Option<Kind> {
    let choice = paned(container_at("HAFT_TEST_CONTAINER_TMUX")?);
    Some(Kind { name: "container, tmux", choice })
}

/// A container that a test may stop.
pub(crate) fn container_to_stop() -> Option<Kind> {
    let choice = container_at("HAFT_TEST_CONTAINER_STOPPED")?;
    Some(Kind { name: "container to stop", choice })
}

pub(crate) fn ssh_config() -> Option<PathBuf> {
    variable("HAFT_TEST_SSH_CONFIG", "no server of ssh").map(PathBuf::from)
}

pub(crate) fn ssh_to(target: &str) -> Option<BackendConfig> {
    let place = Place::Ssh { target: target.to_owned(), config: Some(ssh_config()?) };
    Some(BackendConfig { place, tmux: Some(false), ..BackendConfig::default() })
}

pub(crate) fn ssh() -> Option<Kind> {
    Some(Kind { name: "ssh", choice: ssh_to("box")? })
}

pub(crate) fn ssh_tmux() -> Option<Kind> {
    Some(Kind { name: "ssh, tmux", choice: paned(ssh_to("box")?) })
}

/// Every available backend.
pub(crate) fn all() -> Vec<Kind> {
    let others = [container(), container_tmux(), ssh(), ssh_tmux()];
    std::iter::once(local()).chain(shells()).chain(others.into_iter().flatten()).collect()
}

/// One backend with a pane per place.
pub(crate) fn with_panes() -> Vec<Kind> {
    [local_tmux(), container_tmux(), ssh_tmux()].into_iter().flatten().collect()
}

/// A backend, connected, with a directory on this machine.
pub(crate) struct Bed {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) grant: Grant,
    pub(crate) cancel: CancellationToken,
    pub(crate) events: Events,
    pub(crate) kind: Kind,
    pub(crate) host_context: HostContext,
    directory: tempfile::TempDir,
    /// The output of all commands.
    written: Arc<Mutex<Vec<u8>>>,
}

/// The output of a command, and its end.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) how: CommandEnd,
    pub(crate) output: Vec<u8>,
    pub(crate) errors: Vec<u8>,
    pub(crate) notices: Vec<String>,
}

/// Collects all output.
#[derive(Default)]
pub(crate) struct Bytes(Mutex<[Vec<u8>; 2]>, Arc<Mutex<Vec<u8>>>);

impl OutputSink for Bytes {
    fn take(&self, stream: Stream, bytes: &[u8]) {
        self.1.lock().unwrap().extend_from_slice(bytes);
        let [output, errors] = &mut *self.0.lock().unwrap();
        if stream == Stream::Output { output } else { errors }.extend_from_slice(bytes);
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.kind.end_session(&self.directory.path().join("state"));
    }
}

impl Kind {
    /// Removes the test's session. `state` is the folder of a local session's socket.
    pub(crate) fn end_session(&self, state: &std::path::Path) {
        let Some(session) = &self.choice.session else { return };
        let words: Vec<String> = match &self.choice.place {
            Place::Local => {
                let socket = state.join("tmux");
                vec!["tmux".into(), "-S".into(), socket.to_str().unwrap().into(), "kill-server".into()]
            }
            Place::Container { name, .. } => {
                ["podman", "exec", name, "tmux", "-L", "haft", "kill-session", "-t", session]
                    .map(str::to_owned)
                    .into()
            }
            Place::Ssh { .. } => {
                ["tmux", "-L", "haft", "kill-session", "-t", session].map(str::to_owned).into()
            }
        };
        run(&words);
    }
}

/// Runs a program on this machine; its standard output.
#[expect(clippy::disallowed_methods, reason = "a test acts as a person would")]
pub(crate) fn run(words: &[String]) -> String {
    let output =
        std::process::Command::new(&words[0]).args(&words[1..]).stdin(std::process::Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

pub(crate) fn host_context(state: &std::path::Path, grant: &Grant) -> HostContext {
    HostContext {
        confiner: confiner(),
        transport_confiner: confiner().without_layers(),
        haft: env!("CARGO_BIN_EXE_haft").into(),
        state: state.to_owned(),
        grant: grant.clone(),
    }
}

impl Bed {
    pub(crate) async fn new(kind: &Kind) -> Self {
        Self::tried(kind).await.unwrap_or_else(|error| panic!("{}: {error}", kind.name))
    }

    pub(crate) async fn tried(kind: &Kind) -> Result<Self, BackendError> {
        let directory = tempfile::tempdir().unwrap();
        for name in ["state", "work"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let root = |path: PathBuf| Root::resolve(std::path::Path::new("/"), &path).unwrap();
        let work = root(directory.path().join("work"));
        // The folder of the pane's files, writable as in every program.
        let grant = Grant::none()
            .with_write(work.clone())
            .with_workspace(work)
            .with_write(root(std::env::temp_dir()));
        let grant =
            grant.with_read_anywhere().with_network(true).with_hidden(root(directory.path().join("state")));
        let host_context = host_context(&directory.path().join("state"), &grant);
        let backend = backend::connect(&kind.choice, &host_context).await?;
        let (cancel, events, kind) = (CancellationToken::new(), Events::none(), kind.clone());
        let written = Arc::default();
        Ok(Self { backend, grant, cancel, events, kind, host_context, directory, written })
    }

    /// A directory of this machine that commands may write to.
    pub(crate) fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    pub(crate) fn tmux_socket(&self) -> String {
        self.directory.path().join("state/tmux").to_str().unwrap().to_owned()
    }

    /// Runs tmux as a user on the target.
    pub(crate) fn person(&self, words: &[&str]) -> String {
        let own: Vec<String> = match &self.kind.choice.place {
            Place::Local => vec!["tmux".into(), "-S".into(), self.tmux_socket()],
            Place::Container { name, .. } => {
                ["podman", "exec", name, "tmux", "-L", "haft"].map(str::to_owned).into()
            }
            Place::Ssh { .. } => ["tmux", "-L", "haft"].map(str::to_owned).into(),
        };
        let words = own.into_iter().chain(words.iter().map(|word| (*word).to_owned()));
        run(&words.collect::<Vec<_>>())
    }

    pub(crate) fn session(&self) -> &str {
        self.kind.choice.session.as_deref().unwrap()
    }

    pub(crate) fn screen(&self) -> String {
        self.person(&["capture-pane", "-p", "-J", "-S", "-", "-t", self.session()])
    }

    pub(crate) async fn run_within(&self, command: &str, timeout: Duration) -> Result<Done, BackendError> {
        let (limits, notes, session) = (Limits::default(), Notes::default(), Session::default());
        let context = Context {
            grant: &self.grant,
            limits: &limits,
            events: &self.events,
            cancel: &self.cancel,
            notes: &notes,
            whole: &Whole::default(),
            client: Client::default(),
            caller: Caller::new(&session),
            approved: false,
        };
        let out = Arc::new(Bytes(Mutex::default(), self.written.clone()));
        let CommandOutcome { how, notices } =
            self.backend.run(command, timeout, out.clone(), &context).await?;
        let [output, errors] = out.0.lock().unwrap().clone();
        Ok(Done { how, output, errors, notices })
    }

    pub(crate) async fn run(&self, command: &str) -> Done {
        let done = self.run_within(command, HANG).await;
        done.unwrap_or_else(|error| panic!("{}: `{command}`: {error}", self.kind.name))
    }

    /// Whether a command has written `text` so far.
    pub(crate) fn has_written(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.written.lock().unwrap()).contains(text)
    }

    /// Calls a native tool on this backend.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<ToolResult, ToolError> {
        let tool = self.tool(name);
        let (limits, notes, session) = (Limits::default(), Notes::default(), Session::default());
        let context = Context {
            grant: &self.grant,
            limits: &limits,
            events: &self.events,
            cancel: &self.cancel,
            notes: &notes,
            whole: &Whole::default(),
            client: Client::default(),
            caller: Caller::new(&session),
            approved: false,
        };
        tool.call(&ToolCall { id: "call".into(), tool: name.into(), arguments }, &context).await
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let settings = haft::native::Settings { backend: Some(self.backend.clone()), ..Default::default() };
        let native = haft::native::NATIVE.iter().find(|native| native.name == name).unwrap();
        (native.build)(&settings).unwrap()
    }
}

/// Processes of this machine, also in containers, with this command line.
pub(crate) fn processes(words: &str) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| {
        let process = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some((process, String::from_utf8_lossy(&line).replace('\0', " ")))
    });
    // Equality, because the shell that starts the command contains its words too.
    lines.filter(|(_, line)| line.trim_end() == words).map(|(process, _)| process).collect()
}

/// Ends `sleep TIME` once it runs, so that its command continues; SIGPIPE, because shells print a message for other
/// signals.
pub(crate) async fn wake(time: &str) {
    let sleeping = format!("sleep {time}");
    let process = eventually_some(&sleeping, async || processes(&sleeping).pop()).await;
    kill_process(process, Signal::PIPE).unwrap();
}

/// A duration for `sleep` that no other process uses.
pub(crate) fn unusual() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("4711.{:05}{count:03}", std::process::id() % 100_000)
}
