//! haft as a person or a script sees it: the program, its two output streams and its exit code.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::common::wait::{ended, until};
use crate::common::{cache, hostile, repository, same_environment};

/// A temporary home directory with a workspace. Temporary files have a directory of their own, because tools may
/// write there and must not reach other files of the test. An empty `.git` makes the home a repository: haft does not
/// search the directories above it, which may have an `AGENTS.md` and skills.
pub(crate) struct Home {
    directory: tempfile::TempDir,
}

pub(crate) struct Answer {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Home {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for folder in ["work", "tmp", ".git"] {
            fs::create_dir(directory.path().join(folder)).unwrap();
        }
        Self { directory }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.directory.path().join(".local/state/haft")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.work().join(name), text).unwrap();
    }

    /// haft in the workspace, with this home and an API key in its environment, and without the haft settings of the
    /// person who runs the tests.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env("HOME", self.directory.path())
            .env("HAFT_TRUST", "1")
            .env("TMPDIR", self.directory.path().join("tmp"))
            .env("XDG_CACHE_HOME", cache())
            .env("OPENAI_API_KEY", SECRET)
            .stdin(Stdio::null());
        for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "HAFT_JOURNAL", "HAFT_LOG"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn haft(&self, arguments: &[&str]) -> Answer {
        Answer::from(self.command(arguments).output().unwrap())
    }

    /// The terminal output of haft when a person types `typed` at the first question; an empty `typed` ends the input
    /// at once. `None` if the machine has no `script`, which provides the terminal.
    pub(crate) fn at_a_terminal(&self, arguments: &[&str], typed: &str) -> Option<String> {
        self.at_a_terminal_with(&[], arguments, typed)
    }

    /// As `at_a_terminal`, with more variables.
    pub(crate) fn at_a_terminal_with(
        &self,
        variables: &[(&str, &str)],
        arguments: &[&str],
        typed: &str,
    ) -> Option<String> {
        let Some(script) = haft::lookup::find_on_path("script") else {
            eprintln!("SKIPPED: no terminal to ask at: `script` (util-linux) is not installed");
            return None;
        };
        let own = self.command(&[]);
        let quote = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
        let words = std::iter::once(env!("CARGO_BIN_EXE_haft")).chain(arguments.iter().copied());
        let line = words.map(quote).collect::<Vec<_>>().join(" ");
        let mut command = Command::new(script);
        command.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(self.work());
        same_environment(&own, &mut command);
        command.envs(variables.iter().copied());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().filter(|_| !typed.is_empty());
        let mut output = child.stdout.take().unwrap();
        let mut said = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = std::io::Read::read(&mut output, &mut piece) {
            said.extend_from_slice(&piece[..read]);
            // haft ignores input that arrives before the question.
            if let Some(input) = &mut input
                && is_asked(&said)
            {
                std::io::Write::write_all(input, typed.as_bytes()).unwrap();
            }
        }
        child.wait().unwrap();
        Some(String::from_utf8_lossy(&said).into_owned())
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Answer {
        self.haft(&["call", tool, &arguments.to_string()])
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap_or(-1),
        }
    }
}

pub(crate) const SECRET: &str = "sk-never-to-be-seen-4711";

/// A program with the hostile guest as a plugin and a command tool.
fn program(grant: &str) -> String {
    format!(
        r#"
[program]
name = "test"
version = "0.1.0"

[sandbox]
workspace = "."

[[plugins]]
name = "guest"
component = "{}"
{grant}

[[tools]]
name = "greet"
description = "Greet somebody"
command = "printf 'hello %s\n'"
arguments = [{{ name = "name", description = "Who", required = true }}]
"#,
        hostile().display()
    )
}

/// The first command of README.md works as written there.
#[test]
fn readme_s_first_command_counts_the_readme() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let command = readme.lines().find_map(|line| line.strip_prefix("$ cargo run -- ")).unwrap();
    let arguments: Vec<&str> = command.split(' ').collect();
    let home = Home::new();
    // The example's tools may write below the repository, where the tests' own cache may be.
    let cache = tempfile::tempdir().unwrap();
    let mut command = home.command(&arguments);
    command.current_dir(repository()).env("XDG_CACHE_HOME", cache.path());
    let answer = Answer::from(command.output().unwrap());
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stdout.contains(&format!("{} lines", readme.lines().count())), "{}", answer.stdout);
    assert_eq!(answer.stderr, "");
}

