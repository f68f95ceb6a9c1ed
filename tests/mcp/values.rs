//! Servers and values with small errors: haft accepts a value with one possible meaning, and reports the
//! correction.

use serde_json::json;

use super::*;
use crate::agent::fake::{Fake, calls, says};
use crate::cli::Home;

/// A home with a server with the behaviour `like`.
fn home(like: &Value) -> Home {
    let home = Home::new();
    home.write("program.toml", &format!("[sandbox]\nworkspace = \".\"\n{}", fake::toml("s", like, "")));
    home
}

/// A list with the tool `echo`, whose schema is `schema`.
fn list(schema: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": "ID", "result": { "tools": [{ "name": "echo", "inputSchema": schema }] } })
}

/// The answer `message` as text, with the request's id.
fn raw(message: &Value) -> String {
    message.to_string().replace("\"ID\"", "ID")
}

/// (B07) Half a surrogate pair in a list or an answer becomes U+FFFD, and the rest stays.
#[test]
fn half_a_character_loses_nothing_else() {
    let tools = r#"{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"echo","description":"cut \ud83d","inputSchema":{"type":"object"}},{"name":"fail","inputSchema":{}}]}}"#;
    let answer =
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"before \ud83d after"}]}}"#;
    let home = home(&json!({ "raw": { "tools/list": tools, "tools/call": answer } }));
    let said = home.haft(&["call", "mcp__s__fail", "{}"]);
    assert_eq!((said.stdout.as_str(), said.code), ("before \u{fffd} after\n", 0), "{}", said.stderr);
}

/// (B33) haft reads an empty list as an empty object wherever only an object is valid.
#[test]
fn an_empty_list_in_the_place_of_an_object_is_one() {
    let initialized = r#"{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":[],"logging":[],"experimental":[]},"serverInfo":{"name":"s","version":"1"},"_meta":[]}}"#;
    let tools = r#"{"jsonrpc":"2.0","id":ID,"result":{"_meta":[],"tools":[{"name":"echo","_meta":[],"annotations":[],"inputSchema":{"type":"object","properties":[],"required":[]},"outputSchema":[]},{"name":"b","inputSchema":[]}]}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":ID,"result":{"_meta":[],"structuredContent":[],"content":[{"type":"text","text":"hi","annotations":[],"_meta":[]}]}}"#;
    let home =
        home(&json!({ "raw": { "initialize": initialized, "tools/list": tools, "tools/call": answer } }));
    for tool in ["mcp__s__echo", "mcp__s__b"] {
        let said = home.haft(&["call", tool, "{}"]);
        assert!(said.stdout.starts_with("hi") && said.code == 0, "{tool}: {}{}", said.stdout, said.stderr);
    }
}

/// Errors about invalid answers are in haft's words, without messages of libraries.
#[test]
fn errors_are_in_words_of_haft() {
    for (method, text, told) in [
        (
            "initialize",
            r#"{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":7}}"#,
            "its answer to `initialize` is invalid",
        ),
        (
            "tools/list",
            r#"{"jsonrpc":"2.0","id":ID,"result":{"tools":{}}}"#,
            "its list of tools has no `tools`",
        ),
        (
            "tools/call",
            r#"{"jsonrpc":"2.0","id":ID,"result":"#,
            "the server's answer is malformed: it ends in the middle of a value",
        ),
        (
            "tools/call",
            r#"{"jsonrpc":"2.0","id":ID}"#,
            "the server's answer is malformed: it is not a JSON-RPC 2.0 message",
        ),
    ] {
        let home = home(&json!({ "raw": { method: text } }));
        let said = home.haft(&["call", "mcp__s__echo", "{}"]);
        let all = said.stdout + &said.stderr;
        assert!(all.contains(told), "{text}: {all}");
        for foreign in ["untagged", "serde", "Some(", "expected value at", "EOF"] {
            assert!(!all.contains(foreign), "{text}: {all}");
        }
    }
}

