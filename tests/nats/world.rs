//! A NATS server with the users and permissions of the guide, workers as processes, and gates in this process.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use async_trait::async_trait;
use haft::call::{ToolCall, ToolResult};
use haft::manifest::NatsUrl;
use haft::program::{Machines, Options, Program};
use haft::tool::{Approvals, Approver, Decision, Question, Session};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::setup::{Prepared, Setup};
use crate::cli::Home;
use crate::common::wait::{ended, eventually, eventually_some, until};
use crate::workspace::confiner;

/// The variable with the path of the server.
const VARIABLE: &str = "HAFT_NATS_SERVER";

/// The program of gates and workers. `mark` adds its mark to a file with one write.
const PROGRAM: &str = r#"
[program]
name = "far"
version = "1.0.0"

[nats]
LOGIN

[sandbox]
mode = "rwx"
workspace = "."

[builtins]
on = { time = ["*"], files = ["*"] }

[[tools]]
name = "mark"
description = "Adds a mark."
command = ["sh", "-c", "echo $1 >> MARKS", "mark"]
grant = { read = ["."], write = ["OUT"] }
arguments = [{ name = "mark", description = "The mark." }]
on = ["eu"]

[[tools]]
name = "mark_us"
description = "Adds a mark."
command = ["sh", "-c", "echo $1 >> MARKS", "mark"]
grant = { read = ["."], write = ["OUT"] }
arguments = [{ name = "mark", description = "The mark." }]
on = ["us"]

[[tools]]
name = "slow"
description = "Adds a mark, and takes long."
command = ["sh", "-c", "echo $1 >> MARKS; echo $1; exec sleep 7777.7", "slow"]
grant = { read = ["."], write = ["OUT"] }
arguments = [{ name = "mark", description = "The mark." }]
on = ["eu"]

[[tools]]
name = "asked"
description = "Adds a mark, where a person approves."
command = ["sh", "-c", "echo $1 >> MARKS", "asked"]
grant = { read = ["."], write = ["OUT"] }
arguments = [{ name = "mark", description = "The mark." }]
confirm = true
on = ["eu"]
"#;

/// A role at the server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum As {
    Gate,
    Worker(&'static str),
}

/// A server, and the homes of its gates and workers.
pub(crate) struct World {
    pub(crate) server: Server,
    folder: tempfile::TempDir,
    prepared: Prepared,
    /// Additional text of program.toml; `OWN` in it is the folder of the machine.
    more: String,
    gate: Home,
    workers: std::sync::Mutex<Vec<(String, Home)>>,
}

/// A NATS server.
pub(crate) struct Server {
    program: PathBuf,
    config: PathBuf,
    port: u16,
    child: Option<Child>,
}

/// A worker's process; dropping kills it.
pub(crate) struct Worker {
    child: Child,
}

/// A gate in this process.
#[derive(Clone)]
pub(crate) struct Gate {
    program: Arc<Program>,
}

/// Approves every call.
struct Yes;

#[async_trait]
impl Approver for Yes {
    async fn ask(&self, _: &Question) -> Decision {
        Decision::Approved
    }
}

pub(crate) fn approved() -> Approvals {
    Approvals::by(Yes)
}

impl World {
    /// A server without workers; `None` and a message if no server program is available.
    pub(crate) fn start() -> Option<Self> {
        Self::with(Setup::Guide, "")
    }

    /// A server with the authentication of `setup`, for a program with `more`.
    pub(crate) fn with(setup: Setup, more: &str) -> Option<Self> {
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        let found = named.or_else(|| haft::lookup::find_on_path("nats-server"));
        let Some(program) = found else {
            eprintln!(
                "\nSKIPPED: no NATS server was started, since `{VARIABLE}` does not say where one is\n"
            );
            return None;
        };
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = folder.path().join("server.conf");
        let prepared = setup.prepare(port, folder.path());
        fs::write(&config, &prepared.configuration).unwrap();
        let mut server = Server { program, config, port, child: None };
        server.start();
        let (gate, workers, more) = (Home::new(), std::sync::Mutex::default(), more.to_owned());
        let world = Self { server, folder, prepared, more, gate, workers };
        world.settle(&world.gate, As::Gate);
        Some(world)
    }