/// CL01, TE01: the built-in tools read, write, edit and run; the exit code says whether the call succeeded.
#[test]
fn built_in_tools_do_their_work() {
    let home = Home::new();
    let file = json!({ "file_path": "notes/a.txt", "content": "one\ntwo\n" });
    assert_eq!(home.call("write", &file).stdout, "Wrote 8 bytes to notes/a.txt\n");
    let edit = json!({ "file_path": "notes/a.txt", "old_string": "two", "new_string": "2" });
    assert_eq!(home.call("edit", &edit).code, 0);
    assert_eq!(home.haft(&["call", "read", "--arg", "file_path=notes/a.txt"]).stdout, "one\n2\n");
    let there = home.work().join("notes/a.txt");
    assert_eq!(fs::read_to_string(there).unwrap(), "one\n2\n");
    let bash = home.call("bash", &json!({ "command": "cat notes/a.txt; exit 7" }));
    assert_eq!((bash.stdout.as_str(), bash.stderr.as_str(), bash.code), ("", "one\n2\n(exit code: 7)\n", 1));
    assert!(home.haft(&["call", "time", "-a", "format=iso"]).stdout.ends_with("Z\n"));
}

/// TE01, TE06: haft lists the built-in tools in a fixed order.
#[test]
fn tools_are_listed_in_a_stable_order() {
    let home = Home::new();
    let names = |answer: Answer| -> Vec<String> {
        let tools: Vec<Value> = serde_json::from_str(&answer.stdout).unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let tools = names(home.haft(&["tools", "--json"]));
    assert_eq!(tools, ["bash", "read", "write", "edit", "time", "fetch_url", "web_search"]);
    home.write("program.toml", &program(""));
    let first = names(home.haft(&["tools", "--json"]));
    assert_eq!(first, names(home.haft(&["tools", "--json"])));
    assert!(first.contains(&"guest__echo".to_owned()) && first.contains(&"program__test__greet".to_owned()));
}

/// RG04: `[builtins]` switches tools off.
#[test]
fn builtins_can_be_switched_off() {
    let home = Home::new();
    home.write("program.toml", "[builtins]\nshell = false\nfiles = false\n");
    let table = home.haft(&["tools"]).stdout;
    assert!(table.contains("time") && !table.contains("bash") && !table.contains("read"), "{table}");
    assert_eq!(home.call("bash", &json!({ "command": "true" })).stderr, "Unknown tool: bash\n");
}

/// PR02, PR04: a command tool runs under its own name and under the `program:NAME:TOOL` form of the reference
/// documents.
#[test]
fn a_command_tool_runs_under_both_names() {
    let home = Home::new();
    home.write("program.toml", &program(""));
    for name in ["program__test__greet", "program:test:greet"] {
        assert_eq!(home.haft(&["call", name, "--arg", "name=$(id); you"]).stdout, "hello $(id); you\n");
    }
    let missing = home.haft(&["call", "program:test:greet"]);
    assert_eq!((missing.code, missing.stderr.as_str()), (1, "invalid arguments: `name` is required\n"));
}

/// A guest's printed text never reaches haft's standard output.
#[test]
fn what_a_guest_prints_stays_off_standard_output() {
    let home = Home::new();
    home.write("program.toml", &program(""));
    let answer = home.call("guest__print", &json!({ "text": "printed by the guest" }));
    assert!(!answer.stdout.contains("printed by the guest"), "{}", answer.stdout);
    let verbose = home.haft(&["-v", "call", "guest__print", r#"{"text": "printed by the guest"}"#]);
    assert!(verbose.stderr.contains("printed by the guest") && !verbose.stdout.contains("printed by"));
}

/// A plugin has only the rights that program.toml and `--allow` grant; a refusal names the line to add.
#[test]
fn a_grant_is_all_a_plugin_gets() {
    let home = Home::new();
    home.write("secret.txt", "the secret");
    home.write("program.toml", &program(""));
    let open = |home: &Home, more: &[&str]| {
        let path = home.work().join("secret.txt");
        let arguments = json!({ "path": path }).to_string();
        home.haft(&[more, &["call", "guest__open", &arguments]].concat())
    };
    let refused = open(&home, &[]);
    assert_eq!(refused.code, 1);
    let line = format!("add `read = [\"{}\"]` to `[plugins.grant]` of `guest`", home.work().display());
    assert!(refused.stderr.contains(&line), "{}", refused.stderr);
    assert!(open(&home, &["--allow", "guest:read=."]).stdout.contains("the secret"));
    home.write("program.toml", &program("[plugins.grant]\nread = [\".\"]"));
    assert!(open(&home, &[]).stdout.contains("the secret"));
    let wrong = home.haft(&["--allow", "gest:read=.", "tools"]);
    assert!(wrong.stderr.contains("`gest`, which this program does not have"), "{}", wrong.stderr);
}

/// CL04: haft's own secrets do not reach children, guests or the output.
#[test]
fn secrets_stay_with_haft() {
    let home = Home::new();
    home.write("program.toml", &program("[plugins.grant]\nenv = [\"LANG\"]"));
    for answer in [
        home.call("bash", &json!({ "command": "env; cat /proc/self/environ" })),
        home.call("guest__env", &json!({})),
        home.haft(&["-vvv", "call", "time"]),
        home.haft(&["run", "--base-url", "http://127.0.0.1:1/v1", "--model", "m", "hi"]),
    ] {
        assert!(!answer.stdout.contains(SECRET) && !answer.stderr.contains(SECRET));
    }
}

#[test]
fn a_wrong_program_is_reported_whole_and_with_its_own_exit_code() {
    let home = Home::new();
    home.write("program.toml", "[sandbox]\nmode = \"rxw\"\n[builtin]\nshell = true\n");
    let answer = home.haft(&["tools"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (3, ""));
    assert!(
        answer.stderr.contains("program.toml:2:") && answer.stderr.contains("program.toml:3:"),
        "{}",
        answer.stderr
    );
}

/// WA04: a plugin that cannot be loaded is a warning and does not affect other plugins.
#[test]
fn one_bad_plugin_does_not_spoil_the_others() {
    let home = Home::new();
    home.write("bad.wasm", "not wasm");
    let bad = "\n[[plugins]]\nname = \"bad\"\ncomponent = \"bad.wasm\"\n";
    home.write("program.toml", &format!("{}{bad}", program("")));
    let answer = home.call("guest__echo", &json!({ "text": "still here" }));
    // A call loads only its own plugin; the list of tools loads all plugins.
    assert_eq!((answer.stdout.as_str(), answer.stderr.as_str(), answer.code), ("still here\n", "", 0));
    let tools = home.haft(&["tools"]);
    assert!(tools.stdout.contains("guest__echo"), "{}", tools.stdout);
    assert!(tools.stderr.contains("warning: plugin `bad` cannot be loaded"), "{}", tools.stderr);
    let check = home.haft(&["check"]);
    assert_eq!(check.code, 3);
    assert!(check.stderr.contains("bad.wasm"), "{}", check.stderr);
}

/// RS07: if no person can answer, haft does not run a call that needs a person's approval.
#[test]
fn what_nobody_can_approve_is_not_run() {
    let home = Home::new();
    let confirmed = "[program]\nname = \"p\"\nversion = \"1.0.0\"\n\n[[tools]]\nname = \"t\"\ndescription = \"Runs\"\ncommand = \"touch ran\"\n\
                     confirm = true\n\n[builtins]\nshell_confirm = true\n";
    home.write("program.toml", confirmed);
    for (tool, arguments) in [("bash", json!({ "command": "touch ran" })), ("program__p__t", json!({}))] {
        let answer = home.call(tool, &arguments);
        assert_eq!(answer.code, 1);
        let expected = format!("`{tool}` did not run: it needs a person's approval, and standard error");
        assert!(answer.stderr.contains(&expected), "{}", answer.stderr);
        assert!(answer.stderr.contains("hint: call it where a person can answer"), "{}", answer.stderr);
    }
    let tools = home.haft(&["tools", "--json"]);
    assert!(tools.stdout.contains("\"asks\":true"), "{}", tools.stdout);
}

/// RS06: haft asks a person at a terminal on standard error and reads the answer there.
#[test]
fn a_person_at_a_terminal_is_asked() {
    let home = Home::new();
    home.write("program.toml", "[builtins]\nshell_confirm = true\n");
    let arguments = json!({ "command": "echo 47\"\"11" }).to_string();
    for (typed, expected) in
        [("y\n", "4711"), ("n\n", "Command execution denied by user."), ("\n", "denied by user")]
    {
        let Some(said) = home.at_a_terminal(&["call", "bash", &arguments], typed) else { return };
        assert!(said.contains("  Run: echo 47\"\"11 [y/N] "), "{said}");
        assert!(said.contains(expected), "{said}");
        assert_eq!(said.contains("4711"), expected == "4711", "{said}");
    }
}

/// haft reports a required tool that the program does not have.
#[test]
fn what_is_required_and_missing_is_said() {
    let home = Home::new();
    home.write("program.toml", "[requires_tools]\nnames = [\"grep\"]\n");
    let answer = home.haft(&["tools", "--json"]);
    assert!(answer.stderr.contains("requires the tool `grep`, which it does not have"), "{}", answer.stderr);
    assert_eq!(home.haft(&["check"]).code, 3);
}

/// PR06: `haft check` finds programs and directories that are missing on this machine.
#[test]
fn check_names_what_is_missing() {
    let home = Home::new();
    let requirements = "[host_requirements]\nrequired = [\"no-such-program-4711\"]\n";
    let grant = "[plugins.grant]\nread = [\"no-such-directory\"]\n";
    home.write("program.toml", &format!("{}{requirements}", program(grant)));
    let check = home.haft(&["check"]);
    assert_eq!(check.code, 3);
    for expected in ["no-such-program-4711", "no-such-directory` cannot be opened", "hint: "] {
        assert!(check.stderr.contains(expected), "{}", check.stderr);
    }
}

/// C13: a granted folder that does not exist yet is a warning; a granted path that is not a folder is an error.
#[test]
fn a_granted_folder_that_is_not_there_yet_is_a_warning() {
    let home = Home::new();
    home.write("program.toml", &program("[plugins.grant]\nread = [\"later\"]\n"));
    let check = home.haft(&["check"]);
    assert_eq!(check.code, 0, "{}", check.stderr);
    assert!(check.stderr.contains("warning: granted directory") && check.stderr.contains("mkdir -p"));
    home.write("later", "");
    assert_eq!(home.haft(&["check"]).code, 3);
}

/// `haft serve` at a terminal says what it waits for.
#[test]
fn a_server_at_a_terminal_says_that_it_waits() {
    let home = Home::new();
    home.write("program.toml", "[program]\nname = \"p\"\nversion = \"1.0.0\"\n");
    let Some(shown) = home.at_a_terminal(&["serve"], "") else { return };
    assert!(
        shown.contains("waiting for an MCP client on standard input; `haft serve --print-config"),
        "{shown}"
    );
    assert!(!home.haft(&["serve"]).stderr.contains("waiting for"));
}

/// C13: a process may be granted a file; a path that does not exist is a warning. `check` names a missing network.
#[test]
fn a_granted_file_of_a_process_is_no_problem() {
    let home = Home::new();
    let tool = "[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"sh\", \"-c\", \"cat file\"]\n";
    let grant = "[tools.grant]\nread = [\"file\"]\n";
    home.write("program.toml", &format!("[program]\nname = \"p\"\nversion = \"1.0.0\"\n{tool}{grant}"));
    let check = home.haft(&["check"]);
    assert!(check.stderr.contains("warning: granted directory"), "{}", check.stderr);
    home.write("file", "its text");
    let check = home.haft(&["check"]);
    assert!(check.code == 0 && !check.stderr.contains("granted"), "{}", check.stderr);
    assert!(check.stdout.contains("command `t` is granted read=file; no network\n"), "{}", check.stdout);
}

#[test]
fn init_writes_a_program_that_checks_and_never_overwrites_one() {
    let home = Home::new();
    assert_eq!(home.haft(&["init"]).code, 0);
    // C14: the schema file that the first line names for editors exists.
    let schema = fs::read_to_string(home.work().join("program.schema.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&schema).unwrap(), haft::manifest::json_schema());
    let check = home.haft(&["check"]);
    assert_eq!(check.code, 0, "{}", check.stderr);
    let written = fs::read_to_string(home.work().join("program.toml")).unwrap();
    assert_eq!(home.haft(&["init"]).code, 5);
    assert_eq!(fs::read_to_string(home.work().join("program.toml")).unwrap(), written);
}

/// S02: input typed before the question appears does not count as consent.
#[test]
fn typing_ahead_agrees_to_nothing() {
    let home = Home::new();
    fs::copy(repository().join("plugins/built/wordcount.wasm"), home.work().join("words.wasm")).unwrap();
    let Some(script) = haft::lookup::find_on_path("script") else {
        eprintln!("SKIPPED: no terminal to ask at: `script` (util-linux) is not installed");
        return;
    };
    // haft starts after the terminal has received the line.
    let line = format!(
        "until [ -e go ]; do sleep 0.05; done; exec '{}' add ./words.wasm",
        env!("CARGO_BIN_EXE_haft")
    );
    let own = home.command(&[]);
    let mut command = Command::new(script);
    command.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(home.work());
    same_environment(&own, &mut command);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take(), child.stdout.take().unwrap());
    std::io::Write::write_all(input.as_mut().unwrap(), b"yes\n").unwrap();
    let (mut said, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = std::io::Read::read(&mut output, &mut piece) {
        said.extend_from_slice(&piece[..read]);
        if said.ends_with(b"yes\r\n") {
            home.write("go", "");
        }
        if said.ends_with(b"[y/N] ")
            && let Some(mut input) = input.take()
        {
            std::io::Write::write_all(&mut input, b"no\n").unwrap();
        }
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(!child.wait().unwrap().success() && said.contains("nothing was changed"), "{said}");
}

/// C12: for input in a nearly correct form, the error shows the correct form.
#[test]
fn what_is_nearly_right_gets_a_hint() {
    let home = Home::new();
    let call = home.haft(&["call", "read", "file_path=a b"]);
    assert_eq!(call.code, 5);
    assert!(call.stderr.contains("`haft call read --arg 'file_path=a b'`"), "{}", call.stderr);
    let add = home.haft(&["add", "ghcr.io/me/x:1", "--yes"]);
    assert!(add.stderr.contains("`oci://ghcr.io/me/x:1`"), "{}", add.stderr);
    let missing = home.haft(&["add", "./words.wasm", "--yes"]);
    assert!(!missing.stderr.contains("oci://"), "{}", missing.stderr);
    assert!(home.haft(&["update"]).stderr.contains("nothing is installed here"));
}

/// The error for arguments that are not JSON repeats only a part of a long text.
#[test]
fn arguments_that_are_no_json_are_repeated_in_part() {
    let home = Home::new();
    let long = "x".repeat(100_000);
    for text in [long.clone(), format!("name={long}")] {
        let call = home.haft(&["call", "time", &text]);
        assert_eq!(call.code, 5);
        assert!(
            call.stderr.contains("are not a JSON object") && call.stderr.contains("xxxx"),
            "{}",
            call.stderr
        );
        assert!(call.stderr.len() < 5000, "{}", call.stderr.len());
    }
    let near = home.haft(&["call", "time", "zone=utc"]);
    assert!(near.stderr.contains("--arg 'zone=utc'"), "{}", near.stderr);
}

/// A prompt over 16 MiB is refused, because a truncated prompt may ask for something else.
#[test]
fn a_prompt_that_is_too_long_is_refused_whole() {
    let home = Home::new();
    fs::write(home.work().join("long"), "é".repeat(9 << 20)).unwrap();
    let mut run = home.command(&["run", "-"]);
    run.stdin(fs::File::open(home.work().join("long")).unwrap());
    let run = run.output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("the prompt on standard input: more than 16 MiB"), "{said}");
}

#[test]
fn schema_is_a_json_schema_that_the_example_satisfies() {
    let schema: Value = serde_json::from_str(&Home::new().haft(&["self", "schema"]).stdout).unwrap();
    let example = fs::read_to_string(repository().join("program.toml.example")).unwrap();
    let example: Value = serde_json::to_value(example.parse::<toml::Table>().unwrap()).unwrap();
    jsonschema::validate(&schema, &example).unwrap();
}

#[test]
fn json_answers_are_json() {
    let home = Home::new();
    let answer = home.haft(&["--json", "call", "read", r#"{"file_path": "/no/such/file"}"#]);
    let result: Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!((result["is_error"].as_bool(), answer.code), (Some(true), 1));
}

/// Ctrl-C stops the running call at once, with all its processes.
#[test]
fn an_interrupt_stops_the_call() {
    let home = Home::new();
    let workspace = home.work();
    let (started, sentinel) = (workspace.join("started"), workspace.join("sentinel"));
    let script = format!("touch {}; sleep 3600; touch {}", started.display(), sentinel.display());
    let mut child = home
        .command(&["call", "bash", &json!({ "command": script }).to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the command starts", || started.exists());
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    // The interrupt ends the call: the command itself would take longer than the test waits.
    assert_eq!(ended(&mut child).code(), Some(130));
    assert!(!sentinel.exists());
}

/// True if the output ends with the choices of a question: `[y/N]`, `[y/N/always/write]`.
fn is_asked(said: &[u8]) -> bool {
    let start = said.iter().rposition(|byte| *byte == b'[').unwrap_or(0);
    said[start..].starts_with(b"[y/N") && said.ends_with(b"] ")
}
