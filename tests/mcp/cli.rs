//! The MCP servers of a program.toml, on the command line.

use serde_json::json;

use super::*;
use crate::agent::fake::{Fake, calls, says};
use crate::cli::Home;
use crate::common::wait::until;

/// The names of the listed tools, and standard error.
fn tools(home: &Home, more: &[&str]) -> (Vec<String>, String) {
    let answer = home.haft(&[&["tools", "--json"], more].concat());
    let tools: Vec<Value> = serde_json::from_str(&answer.stdout).unwrap();
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    (names.filter(|name| name.starts_with("mcp__")).collect(), answer.stderr)
}

/// The start of each program.toml of these tests.
const HEAD: &str = "[sandbox]\nworkspace = \".\"\n";

/// MC01, MC02, MC13: two servers with equal tool names are both callable; a list starts no server whose tools are
/// known.
#[test]
fn two_servers_with_the_same_tool() {
    let home = Home::new();
    let both =
        [fake::toml("one", &json!({}), "tools = [\"echo\", \"f*\"]"), fake::toml("two", &json!({}), "")];
    home.write("program.toml", &format!("{HEAD}{}", both.concat()));
    let (names, complaints) = tools(&home, &[]);
    assert_eq!(names[..4], ["mcp__one__echo", "mcp__one__fail", "mcp__one__fork", "mcp__two__echo"]);
    assert_eq!(names.len(), 3 + 16);
    let complaints: Vec<_> = complaints.lines().filter(|line| !line.contains("16 tools pinned")).collect();
    assert_eq!(complaints, [""; 0]);
    let starts = || fake::methods(&home.work()).iter().filter(|method| *method == "tools/list").count();
    assert_eq!(starts(), 2);
    for server in ["one", "two"] {
        let answer =
            home.haft(&["call", &format!("mcp__{server}__echo"), &format!("{{\"to\": \"{server}\"}}")]);
        assert_eq!(
            (answer.stdout, answer.code),
            (format!("{{\"to\":\"{server}\"}}\n"), 0),
            "{}",
            answer.stderr
        );
    }
    assert_eq!(starts(), 4);
    assert_eq!(tools(&home, &[]).0, names);
    assert_eq!(home.haft(&["call", "time"]).code, 0);
    assert_eq!(starts(), 4, "nobody was started for that");
    assert_eq!(home.haft(&["check"]).code, 0);
    assert_eq!(starts(), 6, "a check starts each");
    assert_eq!(tools(&home, &["--refresh"]).0, names);
    assert_eq!(starts(), 8);
}

/// MC08: haft reports each server that fails, and the other servers work.
#[test]
fn one_bad_server_does_not_spoil_the_others() {
    let home = Home::new();
    let servers = [
        fake::toml("bad", &json!({ "start": "crash" }), ""),
        fake::toml("good", &json!({}), "tools = [\"echo\", \"nosuch\"]"),
        "[[mcp_servers]]\nname = \"missing\"\ncommand = \"no-such-server-4711\"\n".to_owned(),
        "[[mcp_servers]]\nname = \"plain\"\nurl = \"http://mcp.test/mcp\"\n".to_owned(),
        "[[mcp_servers]]\nname = \"off\"\ncommand = \"no-such-server-4711\"\nenabled = false\n".to_owned(),
        fake::toml("partly", &json!({ "tools": "bad" }), ""),
    ];
    home.write("program.toml", &format!("{HEAD}{}", servers.concat()));
    let (names, complaints) = tools(&home, &[]);
    assert_eq!(names, ["mcp__good__echo", "mcp__partly__echo", "mcp__partly__bad"]);
    for expected in [
        "MCP server `bad` has ended (exit code 3); its last output:",
        "cannot find module `left-pad`",
        "MCP server `missing` cannot be started: `no-such-server-4711` is not on PATH",
        "MCP server `plain` cannot be used: `http://mcp.test/mcp` would send data unencrypted",
        "MCP server `good` has no tool `nosuch`",
        "MCP server `partly`: it has no name",
    ] {
        assert!(complaints.contains(expected), "{expected}\n{complaints}");
    }
    assert!(!complaints.contains("`off`"));
    let check = home.haft(&["check"]);
    assert!(check.code == 3 && check.stderr.contains("no-such-server-4711"), "{}", check.stderr);
    let doctor = home.haft(&["doctor"]);
    for expected in ["MCP servers", "missing", "not on PATH", "2 tools at the last listing"] {
        assert!(doctor.stdout.contains(expected), "{expected}\n{}", doctor.stdout);
    }
    assert_eq!(home.haft(&["call", "mcp__good__echo", "{}"]).stdout, "{}\n");
}