    /// Writes the program and its login files to `home`.
    fn settle(&self, home: &Home, role: As) {
        let login = self.prepared.login(match role {
            As::Gate => "gate",
            As::Worker(name) => name,
        });
        let program = format!("{PROGRAM}{}", self.more.replace("OWN", home.work().to_str().unwrap()));
        let program = program.replace("LOGIN", &login.table);
        let program = self.with_marks(&program);
        home.write("program.toml", &program);
        for (file, text) in &login.files {
            home.write(file, text);
            fs::set_permissions(home.work().join(file), fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}:{}", self.prepared.address, self.server.port)
    }

    /// The program, loaded in this process.
    pub(crate) async fn program(&self, role: As, with_server: bool) -> Program {
        let home = match role {
            As::Gate => self.gate.work(),
            As::Worker(name) => self.folder(name),
        };
        let url: Option<NatsUrl> = with_server.then(|| self.url().parse().unwrap());
        let options = Options {
            trust: haft::program::Trust::Everything,
            program: Some(home.join("program.toml")),
            no_journal: true,
            confiner: Some(confiner()),
            machines: Machines::at(url),
            ..Options::default()
        };
        let program = Program::load(&options).await.unwrap();
        assert_eq!(program.report().is_none(), with_server, "{:?}", program.problems);
        program
    }

    pub(crate) async fn gate(&self) -> Gate {
        self.gate_as(As::Gate).await
    }

    pub(crate) async fn gate_as(&self, role: As) -> Gate {
        Gate { program: Arc::new(self.program(role, true).await) }
    }

    pub(crate) fn worker(&self, name: &'static str, arguments: &[&str]) -> Worker {
        self.worker_with(name, arguments, |_| ())
    }

    /// A worker, after `change` of its home.
    pub(crate) fn worker_with(
        &self,
        name: &'static str,
        arguments: &[&str],
        change: impl FnOnce(&Home),
    ) -> Worker {
        self.worker_in(name, arguments, &[], change)
    }

    /// A worker with additional environment variables.
    pub(crate) fn worker_in(
        &self,
        name: &'static str,
        arguments: &[&str],
        variables: &[(&str, &str)],
        change: impl FnOnce(&Home),
    ) -> Worker {
        let mut workers = self.workers.lock().unwrap();
        if !workers.iter().any(|(own, _)| own == name) {
            let home = Home::new();
            self.settle(&home, As::Worker(name));
            workers.push((name.to_owned(), home));
        }
        let (_, home) = workers.iter().find(|(own, _)| own == name).unwrap();
        change(home);
        let url = self.url();
        let words = [&["worker", "--nats", &url, "--name", name], arguments].concat();
        let variables = variables.iter().copied();
        Worker { child: home.command(&words).envs(variables).stdout(Stdio::null()).spawn().unwrap() }
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let workers = self.workers.lock().unwrap();
        workers.iter().find(|(own, _)| own == name).unwrap().1.work()
    }

    pub(crate) fn gate_home(&self) -> &Home {
        &self.gate
    }

    pub(crate) fn gate_folder(&self) -> PathBuf {
        self.gate.work()
    }

    /// haft in the gate's home, with the server's URL.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let url = self.url();
        self.gate.command(&[arguments, &["--nats", &url]].concat())
    }

