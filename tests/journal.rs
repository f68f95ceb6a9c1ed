//! The journal after the fact: it contains every call and its outcome, for every way that haft can end, and `haft
//! log` shows it.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use haft::limit::KeptJournal;
use haft::program::{Options, Program};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::agent::fake::{Fake, calls, says};
use crate::common::wait::{eventually, until};
use crate::common::{cache, hostile};
use crate::workspace::confiner;

struct Home {
    directory: tempfile::TempDir,
}

struct Answer {
    stdout: String,
    stderr: String,
    code: Option<i32>,
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for folder in ["work", "tmp"] {
            fs::create_dir(directory.path().join(folder)).unwrap();
        }
        Self { directory }
    }

    /// A home with the hostile guest, whose time limit is half a second.
    fn with_program() -> Self {
        let home = Self::new();
        fs::write(
            home.path("work/program.toml"),
            format!(
                "[program]\nname = \"notes\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \".\"\n[[plugins]]\n\
                 name = \"guest\"\ncomponent = \"{}\"\n[plugins.limits]\ntime = \"500ms\"\n",
                hostile().display()
            ),
        )
        .unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn journal(&self) -> PathBuf {
        self.path("state/haft/journal")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command
            .args(arguments)
            .current_dir(self.path("work"))
            .env("HOME", self.directory.path())
            .env("HAFT_TRUST", "1")
            .env("TMPDIR", self.path("tmp"))
            .env("XDG_CACHE_HOME", cache())
            .env("XDG_STATE_HOME", self.path("state"))
            .env("TZ", "UTC")
            .env_remove("HAFT_LOG")
            .env_remove("HAFT_JOURNAL")
            .stdin(Stdio::null());
        command
    }

    fn haft(&self, arguments: &[&str]) -> Answer {
        answer(self.command(arguments).output().unwrap())
    }

    fn call(&self, tool: &str, arguments: &Value) -> Answer {
        self.haft(&["call", tool, &arguments.to_string()])
    }

    fn bash(&self, command: &str) -> Answer {
        self.call("bash", &json!({ "command": command }))
    }

    /// The records of `haft log --json`, with further options.
    fn log(&self, options: &[&str]) -> Vec<Value> {
        let answer = self.haft(&[&["--json", "log"], options].concat());
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Starts haft with a call that takes an hour, and waits until the call is recorded.
    fn busy(&self) -> Child {
        let sleep = json!({ "command": "sleep 3600" }).to_string();
        let child = self.command(&["call", "bash", &sleep]).stderr(Stdio::null()).spawn().unwrap();
        until("the call begins", || self.log(&[]).iter().any(|call| call["pid"] == child.id()));
        child
    }
}

fn answer(Output { stdout, stderr, status }: Output) -> Answer {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Answer { stdout: text(stdout), stderr: text(stderr), code: status.code() }
}

fn outcomes(calls: &[Value]) -> Vec<(&str, &str)> {
    calls.iter().map(|call| (call["tool"].as_str().unwrap(), call["outcome"].as_str().unwrap())).collect()
}

/// The journal records every call with its outcome, also calls that no tool received.
#[test]
fn every_call_is_noted_with_its_end() {
    let home = Home::with_program();
    home.bash("true");
    home.bash("echo broken >&2; exit 3");
    home.call("bash", &json!({ "comand": "x" }));
    home.call("no_such_tool", &json!({ "a": 1 }));
    home.call("guest__spin", &json!({}));
    home.call("guest__echo", &json!({ "text": "hello" }));
    home.call("guest__open", &json!({ "path": "/etc/passwd" }));
    let log = home.log(&[]);
    assert_eq!(
        outcomes(&log),
        [
            ("bash", "ok"),
            ("bash", "error"),
            ("bash", "invalid_arguments"),
            ("no_such_tool", "unknown_tool"),
            ("guest__spin", "timeout"),
            ("guest__echo", "ok"),
            ("guest__open", "refused"),
        ]
    );
    let bash = &log[1];
    assert_eq!(bash["arguments"]["command"], "echo broken >&2; exit 3");
    assert!(bash["error"].as_str().unwrap().contains("broken"));
    assert_eq!(bash["grant"]["workspace"], home.path("work").to_str().unwrap());
    assert_eq!(bash["program"]["name"], "notes");
    assert_eq!(bash["program"]["path"], home.path("work/program.toml").to_str().unwrap());
    let echo = &log[5];
    let digest = Sha256::digest(fs::read(hostile()).unwrap());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(echo["digest"], digest.as_str());
    assert!(echo["peak_memory"].as_u64().unwrap() >= 64 << 10, "{echo}");
    assert!(echo["duration_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(log[6]["decisions"], json!(["refused: read below `/etc`"]), "{}", log[6]);
    assert_eq!(log[6]["grant"], json!({}));
    assert!(log.iter().all(|call| call["haft"] == env!("CARGO_PKG_VERSION")));
}

/// The journal records a model's call that haft refuses.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_call_of_a_model_is_noted() {
    let fail = json!({ "command": "exit 1" }).to_string();
    let again = |id: &'static str| calls(&[(id, "bash", &fail)]);
    let fake = Fake::start([again("a"), again("b"), again("c"), again("d"), says("I give up")]).await;
    let home = Home::new();
    let url = fake.base_url();
    let log = tokio::task::spawn_blocking(move || {
        home.haft(&["run", "--base-url", &url, "--model", "fake", "try"]);
        home.log(&[])
    });
    let log = log.await.unwrap();
    assert_eq!(
        outcomes(&log),
        [("bash", "error"), ("bash", "error"), ("bash", "error"), ("bash", "refused")]
    );
    assert_eq!(log[3]["call"], "d");
}

/// Only the owner can read the journal.
#[test]
fn the_journal_is_the_person_s_alone() {
    let home = Home::new();
    home.bash("true");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.journal()), 0o700);
    assert_eq!(mode(&home.journal().join("journal.jsonl")), 0o600);
}

