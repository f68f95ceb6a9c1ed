//! Output to a terminal: no control sequence except haft's own styles, and no line wider than the terminal. Run in
//! terminals that `script` creates.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself, and a terminal for it")]

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::cli::Home;
use crate::common::{hostile, same_environment};

/// One example of every kind of character that must not reach a terminal.
pub(crate) const HOSTILE: &str = "a\u{1b}]52;c;aGk=\u{7}b\u{1b}]0;t\u{7}c\u{1b}[2Jd\u{9b}31me\rf\u{0}g\u{202e}h\u{200b}i\u{e0041}j\u{2028}k\u{7f}l\u{2066}m\u{1b}[31mn\u{1b}P1$r\u{1b}\\o\u{feff}p\u{61c}q\u{e0100}r\u{200d}s";

/// The output of haft, run as `own`, at a terminal with `columns` columns; `None` if the machine has no `script`.
pub(crate) fn shown(own: &Command, columns: usize, arguments: &[&str]) -> Option<String> {
    let Some(script) = haft::lookup::find_on_path("script") else {
        eprintln!("SKIPPED: no terminal: `script` (util-linux) is not installed");
        return None;
    };
    let quote = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    let words = std::iter::once(env!("CARGO_BIN_EXE_haft")).chain(arguments.iter().copied());
    let line = words.map(quote).collect::<Vec<_>>().join(" ");
    let line = format!("stty cols {columns} rows 50; exec {line}");
    let mut command = Command::new(script);
    command.args(["-q", "-c", &line, "/dev/null"]).current_dir(own.get_current_dir().unwrap());
    same_environment(own, &mut command);
    command.env("TERM", "xterm-256color").env_remove("COLUMNS").env_remove("NO_COLOR");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut said).unwrap();
    child.wait().unwrap();
    // The terminal's own line end.
    Some(String::from_utf8(said).unwrap().replace("\r\n", "\n"))
}

/// The text without haft's own styles.
fn without_styles(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(part.len());
        match part[end..].strip_prefix('m') {
            Some(rest) => out += rest,
            None => out.extend(["\u{1b}[", part]),
        }
    }
    out
}

/// Asserts that `text` contains no character that controls a terminal or is invisible.
pub(crate) fn assert_harmless(what: &str, text: &str) {
    let is_bad = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}')
            || c >= '\u{e0000}'
    };
    let bad: Vec<char> = without_styles(text).chars().filter(|c| is_bad(*c)).collect();
    assert!(bad.is_empty(), "{what}: {bad:?} in {text:?}");
}

/// Asserts that no line is wider than the terminal.
pub(crate) fn assert_fits(what: &str, text: &str, columns: usize) {
    for line in without_styles(text).lines() {
        // A tab advances to the next multiple of eight columns.
        let mut parts = line.split('\t');
        let first = parts.next().unwrap_or_default().width();
        let width = parts.fold(first, |at, part| (at + 1).next_multiple_of(8) + part.width());
        assert!(width <= columns, "{what} at {columns}: {width} columns: {line:?}");
    }
}

fn toml(text: &str) -> String {
    text.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect()
}

fn program(description: &str) -> String {
    format!(
        "[program]\nname = \"test\"\nversion = \"0.1.0\"\n\n[sandbox]\nworkspace = \".\"\n\n[[plugins]]\n\
         name = \"guest\"\ncomponent = \"{}\"\n\n[[tools]]\nname = \"a_tool_with_a_rather_long_name\"\n\
         description = \"{}\"\ncommand = \"true\"\n",
        hostile().display(),
        toml(description),
    )
}

/// S13: no output of haft controls the terminal, with text from any source.
#[test]
fn nothing_steers_the_terminal() {
    let home = Home::new();
    home.write("program.toml", &program(&HOSTILE.replace('\u{0}', "")));
    let text = json!({ "text": HOSTILE }).to_string();
    let message = json!({ "message": HOSTILE }).to_string();
    let path = json!({ "file_path": HOSTILE.replace('\u{0}', "") }).to_string();
    let unknown = HOSTILE.replace('\u{0}', "");
    let echo = format!("text={unknown}");
    let command = json!({ "command": format!("printf '%s' '{}'; exit 3", unknown) }).to_string();
    let all: &[&[&str]] = &[
        &["call", "guest__echo", &text],
        &["call", "guest__echo", &text, "--json"],
        &["call", "guest__echo", "--arg", &echo],
        &["call", "guest__panic", &message],
        &["-v", "call", "guest__print", &text],
        &["-vv", "call", "guest__panic", &message],
        &["call", "read", &path],
        &["call", "bash", &command],
        &["call", &unknown],
        &["call", "guest__echo", &unknown],
        &["tools"],
        &["tools", "--json"],
        &["check"],
        &["check", &unknown],
        &["inspect", &unknown],
        &["add", &unknown],
        &["log"],
        &["log", "-n", "all", "--json"],
        &["--program", &unknown, "tools"],
    ];
    for arguments in all {
        let Some(text) = shown(&home.command(&[]), 80, arguments) else { return };
        assert!(!text.trim().is_empty(), "{arguments:?}");
        assert_harmless(&format!("{arguments:?}"), &text);
    }
    let text = shown(&home.command(&[]), 80, &["call", "guest__echo", &text]).unwrap();
    for seen in ["\\u{1b}]52;c;aGk=\\u{7}b", "\\u{202e}", "\\u{9b}31m", "\\u{0}", "\\u{e0041}"] {
        assert!(text.replace('\n', "").contains(seen), "{seen} in {text:?}");
    }
}

