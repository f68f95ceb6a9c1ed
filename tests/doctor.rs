//! The self-test of the sandbox, and `haft doctor`, on this kernel and on restricted ones: without Landlock, and
//! without namespaces, as in most containers.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use haft::backend::confine::{Confiner, Layers};
use haft::backend::selftest::{self, Outcome, SelfTest};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use serde_json::{Value, json};

use crate::common::cache;
use crate::serve::peer::Peer;

const HAFT: &str = env!("CARGO_BIN_EXE_haft");
const SECRET: &str = "sk-never-to-be-seen-0815";

/// The attempts that succeed on a kernel without namespaces.
const GAPS_WITHOUT_NAMESPACES: [&str; 4] = [
    "change the mode of a file outside",
    "change the time of a file outside",
    "overwrite a protected file in the workspace",
    "see haft's process",
];

/// The attempts that succeed without any layer, for every user.
const OUT_WITHOUT_LAYERS: [&str; 16] = [
    "make a file outside",
    "change a file outside",
    "empty a file outside",
    "remove a file outside",
    "change a file outside through a link",
    "change the mode of a file outside",
    "change the time of a file outside",
    "read a hidden file",
    "change a hidden file",
    "overwrite a protected file in the workspace",
    "leave a set-user-ID program behind",
    "see haft's process",
    "signal haft",
    "connect to a socket in the file system",
    "connect to an abstract socket",
    "write to a terminal",
];

async fn self_test(layers: Layers) -> SelfTest {
    let [data, state] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let done = selftest::run(&Confiner::exactly(HAFT, layers), data.path(), state.path()).await.unwrap();
    for place in [data, state] {
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "something was left behind");
    }
    done
}

/// The attempts that were not blocked, and their outcomes.
fn out(done: &SelfTest) -> BTreeMap<&str, &Outcome> {
    let not_held = done.findings.iter().filter(|finding| !matches!(finding.outcome, Outcome::Held(_)));
    not_held.map(|finding| (finding.attempt, &finding.outcome)).collect()
}

/// SB08: without any layer every attempt succeeds; otherwise the attempt would prove nothing.
#[tokio::test]
async fn every_attempt_gets_out_where_nothing_holds_it() {
    let done = self_test(Layers::NONE).await;
    let out = out(&done);
    for attempt in OUT_WITHOUT_LAYERS {
        assert!(matches!(out.get(attempt), Some(Outcome::Gap(_))), "{attempt}: {out:#?}");
    }
    let (_, held) = done.counts();
    assert!(held + out.len() == done.findings.len() && done.is_kept());
}

/// SB08: without one layer, exactly the attempts succeed that only this layer blocks.
#[tokio::test]
async fn every_layer_has_something_that_only_it_holds() {
    let all = Layers::offered();
    let done = self_test(all).await;
    assert!(out(&done).is_empty(), "{:#?}", out(&done));
    let without = |layers| async move {
        let done = self_test(layers).await;
        out(&done).keys().map(|attempt| (*attempt).to_owned()).collect::<Vec<_>>()
    };
    let without_namespaces = without(Layers { namespaces: false, ..all }).await;
    assert_eq!(without_namespaces, GAPS_WITHOUT_NAMESPACES);
    let without_filter = without(Layers { seccomp: false, ..all }).await;
    assert!(
        without_filter.contains(&"connect to a socket in the file system".to_owned()),
        "{without_filter:?}"
    );
    let without_dropping = without(Layers { capabilities: false, ..all }).await;
    // An ordinary user has no capabilities to drop.
    let gained: &[&str] = if rustix::process::geteuid().is_root() { &["gain rights"] } else { &[] };
    assert!(
        gained.iter().all(|attempt| without_dropping.iter().any(|out| out == attempt)),
        "{without_dropping:?}"
    );
    assert!(without_dropping.is_empty() == gained.is_empty(), "{without_dropping:?}");
    let neither = without(Layers { namespaces: false, landlock: None, ..all }).await;
    assert!(neither.contains(&"change a file outside".to_owned()), "{neither:?}");
}

