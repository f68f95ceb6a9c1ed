//! U1, U2: tools work in the directory in which haft is run. A refusal of a command, a command tool or an MCP server
//! names the line of program.toml that allows the access.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::cli::{Answer, Home};
use crate::serve::peer::Peer;
use crate::workspace::confiner;
use haft::event::Events;
use haft::program::{Options, Program, Trust};
use haft::tool::{Approvals, Approver, Decision, Question, Session};

const HEAD: &str = "[program]\nname = \"p\"\nversion = \"0.1.0\"\n";

/// Common shell commands that the sandbox refuses, each with the lines that program.toml must have first and the key
/// that allows the command. `~/other` and `~/repo` exist beside the workspace.
const REFUSED: &[(&str, &str, &str)] = &[
    ("echo x > ~/other/new", "", "write"),
    ("echo x >> ~/other/old", "", "write"),
    ("touch ~/other/new", "", "write"),
    ("mkdir ~/other/new", "", "write"),
    ("mkdir -p ~/other/new/deep", "", "write"),
    ("rm ~/other/old", "", "write"),
    ("find ~/other/full -type f -delete", "", "write"),
    ("rmdir ~/other/empty", "", "write"),
    ("mv note ~/other/", "", "write"),
    ("mv ~/other/old here", "", "write"),
    ("mv ~/other/old ~/other/new", "", "write"),
    ("cp note ~/other/", "", "write"),
    ("cp -r folder ~/other/", "", "write"),
    ("install -m 600 note ~/other/", "", "write"),
    ("ln -s note ~/other/new", "", "write"),
    ("ln ~/other/old ~/other/new", "", "write"),
    ("sed -i s/a/b/ ~/other/old", "", "write"),
    ("echo x | tee ~/other/new", "", "write"),
    ("dd if=note of=~/other/new status=none", "", "write"),
    ("truncate -s 0 ~/other/old", "", "write"),
    ("chmod 600 ~/other/old", "", "write"),
    ("tar cf folder.tar folder && tar xf folder.tar -C ~/other", "", "write"),
    ("cd ~/other && touch new", "", "write"),
    ("ln -s ~/other way; touch way/new", "", "write"),
    ("diff -u note folder/b | patch -s ~/other/old", "", "write"),
    ("python3 -c 'open(\"../other/new\", \"w\")'", "", "write"),
    ("python3 -c 'import os; os.makedirs(\"../other/new/deep\")'", "", "write"),
    (
        "python3 -c 'import sqlite3; sqlite3.connect(\"../other/new\").execute(\"create table t(a)\")'",
        "",
        "write",
    ),
    ("git init -q ~/other/new", "", "write"),
    ("git clone -q ~/repo ~/other/new", "", "write"),
    ("git -C ~/repo commit -q --allow-empty -m more", "", "write"),
    ("git -C ~/repo tag new", "", "write"),
    ("git config user.name me", "", "write"),
    ("echo x > .vscode/settings.json", "", "write"),
    ("cat ~/.ssh/id", "", "credentials"),
    ("cat ~/.aws/credentials", "", "credentials"),
    ("cat ~/.netrc", "", "credentials"),
    ("cat ~/other/old", "read = [\"/usr\", \"/bin\", \"/lib\", \"/lib64\", \"/etc\"]", "read"),
    ("exec 3<>/dev/tcp/127.0.0.1/PORT && head -n 1 <&3", "network = false", "network"),
    (
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", PORT))'",
        "network = false",
        "network",
    ),
];

struct Stand {
    home: Home,
    port: u16,
}