    /// The output of `haft log`.
    pub(crate) fn log(&self) -> String {
        let output = self.command(&["log"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The file with the marks of calls, in a folder that the commands may write to.
    fn marks_file(&self) -> PathBuf {
        self.folder.path().join("out/marks")
    }

    /// The program with the paths of the marks.
    pub(crate) fn with_marks(&self, program: &str) -> String {
        let marks = self.marks_file();
        let folder = marks.parent().unwrap();
        program.replace("MARKS", marks.to_str().unwrap()).replace("OUT", folder.to_str().unwrap())
    }

    /// The line of `haft log` with `text`, once it exists.
    pub(crate) async fn until_logged(&self, text: &str) -> String {
        let line = async || self.log().lines().find(|line| line.contains(text)).map(str::to_owned);
        eventually_some(&format!("`{text}` is in a journal"), line).await
    }

    /// The number of messages ever sent to the object store, and its size in bytes; `None` without a store.
    pub(crate) async fn stored(&self) -> Option<(u64, u64)> {
        let options =
            async_nats::ConnectOptions::with_user_and_password("gate".into(), "gate-password".into());
        let client = options.custom_inbox_prefix("_INBOX.haft.gate").connect(self.url()).await.unwrap();
        let jetstream = async_nats::jetstream::new(client);
        let stream = jetstream.get_stream("OBJ_haft-payloads").await.ok()?;
        let state = &stream.cached_info().state;
        Some((state.last_sequence, state.bytes))
    }

    /// The subjects of the stored pieces, and all their bytes.
    pub(crate) async fn stored_pieces(&self) -> (Vec<String>, Vec<u8>) {
        let options =
            async_nats::ConnectOptions::with_user_and_password("gate".into(), "gate-password".into());
        let client = options.custom_inbox_prefix("_INBOX.haft.gate").connect(self.url()).await.unwrap();
        let stream = async_nats::jetstream::new(client).get_stream("OBJ_haft-payloads").await.unwrap();
        let (mut subjects, mut bytes) = (Vec::new(), Vec::new());
        for number in 1..=stream.cached_info().state.last_sequence {
            let Ok(message) = stream.get_raw_message(number).await else { continue };
            subjects.push(message.subject.to_string());
            bytes.extend_from_slice(&message.payload);
        }
        (subjects, bytes)
    }

    /// The exit status and standard error of a worker that ends by itself.
    pub(crate) fn worker_that_ends(
        &self,
        user: &'static str,
        arguments: &[&str],
        name: &[&str],
    ) -> (std::process::ExitStatus, String) {
        let home = Home::new();
        self.settle(&home, As::Worker(user));
        let (url, name) = (self.url(), if name.is_empty() { vec!["--name", user] } else { name.to_vec() });
        let output =
            home.command(&[&["worker", "--nats", &url], arguments, &name].concat()).output().unwrap();
        (output.status, String::from_utf8(output.stderr).unwrap())
    }

    /// The marks of calls, in order.
    pub(crate) fn marks(&self) -> Vec<String> {
        let text = fs::read_to_string(self.marks_file()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) async fn until_marked(&self, mark: &str) {
        eventually(mark, || self.marks().iter().any(|own| own == mark)).await;
    }

    /// Waits until no process of a worker's call sleeps.
    pub(crate) async fn until_no_sleep(&self, name: &str) {
        let folder = self.folder(name);
        eventually("what a call started is gone", || !sleeps(&folder)).await;
    }
}

/// Whether a process with the working folder `folder` sleeps.
pub(crate) fn sleeps(folder: &Path) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut own =
        processes.filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == folder));
    own.any(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.ends_with(b"7777.7\0")))
}

impl Server {
    pub(crate) fn start(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(&self.config).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        until("the NATS server starts", || std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = self.child.as_ref().unwrap().id().cast_signed();
        rustix::process::kill_process(rustix::process::Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Worker {
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends the worker with SIGTERM: its calls have ended afterwards.
    pub(crate) fn end(&mut self) {
        let id = rustix::process::Pid::from_raw(self.id().cast_signed()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        ended(&mut self.child);
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Gate {
    pub(crate) fn has(&self, tool: &str) -> bool {
        self.program.toolbox.find(tool).is_some()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        self.call_in(tool, arguments, &Session::default()).await
    }

    async fn call_in(&self, tool: &str, arguments: Value, session: &Session) -> ToolResult {
        let call = ToolCall { id: "test".into(), tool: tool.into(), arguments };
        self.program.toolbox.dispatch(call, session).await
    }

    pub(crate) fn spawn(&self, tool: &'static str, arguments: Value) -> JoinHandle<ToolResult> {
        self.spawn_in(tool, arguments, Session::default())
    }

    pub(crate) fn spawn_in(
        &self,
        tool: &'static str,
        arguments: Value,
        session: Session,
    ) -> JoinHandle<ToolResult> {
        let own = self.clone();
        tokio::spawn(async move { own.call_in(tool, arguments, &session).await })
    }

    /// Repeats the call until workers and server are available and answer it.
    pub(crate) async fn until_answered(&self, tool: &str, arguments: Value) -> ToolResult {
        let answered = async || {
            let answer = self.call(tool, arguments.clone()).await;
            assert!(!answer.is_error || answer.content.contains("can be repeated"), "{}", answer.content);
            (!answer.is_error).then_some(answer)
        };
        eventually_some("a call is answered", answered).await
    }
}
