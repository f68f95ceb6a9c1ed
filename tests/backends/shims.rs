//! Backends with fake programs: the names that haft looks for, and the arguments that it passes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::{Answer, Home};

/// A home with its own PATH: the programs that shells need, and fake ones.
struct Shims {
    home: Home,
    programs: PathBuf,
}

/// The programs that the backends' scripts use.
pub(crate) const USUAL: &[&str] = &[
    "sh", "head", "cat", "env", "grep", "sleep", "setsid", "tr", "wc", "tail", "mv", "rm", "cp", "readlink",
];

/// A container engine that runs its command here, and records its arguments.
pub(crate) const ENGINE: &str = r#"#!/bin/sh
printf '%s\n' "$(basename "$0") $*" >>"$HOME/told"
case $1 in
    container) echo "${RUNNING:-true}"; exit "${STATUS:-0}" ;;
    exec) while [ "$1" != -- ]; do shift; done; shift 2; exec "$@" ;;
esac
"#;

/// An ssh that runs its command here, and records its arguments.
pub(crate) const SSH: &str = r#"#!/bin/sh
printf '%s\n' "ssh $*" >>"$HOME/told"
master=; socket=
while [ $# -gt 0 ]; do
    case $1 in
        -M) master=yes ;;
        -S) socket=$2; shift ;;
        -o | -F) shift ;;
        --) shift; break ;;
    esac
    shift
done
shift
if [ -n "$master" ]; then : >"$socket"; exec sleep 600; fi
exec sh -c "$1"
"#;

impl Shims {
    fn new() -> Self {
        let home = Home::new();
        let programs = home.work().join("../programs");
        fs::create_dir(&programs).unwrap();
        for name in USUAL {
            symlink(haft::lookup::find_on_path(name).unwrap(), programs.join(name)).unwrap();
        }
        symlink("/usr/bin/basename", programs.join("basename")).unwrap();
        Self { home, programs: programs.canonicalize().unwrap() }
    }