/// The journal records a call that haft did not survive, and a truncated line does not affect the next line.
#[test]
fn a_call_that_haft_did_not_survive_is_on_record() {
    let home = Home::new();
    let mut busy = home.busy();
    assert!(home.haft(&["log"]).stdout.contains("running"));
    busy.kill().unwrap();
    busy.wait().unwrap();
    // Simulates a kernel that stopped within a line.
    let current = home.journal().join("journal.jsonl");
    let mut text = fs::read(&current).unwrap();
    text.extend_from_slice(b"{\"v\":1,\"id\":\"0123");
    fs::write(&current, text).unwrap();
    home.bash("true");
    assert_eq!(outcomes(&home.log(&[])), [("bash", "ok"), ("bash", "started")]);
    let shown = home.haft(&["log", "--failed"]);
    assert!(shown.stdout.contains("unfinished") && shown.stdout.contains("sleep 3600"), "{}", shown.stdout);
    assert!(shown.stderr.contains("1 lines of the journal could not be read"), "{}", shown.stderr);
}

/// An interrupted call has the outcome `cancelled`.
#[test]
fn an_interrupted_call_is_noted_as_cancelled() {
    let home = Home::new();
    let mut busy = home.busy();
    let id = rustix::process::Pid::from_raw(i32::try_from(busy.id()).unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    assert_eq!(busy.wait().unwrap().code(), Some(130));
    assert_eq!(outcomes(&home.log(&[])), [("bash", "cancelled")]);
}

/// Concurrent writers of the journal neither lose nor mix records.
#[test]
fn several_processes_write_one_journal() {
    let home = Home::new();
    let long = "x".repeat(12_000);
    std::thread::scope(|scope| {
        for process in 0..6 {
            let (home, long) = (&home, &long);
            scope.spawn(move || {
                for round in 0..4 {
                    let answer =
                        home.call("no_such_tool", &json!({ "process": process, "round": round, "x": long }));
                    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
                }
            });
        }
    });
    let all = home.haft(&["--json", "log"]);
    assert_eq!((all.stdout.lines().count(), all.stderr.as_str()), (24, ""));
}

/// A journal that cannot be written does not stop calls, and haft reports the problem once.
#[test]
fn a_journal_that_cannot_be_written_stops_nothing() {
    let home = Home::new();
    fs::create_dir_all(home.path("state/haft")).unwrap();
    fs::write(home.path("state/haft/journal"), "in the way").unwrap();
    let answer = home.bash("echo done");
    assert_eq!((answer.stdout.as_str(), answer.code), ("done\n", Some(0)));
    assert_eq!(
        answer.stderr.matches("calls are not recorded in the journal `").count(),
        1,
        "{}",
        answer.stderr
    );
}

/// A full disk does not stop calls, and after a truncated line the next line is complete once the disk has room. The
/// test needs mount namespaces.
#[test]
fn a_full_disk_stops_nothing() {
    let home = Home::new();
    let own = ["--user", "--map-root-user", "--mount"];
    if !Command::new("unshare").args(own).arg("true").status().is_ok_and(|status| status.success()) {
        return eprintln!("no mounts here: nothing tested");
    }
    let script = r#"
        set -e
        mkdir -p "$XDG_STATE_HOME"; mount -t tmpfs -o size=24k none "$XDG_STATE_HOME"
        mkdir -p "$XDG_STATE_HOME/haft/journal"; chmod 700 "$XDG_STATE_HOME/haft/journal"
        head -c 15000 /dev/zero | tr '\0' '\n' >"$XDG_STATE_HOME/filler"
        long=$(head -c 6000 /dev/zero | tr '\0' x)
        for n in 1 2 3; do "$0" call bash "{\"command\": \"echo done $n # $long\"}"; done
        rm "$XDG_STATE_HOME/filler"
        "$0" call bash '{"command": "echo last"}'
        "$0" --json log
    "#;
    let mut command = home.command(&[]);
    let haft = command.get_program().to_owned();
    let mut shell = Command::new("unshare");
    for (name, value) in command.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        shell.env(name, value);
    }
    command.env_clear();
    shell.args(own).args(["sh", "-c", script]).arg(haft).current_dir(home.path("work"));
    let answer = answer(shell.output().unwrap());
    for done in ["done 1\n", "done 2\n", "done 3\n", "last\n"] {
        assert!(answer.stdout.contains(done), "{} {}", answer.stdout, answer.stderr);
    }
    assert!(answer.stderr.contains("calls are not recorded in the journal `"), "{}", answer.stderr);
    let last: Vec<&str> = answer.stdout.lines().filter(|line| line.contains("echo last")).collect();
    assert!(last.len() == 1 && last[0].contains("\"outcome\":\"ok\""), "{}", answer.stdout);
}

