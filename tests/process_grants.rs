//! Grants of MCP servers and commands: each process has its own rights and its own private directory, and the
//! proposed line for a refusal allows exactly the refused access.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

mod attempts;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use self::attempts::{ATTEMPTS, SECRET, SETUP};
use crate::cli::{Answer, Home};
use crate::common::same_environment;
use crate::common::wait::until;
use crate::confine::host::reachable;
use crate::serve::peer::Peer;

/// Only `bash` is enabled, so that haft compiles nothing.
const HEAD: &str = "[program]\nname = \"p\"\nversion = \"0.1.0\"\n\
                    [builtins]\nfiles = false\nfetch = false\nsearch = false\ntime = false\n";

/// A home with a program, and folders beside the workspace.
struct Stand {
    home: Home,
    /// The user id that runs haft, if the tests can choose it.
    user: Option<u32>,
}

impl Stand {
    fn new(user: Option<u32>) -> Self {
        let stand = Self { home: Home::new(), user };
        for folder in ["a-read", "a-write", "b-read", "b-write", "other"] {
            fs::create_dir(stand.place(folder)).unwrap();
            fs::write(stand.place(folder).join("file"), format!("{SECRET}\n")).unwrap();
        }
        let server = include_str!("process_grants/server.py");
        fs::write(stand.place("work/server.py"), server).unwrap();
        stand
    }

    fn place(&self, name: &str) -> PathBuf {
        self.home.work().parent().unwrap().join(name)
    }

    /// An entry of `[[mcp_servers]]` with these lines.
    fn server(&self, name: &str, lines: &str) -> String {
        let command = [python(), "./server.py".to_owned()];
        format!("[[mcp_servers]]\nname = \"{name}\"\ncommand = {command:?}\n{lines}\n")
    }

    fn program(&self, text: &str) {
        self.home.write("program.toml", &format!("{HEAD}{text}"));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(arguments);
        command.env("A_NOTE", SECRET).env("XDG_CACHE_HOME", self.place("cache"));
        match self.user {
            Some(user) => of_user(&command, &self.home, user),
            None => command,
        }
    }

    fn haft(&self, arguments: &[&str]) -> Answer {
        Answer::from(self.command(arguments).output().unwrap())
    }

    /// The answer of the server `server` to a command.
    fn sh(&self, server: &str, command: &str) -> Answer {
        self.haft(&["call", &format!("mcp__{server}__sh"), &json!({ "command": command }).to_string()])
    }
}

/// A command of haft in `home` as another user, who owns the home.
pub(crate) fn of_user(command: &Command, home: &Home, user: u32) -> Command {
    let place = home.work().parent().unwrap().to_owned();
    let mut reached = Command::new(reachable(command.get_program().into(), &place));
    give(&place, user);
    same_environment(command, &mut reached);
    reached.args(command.get_args()).current_dir(home.work()).stdin(Stdio::null());
    reached.uid(user).gid(user);
    reached
}

fn give(place: &Path, user: u32) {
    chown(place, Some(user), Some(user)).unwrap();
    if place.symlink_metadata().unwrap().is_dir() {
        fs::read_dir(place).unwrap().flatten().for_each(|entry| {
            if !entry.path().is_symlink() {
                give(&entry.path(), user);
            }
        });
    }
}

/// A Python that every user can run, if the system has one.
fn python() -> String {
    let system = "/usr/bin/python3";
    if Path::new(system).exists() { system } else { "python3" }.to_owned()
}

/// The mode, times and content of all files below a directory.
fn snapshot(directory: &Path) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let metadata = path.symlink_metadata().unwrap();
        let content = if metadata.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
        if metadata.is_dir() {
            found.extend(snapshot(&path));
        }
        found.insert(path, (metadata.mode(), metadata.mtime(), metadata.mtime_nsec(), content));
    }
    found
}