/// (B12, B13) A tool with a faulty schema stays callable, and `haft check` reports the parts that haft does not
/// check.
#[test]
fn what_is_wrong_with_a_schema_is_told_by_a_check() {
    let schema = json!({ "type": "object", "properties": {
        "n": { "type": "float" }, "s": { "type": "string", "pattern": "^[\\w-.]+$" }, "r": { "$ref": "#/$defs/Gone" },
    } });
    let home = home(&json!({ "raw": { "tools/list": raw(&list(&schema)) } }));
    let said = home.haft(&["call", "mcp__s__echo", r#"{"n": 1.5, "s": "a-b", "r": [1]}"#]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(home.haft(&["call", "mcp__s__echo", r#"{"n": true}"#]).stderr.contains("invalid arguments"));
    let check = home.haft(&["check"]);
    for told in [
        "schema of an MCP server mended: mcp__s__echo: `/properties/n/type`: read as `\"number\"`",
        "`/properties/s/pattern`: not checked: haft cannot read this regular expression",
        "`/properties/r/$ref`: not checked: the reference has no target",
    ] {
        assert!(check.stderr.contains(told), "{told}\n{}", check.stderr);
    }
    assert!(home.haft(&["check", "--json"]).stdout.contains("the reference has no target"));
}

/// (B06) haft converts values that are given as text to the schema's types, and reports each conversion to the
/// caller.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_given_as_text_are_taken_as_the_schema_says() {
    let schema = json!({ "properties": {
        "n": { "type": "integer" }, "on": { "type": "boolean" }, "list": { "type": "array" }, "o": { "type": "object" }, "s": { "type": "string" },
    } });
    let home = home(&json!({ "raw": { "tools/list": raw(&list(&schema)) } }));
    let given = r#"{"n":"5","on":"false","list":"[\"a\"]","o":"{\"x\":1}","s":"7"}"#;
    let meant = r#"{"n":5,"on":false,"list":["a"],"o":{"x":1},"s":"7"}"#;
    let said = home.haft(&["call", "mcp__s__echo", given]);
    assert_eq!((said.stdout.trim(), said.code), (meant, 0), "{}", said.stderr);
    assert!(said.stderr.contains("note: `n` was given as text and read as a number"), "{}", said.stderr);
    assert!(!said.stderr.contains("note: `s`"), "{}", said.stderr);
    let model = Fake::start([calls(&[("call_1", "mcp__s__echo", given)]), says("Done.")]).await;
    let url = model.base_url();
    let run = move || home.haft(&["run", "--base-url", &url, "--model", "m", "--tools", "mcp__*", "try"]);
    let answer = tokio::task::spawn_blocking(run).await.unwrap();
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let told = &crate::agent::answers(&model.requests().pop().unwrap())[0].1;
    assert!(
        told.starts_with(meant) && told.contains("\n[`on` was given as text and read as a truth value]"),
        "{told}"
    );
}

/// (B15) A tool that a server announces during a run is available at the next step, unless `--tools` does not name
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_that_are_announced_are_offered_while_an_agent_works() {
    for (patterns, is_offered) in [("mcp__*", true), ("mcp__s__change", false)] {
        let home = home(&json!({}));
        let free = std::fs::read_to_string(home.work().join("program.toml")).unwrap() + "pinned = false\n";
        home.write("program.toml", &free);
        let model = Fake::start([
            calls(&[("call_1", "mcp__s__change", "{}")]),
            calls(&[("call_2", "mcp__s__added", "{}")]),
            says("Done."),
        ])
        .await;
        let url = model.base_url();
        let run = move || home.haft(&["run", "--base-url", &url, "--model", "m", "--tools", patterns, "try"]);
        let answer = tokio::task::spawn_blocking(run).await.unwrap();
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        let offered = |request: &Value| {
            let tools = request["tools"].as_array().unwrap();
            tools.iter().any(|tool| tool["function"]["name"] == "mcp__s__added")
        };
        let requests = model.requests();
        let all: Vec<_> = requests.iter().map(offered).collect();
        assert_eq!(all, [false, is_offered, is_offered], "{patterns}");
        let last = crate::agent::answers(requests.last().unwrap()).pop().unwrap().1;
        assert_eq!(last.contains("Unknown tool"), !is_offered, "{last}");
    }
}

/// (M5) A change of a file that the server's script imports makes haft list the tools again.
#[test]
fn a_list_is_as_old_as_what_its_server_imports() {
    let home = Home::new();
    let exec: String = fake::command().iter().map(|word| format!("'{word}' ")).collect();
    home.write("server.sh", &format!(". ./like/it.sh\nexec {exec}\n"));
    std::fs::create_dir(home.work().join("like")).unwrap();
    home.write(
        "program.toml",
        "[sandbox]\nworkspace = \".\"\n[[mcp_servers]]\nname = \"s\"\ncommand = [\"sh\", \"server.sh\"]\npinned = false\n",
    );
    let names = |like: &Value| {
        home.write("like/it.sh", &format!("export {}='{like}'\n", fake::LIKE));
        let tools: Vec<Value> = serde_json::from_str(&home.haft(&["tools", "--json"]).stdout).unwrap();
        tools.iter().filter(|tool| tool["name"].as_str().unwrap().starts_with("mcp__")).count()
    };
    assert_eq!(names(&json!({})), 16);
    assert_eq!(names(&json!({ "tools": "odd" })), 2);
    let starts = || fake::methods(&home.work()).iter().filter(|method| *method == "tools/list").count();
    let before = starts();
    assert_eq!(home.haft(&["tools"]).code, 0);
    assert_eq!(starts(), before, "what has not changed is not asked again");
}
