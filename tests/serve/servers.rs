//! A program with MCP servers: haft serves their tools like all others, and the servers keep running while the
//! program changes.

use serde_json::json;

use super::Stage;
use super::peer::{Peer, text};
use super::reload::{hears_of_it, names};
use crate::common::wait::until;
use crate::mcp::fake;

/// A program with the fake server, which records its messages in the workspace.
pub(crate) fn stage(like: &serde_json::Value) -> Stage {
    let stage = Stage::new("");
    stage.program(&program(like, ""));
    stage
}

fn program(like: &serde_json::Value, more: &str) -> String {
    format!("{more}\n[sandbox]\nworkspace = \".\"\n{}", fake::toml("own", like, ""))
}

/// The number of starts of the server: each start lists the tools once.
fn starts(stage: &Stage) -> usize {
    fake::methods(&stage.path("")).iter().filter(|method| *method == "tools/list").count()
}

/// The list, once it contains `tool`. If the lookup takes too long, the first list comes without.
fn names_with(peer: &mut Peer, tool: &str) -> Vec<String> {
    loop {
        let listed = names(peer);
        if listed.iter().any(|name| name == tool) {
            return listed;
        }
        hears_of_it(peer);
    }
}

/// MC01, MC02: the first list contains the tools of a new server, and a later haft answers the list without starting
/// the server.
#[test]
fn tools_of_servers_are_served() {
    let stage = stage(&json!({}));
    let mut peer = Peer::open(&stage);
    let listed = names_with(&mut peer, "mcp__own__echo");
    assert_eq!(text(&peer.call("mcp__own__echo", json!({"a": 1}))), "{\"a\":1}");
    assert_eq!(peer.hang_up(), Some(0));
    let before = fake::methods(&stage.path(""));
    let mut peer = Peer::open(&stage);
    assert_eq!(names(&mut peer), listed);
    assert_eq!(fake::methods(&stage.path("")), before, "nobody was started for the list");
    assert_eq!(text(&peer.call("mcp__own__echo", json!({"a": 2}))), "{\"a\":2}");
}

/// haft serves the tools of a server while another one still starts, and those of the other one later.
#[test]
fn a_slow_server_delays_only_itself() {
    // haft gives a server up after 30 s. On a busy machine the quick server can take as long: another attempt decides.
    const ATTEMPTS: usize = 5;
    assert!(
        (0..ATTEMPTS).any(|_| is_served_before_a_slow_one()),
        "haft waited until it had given the slow server up"
    );
}

/// Whether haft served a server's tools before it gave another server up, which answers once the tools were listed.
fn is_served_before_a_slow_one() -> bool {
    let stage = Stage::new("");
    stage.program(&(program(&json!({}), "") + &fake::toml("slow", &json!({"tools": "late"}), "")));
    let mut peer = Peer::open(&stage);
    let listed = names_with(&mut peer, "mcp__own__echo");
    assert!(!listed.iter().any(|name| name.starts_with("mcp__slow__")), "{listed:?}");
    let is_before = !peer.stderr().contains("`slow`");
    std::fs::write(stage.path("wake"), "").unwrap();
    let listed = names_with(&mut peer, "mcp__slow__echo");
    assert!(listed.iter().any(|name| name == "mcp__own__echo"), "{listed:?}");
    is_before
}

/// MC06: clients get a notification when a server's tools change.
#[test]
fn a_server_s_other_tools_are_told() {
    let stage = Stage::new("");
    stage.program(&(program(&json!({}), "") + "pinned = false\n"));
    let mut peer = Peer::open(&stage);
    let listed = names_with(&mut peer, "mcp__own__change");
    assert!(!listed.contains(&"mcp__own__added".to_owned()));
    peer.call("mcp__own__change", json!({}));
    names_with(&mut peer, "mcp__own__added");
}

