//! haft among its children: killed, started by its own child, and with a terminal.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use haft::grant::{Root, SandboxMode};
use haft::native::bash::Bash;
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cases::Off;
use super::host::{command, confiner_by};
use super::is_free;
use crate::common::HANG;
use crate::common::wait::eventually;
use crate::workspace::Workspace;

const HAFT: &str = env!("CARGO_BIN_EXE_haft");

/// The variables with the folder of the process to kill, and with its disabled layers.
const PLACE: &str = "HAFT_SUITE_PLACE";
const OFF: &str = "HAFT_SUITE_OFF";

/// Processes of every kind; each would write a file later.
const BROOD: &str = r#"
    later() { exec 9>"$1.held"; flock -s 9; trap '' TERM HUP INT; touch "$1.begun"; sleep 3600; touch "$1.late"; }
    export -f later
    later child &
    setsid bash -c 'later session' >/dev/null 2>&1 </dev/null &
    (setsid bash -c 'later orphan' &)
    later itself
"#;

/// TE14: after haft was killed with SIGKILL, no process of a call and no waiting helper runs.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_haft() {
    if let Some(place) = std::env::var_os(PLACE) {
        return be_killed(Path::new(&place)).await;
    }
    let places = [Off::NOTHING, Off::NAMESPACES].map(|off| {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // A separate name identifies its processes. The system may refuse a link to another user's file
        // (`fs.protected_hardlinks`).
        let helper = place.path().join("helper");
        fs::hard_link(HAFT, &helper).or_else(|_| fs::copy(HAFT, &helper).map(drop)).unwrap();
        let mut again = command(std::env::current_exe().unwrap());
        again.args(["--exact", "confine::lifetime::nothing_survives_haft"]);
        // Its temporary files remain.
        again.env("TMPDIR", place.path());
        again.env(PLACE, place.path()).env(OFF, off.to_string()).stdout(Stdio::null());
        assert_eq!(again.status().unwrap().signal(), Some(9));
        place
    });
    for place in &places {
        let work = place.path().join("work");
        assert_eq!(ending(&work, ".begun").len(), 4);
        let helpers: Vec<Process> =
            serde_json::from_slice(&fs::read(place.path().join("helpers")).unwrap()).unwrap();
        eventually("nothing is alive", || alive(place.path()).is_empty()).await;
        let held = ending(&work, ".held");
        assert_eq!(held.len(), 4);
        eventually("nothing of a call is alive", || held.iter().all(|name| is_free(&work.join(name)))).await;
        eventually("no helper is alive", || helpers.iter().all(|helper| !helper.is_alive())).await;
    }
    for place in places {
        assert_eq!(ending(&place.path().join("work"), ".late"), [""; 0]);
    }
}

/// The process to kill.
async fn be_killed(place: &Path) {
    let work = place.join("work");
    fs::create_dir(&work).unwrap();
    let root = Root::resolve(Path::new("/"), &work).unwrap();
    let mut workspace = Workspace::unheard();
    workspace.grant = haft::grant::Grant::sandbox(SandboxMode::Sandbox, root, []);
    let off = Off::parse(&std::env::var(OFF).unwrap());
    let confiner = confiner_by(place.join("helper"), off);
    let bash = Bash::new(confiner.clone(), HANG);
    tokio::select! {
        result = workspace.call(&bash, json!({"command": BROOD})) => panic!("{result:?}"),
        () = eventually("all have begun", || ending(&work, ".begun").len() == 4) => {}
    }
    let own = getpid().as_raw_nonzero().get();
    eventually("the call is over", || Process::below(own).is_empty()).await;
    confiner.keep_ready(&workspace.grant);
    // A helper is one process, or several in its namespaces: wait until the number is stable.
    let started = AtomicUsize::new(0);
    eventually("a helper waits", || {
        let now = Process::below(own).len();
        started.swap(now, Ordering::Relaxed) == now && now > 0
    })
    .await;
    fs::write(place.join("helpers"), serde_json::to_vec(&Process::below(own)).unwrap()).unwrap();
    kill_process(getpid(), Signal::KILL).unwrap();
}

/// A process, by its public data. These do not include the program of a helper with namespaces, not even for its
/// user.
#[derive(Clone, Serialize, Deserialize)]
struct Process {
    id: i32,
    parent: i32,
    /// In clock ticks since the start of the machine, to distinguish a later process with the same id.
    started: u64,
}

impl Process {
    /// Reads `/proc/PID/stat`, as in `proc_pid_stat(5)`; `None` for an ended process.
    fn read(id: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let process = Self { id, parent: fields[1].parse().ok()?, started: fields[19].parse().ok()? };
        (!["Z", "X"].contains(&fields[0])).then_some(process)
    }

