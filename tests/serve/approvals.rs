//! Tools that a person has to approve of, where the person sits behind an MCP client.

use serde_json::{Value, json};

use super::Stage;
use super::eras::meta;
use super::peer::{Peer, text};

const CONFIRM: &str = "\n[builtins]\nshell_confirm = true\n";

fn run(command: &str) -> Value {
    json!({"name": "bash", "arguments": {"command": command}})
}

/// RS06: a client with elicitation asks; only an accepted form with a yes runs the command.
#[test]
fn rs06_a_client_asks_its_person() {
    let stage = Stage::new(CONFIRM);
    let mut peer = Peer::session(&stage, "2025-11-25", &json!({"elicitation": {}}));
    for (answer, expected) in [
        (json!({"action": "accept", "content": {"approve": true}}), "4711\n"),
        (json!({"action": "accept", "content": {"approve": false}}), "Command execution denied by user."),
        (json!({"action": "decline"}), "Command execution denied by user."),
    ] {
        let call = peer.ask("tools/call", run("echo 47''11"));
        let question = peer.await_one(|message| message["method"] == "elicitation/create");
        let message = question["params"]["message"].as_str().unwrap();
        assert_eq!(message, "`bash` wants your approval.\n\nRun: echo 47''11");
        let field = &question["params"]["requestedSchema"]["properties"]["approve"];
        assert_eq!((&field["type"], &field["default"]), (&json!("boolean"), &json!(false)), "{question}");
        peer.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
        let result = peer.answer(call)["result"].take();
        assert_eq!(text(&result), expected, "{result}");
    }
    let call = peer.ask("tools/call", run("echo 4711"));
    let question = peer.await_one(|message| message["method"] == "elicitation/create");
    let error = json!({"code": -32603, "message": "no"});
    peer.send(&json!({"jsonrpc": "2.0", "id": question["id"], "error": error}));
    let result = peer.answer(call)["result"].take();
    assert!(text(&result).contains("and the client could not ask"), "{result}");
}

/// RS07: a client that cannot ask is told why nothing runs.
#[test]
fn rs07_a_client_without_elicitation_is_refused() {
    let stage = Stage::new(CONFIRM);
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let mut peer = Peer::session(&stage, "2025-11-25", &capabilities);
        let result = peer.request("tools/call", run("touch ran"))["result"].take();
        assert_eq!(result["isError"], true);
        let expected = "`bash` did not run: it needs a person's approval, and the client cannot ask anybody";
        assert!(text(&result).starts_with(expected), "{result}");
    }
}

/// The same where a server cannot ask: the call is answered with the question, and comes again.
#[test]
fn rs06_a_question_is_an_answer_where_servers_cannot_ask() {
    let stage = Stage::new(CONFIRM);
    let mut peer = Peer::start(&stage, &[]);
    let mut id = 0;
    let mut call = |params: Value, more: Value| {
        id += 1;
        let mut params = params;
        params["_meta"] = meta(&json!({"elicitation": {"form": {}}}));
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        peer.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        peer.answer(id)["result"].take()
    };
    let yes = json!({"approve": {"action": "accept", "content": {"approve": true}}});
    let asked = call(run("echo 4711"), json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["approve"];
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    let state = asked["requestState"].clone();
    let answered = |state: &Value| json!({"requestState": state, "inputResponses": yes});
    // Good for nothing but the call that was asked about.
    let other = call(run("echo 0815"), answered(&state));
    assert_eq!(other["resultType"], "input_required", "{other}");
    let spent = call(run("echo 4711"), answered(&state));
    assert_eq!(spent["resultType"], "input_required", "an answer is good once: {spent}");
    let forged = call(run("echo 4711"), answered(&json!("made up")));
    assert_eq!(forged["resultType"], "input_required", "{forged}");
    let result = call(run("echo 4711"), answered(&forged["requestState"]));
    assert_eq!((&result["resultType"], text(&result)), (&json!("complete"), "4711\n"), "{result}");
    let again = call(run("echo 4711"), json!({}));
    let no = json!({"approve": {"action": "decline"}});
    let denied = call(run("echo 4711"), json!({"requestState": again["requestState"], "inputResponses": no}));
    assert_eq!(text(&denied), "Command execution denied by user.", "{denied}");
}