fn said(answer: &Value) -> String {
    answer["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// Makes all attempts as the server `b` against the running server `a`, and returns the attempts that succeed.
fn reached(stand: &Stand, arguments: &[&str]) -> Vec<&'static str> {
    let a = stand.server(
        "a",
        "[mcp_servers.grant]\nread = [\"../a-read\"]\nwrite = [\"../a-write\"]\nenv = [\"A_NOTE\"]\nstate = \"1MiB\"\n\
         services = [\"*\"]",
    );
    let b = stand.server("b", "[mcp_servers.grant]\nread = [\"../b-read\"]\nwrite = [\"../b-write\"]");
    stand.program(&format!("{a}{b}"));
    let arguments = [arguments, &["serve"]].concat();
    let mut peer = Peer::of(stand.command(&arguments));
    peer.initialize("2025-11-25", &json!({}));
    peer.notify("notifications/initialized", json!({}));
    let mut call = |server: &str, command: &str| {
        said(&peer.call(&format!("mcp__{server}__sh"), json!({ "command": command })))
    };
    let set_up = call("a", SETUP);
    let known: Value = set_up
        .lines()
        .find_map(|line| serde_json::from_str(line).ok())
        .unwrap_or_else(|| panic!("the first server did not begin: {set_up}"));
    let fill = |text: &str| {
        let own = [("AREAD", stand.place("a-read")), ("AWRITE", stand.place("a-write"))];
        let text = own.iter().fold(text.to_owned(), |text, (name, path)| {
            text.replace(&format!("@{name}@"), path.to_str().unwrap())
        });
        known
            .as_object()
            .unwrap()
            .iter()
            .fold(text, |text, (name, value)| text.replace(&format!("@{name}@"), value.as_str().unwrap()))
    };
    let private = PathBuf::from(known["HOME"].as_str().unwrap()).join("../..");
    let all = || (snapshot(&stand.place("a-read")), snapshot(&stand.place("a-write")), snapshot(&private));
    let mut reached = Vec::new();
    for attempt in ATTEMPTS {
        let before = all();
        // An error message names the path that it could not reach.
        let answer = call("b", &format!("({}) 2> /dev/null", fill(attempt)));
        if answer.contains(SECRET) || all() != before {
            reached.push(*attempt);
        }
    }
    reached
}

/// True if other users can reach the tests' directories and haft.
pub(crate) fn is_open_to_others() -> bool {
    let everybody =
        |path: &Path| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o001 != 0);
    let is_open = Home::new().work().ancestors().skip(2).all(everybody);
    if !is_open {
        eprintln!("SKIPPED: as another user: the tests' directories are closed to others");
    }
    is_open
}

/// Two servers with their own grants reach nothing of each other, as root and as a user. Without the sandbox at least
/// 40 attempts succeed, which proves that they are effective.
#[test]
fn no_server_reaches_what_another_one_has() {
    assert!(ATTEMPTS.len() >= 40);
    let is_root = rustix::process::geteuid().is_root();
    let users = if is_root && is_open_to_others() { vec![None, Some(61_234)] } else { vec![None] };
    for user in users {
        let held = reached(&Stand::new(user), &[]);
        assert!(held.is_empty(), "as {user:?}: {held:#?}");
    }
    let open = reached(&Stand::new(None), &["--unsafe-no-sandbox"]);
    // This file is in the shared memory of the machine.
    fs::remove_file("/dev/shm/secret-of-a").unwrap();
    let idle: Vec<_> = ATTEMPTS.iter().filter(|attempt| !open.contains(attempt)).collect();
    assert!(open.len() >= 40, "only {} reach anything without a sandbox; not: {idle:#?}", open.len());
}

/// The rights in `[sandbox]` apply to `bash` alone, and a grant applies to its own server or command alone.
#[test]
fn what_one_is_given_no_other_has() {
    let stand = Stand::new(None);
    fs::create_dir(stand.place(".ssh")).unwrap();
    fs::write(stand.place(".ssh/id"), SECRET).unwrap();
    let write = "../a-write";
    stand.program(&format!(
        "[sandbox]\nwrite = [\"../other\"]\ncredentials = [\"ssh\"]\nservices = [\"*\"]\n{}{}{}\
         [[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = \"touch\"\n\
         [[tools]]\nname = \"own\"\ndescription = \"d\"\ncommand = \"touch\"\n[tools.grant]\nwrite = [{write:?}]\n",
        stand.server("plain", ""),
        stand.server("granted", &format!("[mcp_servers.grant]\nwrite = [{write:?}]")),
        stand.server("net", "[mcp_servers.grant]\nhosts = [\"*\"]\ncredentials = [\"ssh\"]"),
    ));
    let place = |folder: &str| stand.place(folder).join("new").display().to_string();
    let touch = |folder: &str| format!("touch {}", place(folder));
    let bash = |folder: &str| stand.haft(&["call", "bash", &json!({ "command": touch(folder) }).to_string()]);
    let tool = |name: &str, folder: &str| {
        let arguments = json!({ "args": [place(folder)] }).to_string();
        stand.haft(&["call", &format!("program__p__{name}"), &arguments])
    };
    assert_eq!((bash("other").code, bash("a-write").code), (0, 1));
    assert_eq!((stand.sh("plain", &touch("other")).code, stand.sh("plain", &touch("a-write")).code), (1, 1));
    assert_eq!(
        (stand.sh("granted", &touch("a-write")).code, stand.sh("granted", &touch("other")).code),
        (0, 1)
    );
    assert_eq!((tool("t", "other").code, tool("t", "a-write").code), (1, 1));
    assert_eq!((tool("own", "a-write").code, tool("own", "other").code, tool("own", "work").code), (0, 1, 1));
    // A server without a grant can write in the workspace; a server with a grant needs that right in its grant.
    assert_eq!((stand.sh("plain", "touch new").code, stand.sh("granted", "touch new2").code), (0, 1));
    let read = format!("cat {}", stand.place(".ssh/id").display());
    for server in ["plain", "granted"] {
        let answer = stand.sh(server, &read);
        assert!(answer.code == 1 && !answer.stdout.contains(SECRET), "{server}: {}", answer.stdout);
    }
    for read in [read.as_str(), "cat ~/.ssh/id"] {
        assert!(stand.sh("net", read).stdout.contains(SECRET), "{read}");
    }
    let network = "grep -q : /proc/net/route || test $(wc -l < /proc/net/dev) -gt 3";
    let has = |server: &str| stand.sh(server, network).code == 0;
    assert!(has("plain") && has("net") && !has("granted"));
}