/// `--no-journal` and `HAFT_JOURNAL=off` disable the journal; another value of the variable is an error.
#[test]
fn no_journal_is_kept_only_where_a_person_says_so() {
    let home = Home::new();
    home.haft(&["--no-journal", "call", "time"]);
    let off =
        |value: &str| answer(home.command(&["call", "time"]).env("HAFT_JOURNAL", value).output().unwrap());
    assert_eq!(off("off").code, Some(0));
    assert!(!home.journal().exists());
    let wrong = off("no");
    assert_eq!((wrong.code, home.journal().exists()), (Some(5), false));
    assert!(wrong.stderr.contains("expected `on` or `off`"), "{}", wrong.stderr);
    let empty = home.haft(&["log"]);
    assert_eq!(empty.stdout, "");
    assert!(
        empty.stderr.contains("no calls in the journal yet; the journal does not list"),
        "{}",
        empty.stderr
    );
}

/// `haft log` shows the newest call last; options filter the calls; an id's prefix shows one call in detail.
#[test]
fn the_log_shows_what_is_asked_for() {
    let home = Home::with_program();
    for n in 0..4 {
        home.bash(&format!("exit {n}"));
    }
    home.call("time", &json!({}));
    let tools = |options: &[&str]| -> Vec<String> {
        home.log(options)
            .iter()
            .map(|call| call["arguments"]["command"].as_str().unwrap_or("time").into())
            .collect()
    };
    assert_eq!(tools(&[]), ["exit 0", "exit 1", "exit 2", "exit 3", "time"]);
    assert_eq!(tools(&["-n", "2"]), ["exit 3", "time"]);
    assert_eq!(tools(&["--tool", "b*", "-n", "1"]), ["exit 3"]);
    assert_eq!(tools(&["--failed"]), ["exit 1", "exit 2", "exit 3"]);
    assert_eq!(tools(&["--since", "1h"]).len(), 5);
    assert_eq!(tools(&["--since", "2100-01-01"]), Vec::<String>::new());
    assert_eq!(tools(&["-p", "notes"]).len(), 5);
    assert_eq!(tools(&["-p", "program.toml"]).len(), 5);
    assert_eq!(tools(&["-p", "other"]), Vec::<String>::new());
    let table = home.haft(&["log", "-n", "2"]);
    let lines: Vec<&str> = table.stdout.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("exit 3") && lines[1].contains("time"), "{}", table.stdout);
    assert!(!table.stdout.contains('\u{1b}'));
    let id = home.log(&["-n", "1"])[0]["id"].as_str().unwrap().to_owned();
    let detail = home.haft(&["log", &id[..8]]);
    for part in [id.as_str(), "sha256:", "notes (", "granted    nothing"] {
        assert!(detail.stdout.contains(part), "{part}: {}", detail.stdout);
    }
    assert_eq!(home.haft(&["log", "zzzz"]).code, Some(5));
    assert_eq!(home.haft(&["log", "--since", "once"]).code, Some(2));
}

