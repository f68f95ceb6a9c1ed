//! A tool cannot open a protected path by a directory that haft may not search: `chmod 0` in one call, a write in the
//! next one. Root searches every directory, so these tests run as another user.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::cli::{Answer, Home};
use crate::common::same_environment;
use crate::process_grants::{is_open_to_others, of_user};

const USER: u32 = 61_236;

/// Only `bash` and a command are enabled, so that haft compiles nothing.
const PROGRAM: &str = r#"[program]
name = "p"
version = "0.1.0"
[builtins]
files = false
fetch = false
search = false
time = false
[sandbox]
workspace = "."
write = ["~/.config", "../other"]
[[tools]]
name = "t"
description = "d"
command = ["./bin/tool"]
"#;

/// A home with protected files, whose owner is not root. `None` if the machine has no such user.
fn home() -> Option<Home> {
    if rustix::process::geteuid().is_root() && !is_open_to_others() {
        return None;
    }
    let home = Home::new();
    for folder in ["work/.git/hooks", "work/bin", "work/private", ".config/gh", "other/.git"] {
        fs::create_dir_all(place(&home, folder)).unwrap();
    }
    for file in FILES {
        fs::write(place(&home, file), "before").unwrap();
    }
    fs::set_permissions(place(&home, "work/bin/tool"), Permissions::from_mode(0o755)).unwrap();
    symlink("work/private/netrc", place(&home, ".netrc")).unwrap();
    home.write("program.toml", PROGRAM);
    Some(home)
}

const FILES: [&str; 6] = [
    "work/.git/config",
    "work/.git/hooks/run",
    "work/bin/tool",
    "work/private/netrc",
    "other/.git/config",
    ".config/gh/hosts.yml",
];

fn place(home: &Home, name: &str) -> PathBuf {
    home.work().parent().unwrap().join(name)
}

fn of_person(home: &Home, mut command: Command) -> Answer {
    command.env("XDG_CACHE_HOME", place(home, "cache"));
    let is_root = rustix::process::geteuid().is_root();
    let mut command = if is_root { of_user(&command, home, USER) } else { command };
    Answer::from(command.output().unwrap())
}

/// Takes the permissions of `directory` away in one call, and tries to restore them for `attempt` in the next one.
fn attempt(home: &Home, directory: &str, attempt: &str) {
    let bash = |command: String| {
        let arguments = json!({ "command": command }).to_string();
        of_person(home, home.command(&["call", "bash", &arguments]))
    };
    let path = place(home, directory);
    for command in [format!("chmod 0 {}", path.display()), format!("chmod 755 {}; {attempt}", path.display())]
    {
        let answer = bash(command);
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0, "{directory}: {}{}", answer.stdout, answer.stderr);
        assert!(!answer.stdout.contains("before"), "{directory}: {}", answer.stdout);
    }
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
}

/// F1: a directory without permissions in a writable directory protects the files in it as before.
#[test]
fn a_hidden_directory_opens_no_protected_file() {
    let Some(home) = home() else { return };
    for (directory, command) in [
        ("work/.git", "echo changed > .git/config"),
        ("work/.git", "echo changed > .git/hooks/run"),
        ("work/bin", "echo changed > bin/tool; mv bin/tool bin/other"),
        ("work/private", "cat private/netrc ~/.netrc"),
        ("other", "echo changed > ../other/.git/config"),
        (".config", "cat ~/.config/gh/hosts.yml; touch ~/.config/haft/planted"),
    ] {
        attempt(&home, directory, command);
    }
    for file in FILES {
        assert_eq!(fs::read_to_string(place(&home, file)).unwrap(), "before", "{file}");
    }
    assert!(place(&home, ".config/haft").exists() && !place(&home, ".config/haft/planted").exists());
}

/// X8: haft does not run without the program.toml of a directory that it may not search.
#[test]
fn a_hidden_program_is_not_replaced_by_the_defaults() {
    let Some(home) = home() else { return };
    let haft = |command: &str| {
        let arguments = json!({ "command": command }).to_string();
        format!("{} call bash {}", env!("CARGO_BIN_EXE_haft"), shell_words::quote(&arguments))
    };
    let script = [haft("chmod 0 ."), haft("chmod 755 .; echo changed > program.toml")].join("; ");
    let mut command = Command::new("/bin/sh");
    same_environment(&home.command(&[]), &mut command);
    command.args(["-c", &script]).current_dir(home.work());
    let answer = of_person(&home, command);
    let mode = fs::metadata(home.work()).unwrap().permissions().mode();
    fs::set_permissions(home.work(), Permissions::from_mode(0o755)).unwrap();
    assert_eq!((mode & 0o777, answer.code != 0), (0, true), "{}{}", answer.stdout, answer.stderr);
    assert!(answer.stderr.contains("cannot read `program.toml`: Permission denied"), "{}", answer.stderr);
    assert_eq!(fs::read_to_string(home.work().join("program.toml")).unwrap(), PROGRAM);
}
