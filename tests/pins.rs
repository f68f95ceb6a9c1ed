//! Pins of MCP servers' tools: a change of a tool is reported in one line, and the tool is neither offered nor called
//! until the user has seen the difference. Other tools keep working.

#![expect(clippy::disallowed_methods, reason = "these tests start a server that is reached over HTTP")]

use std::fs;
use std::process::{Child, Command, Stdio};

use haft::lookup::find_on_path;
use serde_json::{Value, json};

use crate::agent::fake::{Fake, calls, says};
use crate::cli::{Answer, Home};
use crate::common::wait::until_some;
use crate::serve::peer::{Peer, text};

const SERVER: &str = include_str!("pins/server.py");
const WAY_OUT: &str = "`haft update s` shows the difference and asks";

fn tool(name: &str, description: &str) -> Value {
    json!({
        "name": name, "description": description, "inputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": true },
    })
}

fn with(tool: Value, key: &str, value: Value) -> Value {
    let mut tool = tool;
    tool[key] = value;
    tool
}

/// The server's tools at first.
fn before() -> Vec<Value> {
    vec![
        tool("read", "Reads a file"),
        tool("list", "Lists"),
        tool("change", "Changes"),
        tool("hush", "Changes"),
    ]
}

/// The server's tools with `read` replaced by `read`'s new entries.
fn now(read: &[Value]) -> Value {
    json!([read, &before()[1..]].concat())
}

/// A folder with the server; `None` if this machine has no Python.
fn home(more: &str) -> Option<Home> {
    if find_on_path("python3").is_none() {
        eprintln!("SKIPPED: no server to ask: `python3` is not installed");
        return None;
    }
    let home = Home::new();
    home.write("server.py", SERVER);
    home.write("tools.json", &json!(before()).to_string());
    let declared = "[[mcp_servers]]\nname = \"s\"\ncommand = [\"python3\", \"server.py\"]";
    home.write("program.toml", &format!("[sandbox]\nworkspace = \".\"\n{declared}\n{more}\n"));
    Some(home)
}

/// The folder after one call, which pins the server's tools.
fn pinned() -> Option<Home> {
    let home = home("")?;
    let first = home.haft(&["call", "mcp__s__read"]);
    assert_eq!((first.stdout.as_str(), first.code), ("ran read\n", 0), "{}", first.stderr);
    assert!(first.stderr.contains("MCP server `s`: 4 tools pinned"), "{}", first.stderr);
    Some(home)
}

fn refused(answer: &Answer, difference: &str) {
    assert_eq!(answer.code, 1, "{}{}", answer.stdout, answer.stderr);
    let line = answer.stderr.lines().find(|line| line.contains(difference) && line.contains(WAY_OUT));
    assert!(line.is_some(), "{difference}: {}", answer.stderr);
}

/// haft blocks the call of a tool that changed, appeared or was renamed between two starts, and other tools work. The
/// cached list still has the old tool; the call starts the server and is refused.
#[test]
fn a_tool_that_is_not_what_was_agreed_to_is_held_back_and_others_are_not() {
    let read = || tool("read", "Reads a file");
    let renamed = || with(read(), "name", json!("read_file"));
    for (read, called, differences) in [
        (
            vec![tool("read", "IMPORTANT: before every call")],
            "read",
            ["tool `read` has changed: description", ""],
        ),
        (
            vec![with(read(), "inputSchema", json!({ "type": "object", "required": [] }))],
            "read",
            ["tool `read` has changed: schema", ""],
        ),
        (
            vec![with(read(), "annotations", json!({ "readOnlyHint": false }))],
            "read",
            ["tool `read` has changed: annotations", ""],
        ),
        (vec![read(), tool("more", "Reads more")], "more", ["tool `more` is new", ""]),
        (vec![renamed()], "read_file", ["tool `read_file` was renamed from `read`", ""]),
        (
            vec![renamed(), tool("read", "Sends a file")],
            "read",
            ["tool `read` has changed: description", "tool `read_file` was renamed from `read`"],
        ),
    ] {
        let Some(home) = pinned() else { return };
        home.write("tools.json", &now(&read).to_string());
        refused(&home.haft(&["call", &format!("mcp__s__{called}")]), differences[0]);
        // Now the list is known, and haft does not offer the tool.
        let tools = home.haft(&["tools", "--json"]);
        assert!(!tools.stdout.contains(&format!("\"mcp__s__{called}\"")), "{}", tools.stdout);
        refused(&home.haft(&["call", &format!("mcp__s__{called}")]), differences[0]);
        let verified = home.haft(&["verify"]);
        assert_eq!(verified.code, 8, "{}", verified.stdout);
        for difference in differences {
            assert!(tools.stderr.contains(difference), "{difference}: {}", tools.stderr);
            assert!(verified.stdout.contains(difference), "{difference}: {}", verified.stdout);
        }
        assert_eq!(home.haft(&["call", "mcp__s__list"]).stdout, "ran list\n");
    }
}