/// TE05: the model gets an error that names the server that died; the run continues, and the server is callable
/// again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_when_a_server_dies() {
    let home = Home::new();
    home.write("program.toml", &format!("{HEAD}{}", fake::toml("frail", &json!({}), "")));
    let model = Fake::start([
        calls(&[("call_1", "mcp__frail__crash", "{}")]),
        calls(&[("call_2", "mcp__frail__echo", r#"{"again":true}"#)]),
        says("It is back."),
    ])
    .await;
    let url = model.base_url();
    let run = move || home.haft(&["run", "--base-url", &url, "--model", "m", "--tools", "mcp__*", "try"]);
    let answer = tokio::task::spawn_blocking(run).await.unwrap();
    assert_eq!((answer.stdout.as_str(), answer.code), ("It is back.\n", 0), "{}", answer.stderr);
    model.assert_done();
    let report = crate::agent::answers(&model.requests().pop().unwrap());
    assert_eq!(report.len(), 2, "{report:?}");
    assert!(report[0].1.starts_with("Tool error: MCP server `frail` has ended (exit code 7)"), "{report:?}");
    assert_eq!(report[1].1, r#"{"again":true}"#);
}

/// MC02: vendors accept the names of all tools, and the server gets its own names.
#[test]
fn odd_names_are_callable() {
    let home = Home::new();
    home.write("program.toml", &format!("{HEAD}{}", fake::toml("odd", &json!({ "tools": "odd" }), "")));
    let (names, _) = tools(&home, &[]);
    assert_eq!(names.len(), 2);
    for name in &names {
        assert!(name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
        let answer = home.haft(&["call", name, "{}"]);
        assert!(answer.stderr.contains("unknown tool (-32602)"), "{}", answer.stderr);
    }
    let calls = fake::received(&home.work());
    let called: Vec<_> = calls.iter().filter_map(|message| message["params"]["name"].as_str()).collect();
    assert_eq!(called, ["a.b/c d", &"x".repeat(100)]);
}

/// CL04: a server gets its secret, and haft prints the secret nowhere.
#[test]
fn a_server_s_secret_is_its_own() {
    let home = Home::new();
    home.write("token", "sk-a-secret-of-the-server");
    let like = toml::Value::String(json!({}).to_string());
    let server = format!(
        "{HEAD}[[mcp_servers]]\nname = \"s\"\ncommand = {:?}\n[mcp_servers.env]\n{} = {like}\nMY_TOKEN = {{ file = \"token\" }}\n",
        fake::command(),
        fake::LIKE
    );
    home.write("program.toml", &server);
    let answer = home.haft(&["-vv", "call", "mcp__s__env", "{}"]);
    assert!(answer.stdout.contains("MY_TOKEN=***"), "{}\n{}", answer.stdout, answer.stderr);
    assert!(!answer.stdout.contains("OPENAI_API_KEY"));
    assert!(!answer.stderr.contains("secret-of-the-server"));
    std::fs::remove_file(home.work().join("token")).unwrap();
    let answer = home.haft(&["call", "mcp__s__env", "{}"]);
    assert!(answer.code == 1 && answer.stderr.contains("`MY_TOKEN` is not available"), "{}", answer.stderr);
}

/// X10, CL04: a secret in a server's tool definitions is redacted, at once and from the stored list.
#[test]
fn what_a_server_says_of_its_tools_shows_no_secret() {
    let home = Home::new();
    home.write("token", "sk-a-secret-of-the-server");
    let like = toml::Value::String(json!({ "tools": "telling" }).to_string());
    let server = format!(
        "{HEAD}[[mcp_servers]]\nname = \"s\"\ncommand = {:?}\n[mcp_servers.env]\n{} = {like}\nMY_TOKEN = {{ file = \"token\" }}\n",
        fake::command(),
        fake::LIKE
    );
    home.write("program.toml", &server);
    // The second list comes from the store.
    for _ in 0..2 {
        let listed = home.haft(&["tools", "--json"]);
        assert!(listed.stdout.contains("Connected as ***"), "{}\n{}", listed.stdout, listed.stderr);
        assert!(!listed.stdout.contains("secret-of-the-server"), "{}", listed.stdout);
    }
}

/// X1: haft refuses to check arguments against a schema of 2^32 steps, and the call does not reach the server.
#[test]
fn a_schema_that_doubles_ends_no_more_than_its_call() {
    let home = Home::new();
    home.write("program.toml", &format!("{HEAD}{}", fake::toml("s", &json!({ "tools": "doubling" }), "")));
    let answer = home.haft(&["call", "mcp__s__echo", "{\"x\": \"s\"}"]);
    assert!(
        answer.stderr.contains("the arguments cannot be checked: checking this takes more"),
        "{}",
        answer.stderr
    );
    assert!(!fake::methods(&home.work()).contains(&"tools/call".to_owned()));
}

/// MC10: no server is left after haft was killed.
#[test]
fn haft_killed_leaves_no_process() {
    let home = Home::new();
    let mark = format!("mc10-killed-{}", std::process::id());
    let like = json!({ "end": "ignore", "mark": mark });
    home.write("program.toml", &format!("{HEAD}{}", fake::toml("s", &like, "")));
    let mut haft = home.command(&["call", "mcp__s__sleep", "{}"]).spawn().unwrap();
    until("the server is called", || fake::methods(&home.work()).contains(&"tools/call".to_owned()));
    assert!(is_running(&mark));
    haft.kill().unwrap();
    haft.wait().unwrap();
    until("no server is left", || !is_running(&mark));
}

/// MC02: a package's server is available to the program that installed the package, under the usual names.
#[test]
fn a_package_brings_its_server() {
    let home = Home::new();
    home.write("program.toml", HEAD);
    let folder = home.work().join("pack");
    std::fs::create_dir(&folder).unwrap();
    let program = "[program]\nname = \"pack\"\nversion = \"1.0.0\"\n";
    let secrets = "KEY = { env = \"OPENAI_API_KEY\" }, FILE = { file = \"~/key\" }, OWN";
    let server = fake::toml("own", &json!({}), "").replace("OWN", secrets);
    std::fs::write(folder.join("program.toml"), format!("{program}{server}")).unwrap();
    let added = home.haft(&["add", "./pack", "--no-grant", "--yes"]);
    assert_eq!(added.code, 0, "{}", added.stderr);
    for asked in ["MCP server", "read variable", "OPENAI_API_KEY"] {
        assert!(added.stderr.contains(asked), "{asked}: {}", added.stderr);
    }
    let (names, complaints) = tools(&home, &[]);
    assert_eq!(names.len(), 16);
    for expected in [
        "is not granted `KEY`",
        "`env = [\"OPENAI_API_KEY\"]` in `[packages.grant]`",
        "is not granted `FILE`",
    ] {
        assert!(complaints.contains(expected), "{expected}: {complaints}");
    }
    let answer = home.haft(&["call", "mcp__own__env", "{}"]);
    assert!(answer.code == 0 && answer.stdout.contains("OWN=value"), "{}", answer.stderr);
    let has = |name: &str| answer.stdout.lines().any(|line| line.starts_with(name));
    assert!(!has("KEY=") && !has("FILE="), "{}", answer.stdout);
    let mut text = std::fs::read_to_string(home.work().join("program.toml")).unwrap();
    text.push_str(&fake::toml("own", &json!({}), ""));
    home.write("program.toml", &text);
    let (names, complaints) = tools(&home, &[]);
    assert_eq!(names.len(), 16);
    assert!(
        complaints.contains("MCP server `own` is left out: another server has this name"),
        "{complaints}"
    );
}

/// A tool for user interfaces alone is offered to no agent of a program, whether its `tools` name it or not.
#[tokio::test(flavor = "multi_thread")]
async fn tools_for_interfaces_are_offered_to_no_agent() {
    let tool = |name: &str, who: &str| {
        let meta = json!({ "ui": { "visibility": [who] } });
        json!({ "name": name, "inputSchema": { "type": "object" }, "_meta": meta })
    };
    let listed = json!({ "tools": [tool("seen", "model"), tool("hidden", "app")] });
    let raw = format!("{{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{listed}}}");
    let server = fake::toml("own", &json!({ "raw": { "tools/list": raw } }), "");
    for tools in ["", "tools = [\"mcp__*\"]\n"] {
        let called = calls(&[("a", "agent__part", "{\"task\": \"look\"}")]);
        let (home, fake) = (Home::new(), Fake::start([called, says("looked"), says("done")]).await);
        let provider = format!(
            "[provider]\nname = \"openai\"\nmodel = \"m\"\nbase_url = \"{}\"\nstream = false\n",
            fake.base_url()
        );
        let part = format!("[[agents]]\nname = \"part\"\ndescription = \"Looks\"\n{tools}");
        home.write("program.toml", &[HEAD, &provider, &part, &server].concat());
        let mut command = home.command(&["run", "go"]);
        let answer = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let requests = fake.requests();
        assert_eq!(requests.len(), 3, "{}", String::from_utf8_lossy(&answer.stderr));
        for request in &requests {
            let offered = request["tools"].to_string();
            assert!(offered.contains("mcp__own__seen") && !offered.contains("mcp__own__hidden"), "{offered}");
        }
    }
}