/// A temporary home directory with a workspace.
struct Home(tempfile::TempDir);

struct Answer {
    stdout: String,
    stderr: String,
    code: Option<i32>,
}

/// The features that a kernel lacks.
#[derive(Clone, Copy)]
enum Lacks {
    Nothing,
    Landlock,
    Namespaces,
    Both,
}

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for folder in ["work", "tmp"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        Self(home)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(HAFT);
        command
            .args(arguments)
            .current_dir(self.path("work"))
            .env("HOME", self.0.path())
            .env("HAFT_TRUST", "1")
            .env("TMPDIR", self.path("tmp"))
            .env("XDG_CACHE_HOME", cache())
            .env("OPENAI_API_KEY", SECRET)
            .env_remove("HAFT_LOG")
            .stdin(Stdio::null());
        for name in ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "OLLAMA_HOST"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs haft as on a kernel that lacks a feature: child processes inherit a thread's seccomp filters.
    fn haft(&self, lacks: Lacks, arguments: &[&str]) -> Answer {
        let mut command = self.command(arguments);
        let output = std::thread::spawn(move || {
            lacks.filters().iter().for_each(|filter| seccompiler::apply_filter(filter).unwrap());
            command.output().unwrap()
        });
        let output = output.join().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Answer { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() }
    }

    fn doctor(&self, lacks: Lacks) -> (Value, Option<i32>) {
        let answer = self.haft(lacks, &["--json", "doctor"]);
        (serde_json::from_str(&answer.stdout).unwrap(), answer.code)
    }
}

impl Lacks {
    fn filters(self) -> Vec<BpfProgram> {
        let landlock = [
            libc::SYS_landlock_create_ruleset,
            libc::SYS_landlock_add_rule,
            libc::SYS_landlock_restrict_self,
        ];
        let no_landlock = || filter(landlock.map(|call| (call, Vec::new())), libc::ENOSYS);
        // The rules of Docker's own filter.
        let user = SeccompCmpOp::MaskedEq(0x1000_0000);
        let user = SeccompCondition::new(0, SeccompCmpArgLen::Qword, user, 0x1000_0000).unwrap();
        let clone = (libc::SYS_clone, vec![SeccompRule::new(vec![user]).unwrap()]);
        let refused = [clone, (libc::SYS_unshare, Vec::new())];
        let no_namespaces =
            || [filter(refused.clone(), libc::EPERM), filter([(libc::SYS_clone3, Vec::new())], libc::ENOSYS)];
        match self {
            Self::Nothing => Vec::new(),
            Self::Landlock => vec![no_landlock()],
            Self::Namespaces => no_namespaces().into(),
            Self::Both => no_namespaces().into_iter().chain([no_landlock()]).collect(),
        }
    }
}

fn filter<const N: usize>(rules: [(i64, Vec<SeccompRule>); N], errno: i32) -> BpfProgram {
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let refuse = SeccompAction::Errno(errno.cast_unsigned());
    SeccompFilter::new(rules.into(), SeccompAction::Allow, refuse, arch).unwrap().try_into().unwrap()
}

fn not_held(doctor: &Value) -> Vec<&str> {
    let findings = doctor["sandbox"]["self_test"]["done"]["findings"].as_array().unwrap();
    let not_held = findings.iter().filter(|finding| finding["outcome"] != "held");
    not_held.map(|finding| finding["attempt"].as_str().unwrap()).collect()
}