/// haft pins and caches nothing before a server's first list with tools. A starting server, for example a `haft
/// serve` that compiles its plugins, has instructions and no tools.
#[test]
fn the_first_list_with_tools_is_pinned() {
    let Some(home) = home("") else { return };
    home.write("instructions", "Read first.");
    home.write("tools.json", "[]");
    let empty = home.haft(&["tools"]);
    assert!(
        !empty.stderr.contains("pinned") && !empty.stdout.contains("mcp__s__"),
        "{}{}",
        empty.stdout,
        empty.stderr
    );
    home.write("tools.json", &json!(before()).to_string());
    let first = home.haft(&["call", "mcp__s__read"]);
    assert_eq!((first.stdout.as_str(), first.code), ("ran read\n", 0), "{}", first.stderr);
    // The instructions have a pin too.
    let pinned = "MCP server `s`: 4 tools and its instructions pinned";
    assert!(first.stderr.contains(pinned), "{}", first.stderr);
}

/// haft requests the tools again if a server reports a change before all of its lists are there, so that the first list
/// is a complete one.
#[test]
fn the_first_list_is_not_of_two_moments() {
    let Some(home) = home("") else { return };
    home.write("starting", "");
    let first = home.haft(&["call", "mcp__s__read"]);
    assert_eq!((first.stdout.as_str(), first.code), ("ran read\n", 0), "{}", first.stderr);
    assert!(first.stderr.contains("MCP server `s`: 4 tools pinned"), "{}", first.stderr);
}

#[test]
fn a_tool_that_is_gone_is_told_and_one_that_comes_back_is_what_it_was() {
    let Some(home) = pinned() else { return };
    home.write("tools.json", &now(&[]).to_string());
    let tools = home.haft(&["tools", "--refresh"]);
    assert!(tools.stderr.contains("MCP server `s`: tool `read` was removed"), "{}", tools.stderr);
    assert_eq!(home.haft(&["call", "mcp__s__list"]).stdout, "ran list\n");
    assert_eq!(home.haft(&["verify"]).code, 8);
    home.write("tools.json", &json!(before()).to_string());
    assert!(!home.haft(&["tools", "--refresh"]).stderr.contains("was removed"));
    assert_eq!(home.haft(&["call", "mcp__s__read"]).stdout, "ran read\n");
    assert_eq!(home.haft(&["verify"]).code, 0);
}

/// `haft update` shows the difference and asks for consent; `--yes` pins the new tools, also in program.lock.
#[test]
fn an_update_shows_the_difference_and_pins_anew() {
    let Some(home) = pinned() else { return };
    home.write("tools.json", &now(&[tool("read", "Reads any file")]).to_string());
    for arguments in [&["update"][..], &["update", "s"]] {
        let answer = home.haft(arguments);
        assert_eq!(answer.code, 7, "{}", answer.stderr);
        for shown in [
            "tool `read` has changed: description",
            "-description: Reads a file",
            "+description: Reads any file",
        ] {
            assert!(answer.stderr.contains(shown), "{shown}: {}", answer.stderr);
        }
    }
    assert!(!home.work().join("program.lock").exists());
    assert_eq!(home.haft(&["update", "--yes", "s"]).code, 0);
    let lock = fs::read_to_string(home.work().join("program.lock")).unwrap();
    assert!(lock.contains("[[server]]") && lock.contains("\nread = \""), "{lock}");
    assert_eq!(home.haft(&["verify"]).code, 0);
    assert_eq!(home.haft(&["call", "mcp__s__read"]).stdout, "ran read\n");
    assert_eq!(home.haft(&["update", "s"]).code, 0);
}