impl Stand {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = stream.unwrap().write_all(b"hello\n");
            }
        });
        let stand = Self { home: Home::new(), port };
        for folder in ["other/full", "other/empty", ".ssh", ".aws", "work/folder", "work/.vscode"] {
            fs::create_dir_all(stand.place(folder)).unwrap();
        }
        for file in [
            "other/old",
            "other/full/a",
            ".ssh/id",
            ".aws/credentials",
            ".netrc",
            "work/note",
            "work/folder/a",
        ] {
            fs::write(stand.place(file), "a\n").unwrap();
        }
        fs::write(stand.place("work/folder/b"), "b\n").unwrap();
        for folder in ["work", "repo"] {
            git(&stand.place(folder));
        }
        fs::write(stand.place("work/.vscode/settings.json"), "{}").unwrap();
        stand
    }

    fn place(&self, name: &str) -> PathBuf {
        self.home.work().parent().unwrap().join(name)
    }

    /// Calls `bash` with these lines in `[sandbox]` of program.toml.
    fn bash(&self, sandbox: &[&str], command: &str) -> Answer {
        self.home.write("program.toml", &format!("{HEAD}[sandbox]\n{}\n", sandbox.join("\n")));
        let command = command.replace("PORT", &self.port.to_string());
        self.home.haft(&["call", "bash", &json!({ "command": command }).to_string()])
    }

    /// The outcome of the last call in the journal.
    fn outcome(&self) -> Value {
        let listed = self.home.haft(&["log", "--json", "-n", "1"]);
        let line: Value = serde_json::from_str(listed.stdout.lines().next().unwrap()).unwrap();
        line["outcome"].clone()
    }
}

#[expect(clippy::disallowed_methods, reason = "prepares what the test is about")]
fn git(folder: &std::path::Path) {
    let script = "git init -q && git config user.name a && git config user.email a@b.c && git commit -q --allow-empty -m a";
    fs::create_dir_all(folder).unwrap();
    let done = Command::new("sh").args(["-c", script]).current_dir(folder).status().unwrap();
    assert!(done.success());
}

/// The lines that hints propose for `[sandbox]`: the text in backquotes after `add` or `set`.
fn proposed(answer: &str) -> Vec<String> {
    let hints = answer.lines().filter(|line| line.starts_with("hint: "));
    let lines = hints.filter_map(|hint| {
        let (_, rest) = hint.split_once("add `").or_else(|| hint.split_once("set `"))?;
        Some(
            rest.split_once("` to `[sandbox]`").or_else(|| rest.split_once("` in `[sandbox]`"))?.0.to_owned(),
        )
    });
    lines.collect()
}