/// The line that a refusal proposes allows the refused access at the named place; `haft grant` does so too.
#[test]
fn the_proposed_line_alone_allows_it() {
    for is_granted in [false, true] {
        for kind in ["server", "command"] {
            for by_hand in [true, false] {
                let stand = Stand::new(None);
                let program = |line: &str| {
                    let grant = match (kind, is_granted) {
                        (_, false) => line.to_owned(),
                        ("server", true) => format!("[mcp_servers.grant]\nread = [\".\"]\n{line}"),
                        (_, true) => format!("[tools.grant]\nread = [\".\"]\n{line}"),
                    };
                    stand.program(&match kind {
                        "server" => stand.server("s", &grant),
                        _ => format!(
                            "[[tools]]\nname = \"s\"\ndescription = \"d\"\ncommand = \"touch\"\n{grant}\n"
                        ),
                    });
                };
                let new = stand.place("other").join("new");
                let call = || {
                    if kind == "server" {
                        stand.sh("s", &format!("touch {}", new.display()))
                    } else {
                        let arguments = json!({ "args": [new] }).to_string();
                        stand.haft(&["call", "program__p__s", &arguments])
                    }
                };
                program("");
                let refused = call();
                let name = format!("{kind}, granted: {is_granted}\n{}", refused.stderr);
                assert_eq!(refused.code, 1, "{name}");
                if by_hand {
                    let (_, line) = refused.stderr.split_once("to allow it, add `").expect(&name);
                    let list = if kind == "server" { "mcp_servers" } else { "tools" };
                    let place = if is_granted {
                        format!("` to `[{list}.grant]` of `s`")
                    } else {
                        format!("` to `s` in `[[{list}]]`")
                    };
                    let (line, _) = line.split_once(&place).expect(&name);
                    program(line);
                } else {
                    let right = format!("write={}", stand.place("other").display());
                    let written = stand.haft(&["grant", "s", &right]);
                    assert_eq!(written.code, 0, "{}", written.stderr);
                }
                let allowed = call();
                assert_eq!((allowed.code, new.exists()), (0, true), "{name}\nthen {}", allowed.stderr);
            }
        }
    }
}

/// `haft check` refuses keys that cannot apply to a process, with their place.
#[test]
fn a_grant_that_no_process_keeps_is_refused_at_its_place() {
    let stand = Stand::new(None);
    let tool = "[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = \"true\"\n";
    let http = "[[mcp_servers]]\nname = \"h\"\nurl = \"https://example.com/mcp\"\n";
    for (text, expected) in [
        (
            stand.server("s", "[mcp_servers.grant]\nhosts = [\"example.com\"]\nservices = [\"*\"]"),
            "mcp_servers.grant.services",
        ),
        (stand.server("s", "[mcp_servers.grant]\nhosts = [\"@none\"]"), "the sets are"),
        (stand.server("s", "[mcp_servers.grant]\ncache = \"1MiB\""), "mcp_servers.grant.cache"),
        ("[sandbox]\nnetwork = false\nhosts = [\"example.com\"]\n".to_owned(), "sandbox.network"),
        ("[sandbox]\nservices = [\"*\"]\nhosts = [\"example.com\"]\n".to_owned(), "sandbox.services"),
        ("[sandbox]\nmode = \"rwx\"\nhosts = [\"example.com\"]\n".to_owned(), "sandbox.hosts"),
        (format!("{http}[mcp_servers.grant]\nread = [\".\"]\n"), "mcp_servers.grant"),
        (format!("{http}[mcp_servers.limits]\nmemory = \"64MiB\"\n"), "mcp_servers.limits"),
        (format!("{tool}[tools.limits]\nstart = \"1s\"\n"), "start"),
    ] {
        stand.program(&text);
        let answer = stand.haft(&["check"]);
        assert!(answer.code != 0 && answer.stderr.contains(expected), "{text}: {}", answer.stderr);
    }
    stand.program(&stand.server("s", "[mcp_servers.grant]\nhosts = []"));
    let refused = stand.haft(&["grant", "s", "cache=1MiB"]);
    assert!(refused.code != 0 && refused.stderr.contains("its own caches"), "{}", refused.stderr);
}