/// S13: in a pipe, an answer has exactly the bytes of the tool's result.
#[test]
fn a_pipe_gets_every_byte() {
    let home = Home::new();
    home.write("program.toml", &program("x"));
    let answer = home.call("guest__echo", &json!({ "text": HOSTILE }));
    assert_eq!(answer.stdout, format!("{HOSTILE}\n"), "{}", answer.stderr);
    let whole = home.haft(&["call", "guest__echo", &json!({ "text": HOSTILE }).to_string(), "--json"]);
    let whole: Value = serde_json::from_str(&whole.stdout).unwrap();
    assert_eq!(whole["content"], HOSTILE);
}

/// C13: no line is wider than the terminal.
#[test]
fn no_line_is_wider_than_the_terminal() {
    let long =
        "说明文字很长而且没有空格所以必须在任何地方断开才行 👩\u{200d}👩\u{200d}👧 and words ".repeat(6);
    for columns in [80, 40] {
        let home = Home::new();
        home.write("program.toml", &program(&long));
        let text = json!({ "text": format!("{long}\n  {}\n\tx {long}", "x".repeat(200)) }).to_string();
        let message = json!({ "message": &long }).to_string();
        let guest = hostile();
        let guest = guest.to_str().unwrap();
        let all: &[&[&str]] = &[
            &["call", "guest__echo", &text],
            &["call", "guest__panic", &message],
            &["call", "a_tool_that_is_not_there_and_has_a_long_name_which_nobody_would_ever_write_out"],
            &["-v", "call", "guest__print", &text],
            &["check"],
            &["tools"],
            &["inspect", guest],
            &["add", guest, "--yes", "--as", "another"],
            &["list"],
            &["update"],
            &["verify"],
            &["doctor"],
            &["log"],
            &["log", "-n", "all"],
            &["session", "list"],
            &["--help"],
            &["call", "--help"],
        ];
        for arguments in all {
            let Some(text) = shown(&home.command(&[]), columns, arguments) else { return };
            assert_fits(&format!("{arguments:?}"), &text, columns);
        }
    }
}

/// C13: haft shows a message of a plugin once at every level of verbosity.
#[test]
fn a_plugin_s_messages_are_shown_once() {
    let home = Home::new();
    home.write("program.toml", &program("x"));
    for flags in [&[][..], &["-v"], &["-vv"]] {
        let arguments = [flags, &["call", "guest__log", "{\"lines\": 1}"]].concat();
        let quiet = home.haft(&["call", "guest__log", "{\"lines\": 1}"]);
        let said = quiet.stderr.lines().next().unwrap().to_owned();
        let answer = home.haft(&arguments);
        assert_eq!(answer.stderr.matches(&said).count(), 1, "{flags:?}: {}", answer.stderr);
    }
}

/// U13: `haft tools NAME` shows a tool with its arguments and its rights, and the error for a misspelt name suggests
/// the nearest.
#[test]
fn one_tool_is_shown() {
    let home = Home::new();
    home.write("program.toml", &program("x"));
    let shown = home.haft(&["tools", "edit"]).stdout;
    for expected in [
        "Replaces a text in a file",
        "old_string: string, required",
        "replace_all: boolean",
        "write ",
        "costs ",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert!(!home.haft(&["tools", "guest__echo"]).stdout.contains("anyOf"));
    let value: Value = serde_json::from_str(&home.haft(&["--json", "tools", "read"]).stdout).unwrap();
    assert!(value["grant"]["write"].is_array() && value["name"] == "read", "{value}");
    let slip = home.haft(&["tools", "raed"]);
    assert!(slip.code != 0 && slip.stderr.contains("did you mean `read`?"), "{}", slip.stderr);
}

/// U14: outside of a repository `haft init` writes a tool that works there.
#[test]
fn what_init_writes_can_be_called() {
    let home = Home::new();
    assert_eq!(home.haft(&["init", "inside"]).code, 0);
    let read = |folder: &std::path::Path| std::fs::read_to_string(folder.join("program.toml")).unwrap();
    assert!(read(&home.work().join("inside")).contains("git log"));
    let elsewhere = tempfile::tempdir().unwrap();
    assert_eq!(home.haft(&["init", elsewhere.path().to_str().unwrap()]).code, 0);
    assert!(!read(elsewhere.path()).contains("git log"), "{}", read(elsewhere.path()));
    let mut call = home.command(&["tools"]);
    let listed = call.current_dir(elsewhere.path()).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let name =
        listed.lines().find_map(|line| line.split(' ').next().filter(|name| name.ends_with("__recent")));
    let called = home.command(&["call", name.unwrap()]).current_dir(elsewhere.path()).output().unwrap();
    assert!(called.status.success(), "{called:?}");
}

/// U14: at 80 columns the digest fits on one line, and the final question names the package.
#[test]
fn consent_names_what_it_is_about() {
    let home = Home::new();
    let guest = hostile();
    let columns = [("COLUMNS", "80")];
    let arguments = ["add", guest.to_str().unwrap(), "--name", "another"];
    let Some(said) = home.at_a_terminal_with(&columns, &arguments, "n\n") else { return };
    let said = without_styles(&said.replace('\r', ""));
    let is_digest =
        |line: &str| line.split(' ').next_back().is_some_and(|word| word.len() == 64) && line.len() <= 80;
    assert!(said.lines().any(|line| line.starts_with("  sha256 ") && is_digest(line)), "{said}");
    let end: Vec<_> = said.lines().rev().take(24).collect();
    assert!(end.iter().any(|line| line.contains("Install `another`? [y/N]")), "{said}");
}