/// U2: each of forty refused commands is recorded as refused, with one proposed line, and that line alone allows the
/// command.
#[test]
fn what_is_refused_names_the_line_that_allows_it() {
    let mut wrong = Vec::new();
    for (command, first, key) in REFUSED {
        let stand = Stand::new();
        let answer = stand.bash(&[first], command);
        let lines = proposed(&answer.stderr);
        let told = (answer.code, stand.outcome(), lines.len());
        if told != (1, json!("refused"), 1) || !lines[0].starts_with(key) {
            wrong.push(format!("{command}: {told:?}\n{}", answer.stderr));
            continue;
        }
        // A second line `network` would be a duplicate key.
        let first = if *key == "network" { "" } else { *first };
        let (merged, line) = match first.strip_suffix(']').filter(|_| *key == "read") {
            Some(listed) => (format!("{listed}, {}", lines[0].trim_start_matches("read = [")), ""),
            None => (first.to_owned(), lines[0].as_str()),
        };
        let allowed = stand.bash(&[&merged, line], command);
        if allowed.code != 0 {
            wrong.push(format!("{command} with {lines:?}: {}", allowed.stderr));
        }
    }
    assert_eq!(REFUSED.len(), 40);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// U2: a command that succeeds despite a refusal, or that fails for another reason, gets no hint.
#[test]
fn what_was_not_refused_is_not_told() {
    let stand = Stand::new();
    for command in [
        "touch ~/other/new || true",
        "cat missing",
        "mkdir folder",
        "mkdir -p ~/other && false",
        "false",
        "python3 -c 1/0",
    ] {
        let answer = stand.bash(&[], command);
        assert!(!answer.stderr.contains("hint"), "{command}: {}", answer.stderr);
    }
}

/// U2: refusals of a command tool and of an MCP server propose the line in identical words.
#[test]
fn commands_and_servers_are_told_alike() {
    let stand = Stand::new();
    let inner = stand.place("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(stand.place("work/inner.toml"), HEAD).unwrap();
    let haft = env!("CARGO_BIN_EXE_haft");
    let tools = format!(
        "[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"touch\", {:?}]\n\
         [[mcp_servers]]\nname = \"s\"\ncommand = [{haft:?}, \"--unsafe-no-sandbox\", \"-p\", \"inner.toml\", \"serve\"]\n\
         env = {{ HAFT_TRUST = \"1\" }}\n",
        stand.place("other/new"),
    );
    stand.home.write("program.toml", &format!("{HEAD}{tools}"));
    let other = stand.place("other");
    let line =
        format!("add `grant = {{ read = [\"/\"], write = [\".\", {other:?}], hosts = [\"*\"] }}` to `");
    let write = json!({ "command": format!("touch {}", stand.place("other/new").display()) });
    for (tool, arguments) in [("program__p__t", json!({})), ("mcp__s__bash", write)] {
        let answer = stand.home.haft(&["call", tool, &arguments.to_string()]);
        assert!(answer.code == 1 && answer.stderr.contains(&line), "{tool}: {}", answer.stderr);
        assert_eq!(stand.outcome(), "refused", "{tool}");
    }
}

/// U2: a server whose tool opens a file for writing.
const WRITER: &str = r#"
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if asked["method"] == "tools/list":
        result = {"tools": [{"name": "write", "inputSchema": {"type": "object"}}]}
    if asked["method"] == "tools/call":
        try:
            open(asked["params"]["arguments"]["path"], "w")
            result = {"content": [{"type": "text", "text": "written"}]}
        except OSError:
            result = {"isError": True, "content": [{"type": "text", "text": "failed"}]}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"#;

/// U2: every answer of a server includes its refusal, also on a busy machine, although haft reads answers and
/// refusals from different sockets.
#[test]
fn no_answer_of_a_server_is_ahead_of_its_refusal() {
    let stand = Stand::new();
    stand.home.write("writer.py", WRITER);
    let server = "[[mcp_servers]]\nname = \"s\"\ncommand = [\"python3\", \"writer.py\"]\n[mcp_servers.grant]\nread = [\".\"]\n";
    stand.home.write("program.toml", &format!("{HEAD}{server}"));
    let mut peer = Peer::of(stand.home.command(&["serve"]));
    peer.initialize("2025-11-25", &json!({}));
    let is_over = Arc::new(AtomicBool::new(false));
    let busy = 4 * thread::available_parallelism().map_or(2, usize::from);
    for _ in 0..busy {
        let is_over = is_over.clone();
        thread::spawn(move || while !is_over.load(Ordering::Relaxed) {});
    }
    let answers: Vec<String> = (0..30)
        .map(|at| peer.call("mcp__s__write", json!({ "path": stand.place(&format!("other/{at}")) })))
        .map(|answer| answer.to_string())
        .collect();
    is_over.store(true, Ordering::Relaxed);
    for (at, answer) in answers.iter().enumerate() {
        let path = stand.place(&format!("other/{at}")).display().to_string();
        assert!(answer.contains(&format!("the sandbox refused to write `{path}`")), "{at}: {answers:?}");
    }
}

/// U2: the description of `bash` names the writable places and the network access.
#[test]
fn bash_says_what_it_reaches() {
    let stand = Stand::new();
    stand.home.write("program.toml", &format!("{HEAD}[sandbox]\nwrite = [\"~/other\"]\nnetwork = false\n"));
    let listed = stand.home.haft(&["tools", "--json"]).stdout;
    let expected = "Files can be written only in these places: the workspace, `~/.haft`, the directory for \
                    temporary files, `~/other`; there is no network.";
    assert!(listed.contains(expected), "{listed}");
}

/// U1: without a program.toml tools work in the current folder, with a program.toml in its folder. A home directory
/// is readable and not writable.
#[test]
fn tools_work_where_haft_is_run() {
    let stand = Stand::new();
    let haft = |folder: &str, arguments: &[&str]| {
        let mut command = stand.home.command(arguments);
        Answer::from(command.current_dir(stand.place(folder)).output().unwrap())
    };
    let list = ["call", "bash", r#"{"command": "ls; touch made"}"#];
    assert_eq!(haft("other", &list).stdout, "empty\nfull\nold\n");
    assert!(stand.place("other/made").exists());
    let home = haft("", &list);
    assert!(home.stderr.contains("other\n") && home.stderr.contains("Read-only"), "{}", home.stderr);
    stand.home.write("program.toml", HEAD);
    let elsewhere = [&["-p", "../work/program.toml"], &list[..]].concat();
    assert_eq!(haft("other", &elsewhere).stdout, "folder\nnote\nprogram.toml\n");
    let read = ["call", "read", r#"{"file_path": "old"}"#];
    assert_eq!(haft("other", &read).stdout, "a\n");
}

/// U2: a person at the terminal can allow a refused access once, and haft repeats the call; a no keeps the refusal.
#[test]
fn a_person_gives_what_was_refused() {
    let stand = Stand::new();
    let call = ["call", "bash", r#"{"command": "touch ~/other/new && echo did it"}"#];
    let Some(declined) = stand.home.at_a_terminal(&call, "n\n") else { return };
    assert!(
        declined.contains("for `bash`, and repeat the refused call: touch")
            && declined.contains("the sandbox refused"),
        "{declined}"
    );
    assert!(!stand.place("other/new").exists());
    let given = stand.home.at_a_terminal(&call, "y\n").unwrap();
    assert!(given.contains("did it") && stand.place("other/new").exists(), "{given}");
    assert_eq!(stand.outcome(), "ok");
    // A written right also applies to later calls without a person.
    let call = ["call", "bash", r#"{"command": "touch ~/repo/new && echo did it"}"#];
    let written = stand.home.at_a_terminal(&call, "w\n").unwrap();
    assert!(written.contains("`haft grant bash write=") && written.contains("did it"), "{written}");
    let program = fs::read_to_string(stand.home.work().join("program.toml")).unwrap();
    assert!(program.contains("repo\"]"), "{program}");
    let call = ["call", "bash", r#"{"command": "touch ~/repo/later"}"#];
    assert!(stand.home.haft(&call).code == 0 && stand.place("repo/later").exists());
    // haft does not ask for an access that no line can allow.
    stand.home.write("program.toml", HEAD);
    let own = stand.home.at_a_terminal(&["call", "bash", r#"{"command": "echo >> program.toml"}"#], "y\n");
    let own = own.unwrap();
    assert!(!own.contains("Allow:") && own.contains("sets the tools' rights: no tool may write it"), "{own}");
}

/// U2: a person can also allow a host that was refused to a process with single hosts.
#[test]
fn a_person_gives_a_refused_host() {
    let stand = Stand::new();
    stand.home.write("program.toml", &format!("{HEAD}[sandbox]\nhosts = [\"127.0.0.1:1\"]\n"));
    let (host, line) = (
        format!("127.0.0.1:{}", stand.port),
        format!("exec 3<>/dev/tcp/127.0.0.1/{} && head -n 1 <&3", stand.port),
    );
    let arguments = json!({ "command": line }).to_string();
    let call = ["call", "bash", arguments.as_str()];
    let nobody = stand.home.haft(&call);
    let hint = format!("add `hosts = [\"{host}\"]` to `[sandbox]`");
    assert!(nobody.code == 1 && nobody.stderr.contains(&hint), "{}", nobody.stderr);
    let Some(declined) = stand.home.at_a_terminal(&call, "n\n") else { return };
    let is_declined = declined.contains(&format!("host={host}")) && !declined.contains("\nhello");
    assert!(is_declined, "{declined}");
    let given = stand.home.at_a_terminal(&call, "y\n").unwrap();
    assert!(given.contains("hello"), "{given}");
    assert_eq!(stand.home.haft(&call).code, 1);
    let written = stand.home.at_a_terminal(&call, "w\n").unwrap();
    assert!(written.contains("hello"), "{written}");
    let program = fs::read_to_string(stand.home.work().join("program.toml")).unwrap();
    assert!(program.contains(&format!("hosts = [\"127.0.0.1:1\", \"{host}\"]")), "{program}");
    assert_eq!(stand.home.haft(&call).code, 0);
}

/// Gives the decision and counts the questions.
struct Giver(Decision, Arc<AtomicUsize>);

#[async_trait::async_trait]
impl Approver for Giver {
    async fn ask(&self, question: &Question) -> Decision {
        assert_eq!(question.verb, "Allow");
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.clone()
    }
}

/// U2: haft asks once in a session for a right, whether it is allowed or declined. Start-up files and haft's own
/// files stay blocked in an allowed directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_for_the_session_is_asked_for_once() {
    let (stand, outside) = (Stand::new(), crate::common::outside());
    stand.home.write("program.toml", HEAD);
    let options = Options {
        trust: Trust::Everything,
        program: Some(stand.home.work().join("program.toml")),
        no_journal: true,
        confiner: Some(confiner()),
        ..Options::default()
    };
    let program = Program::load(&options).await.unwrap();
    git(&outside.path().join("repo"));
    for (decision, works) in [(Decision::Always, true), (Decision::Denied, false)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let approvals = Approvals::by(Giver(decision, asked.clone()));
        let session =
            Session { approvals, widening: program.widening(), ..program.session("call", Events::none()) };
        let call = |command: String| {
            let arguments = json!({ "command": command });
            let call = haft::call::ToolCall { id: "1".into(), tool: "bash".into(), arguments };
            program.toolbox.dispatch(call, &session)
        };
        let repository = outside.path().join("repo").display().to_string();
        for name in ["a", "b"] {
            let result = call(format!("touch {repository}/{name}")).await;
            assert_eq!(!result.is_error, works, "{}", result.content);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let hook = call(format!("echo > {repository}/.git/config")).await;
        assert!(hook.is_error, "{}", hook.content);
        // The decision does not apply to an agent, whose tools have equal names.
        let agent = Session { lineage: session.lineage.within("reader", None), ..session.clone() };
        let arguments = json!({ "command": format!("touch {repository}/by-agent") });
        let by_agent = haft::call::ToolCall { id: "3".into(), tool: "bash".into(), arguments };
        let by_agent = program.toolbox.dispatch(by_agent, &agent).await;
        assert!(by_agent.is_error && !stand.place("repo/by-agent").exists(), "{}", by_agent.content);
        // The decision does not apply in plan mode.
        let arguments = json!({ "command": format!("touch {repository}/planned") });
        let before = asked.load(Ordering::Relaxed);
        let planned = haft::call::ToolCall { id: "2".into(), tool: "bash".into(), arguments };
        let planned = program.toolbox.planning().dispatch(planned, &session).await;
        assert!(planned.is_error && !stand.place("repo/planned").exists(), "{}", planned.content);
        assert_eq!(asked.load(Ordering::Relaxed), before);
    }
}

/// M1: the caches of package managers are separate for each workspace and each server, and the person's own caches
/// are not writable.
#[test]
fn caches_are_one_workspace_s_or_one_server_s() {
    let stand = Stand::new();
    let server =
        "[[mcp_servers]]\nname = \"s\"\ncommand = [\"sh\", \"-c\", \"echo $npm_config_cache > server\"]\n";
    stand.home.write("program.toml", &format!("{HEAD}{server}"));
    let bash = |command: &str| stand.home.haft(&["call", "bash", &json!({ "command": command }).to_string()]);
    stand.home.haft(&["call", "mcp__s__none", "{}"]);
    let wrote = bash(
        "mkdir -p $npm_config_cache $CARGO_HOME && touch $npm_config_cache/mine && echo $npm_config_cache",
    );
    assert_eq!(wrote.code, 0, "{}", wrote.stderr);
    let (own, of_server) =
        (PathBuf::from(wrote.stdout.trim()), fs::read_to_string(stand.place("work/server")));
    let of_server = PathBuf::from(of_server.unwrap().trim());
    assert!(own.join("mine").exists() && own != of_server, "{own:?} {of_server:?}");
    let elsewhere = bash(&format!("touch {}", of_server.parent().unwrap().join("npm").display()));
    assert_eq!(elsewhere.code, 1, "{}", elsewhere.stderr);
    fs::create_dir(stand.place(".npm")).unwrap();
    assert_eq!(bash("touch ~/.npm/mine").code, 1);
    // Another folder has other caches; with mode `rwx` the person's own caches apply.
    let mut other = stand.home.command(&["call", "bash", r#"{"command": "echo $npm_config_cache"}"#]);
    let other = Answer::from(other.current_dir(stand.place("other")).output().unwrap());
    assert_ne!(PathBuf::from(other.stdout.trim()), own);
    stand.home.write("program.toml", &format!("{HEAD}[sandbox]\nmode = \"rwx\"\n"));
    assert_eq!(bash("echo .$npm_config_cache").stdout, ".\n");
}