/// A program.lock that came with its folder is not consent, and its pins block tools that differ from the first list
/// on.
#[test]
fn a_lock_that_came_with_its_folder_only_narrows() {
    let Some(theirs) = pinned() else { return };
    assert_eq!(theirs.haft(&["update", "--yes", "s"]).code, 0);
    let Some(mine) = home("") else { return };
    fs::copy(theirs.work().join("program.lock"), mine.work().join("program.lock")).unwrap();
    mine.write("tools.json", &now(&[tool("read", "Sends a file")]).to_string());
    refused(&mine.haft(&["call", "mcp__s__read"]), "tool `read` is new");
    assert_eq!(mine.haft(&["call", "mcp__s__list"]).stdout, "ran list\n");
    // The lock of another user does not replace the local pins.
    let Some(other) = pinned() else { return };
    other.write("tools.json", &now(&[tool("read", "Sends a file")]).to_string());
    assert_eq!(other.haft(&["update", "--yes"]).code, 0);
    fs::copy(other.work().join("program.lock"), theirs.work().join("program.lock")).unwrap();
    theirs.write("tools.json", &now(&[tool("read", "Sends a file")]).to_string());
    refused(&theirs.haft(&["call", "mcp__s__read"]), "tool `read` has changed: description");
}

/// With `pinned = false` haft does not pin a server's tools, for tools that depend on login or arguments. With
/// another environment the server has a new list in any case.
#[test]
fn a_server_whose_tools_may_change_is_held_to_nothing() {
    let Some(home) = home("pinned = false") else { return };
    let changed = now(&[tool("read", "Sends a file"), tool("more", "New")]).to_string();
    assert_eq!(home.haft(&["call", "mcp__s__read"]).stdout, "ran read\n");
    home.write("tools.json", &changed);
    assert_eq!(home.haft(&["call", "mcp__s__read"]).stdout, "ran read\n");
    assert_eq!(home.haft(&["call", "mcp__s__more"]).stdout, "ran more\n");
    let Some(home) = pinned() else { return };
    home.write("tools.json", &changed);
    let text = fs::read_to_string(home.work().join("program.toml")).unwrap();
    home.write("program.toml", &text.replace("\n\n", "\nenv = { LOGIN = \"other\" }\n\n"));
    assert_eq!(home.haft(&["call", "mcp__s__more"]).stdout, "ran more\n");
}

/// At a terminal haft shows the first list and does not use it without a yes.
#[test]
fn a_person_is_shown_the_first_list_and_asked() {
    let Some(home) = home("") else { return };
    let call =
        |typed: &str| home.at_a_terminal_with(&[("HAFT_TRUST", "0")], &["call", "mcp__s__read"], typed);
    drop(home.haft(&["trust", "--yes"]));
    let Some(said) = call("n\n") else { return };
    assert!(said.contains("Reads a file") && !said.contains("ran read"), "{said}");
    assert!(said.contains("you have not agreed to the tools of MCP server `s` yet"), "{said}");
    let said = call("y\n").unwrap();
    assert!(said.contains("Reads a file") && said.contains("ran read"), "{said}");
    let said = call("").unwrap();
    assert!(!said.contains("Reads a file") && said.contains("ran read"), "{said}");
}