/// CL03, SB08: `haft doctor` reports the full sandbox, the tools and the directories of this machine.
#[test]
fn doctor_tells_of_this_kernel() {
    let home = Home::new();
    let (doctor, code) = home.doctor(Lacks::Nothing);
    let sandbox = &doctor["sandbox"];
    assert_eq!((sandbox["verdict"].as_str(), code), (Some("full"), Some(0)), "{doctor:#}");
    assert_eq!(sandbox["landlock"], json!(Layers::offered().landlock));
    assert!(not_held(&doctor).is_empty(), "{doctor:#}");
    let names: Vec<_> = doctor["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["bash", "git", "ssh", "tmux", "docker", "podman", "node", "python3", "cargo"]);
    let bash = &doctor["tools"][0];
    assert!(bash["path"].as_str().unwrap().ends_with("/bash"), "{bash}");
    assert!(bash["version"]["Ok"].as_str().unwrap().contains("version"), "{bash}");
    for place in doctor["places"].as_array().unwrap() {
        assert!(matches!(place["state"].as_str(), Some("good" | "missing")), "{place}");
    }
}

/// CL03: piped output of `haft doctor` has every section and no colours.
#[test]
fn doctor_s_page_is_whole_when_piped() {
    let answer = Home::new().haft(Lacks::Nothing, &["doctor"]);
    for expected in [
        "\nSandbox\n",
        "  ✓ landlock      version ",
        "  ✓ verdict       full: ",
        "escape attempts blocked (",
        "\nPlugins\n  ✓ second layer  full: ",
        "\nProgram\n  ✓ program.toml  none: the built-in tools only",
        "\nPlaces\n  ✓ data          ",
        "\nTools\n  ✓ bash          ",
        "\nProviders\n  ✓ openai        https://api.openai.com/v1, key in `OPENAI_API_KEY`\n",
    ] {
        assert!(answer.stdout.contains(expected), "{expected:?} is not in\n{}", answer.stdout);
    }
    assert!(!answer.stdout.contains('\u{1b}'), "colours in a pipe");
    assert_eq!((answer.stderr.as_str(), answer.code), ("", Some(0)));
}

/// CL03: doctor reports that a key exists and its location, but never the key.
#[test]
fn keys_are_never_printed() {
    let home = Home::new();
    fs::write(home.path("key"), SECRET).unwrap();
    let provider = "[provider]\nname = \"openai\"\nmodel = \"m\"\napi_key = { file = \"../key\" }\n";
    fs::write(home.path("work/program.toml"), provider).unwrap();
    for arguments in [&["doctor"][..], &["--json", "doctor"], &["-vvv", "doctor"]] {
        let answer = home.haft(Lacks::Nothing, arguments);
        assert!(
            answer.stdout.contains("OPENAI_API_KEY") && answer.stdout.contains("/key`"),
            "{}",
            answer.stdout
        );
        assert!(!answer.stdout.contains(SECRET) && !answer.stderr.contains(SECRET));
    }
}

/// SB08: without Landlock haft refuses to start commands, with or without namespaces.
#[test]
fn without_landlock_doctor_says_so_and_bash_is_refused() {
    let home = Home::new();
    for (lacks, namespaces) in [(Lacks::Landlock, true), (Lacks::Both, false)] {
        let (doctor, code) = home.doctor(lacks);
        let sandbox = &doctor["sandbox"];
        assert_eq!((sandbox["verdict"].as_str(), code), (Some("refused"), Some(6)), "{doctor:#}");
        assert_eq!((&sandbox["landlock"], &sandbox["namespaces"]), (&Value::Null, &json!(namespaces)));
        assert!(sandbox["self_test"]["not_run"].is_object());
        assert!(doctor["tools"][0]["path"].is_string() && doctor["tools"][0]["version"].is_null());
    }
    let page = home.haft(Lacks::Landlock, &["doctor"]).stdout;
    for expected in
        ["✗ landlock      not available in this kernel", "✗ verdict       refused", "--unsafe-no-sandbox"]
    {
        assert!(page.contains(expected), "{page}");
    }
    let sentinel = home.path("work/sentinel");
    let touch = ["call", "bash", "--arg", "command=touch sentinel"];
    let refused = home.haft(Lacks::Landlock, &touch);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    for expected in ["this kernel has no Landlock", "lsm=", "--unsafe-no-sandbox"] {
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    assert!(!sentinel.exists(), "it ran");
}

/// SB08: only the option `--unsafe-no-sandbox` disables the sandbox, and haft warns of it.
#[test]
fn without_a_sandbox_only_on_request_and_loudly() {
    let home = Home::new();
    let touch = ["--unsafe-no-sandbox", "call", "bash", "--arg", "command=touch sentinel; echo done"];
    let answer = home.haft(Lacks::Landlock, &touch);
    assert_eq!((answer.stdout.as_str(), answer.code), ("done\n", Some(0)));
    assert!(answer.stderr.contains("warning: no sandbox"), "{}", answer.stderr);
    assert!(home.path("work/sentinel").exists());
    let answer = home.haft(Lacks::Nothing, &["--unsafe-no-sandbox", "doctor"]);
    assert_eq!(answer.code, Some(6));
    assert!(answer.stdout.contains("✗ verdict       off (`--unsafe-no-sandbox`)"), "{}", answer.stdout);
    assert!(answer.stdout.contains("not blocked: make a file outside"), "{}", answer.stdout);
}

/// SB08: without namespaces haft still protects files, and doctor and every call report the gaps.
#[test]
fn without_namespaces_the_gaps_are_named() {
    let home = Home::new();
    let (doctor, code) = home.doctor(Lacks::Namespaces);
    let sandbox = &doctor["sandbox"];
    assert_eq!((sandbox["verdict"].as_str(), code), (Some("reduced"), Some(0)), "{doctor:#}");
    assert!(sandbox["missing"].as_str().unwrap().contains("cannot enter namespaces"), "{sandbox:#}");
    assert!(sandbox["gaps"].as_array().unwrap().len() >= 3, "{sandbox:#}");
    if Layers::offered().landlock >= Some(6) {
        assert_eq!(not_held(&doctor), GAPS_WITHOUT_NAMESPACES);
    }
    let page = home.haft(Lacks::Namespaces, &["doctor"]).stdout;
    for expected in [
        "! namespaces    no namespaces of its own: ",
        "! verdict       reduced",
        "- modes, owners and times",
        "not blocked: ",
    ] {
        assert!(page.contains(expected), "{page}");
    }
    let outside = home.path("outside");
    let script = format!("command=echo inside > file; echo outside > {}", outside.display());
    let answer = home.haft(Lacks::Namespaces, &["call", "bash", "--arg", &script]);
    assert!(
        answer.stderr.contains("commands are confined with fewer layers than usual ("),
        "{}",
        answer.stderr
    );
    assert!(home.path("work/file").exists() && !outside.exists(), "{}", answer.stderr);
}

/// SB05, SB08: without namespaces haft refuses a workspace that contains haft's own files, because only a mount could
/// cover them.
#[test]
fn without_namespaces_a_workspace_around_haft_s_own_files_is_refused() {
    let home = Home::new();
    fs::write(home.path("work/program.toml"), "[sandbox]\nworkspace = \"..\"\n").unwrap();
    let (doctor, code) = home.doctor(Lacks::Namespaces);
    let sandbox = &doctor["sandbox"];
    assert_eq!((sandbox["verdict"].as_str(), code), (Some("refused"), Some(6)), "{doctor:#}");
    let own = home.path(".local/state/haft");
    assert!(sandbox["refusal"].as_str().unwrap().contains(own.to_str().unwrap()), "{sandbox:#}");
    assert_eq!(home.doctor(Lacks::Nothing).1, Some(0));
}

#[test]
fn a_wrong_program_does_not_keep_doctor_from_the_rest() {
    let home = Home::new();
    fs::write(home.path("work/program.toml"), "[sandbox]\nmode = \"sandbx\"\n").unwrap();
    let answer = home.haft(Lacks::Nothing, &["doctor"]);
    assert_eq!(answer.code, Some(3), "{}", answer.stdout);
    for expected in
        ["✗ program.toml  cannot be used: ", "hint: run `haft check`", "✓ verdict       full", "✓ bash"]
    {
        assert!(answer.stdout.contains(expected), "{}", answer.stdout);
    }
}

#[test]
fn a_place_that_cannot_be_used_is_named() {
    let home = Home::new();
    fs::write(home.path(".haft"), "a file").unwrap();
    let answer = home.haft(Lacks::Nothing, &["doctor"]);
    assert_eq!(answer.code, Some(6), "{}", answer.stdout);
    assert!(answer.stdout.contains(".haft is not a directory"), "{}", answer.stdout);
    assert!(answer.stdout.contains("self-test     not run: cannot create directory"), "{}", answer.stdout);
}

/// CL03: doctor waits at most 4 s for a program's version, runs the program in the sandbox, and removes control
/// characters from its output.
#[test]
fn tools_are_asked_within_bounds() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let script = |name: &str, text: &str| {
        let path = home.path("work").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("git", "#!/bin/sh\nexec sleep 60\n");
    script("tmux", "#!/bin/sh\nprintf 'tmux \\033[2J1\\n'; touch here; echo > \"$HOME/written\"\n");
    script("docker", "#!/bin/sh\n[ \"$1\" = version ] && echo 27.0 || echo Docker version 27.0\n");
    let path = format!("{}:{}", home.path("work").display(), std::env::var("PATH").unwrap());
    let output = home.command(&["--json", "doctor"]).env("PATH", path).output().unwrap();
    let doctor: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tool =
        |name: &str| doctor["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
    assert_eq!(tool("git")["version"]["Err"], "no answer within 4s");
    assert_eq!(tool("docker")["engine"]["Ok"], "27.0");
    let tmux = &tool("tmux")["version"];
    assert!(tmux["Err"].is_string() || tmux["Ok"] == "tmux [2J1", "{tmux}");
    assert!(!home.path("written").exists() && !Path::new("/here").exists(), "it could write");
}

/// X2, X6, X14, X15: doctor tries to change each kind of file that decides rights, by `bash`, by guests and by a
/// process that started before the replacement. Without the sandbox each attempt of `bash` succeeds, so that the test
/// can fail.
#[test]
fn doctor_tries_each_kind_of_sealed_file() {
    let home = Home::new();
    let (doctor, code) = home.doctor(Lacks::Nothing);
    let done = &doctor["sealed"]["done"];
    assert_eq!(
        (done["tried"].as_u64(), &done["held"], code),
        (Some(31), &done["tried"], Some(0)),
        "{doctor:#}"
    );
    let open = home.haft(Lacks::Nothing, &["doctor", "--json", "--unsafe-no-sandbox"]);
    let open: Value = serde_json::from_str(&open.stdout).unwrap();
    let through: Vec<_> = open["sealed"]["done"]["got_through"].as_array().unwrap().clone();
    let by_bash = through.iter().filter(|what| what.as_str().unwrap().ends_with(", by `bash`")).count();
    assert!(by_bash == 14 && through.len() == 15, "{through:#?}");
}

/// X7: if the kernel cannot protect program.toml from commands, `haft serve` does not apply changes of the file.
#[test]
fn without_namespaces_a_changed_program_waits_for_the_next_start() {
    let home = Home::new();
    fs::write(home.path("work/program.toml"), "[sandbox]\nworkspace = \".\"\n").unwrap();
    let command = home.command(&["serve"]);
    let serving = std::thread::spawn(move || {
        Lacks::Namespaces.filters().iter().for_each(|filter| seccompiler::apply_filter(filter).unwrap());
        Peer::of(command)
    });
    let mut peer = serving.join().unwrap();
    peer.initialize("2025-11-25", &json!({}));
    peer.notify("notifications/initialized", json!({}));
    let change = "printf '[builtins]\\ntime = false\\n' > program.toml && echo done";
    assert_eq!(peer.call("bash", json!({ "command": change }))["isError"], false);
    peer.says("the program has changed; the previous program is served until haft is restarted");
    assert!(peer.request("tools/list", json!({})).to_string().contains("\"time\""));
}
