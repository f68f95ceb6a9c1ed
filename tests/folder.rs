//! The folder of program.toml: the base of its relative paths, for every way to name the file.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::{Answer, Home};
use crate::common::repository;

const PROGRAM: &str = r#"
[program]
name = "own"
version = "0.1.0"

[sandbox]
workspace = "."

[[tools]]
name = "greet"
description = "Greet somebody"
command = "./greet"
arguments = [{ name = "name", description = "Who" }]
"#;

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs haft with another program called `greet` on PATH.
fn haft(home: &Home, arguments: &[&str]) -> Answer {
    let bin = home.work().join("bin");
    fs::create_dir_all(&bin).unwrap();
    script(&bin.join("greet"), "echo the wrong one");
    let path = std::env::join_paths([bin.as_path(), "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap();
    Answer::from(home.command(arguments).env("PATH", path).output().unwrap())
}

fn greeted(home: &Home, program: &[&str]) -> String {
    let call = ["call", "program__own__greet", r#"{"name":"you"}"#];
    let answer = haft(home, &[program, &call].concat());
    assert_eq!(answer.code, 0, "{program:?}: {}{}", answer.stdout, answer.stderr);
    answer.stdout
}

/// S04: `./greet` is the file beside program.toml, never a program on PATH.
#[test]
fn an_own_command_is_the_file_beside_program_toml() {
    let home = Home::new();
    home.write("program.toml", PROGRAM);
    script(&home.work().join("greet"), "echo \"own: $1\"");
    fs::create_dir(home.work().join("dir")).unwrap();
    home.write("dir/program.toml", PROGRAM);
    script(&home.work().join("dir/greet"), "echo \"dir: $1\"");
    symlink("dir", home.work().join("link")).unwrap();
    let absolute = home.work().join("program.toml").display().to_string();
    for program in [vec![], vec!["-p", "program.toml"], vec!["-p", "./program.toml"], vec!["-p", &absolute]] {
        assert_eq!(greeted(&home, &program), "own: you\n", "{program:?}");
    }
    for program in ["dir/program.toml", "./dir/../dir/program.toml", "link/program.toml"] {
        assert_eq!(greeted(&home, &["-p", program]), "dir: you\n", "{program}");
    }
    fs::remove_file(home.work().join("greet")).unwrap();
    let missing = haft(&home, &["call", "program__own__greet", r#"{"name":"you"}"#]);
    assert!(missing.code != 0 && !missing.stdout.contains("wrong"), "{}", missing.stdout);
}

/// S04: the command `./greet` of an MCP server is the file beside program.toml.
#[test]
fn an_own_server_is_the_file_beside_program_toml() {
    let home = Home::new();
    let server = "[sandbox]\nworkspace = \".\"\n[[mcp_servers]]\nname = \"own\"\ncommand = [\"./greet\"]\n";
    home.write("program.toml", server);
    script(&home.work().join("greet"), ": > started");
    for program in [vec![], vec!["-p", "program.toml"]] {
        // The server ends at once; the test checks only that haft started it.
        haft(&home, &[&program[..], &["tools", "--refresh"]].concat());
        assert!(fs::remove_file(home.work().join("started")).is_ok(), "{program:?}");
    }
}

/// S04: `haft check` names each missing program and its place in program.toml.
#[test]
fn check_names_every_program_that_is_missing() {
    let home = Home::new();
    let more = r#"
[[tools]]
name = "other"
description = "Other"
command = "haft-has-no-such-program"

[[tools]]
name = "flat"
description = "Flat"
command = "./flat"

[[tools]]
name = "there"
description = "There"
command = "sh"
"#;
    home.write("program.toml", &format!("{PROGRAM}{more}"));
    home.write("flat", "");
    let answer = haft(&home, &["--json", "check"]);
    let report: Value = serde_json::from_str(&answer.stdout).unwrap();
    let problems = report["problems"].as_array().unwrap();
    let messages: Vec<_> = problems.iter().map(|problem| problem["message"].as_str().unwrap()).collect();
    assert_eq!(
        messages,
        [
            "command tool `greet` cannot run `./greet`",
            "command tool `other` cannot run `haft-has-no-such-program`",
            "command tool `flat` cannot run `./flat`",
        ]
    );
    assert!(problems.iter().all(|problem| problem["place"].as_str().unwrap().contains("program.toml:")));
    assert_eq!(problems[2]["hints"], json!([format!("`chmod +x {}`", home.work().join("flat").display())]));
    assert_eq!(answer.code, 3);
}

/// S04: `haft exec ./greet` runs the file in the caller's folder, as a shell does, not the workspace's.
#[test]
fn exec_runs_the_file_in_the_caller_s_folder() {
    let home = Home::new();
    home.write("program.toml", PROGRAM);
    script(&home.work().join("greet"), "echo the workspace");
    let inner = home.work().join("inner");
    fs::create_dir(&inner).unwrap();
    script(&inner.join("greet"), "echo \"the caller, in $(basename \"$PWD\")\"");
    for program in ["../program.toml", &home.work().join("program.toml").display().to_string()] {
        let mut haft = home.command(&["-p", program, "exec", "--", "./greet"]);
        let answer = Answer::from(haft.current_dir(&inner).output().unwrap());
        assert_eq!(answer.stdout, "the caller, in work\n", "{program}: {}", answer.stderr);
    }
}

/// S04: the relative paths of a linked program.toml start in the link's folder, as for compilers and git: its
/// commands, components, grants and secrets.
#[test]
fn a_linked_program_toml_counts_from_the_link() {
    let home = Home::new();
    let wordcount = "[[plugins]]\nname = \"words\"\ncomponent = \"wordcount.wasm\"\n\
                     [plugins.grant]\nread = [\"./notes\"]\n";
    let server =
        "[[mcp_servers]]\nname = \"own\"\ncommand = [\"./server\"]\nenv = { KEY = { file = \"./key\" } }\n";
    let [kept, used] = ["kept", "used"].map(|name| home.work().join(name));
    for (folder, words) in [(&kept, "one two three"), (&used, "one two")] {
        fs::create_dir_all(folder.join("notes")).unwrap();
        fs::create_dir(folder.join("work")).unwrap();
        fs::write(folder.join("notes/a.md"), words).unwrap();
        fs::write(folder.join("key"), folder.file_name().unwrap().as_encoded_bytes()).unwrap();
        script(&folder.join("greet"), "pwd");
        script(&folder.join("server"), "echo \"$KEY\" >key-was");
        fs::copy(repository().join("plugins/built/wordcount.wasm"), folder.join("wordcount.wasm")).unwrap();
    }
    // The link itself is outside of the directories that tools can write.
    let program = PROGRAM.replace("workspace = \".\"", "workspace = \"work\"");
    fs::write(kept.join("program.toml"), [&program, wordcount, server].concat()).unwrap();
    symlink("../kept/program.toml", used.join("program.toml")).unwrap();
    for (folder, program) in [(&used, "program.toml"), (&home.work(), "used/program.toml")] {
        let haft = |words: &[&str]| {
            let mut haft = home.command(&[&["-p", program], words].concat());
            Answer::from(haft.current_dir(folder).output().unwrap())
        };
        let greeted = haft(&["call", "program__own__greet", r#"{"name":"you"}"#]);
        assert_eq!(
            greeted.stdout.trim_end(),
            used.join("work").to_str().unwrap(),
            "{program}: {}",
            greeted.stderr
        );
        let counted =
            haft(&["call", "words__count", "--arg", &format!("path={}/notes/a.md", used.display())]);
        assert!(counted.stdout.contains("2 words"), "{program}: {}{}", counted.stdout, counted.stderr);
        haft(&["tools", "--refresh"]);
        let key = fs::read_to_string(used.join("work/key-was")).unwrap_or_default();
        assert_eq!(key, "used\n", "{program}");
        fs::remove_file(used.join("work/key-was")).unwrap();
    }
}

/// S05: a call can add only declared arguments, unless program.toml sets `extra_args`.
#[test]
fn undeclared_words_are_refused() {
    let home = Home::new();
    home.write("program.toml", PROGRAM);
    script(&home.work().join("greet"), "echo \"own: $*\"");
    let call = |arguments: Value| home.call("program__own__greet", &arguments);
    let report = call(json!({ "name": "you", "args": ["--version"] }));
    assert!(report.code != 0 && report.stdout.is_empty(), "{}", report.stdout);
    assert!(report.stderr.contains("unknown argument `args`"), "{}", report.stderr);
    let report = call(json!({ "nme": "you" }));
    assert!(report.stderr.contains("unknown argument `nme`: did you mean `name`?"), "{}", report.stderr);
    let report = call(json!({ "name": "--version" }));
    assert!(report.code != 0 && report.stderr.contains("would be read as an option"), "{}", report.stderr);
    assert_eq!(call(json!({ "name": "you" })).stdout, "own: you\n");
    home.write("program.toml", &format!("{PROGRAM}extra_args = true\n"));
    assert_eq!(call(json!({ "name": "you", "args": ["all"] })).stdout, "own: you all\n");
    let report = call(json!({ "name": "you", "args": ["--version"] }));
    assert!(report.code != 0 && report.stderr.contains("would be read as an option"), "{}", report.stderr);
}

/// SB06: a child process cannot read haft's own files or the keys that program.toml names.
#[test]
fn bash_does_not_read_what_is_protected() {
    let home = Home::new();
    let keys = home.work().parent().unwrap().join("keys");
    fs::create_dir(&keys).unwrap();
    fs::write(keys.join("openai"), "key-4711").unwrap();
    symlink(keys.join("openai"), home.work().join("link")).unwrap();
    let key = keys.join("openai").display().to_string();
    home.write(
        "program.toml",
        &format!(
            "[sandbox]\nworkspace = \".\"\n[provider]\nname = \"openai\"\nmodel = \"m\"\napi_key = {{ file = \"{key}\" }}\n"
        ),
    );
    let bash = |command: &str| home.call("bash", &json!({ "command": command }));
    // The first call creates the journal.
    assert_eq!(bash("echo ran").stdout.trim_end(), "ran");
    let journal = home.state().display().to_string();
    assert!(fs::read_dir(home.state()).is_ok_and(|mut entries| entries.next().is_some()));
    for command in [
        format!("cat '{key}'"),
        "cat link".to_owned(),
        format!("cat '/proc/self/root{key}'"),
        format!("cp '{key}' copy && cat copy"),
        format!("grep -r . '{journal}' || ls '{journal}'/*"),
    ] {
        let report = bash(&command);
        let all = format!("{}{}", report.stdout, report.stderr);
        assert!(
            !all.contains("key-4711") && !all.contains("***") && !all.contains("\"echo ran"),
            "{command}: {all}"
        );
        assert!(report.code != 0 || all.contains("exit code"), "{command}: {all}");
    }
}