    fn with(self, name: &str, text: &str) -> Self {
        let path = self.programs.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn haft(&self, arguments: &[&str]) -> Answer {
        let mut command = self.home.command(arguments);
        command.env("PATH", &self.programs).env_remove("TMUX");
        Answer::from(command.output().unwrap())
    }

    fn call(&self, options: &[&str], command: &str) -> Answer {
        let arguments = json!({ "command": command }).to_string();
        self.haft(&[options, &["call", "run_shell", &arguments]].concat())
    }

    fn report(&self) -> String {
        fs::read_to_string(self.home.work().join("../told")).unwrap_or_default()
    }
}

/// BE01, BE02: haft uses docker before podman, each with its own option for standard input.
#[test]
fn the_engine_that_is_there_is_used_as_it_wants_to_be() {
    for (engine, option) in [("docker", "-i"), ("podman", "--interactive")] {
        let shims = Shims::new().with(engine, ENGINE);
        let answer = shims.call(&["--container", "web"], "echo $((40 + 2)); exit 3");
        assert_eq!(answer.stdout, "exit code: 3\nstdout:\n42\nstderr:\n", "{}", answer.stderr);
        assert!(
            shims.report().contains(&format!("{engine} exec {option} -- web sh -c ")),
            "{}",
            shims.report()
        );
    }
    let both = Shims::new().with("docker", ENGINE).with("podman", ENGINE);
    both.call(&["--container", "web"], "true");
    assert!(both.report().contains("docker exec") && !both.report().contains("podman"), "{}", both.report());
}

/// C11: an error names the missing program that panes need.
#[test]
fn a_tool_that_panes_need_is_named_where_it_is_missing() {
    let tmux = "#!/bin/sh\nexit 1\n";
    let shims = Shims::new().with("docker", ENGINE).with("tmux", tmux).with("mktemp", tmux).with("tee", tmux);
    let answer = shims.call(&["--container", "web", "--tmux"], "true");
    assert_eq!(answer.code, 3, "{}", answer.stderr);
    assert!(answer.stderr.contains("panes need `mkfifo`"), "{}", answer.stderr);
}

/// C11: inside a tmux pane `haft check` mentions `--tmux`.
#[test]
fn a_person_in_tmux_is_offered_a_pane() {
    let home = Home::new();
    home.write("program.toml", "[program]\nname = \"a\"\nversion = \"1.0.0\"\n");
    let said = |pane: Option<&str>| {
        let mut command = home.command(&["check"]);
        command.env_remove("TMUX_PANE").envs(pane.map(|pane| ("TMUX_PANE", pane)));
        let output = command.output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert!(said(Some("%7")).contains("with `--tmux`"), "{}", said(Some("%7")));
    assert!(!said(None).contains("--tmux"), "{}", said(None));
}

/// The number of times that haft, at a terminal in a tmux pane, mentions `--tmux`.
fn offers(program: &str, arguments: &[&str]) -> Option<usize> {
    let home = Home::new();
    home.write("program.toml", program);
    let said = home.at_a_terminal_with(&[("TMUX_PANE", "%7"), ("COLUMNS", "200")], arguments, "")?;
    assert!(!said.contains("Usage:"), "{said}");
    Some(
        said.matches(
            "this terminal is a tmux pane; with `--tmux`, or `[backend] tmux = true`, commands run \
        in a separate pane that you can attach to",
        )
        .count(),
    )
}

/// U14: haft mentions `--tmux` once, and not at each start.
#[test]
fn a_pane_is_offered_once() {
    let home = Home::new();
    let provider = "[provider]\nname = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmax_retries = 0\n";
    home.write("program.toml", provider);
    for count in [1, 0, 0] {
        let pane = [("TMUX_PANE", "%7"), ("COLUMNS", "200")];
        let Some(said) = home.at_a_terminal_with(&pane, &["run", "hello"], "") else { return };
        assert_eq!(
            said.matches(
                "this terminal is a tmux pane; with `--tmux`, or `[backend] tmux = true`, \
            commands run in a separate pane that you can attach to"
            )
            .count(),
            count,
            "{said}"
        );
    }
}

/// C11: `run` and `serve` mention `--tmux` once, unless the options or the program decide on panes or output is JSON.
#[test]
fn a_run_in_tmux_is_offered_a_pane() {
    let provider = "[provider]\nname = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmax_retries = 0\n";
    for (arguments, count) in [
        (vec!["run", "hello"], 1),
        (vec!["serve"], 1),
        (vec!["--no-tmux", "run", "hello"], 0),
        (vec!["--json", "run", "hello"], 0),
        (vec!["--no-tmux", "serve"], 0),
        (vec!["--json", "serve"], 0),
        (vec!["tools"], 0),
    ] {
        let Some(offers) = offers(provider, &arguments) else { return };
        assert_eq!(offers, count, "{arguments:?}");
    }
    // A host with tmux gets a pane by default.
    for backend in ["tmux = false", "tmux = true", "ssh = \"nowhere.invalid\""] {
        let program = format!("{provider}[backend]\n{backend}\n");
        assert_eq!(offers(&program, &["serve"]), Some(0), "{backend}");
    }
}

/// BE02: the error says that there is no engine, that the container is stopped, or why the engine failed.
#[test]
fn what_keeps_a_container_from_being_used_is_said() {
    let none = Shims::new().call(&["--container", "web"], "true");
    assert_eq!((none.code, none.stdout.as_str()), (3, ""));
    assert!(none.stderr.contains("neither `docker` nor `podman` was found in PATH"), "{}", none.stderr);
    let stopped = Shims::new().with("docker", &ENGINE.replace(":-true", ":-false"));
    let answer = stopped.call(&["--container", "web"], "true");
    assert!(
        answer.stderr.contains("the container `web` is not running; `docker start web` starts it"),
        "{}",
        answer.stderr
    );
    let failing = ENGINE
        .replace("echo \"${RUNNING:-true}\"", "echo 'no daemon here' >&2")
        .replace("STATUS:-0", "STATUS:-1");
    // haft uses the second engine if the service of the first does not run.
    let other = Shims::new().with("docker", &failing).with("podman", ENGINE);
    assert_eq!(other.call(&["--container", "web"], "true").code, 0);
    let answer = Shims::new().with("docker", &failing).call(&["--container", "web"], "true");
    assert!(answer.stderr.contains("`docker`: no daemon here"), "{}", answer.stderr);
}

/// BE03: a container or host name that looks like an option is refused before any program starts.
#[test]
fn a_name_that_looks_like_an_option_is_refused() {
    let shims = Shims::new().with("docker", ENGINE).with("ssh", SSH);
    for options in
        [["--container=-it"], ["--container=--privileged"], ["--ssh=-oProxyCommand=id"], ["--ssh=a b"]]
    {
        let answer = shims.call(&options, "true");
        assert_eq!(answer.code, 3, "{options:?}");
        assert!(answer.stderr.contains("invalid "), "{}", answer.stderr);
    }
    assert_eq!(shims.report(), "");
}

/// BE01, BE04, BE05: ssh runs without questions, opens one connection, and works without tmux.
#[test]
fn a_host_without_tmux_runs_commands_and_leaves_none_behind() {
    let shims = Shims::new().with("ssh", SSH);
    let answer = shims.call(&["--ssh", "me@host"], "echo out; echo err >&2; exit 4");
    assert_eq!(answer.stdout, "exit code: 4\nstdout:\nout\nstderr:\nerr\n", "{}", answer.stderr);
    let report = shims.report();
    assert_eq!(report.lines().filter(|line| line.contains(" -M ")).count(), 1, "{report}");
    for option in ["BatchMode=yes", "ConnectTimeout=10", "ClearAllForwardings=yes", "-- me@host"] {
        assert!(report.lines().all(|line| line.contains(option)), "{option}: {report}");
    }
    assert!(
        report
            .lines()
            .skip(1)
            .all(|line| line.contains("ControlMaster=no") && line.contains("ProxyCommand=false"))
    );
    let arguments = json!({ "command": "true", "wait": false }).to_string();
    let refused = shims.haft(&["--ssh", "me@host", "call", "run_shell", &arguments]);
    assert!(refused.stderr.contains("wait=false requires a tmux-backed target"), "{}", refused.stderr);
    let refused = shims.call(&["--ssh", "me@host", "--tmux"], "true");
    assert_eq!(refused.code, 3);
    assert!(refused.stderr.contains("tmux is not installed on ssh:me@host"), "{}", refused.stderr);
}

/// The haft of a host confines the files that are read and written there as it confines commands.
#[test]
fn sb_on_a_host_with_a_haft_files_are_confined_by_it() {
    let shims = Shims::new().with("ssh", SSH);
    symlink(env!("CARGO_BIN_EXE_haft"), shims.programs.join("haft")).unwrap();
    for name in ["true", "mkdir", "find", "id"] {
        symlink(haft::lookup::find_on_path(name).unwrap(), shims.programs.join(name)).unwrap();
    }
    let home = shims.home.work().parent().unwrap().canonicalize().unwrap();
    let there = home.join("there");
    fs::create_dir(&there).unwrap();
    let target = |directory: &Path| {
        let text = format!(
            "[program]\nname = \"p\"\nversion = \"0.1.0\"\n[backend]\nssh = \"me@host\"\ntmux = false\ndirectory = {directory:?}\n"
        );
        shims.home.write("program.toml", &text);
    };
    let call = |tool: &str, arguments: Value| shims.haft(&["call", tool, &arguments.to_string()]);
    target(&there);
    let written = call("write_file", json!({ "path": "new/file", "content": "two\nlines" }));
    assert_eq!(written.code, 0, "{}", written.stderr);
    assert_eq!(fs::read_to_string(there.join("new/file")).unwrap(), "two\nlines");
    assert_eq!(call("read_file", json!({ "path": "new/file" })).stdout, "two\nlines\n");
    let outside = home.join("outside");
    let refused = call("write_file", json!({ "path": outside, "content": "x" }));
    assert!(refused.stderr.contains("its directory may not be written"), "{}", refused.stderr);
    assert!(!outside.exists());
    let login = home.join(".netrc");
    fs::write(&login, "machine a login b").unwrap();
    let refused = call("read_file", json!({ "path": login }));
    assert!(refused.stderr.contains("permission denied"), "{} {}", refused.stdout, refused.stderr);
    target(&there.join("none"));
    let refused = call("read_file", json!({ "path": "file" }));
    assert!(refused.stderr.contains("it is `directory` in `[backend]`"), "{}", refused.stderr);
}

/// BE05: `--tmux` without tmux on this machine is refused.
#[test]
fn a_pane_without_tmux_is_refused() {
    let answer = Shims::new().call(&["--tmux"], "true");
    assert_eq!(answer.code, 3);
    assert!(answer.stderr.contains("tmux is not installed on local"), "{}", answer.stderr);
}