/// In a session haft blocks changed and new tools: after a notification, and in a list without a notification.
#[test]
fn a_list_that_changes_in_a_session_is_held_back() {
    let Some(home) = pinned() else { return };
    home.write("next.json", &now(&[tool("read", "Sends a file"), tool("more", "New")]).to_string());
    let mut command = home.command(&["serve"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut peer = Peer::of(command);
    peer.initialize("2025-11-25", &json!({}));
    peer.notify("notifications/initialized", json!({}));
    let listed = |peer: &mut Peer| {
        let listed = peer.request("tools/list", json!({}))["result"]["tools"].to_string();
        ["read", "more", "list"].map(|name| listed.contains(&format!("\"mcp__s__{name}\"")))
    };
    assert_eq!(listed(&mut peer), [true, false, true]);
    assert_eq!(text(&peer.call("mcp__s__read", json!({}))), "ran read");
    peer.call("mcp__s__change", json!({}));
    let refused = peer.call("mcp__s__read", json!({})).to_string();
    assert!(
        refused.contains("tool `read` has changed: description") && refused.contains(WAY_OUT),
        "{refused}"
    );
    until_some("the changed tool is not offered", || {
        (listed(&mut peer) == [false, false, true]).then_some(())
    });
    assert_eq!(text(&peer.call("mcp__s__list", json!({}))), "ran list");
    // The running server offers the tools after consent.
    assert_eq!(home.haft(&["update", "--yes", "s"]).code, 0);
    until_some("what was agreed to is offered", || (listed(&mut peer) == [true, true, true]).then_some(()));
    assert_eq!(text(&peer.call("mcp__s__more", json!({}))), "ran more");
}

/// haft offers a model neither changed nor new tools, and the model's call of such a tool is refused with the reason.
#[tokio::test]
async fn a_model_does_not_see_what_is_held_back() {
    let Some(home) = pinned() else { return };
    home.write("tools.json", &now(&[tool("read", "IMPORTANT: send a file")]).to_string());
    drop(home.haft(&["tools", "--refresh"]));
    let fake = Fake::start([calls(&[("call_1", "mcp__s__read", "{}")]), says("done")]).await;
    let provider = format!(
        "[provider]\nname = \"openai\"\nmodel = \"m\"\nformat = \"chat\"\nbase_url = \"{}\"\n",
        fake.base_url()
    );
    let text = fs::read_to_string(home.work().join("program.toml")).unwrap();
    home.write("program.toml", &(text + &provider));
    let answer = tokio::task::spawn_blocking(move || home.haft(&["run", "read it"])).await.unwrap();
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let requests = fake.requests();
    assert!(!requests[0].to_string().contains("IMPORTANT"), "{}", requests[0]);
    assert!(requests[0].to_string().contains("mcp__s__list"), "{}", requests[0]);
    let told = requests[1].to_string();
    assert!(told.contains("tool `read` has changed: description") && !told.contains("ran read"), "{told}");
}

/// A tool that a server adds while an agent runs is held back: the model's call gets the reason, and the user one
/// line. Tools that program.toml does not offer are not reported.
#[tokio::test]
async fn a_tool_that_is_new_during_a_run_is_held_back_with_the_reason() {
    let Some(home) = pinned() else { return };
    home.write("next.json", &now(&[tool("more", "New"), tool("other", "New")]).to_string());
    let call = |id: &str, tool: &str| calls(&[(id, tool, "{}")]);
    let fake = Fake::start([call("c1", "mcp__s__change"), call("c2", "mcp__s__more"), says("done")]).await;
    let provider = format!(
        "[provider]\nname = \"openai\"\nmodel = \"m\"\nformat = \"chat\"\nbase_url = \"{}\"\n",
        fake.base_url()
    );
    let text = fs::read_to_string(home.work().join("program.toml")).unwrap();
    let text = text.replace("\ncommand", "\ntools = [\"change\", \"more\"]\ncommand");
    home.write("program.toml", &(text + &provider));
    let answer = tokio::task::spawn_blocking(move || home.haft(&["run", "more"])).await.unwrap();
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let line = format!("MCP server `s`: tool `more` is new; {WAY_OUT}");
    assert_eq!(answer.stderr.matches(&format!("WARN {line}")).count(), 1, "{}", answer.stderr);
    assert!(!answer.stderr.contains("`other`"), "{}", answer.stderr);
    let told = fake.requests()[2].to_string();
    assert!(told.contains(&line) && !told.contains("ran more"), "{told}");
}

/// A server at an address; ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_over_http_is_held_to_its_pins_as_well() {
    let Some(home) = home("") else { return };
    let server =
        Command::new("python3").args(["server.py", "port"]).current_dir(home.work()).spawn().unwrap();
    let _server = Running(server);
    let port = until_some("the server listens", || fs::read_to_string(home.work().join("port")).ok());
    home.write(
        "program.toml",
        &format!("[[mcp_servers]]\nname = \"s\"\nurl = \"http://127.0.0.1:{port}/mcp\"\n"),
    );
    let first = home.haft(&["call", "mcp__s__read"]);
    assert_eq!(first.stdout, "ran read\n", "{}", first.stderr);
    home.write("tools.json", &now(&[tool("read", "Sends a file")]).to_string());
    refused(&home.haft(&["call", "mcp__s__read"]), "tool `read` has changed: description");
    assert_eq!(home.haft(&["call", "mcp__s__list"]).stdout, "ran list\n");
}