/// MC09: a server whose declaration has not changed stays the same process when the program changes, and finishes its
/// call.
#[test]
fn a_server_outlives_a_change_of_the_program() {
    let stage = stage(&json!({}));
    let say = "\n[[tools]]\nname = \"say\"\ndescription = \"Says it\"\ncommand = \"echo\"\n";
    stage.agree_to(&program(&json!({}), say));
    stage.agree_to(&program(&json!({"other": true}), say));
    let mut peer = Peer::open(&stage);
    names_with(&mut peer, "mcp__own__sleep");
    let before = starts(&stage);
    let slow = peer.ask("tools/call", json!({"name": "mcp__own__sleep", "arguments": {}}));
    stage.program(&program(&json!({}), say));
    names_with(&mut peer, "program__stage__say");
    assert_eq!(text(&peer.call("mcp__own__echo", json!({}))), "{}");
    std::fs::write(stage.path("wake"), "").unwrap();
    assert_eq!(text(&peer.answer(slow)["result"]), "woke up");
    assert_eq!(starts(&stage), before);
    // A changed declaration starts another server.
    stage.program(&program(&json!({"other": true}), say));
    peer.says("program loaded again");
    until("the other server is started", || starts(&stage) > before);
}

/// MC08: a tool with an invalid definition hides no other tool.
#[test]
fn a_bad_definition_hides_no_other_tool() {
    let stage = stage(&json!({"tools": "bad"}));
    let mut peer = Peer::open(&stage);
    let listed = names_with(&mut peer, "mcp__own__echo");
    let own: Vec<_> = listed.iter().filter(|name| name.starts_with("mcp__")).collect();
    assert_eq!(own, ["mcp__own__echo", "mcp__own__bad"]);
    assert!(listed.contains(&"guest__echo".to_owned()));
    assert_eq!(text(&peer.call("mcp__own__echo", json!({}))), "{}");
}

/// MC10: no server is left after a client disconnected, not even one that ignores the request to end.
#[test]
fn hanging_up_leaves_no_server() {
    let mark = format!("mc10-served-{}", std::process::id());
    let stage = stage(&json!({"end": "ignore", "mark": mark}));
    let mut peer = Peer::open(&stage);
    names_with(&mut peer, "mcp__own__sleep");
    peer.ask("tools/call", json!({"name": "mcp__own__sleep", "arguments": {"ms": 60000}}));
    until("the server is at the call", || {
        fake::methods(&stage.path("")).iter().any(|method| method == "tools/call")
    });
    assert!(crate::mcp::is_running(&mark));
    assert_eq!(peer.hang_up(), Some(0));
    until("the server is gone", || !crate::mcp::is_running(&mark));
}

/// (B14) A server's output schema and data pass unchanged: a success stays a success, also with long data.
#[test]
fn a_promise_of_a_server_and_its_data_pass_unchanged() {
    let data = "x".repeat(100_000);
    for (result, is_error) in [
        (json!({"content": [{"type": "text", "text": "done"}]}), false),
        (json!({"content": [], "structuredContent": {"nope": 1}}), false),
        (json!({"content": [{"type": "text", "text": "done"}], "structuredContent": {"pad": data}}), false),
        (
            json!({"content": [{"type": "text", "text": "no"}], "structuredContent": {"code": 5}, "isError": true}),
            true,
        ),
    ] {
        let tool = json!({"name": "echo", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "required": ["ok"]}});
        let raw =
            |result: &serde_json::Value| format!("{{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{result}}}");
        let stage = stage(
            &json!({"raw": {"tools/list": raw(&json!({"tools": [tool]})), "tools/call": raw(&result)}}),
        );
        let mut peer = Peer::open(&stage);
        names_with(&mut peer, "mcp__own__echo");
        let tools = peer.request("tools/list", json!({}))["result"]["tools"].take();
        let own = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "mcp__own__echo").unwrap();
        assert_eq!(own["outputSchema"]["required"], json!(["ok"]));
        let answer = peer.call("mcp__own__echo", json!({}));
        assert_eq!(answer["isError"].as_bool().unwrap_or_default(), is_error);
        assert_eq!(answer.get("structuredContent"), result.get("structuredContent"));
    }
}