/// The limits of memory and processes in an entry apply to its process.
#[test]
fn a_process_is_held_to_its_limits() {
    let is_root = rustix::process::geteuid().is_root();
    if is_root && !is_open_to_others() {
        return;
    }
    let stand = Stand::new(is_root.then_some(61_235));
    let limits = "[mcp_servers.limits]\nmemory = \"256MiB\"\nprocesses = 20\n";
    stand.program(&format!("{}{}", stand.server("held", limits), stand.server("free", "")));
    let python = python();
    let memory = format!("{python} -c 'len(bytearray(300 << 20))'");
    let many = format!(
        "{python} -c '\nimport subprocess\nall = []\ntry:\n    while len(all) < 30:\n        \
         all.append(subprocess.Popen([\"sleep\", \"60\"]))\nexcept OSError:\n    pass\nprint(len(all))\n\
         for one in all:\n    one.kill()\n'"
    );
    assert_eq!((stand.sh("free", &memory).code, stand.sh("held", &memory).code), (0, 1));
    assert!(stand.sh("held", &format!("{python} -c 'len(bytearray(100 << 20))'")).code == 0);
    let started = |server: &str| stand.sh(server, &many).stdout.trim().parse::<u32>().unwrap();
    assert_eq!(started("free"), 30);
    assert!((10..20).contains(&started("held")));
}

/// A server with `state` keeps its home, within the limit; a server with another command has another home.
#[test]
fn a_server_keeps_a_home_of_its_own() {
    let stand = Stand::new(None);
    let grant = "[mcp_servers.grant]\nstate = \"64KiB\"";
    stand.program(&stand.server("s", grant));
    let answer = stand.sh("s", "echo kept > ~/note; echo $HOME $TMPDIR; touch $TMPDIR/x");
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(stand.sh("s", "cat ~/note").stdout.contains("kept"));
    let home = PathBuf::from(answer.stdout.split_whitespace().next().unwrap());
    assert!(home.starts_with(stand.place(".local/share/haft/processes")), "{}", home.display());
    assert_eq!(home.join("../..").metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let elsewhere = stand.server("s", grant).replace("\"./server.py\"", "\"-I\", \"./server.py\"");
    stand.program(&elsewhere);
    assert_eq!(stand.sh("s", "cat ~/note").code, 1);
    stand.program(&stand.server("s", grant));
    assert_eq!(stand.sh("s", "head -c 100000 /dev/zero > ~/large").code, 0);
    let full = stand.sh("s", "true");
    assert!(full.code != 0 && full.stderr.contains("`state = \"64KiB\"`"), "{}", full.stderr);
    let bash = stand.haft(&[
        "call",
        "bash",
        &json!({ "command": format!("cat {}/note", home.display()) }).to_string(),
    ]);
    assert!(bash.code != 0 && !bash.stdout.contains("kept"), "{}", bash.stdout);
}

/// A running server is restarted with its new grant after a change of program.toml.
#[test]
fn a_server_whose_grant_changed_is_started_anew() {
    let stand = Stand::new(None);
    let other = stand.place("other").join("new");
    stand.program(&stand.server("s", "[mcp_servers.grant]\nread = [\".\"]"));
    let mut peer = Peer::of(stand.command(&["serve"]));
    peer.initialize("2025-11-25", &json!({}));
    peer.notify("notifications/initialized", json!({}));
    let mut sh =
        |server: &str, command: &str| peer.call(&format!("mcp__{server}__sh"), json!({ "command": command }));
    let touch = format!("touch {}", other.display());
    assert_eq!(sh("s", &touch)["isError"], true);
    let written = stand.haft(&["grant", "s", &format!("write={}", stand.place("other").display())]);
    assert_eq!(written.code, 0, "{}", written.stderr);
    until("the server has its new grant", || sh("s", &touch)["isError"] != true);
    assert!(other.exists());
}