    /// The descendants of the process `ancestor`.
    fn below(ancestor: i32) -> Vec<Self> {
        let entries = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
        let mut others: Vec<Self> =
            entries.filter_map(|name| Self::read(name.to_str()?.parse().ok()?)).collect();
        let mut found: Vec<Self> = Vec::new();
        let mut parents = vec![ancestor];
        while let Some(parent) = parents.pop() {
            let (children, rest) = others.into_iter().partition(|process| process.parent == parent);
            others = rest;
            found.extend::<Vec<Self>>(children);
            parents.extend(found.iter().filter(|child| child.parent == parent).map(|child| child.id));
        }
        found
    }

    fn is_alive(&self) -> bool {
        Self::read(self.id).is_some_and(|now| now.started == self.started)
    }
}

fn ending(folder: &Path, with: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(with)).collect()
}

/// Processes whose program or directory is in `place`.
fn alive(place: &Path) -> Vec<PathBuf> {
    let place = place.canonicalize().unwrap();
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let is_inside = |link: PathBuf| link.read_link().is_ok_and(|target| target.starts_with(&place));
    processes.filter(|process| is_inside(process.join("exe")) || is_inside(process.join("cwd"))).collect()
}

/// A program with its own home.
fn at_home(home: &Path, program: &str) -> Command {
    for folder in ["tmp", "work"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    let mut command = command(program);
    command
        .current_dir(home.join("work"))
        .env("HOME", home)
        .env("TMPDIR", home.join("tmp"))
        .stdin(Stdio::null());
    command
}

fn call(home: &Path, script: &str) -> String {
    let call = json!({"command": script}).to_string();
    let output = at_home(home, HAFT).args(["call", "bash", &call]).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// haft inside a command of haft has no namespaces: it says so, and confines with the remaining layers. Both
/// sandboxes apply.
#[test]
fn haft_works_inside_haft() {
    let home = home();
    let outside = home.path().join("outside");
    let inner = format!("echo inner; echo x > {}; sleep 60 & echo last", outside.display());
    let inner = json!({"command": inner}).to_string();
    let said = call(home.path(), &format!("'{HAFT}' call bash '{inner}'"));
    assert!(said.contains("confined with fewer layers than usual (no namespaces of its own"), "{said}");
    assert!(said.contains("inner\n") && said.contains("last\n"), "{said}");
    assert!(said.contains("(stopped background processes:"), "{said}");
    assert!(!outside.exists(), "{said}");
}

/// If haft's own files are in a directory that tools write to, the inner haft cannot hide them, and refuses with the
/// reason.
#[test]
fn haft_inside_haft_says_why_it_refuses() {
    let home = home();
    let inner = json!({"command": "echo inner"}).to_string();
    let said = call(home.path(), &format!("export HOME=$PWD TMPDIR=$PWD; '{HAFT}' call bash '{inner}'"));
    assert!(!said.contains("inner\n"), "{said}");
    let why = [
        "no tool may read or write",
        "`, but it is in a directory that tools may write; only a mount namespace can hide it",
        "(namespaces are not available:",
    ];
    assert!(why.iter().all(|part| said.contains(part)), "{said}");
}

/// Writes to the terminal and types into it, by each of its names. `TERMINAL` is its own name, because other
/// terminals of this machine belong to other tests and users.
const TYPE: &str = r#"
    for place in /dev/tty TERMINAL /proc/self/fd/[0-2]; do
        printf 'seen-%s' marker > $place
        python3 -c 'import fcntl, sys
for byte in b"typed-": fcntl.ioctl(open(sys.argv[1]), 0x5412, bytes([byte]))' $place
    done 2>/dev/null >/dev/null </dev/null
    echo done
"#;

/// Runs a command at a new terminal, and replaces `TERMINAL` in its last argument with the terminal's name.
const AT_TERMINAL: &str = r"
import os, pty, sys
words = sys.argv[1:]
pid, ours = pty.fork()
if pid == 0:
    words[-1] = words[-1].replace('TERMINAL', os.ttyname(0))
    os.execvp(words[0], words)
shown = b''
while True:
    try:
        part = os.read(ours, 4096)
    except OSError:
        break
    if not part:
        break
    shown += part
os.waitpid(pid, 0)
sys.stdout.buffer.write(shown)
";

/// T02: a command has no terminal, also if its haft has one.
#[test]
fn a_command_has_no_terminal() {
    let home = home();
    let call = json!({"command": TYPE}).to_string();
    let on_terminal = |arguments: &[&str]| {
        let output =
            at_home(home.path(), "python3").args(["-c", AT_TERMINAL]).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let confined = on_terminal(&[HAFT, "call", "bash", &call]);
    assert!(confined.contains("done"), "{confined}");
    assert!(!confined.contains("seen-") && !confined.contains("typed-"), "{confined}");
    // Without haft the command writes to the terminal.
    let open = on_terminal(&["bash", "-c", TYPE]);
    assert!(open.contains("seen-marker"), "{open}");
}