/// `haft log -f` shows calls as they end.
#[test]
fn the_log_can_be_followed() {
    let home = Home::new();
    home.bash("echo before");
    let mut follower = home.command(&["--json", "log", "-f"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["arguments"]["command"], "echo before");
    home.bash("echo meanwhile");
    let meanwhile = next();
    assert_eq!(
        (&meanwhile["arguments"]["command"], &meanwhile["outcome"]),
        (&json!("echo meanwhile"), &json!("ok"))
    );
    follower.kill().unwrap();
    follower.wait().unwrap();
}

/// A call whose caller drops the future has the outcome `cancelled`.
#[tokio::test]
async fn a_dropped_call_is_noted_as_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let journal = haft::journal::open(
        &folder.path().join("journal"),
        haft::journal::Program::default(),
        KeptJournal::default(),
    );
    let options = Options {
        trust: haft::program::Trust::Everything,
        no_journal: true,
        confiner: Some(confiner()),
        ..Options::default()
    };
    let program = Program::load(&options).await.unwrap();
    let session = haft::tool::Session { journal, ..haft::tool::Session::default() };
    let call = haft::call::ToolCall {
        id: "1".into(),
        tool: "bash".into(),
        arguments: json!({ "command": "sleep 3600" }),
    };
    let noted = || -> Vec<_> {
        let calls = haft::journal::read(&folder.path().join("journal"));
        calls.into_iter().flatten().filter_map(Result::ok).collect()
    };
    tokio::select! {
        result = program.toolbox.dispatch(call, &session) => panic!("{}", result.content),
        () = eventually("the call is noted", || noted().len() == 1) => {}
    }
    let calls = noted();
    assert_eq!((calls.len(), calls[0].outcome), (1, haft::journal::Outcome::Cancelled));
}

/// U3: the journal has the answer of a call without secrets; `haft log ID` shows its first lines, and `-v` the whole
/// answer.
#[test]
fn a_call_is_noted_with_its_answer() {
    let home = Home::new();
    let program = "[program]\nname = \"a\"\nversion = \"1.0.0\"\n[provider]\nname = \"openai\"\nmodel = \"m\"\n\
                   api_key = { env = \"A_TOKEN\" }\n[sandbox]\nworkspace = \".\"\n";
    fs::write(home.path("work/program.toml"), program).unwrap();
    let call = |command: &str| {
        let arguments = json!({ "command": command }).to_string();
        home.command(&["call", "bash", &arguments]).env("A_TOKEN", "a-secret-4711-token").output().unwrap();
    };
    call("seq 1 40; echo '<a-secret-4711-token>'");
    call("seq 1 9999");
    let [first, second] = &home.log(&[])[..] else { panic!("two calls") };
    let answer = first["answer"].as_str().unwrap();
    assert!(answer.starts_with("1\n2\n") && answer.contains("40\n<***>"), "{answer}");
    assert!(!answer.contains("a-secret-4711-token"), "{answer}");
    let long = second["answer"].as_str().unwrap();
    assert!(long.len() <= 8000 && long.contains("output truncated") && long.contains("9999"), "{long}");
    let id = first["id"].as_str().unwrap();
    let shown = home.haft(&["log", id]).stdout;
    assert!(shown.contains("arguments  seq 1 40; echo '<***>'\n"), "{shown}");
    assert!(
        shown.contains("answer     1\n           2\n") && shown.contains("… 29 more lines (-v shows them)"),
        "{shown}"
    );
    let shown = home.haft(&["log", "-v", id]).stdout;
    assert!(shown.contains("\n           40\n") && !shown.contains("more lines"), "{shown}");
}

/// U3: `haft log` shows an edit as one line with counts, and `haft log ID` shows the changed lines.
#[test]
fn an_edit_is_noted_as_lines() {
    let home = Home::with_program();
    fs::write(home.path("work/plan.md"), "Buy milk\n").unwrap();
    home.call(
        "edit",
        &json!({ "file_path": "plan.md", "old_string": "Buy milk", "new_string": "Buy oat milk" }),
    );
    let row = home.haft(&["log"]).stdout;
    assert!(row.trim_end().ends_with("plan.md +1 -1"), "{row}");
    let shown = home.haft(&["log", home.log(&[])[0]["id"].as_str().unwrap()]).stdout;
    assert!(shown.contains("changes    - Buy milk\n           + Buy oat milk\n"), "{shown}");
}

/// U14: the columns of `haft log` are aligned for every tool name and outcome.
#[test]
fn columns_of_the_log_do_not_break() {
    let home = Home::with_program();
    home.bash("true");
    home.call("guest__fill_with_a_long_name", &json!({}));
    home.call("bash", &json!({ "comand": "x" }));
    let rows = home.haft(&["log"]).stdout;
    let ends: Vec<_> = rows.lines().map(|row| row.find(" ms ").unwrap()).collect();
    assert!(ends.len() == 3 && ends.iter().all(|end| *end == ends[0]), "{rows}");
}
