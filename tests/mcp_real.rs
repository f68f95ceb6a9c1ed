//! Third-party MCP servers through haft. `.ci/steps/mcp-servers` fetches them and passes their location; without that
//! step these tests report that they were skipped.

#![expect(clippy::disallowed_methods, reason = "these tests start haft, and a server to connect to")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use haft::event::{Event, Events};
use haft::program::{Ask, Options, Program};
use haft::tool::Session;
use serde_json::{Value, json};

use crate::agent::fake::{Fake, calls, says};
use crate::cli::Home;
use crate::common::wait::{until, within};
use crate::workspace::confiner;

/// The variable with the folder of the servers.
const VARIABLE: &str = "HAFT_MCP_SERVERS";
/// Number of calls of each server.
const CALLS: usize = 200;

/// The folder of the servers; prints `SKIPPED` if the variable is not set.
fn servers() -> Option<PathBuf> {
    let found = std::env::var_os(VARIABLE).map(PathBuf::from);
    if found.is_none() {
        eprintln!("\nSKIPPED: no real MCP server was called, since `{VARIABLE}` does not say where one is\n");
    }
    found
}

/// A program with all five servers, in a folder with a git repository.
fn home(bin: &Path) -> Home {
    let home = Home::new();
    let work = home.work();
    let git = |words: &[&str]| {
        let done = Command::new("git").args(words).current_dir(&work).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["init", "--quiet"]);
    home.write("note.txt", "4711\n");
    git(&["add", "note.txt"]);
    git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--message", "a note"]);
    home.write("program.toml", &program(bin, &work));
    home
}

fn program(bin: &Path, work: &Path) -> String {
    let node = bin.join("node");
    let server = |name: &str, words: &[&str], more: &str| {
        let script = format!("{}/mcp-server-{name}", bin.display());
        let mut command = vec![script];
        if ["everything", "filesystem", "memory"].contains(&name) {
            command.insert(0, node.display().to_string());
        }
        command.extend(words.iter().map(|word| (*word).to_owned()));
        format!("[[mcp_servers]]\nname = \"{name}\"\ncommand = {command:?}\n{more}\n")
    };
    let work = work.to_str().unwrap();
    [
        "[sandbox]\nworkspace = \".\"\n".to_owned(),
        server("everything", &["stdio"], ""),
        server("filesystem", &[work], ""),
        server("memory", &[], &format!("env = {{ MEMORY_FILE_PATH = \"{work}/memory.jsonl\" }}")),
        server("git", &["--repository", work], ""),
        server("time", &["--local-timezone", "UTC"], ""),
    ]
    .concat()
}

/// Loads the program of this test's home.
async fn load(home: &Home) -> Program {
    let options = Options {
        trust: haft::program::Trust::Everything,
        program: Some(home.work().join("program.toml")),
        ask: Ask::WhereUnknown,
        no_journal: true,
        pins_first_lists: true,
        confiner: Some(confiner()),
        ..Options::default()
    };
    Program::load(&options).await.unwrap()
}

/// A call of each server, with a text that its answer contains.
fn work_of(home: &Home) -> Vec<(&'static str, Value, &'static str)> {
    let note = home.work().join("note.txt");
    let repository = home.work();
    vec![
        ("mcp__everything__echo", json!({ "message": "hello" }), "Echo: hello"),
        ("mcp__filesystem__read_text_file", json!({ "path": note }), "4711"),
        ("mcp__memory__search_nodes", json!({ "query": "nothing" }), "entities"),
        ("mcp__git__git_log", json!({ "repo_path": repository }), "a note"),
        (
            "mcp__time__convert_time",
            json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" }),
            "21:00",
        ),
    ]
}

async fn call(program: &Program, session: &Session, tool: &str, arguments: &Value) -> (String, bool) {
    let call = haft::call::ToolCall { id: "1".into(), tool: tool.into(), arguments: arguments.clone() };
    let result = program.toolbox.dispatch(call, session).await;
    (result.content, result.is_error)
}

/// MC01, MC02: haft lists the tools of all servers, and each server answers 200 calls: 100 in sequence and 100 at
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_servers_answer_two_hundred_calls() {
    let Some(bin) = servers() else { return };
    let home = home(&bin);
    let begun = Instant::now();
    let program = load(&home).await;
    assert!(program.report().is_none(), "{:?}", program.problems);
    let names = program.toolbox.entries().filter(|entry| entry.def().name.starts_with("mcp__"));
    eprintln!("{} tools of 5 servers after {:?}", names.count(), begun.elapsed());
    let session = program.session("call", Events::none());
    for (tool, arguments, expected) in work_of(&home) {
        let begun = Instant::now();
        for _ in 0..CALLS / 2 {
            let (content, is_error) = call(&program, &session, tool, &arguments).await;
            assert!(!is_error && content.contains(expected), "{tool}: {content}");
        }
        let serial = begun.elapsed();
        let begun = Instant::now();
        let many = (0..CALLS / 2).map(|_| call(&program, &session, tool, &arguments));
        for (content, is_error) in futures_of(many).await {
            assert!(!is_error && content.contains(expected), "{tool}: {content}");
        }
        eprintln!(
            "{tool}: {} calls in {serial:?}, {} at once in {:?}",
            CALLS / 2,
            CALLS / 2,
            begun.elapsed()
        );
    }
    let begun = Instant::now();
    program.close().await;
    eprintln!("all five ended after {:?}", begun.elapsed());
}

/// Runs all futures at once.
async fn futures_of<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pending: Vec<_> = futures.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        pending.retain_mut(|future| match future.as_mut().poll(context) {
            std::task::Poll::Ready(value) => {
                done.push(value);
                false
            }
            std::task::Poll::Pending => true,
        });
        if pending.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}

/// MC09: if a real server is killed during a call, the call fails, and the next call succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_killed_in_a_call() {
    let Some(bin) = servers() else { return };
    let home = home(&bin);
    let program = load(&home).await;
    let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
    let session = program.session(
        "call",
        Events::to(move |event| {
            if matches!(event, Event::Progress { .. }) {
                let _ = sender.send(());
            }
        }),
    );
    let long = "mcp__everything__trigger-long-running-operation";
    let arguments = json!({ "duration": 600, "steps": 600 });
    let slow = call(&program, &session, long, &arguments);
    let kill = async {
        within("the call is under way", told.recv()).await.unwrap();
        let mark = format!("{}/mcp-server-everything", bin.display());
        let killed = processes(&mark, &home);
        assert!(!killed.is_empty());
        for process in killed {
            let process = rustix::process::Pid::from_raw(process).unwrap();
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
    };
    let ((content, is_error), ()) = tokio::join!(slow, kill);
    assert!(is_error && content.contains("has ended (signal: 9 (SIGKILL))"), "{content}");
    let (content, is_error) =
        call(&program, &session, "mcp__everything__echo", &json!({ "message": "again" })).await;
    assert!(!is_error && content.contains("Echo: again"), "{content}");
    program.close().await;
}

/// Processes with `mark` in their command line that work in the home's folder.
fn processes(mark: &str, home: &Home) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let folder = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(mark) && folder == home.work()
    };
    pids.filter(is).collect()
}

/// A server on loopback; ended when dropped.
struct OverHttp {
    child: Child,
    port: u16,
}

impl OverHttp {
    fn start(bin: &Path) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(bin.join("node"))
            .arg(bin.join("mcp-server-everything"))
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("the server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { child, port }
    }
}

impl Drop for OverHttp {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// MC01: a real server answers 200 calls over streamable HTTP; a call after the server's end is an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_over_http() {
    let Some(bin) = servers() else { return };
    let server = OverHttp::start(&bin);
    let home = Home::new();
    let url = format!("http://127.0.0.1:{}/mcp", server.port);
    home.write(
        "program.toml",
        &format!("[sandbox]\nworkspace = \".\"\n[[mcp_servers]]\nname = \"far\"\nurl = \"{url}\"\n"),
    );
    let program = load(&home).await;
    assert!(program.report().is_none(), "{:?}", program.problems);
    let session = program.session("call", Events::none());
    let begun = Instant::now();
    for number in 0..CALLS {
        let (content, _) =
            call(&program, &session, "mcp__far__echo", &json!({ "message": number.to_string() })).await;
        assert_eq!(content, format!("Echo: {number}"));
    }
    eprintln!("{CALLS} calls over HTTP in {:?}", begun.elapsed());
    drop(server);
    let (content, is_error) = call(&program, &session, "mcp__far__echo", &json!({ "message": "x" })).await;
    assert!(is_error, "{content}");
    program.close().await;
}

/// MC01: an agent uses the tools of two real servers, and passes the result of one to the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_uses_two_real_servers() {
    let Some(bin) = servers() else { return };
    let home = home(&bin);
    let read = json!({ "path": home.work().join("note.txt") }).to_string();
    let script = [
        calls(&[("call_1", "mcp__filesystem__read_text_file", &read)]),
        calls(&[("call_2", "mcp__everything__echo", r#"{"message":"the note says 4711"}"#)]),
        says("The note says 4711."),
    ];
    let fake = Fake::start(script).await;
    let base = fake.base_url();
    let answer = tokio::task::spawn_blocking(move || {
        home.haft(&[
            "run",
            "--base-url",
            &base,
            "--model",
            "m",
            "--tools",
            "mcp__*",
            "What does the note say?",
        ])
    });
    let answer = answer.await.unwrap();
    assert_eq!((answer.stdout.as_str(), answer.code), ("The note says 4711.\n", 0), "{}", answer.stderr);
    let conversation = fake.requests().pop().unwrap();
    let printed: Vec<_> = conversation["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect();
    assert!(printed[0].contains("4711") && printed[1].contains("Echo: the note says 4711"), "{printed:?}");
    fake.assert_done();
}
