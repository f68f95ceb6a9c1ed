//! Tools that need a user's approval, if the user is behind an MCP client.

use std::fs;

use serde_json::{Value, json};

use super::Stage;
use super::eras::{meta, modern};
use super::peer::{Peer, text};

const CONFIRM: &str = "\n[builtins]\nshell_confirm = true\n";

fn run(command: &str) -> Value {
    json!({"name": "bash", "arguments": {"command": command}})
}

/// RS06: haft asks a client with elicitation; only an accepted form with `approve: true` runs the command.
#[test]
fn a_client_asks_its_person() {
    let stage = Stage::new(CONFIRM);
    let mut peer = Peer::session(&stage, "2025-11-25", &json!({"elicitation": {}}));
    for (answer, expected) in [
        (json!({"action": "accept", "content": {"approve": true}}), "4711\n"),
        (json!({"action": "accept", "content": {"approve": false}}), "Command execution denied by user."),
    ] {
        let call = peer.ask("tools/call", run("echo 47''11"));
        let question = peer.await_one(|message| message["method"] == "elicitation/create");
        let message = question["params"]["message"].as_str().unwrap();
        assert_eq!(message, "`bash` needs your approval.\n\nRun: echo 47''11");
        let field = &question["params"]["requestedSchema"]["properties"]["approve"];
        assert_eq!((&field["type"], &field["default"]), (&json!("boolean"), &json!(false)), "{question}");
        peer.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
        let result = peer.answer(call)["result"].take();
        assert_eq!(text(&result), expected, "{result}");
    }
    // G11: a client that declines or dismisses the form does not count as a person's answer.
    for (action, why) in [("decline", "the client declined for its user"), ("cancel", "the client dismissed")]
    {
        let call = peer.ask("tools/call", run("echo 4711"));
        let question = peer.await_one(|message| message["method"] == "elicitation/create");
        peer.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": action}}));
        let result = peer.answer(call)["result"].take();
        let expected = format!("`bash` did not run: it needs a person's approval, and {why}");
        assert!(text(&result).starts_with(&expected), "{result}");
    }
    let call = peer.ask("tools/call", run("echo 4711"));
    let question = peer.await_one(|message| message["method"] == "elicitation/create");
    let error = json!({"code": -32603, "message": "no"});
    peer.send(&json!({"jsonrpc": "2.0", "id": question["id"], "error": error}));
    let result = peer.answer(call)["result"].take();
    assert!(text(&result).contains("and the client failed to ask"), "{result}");
}

/// U2: the user behind a client on standard streams grants a right that a refused call lacked: once, for the session,
/// or in program.toml. haft then makes the call again.
#[test]
fn a_client_s_person_gives_what_was_refused() {
    let stage = Stage::new("");
    let mut peer = Peer::session(&stage, "2025-11-25", &json!({"elicitation": {}}));
    let touch = |place: &str, name: &str| {
        fs::create_dir_all(stage.home().join(place)).unwrap();
        run(&format!("touch ~/{place}/{name} && echo done"))
    };
    let asked = |peer: &mut Peer, call: Value, content: Value| {
        let call = peer.ask("tools/call", call);
        let question = peer.await_one(|message| message["method"] == "elicitation/create");
        assert!(
            question["params"]["message"]
                .as_str()
                .unwrap()
                .contains("\n\nTo write the right to program.toml: `haft grant bash write="),
            "{question}"
        );
        let answer = json!({"action": "accept", "content": content});
        peer.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
        peer.answer(call)["result"].take()
    };
    let no = asked(&mut peer, touch("a", "1"), json!({"approve": false, "holds": "this session"}));
    assert_eq!(no["isError"], true, "{no}");
    let once = asked(&mut peer, touch("b", "1"), json!({"approve": true}));
    assert_eq!(text(&once), "done\n", "{once}");
    let session = asked(&mut peer, touch("b", "2"), json!({"approve": true, "holds": "this session"}));
    assert_eq!(text(&session), "done\n", "{session}");
    let again = peer.request("tools/call", touch("b", "3"))["result"].take();
    assert_eq!(text(&again), "done\n", "{again}");
    let held = fs::read_to_string(stage.path("program.toml")).unwrap();
    let always = json!({"approve": true, "holds": "always: write it to program.toml"});
    let written = asked(&mut peer, touch("c", "1"), always);
    assert_eq!(text(&written), "done\n", "{written}");
    let now = fs::read_to_string(stage.path("program.toml")).unwrap();
    assert!(now.contains("/c\"]") && now.len() > held.len(), "{now}");
    // Another session has only the right that program.toml contains.
    let mut other = Peer::session(&stage, "2025-11-25", &json!({}));
    let refused = other.request("tools/call", touch("b", "4"))["result"].take();
    assert_eq!(refused["isError"], true, "{refused}");
    let written = other.request("tools/call", touch("c", "2"))["result"].take();
    assert_eq!(text(&written), "done\n", "{written}");
}

/// RS07: a client without form elicitation gets a refusal that says why the tool did not run.
#[test]
fn a_client_without_elicitation_is_refused() {
    let stage = Stage::new(CONFIRM);
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let mut peer = Peer::session(&stage, "2025-11-25", &capabilities);
        let result = peer.request("tools/call", run("touch ran"))["result"].take();
        assert_eq!(result["isError"], true);
        let expected =
            "`bash` did not run: it needs a person's approval, and the client does not support elicitation";
        assert!(text(&result).starts_with(expected), "{result}");
    }
}

/// RS06: if a server cannot send requests, the result of a call is the question, and the client repeats the call with
/// the answer.
#[test]
fn a_question_is_an_answer_where_servers_cannot_ask() {
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
        let mut answer = peer.answer(id);
        if answer["error"].is_null() { answer["result"].take() } else { answer["error"].take() }
    };
    let yes = json!({"approve": {"action": "accept", "content": {"approve": true}}});
    let asked = call(run("echo 4711"), json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["approve"];
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    let handle = asked["requestState"].clone();
    let answered = |state: &Value| json!({"requestState": state, "inputResponses": yes});
    // A `requestState` is valid once, for the call that it belongs to; a client cannot invent one.
    for (command, state) in [("echo 0815", &handle), ("echo 4711", &json!("made up"))] {
        assert_eq!(call(run(command), answered(state))["code"], -32602);
    }
    let asked = call(run("echo 4711"), json!({}));
    let result = call(run("echo 4711"), answered(&asked["requestState"]));
    assert_eq!((&result["resultType"], text(&result)), (&json!("complete"), "4711\n"), "{result}");
    assert_eq!(call(run("echo 4711"), answered(&asked["requestState"]))["code"], -32602);
    let again = call(run("echo 4711"), json!({}));
    let no = json!({"approve": {"action": "accept", "content": {"approve": false}}});
    let denied = call(run("echo 4711"), json!({"requestState": again["requestState"], "inputResponses": no}));
    assert_eq!(text(&denied), "Command execution denied by user.", "{denied}");
}

/// RS07: if a client sends its capabilities with each call, a refusal names the capability that the client lacks.
#[test]
fn a_call_without_elicitation_is_refused() {
    let stage = Stage::new(CONFIRM);
    let mut peer = Peer::start(&stage, &[]);
    peer.send(&modern("tools/call", 1, run("touch ran")));
    let error = peer.answer(1)["error"].take();
    assert_eq!(error["code"], -32021, "{error}");
    assert_eq!(error["data"]["requiredCapabilities"], json!({"elicitation": {"form": {}}}), "{error}");
    assert!(error["message"].as_str().unwrap().starts_with("`bash` did not run: "), "{error}");
}

/// RS06: haft asks about the tools of a plugin that `confirm` names, with their arguments; other tools run without.
#[test]
fn tools_of_a_plugin_can_need_approval() {
    let stage = Stage::new("confirm = [\"ec*\"]\n");
    let mut peer = Peer::session(&stage, "2025-11-25", &json!({"elicitation": {}}));
    let call = peer.ask("tools/call", json!({"name": "guest__echo", "arguments": {"text": "hi"}}));
    let question = peer.await_one(|message| message["method"] == "elicitation/create");
    let message = question["params"]["message"].as_str().unwrap();
    assert_eq!(message, "`guest__echo` needs your approval.\n\nCall: guest__echo text=hi");
    peer.send(
        &json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}}),
    );
    assert_eq!(text(&peer.answer(call)["result"]), "Tool call denied by user.");
    assert_eq!(peer.call("guest__sleep", json!({"ms": 1}))["isError"], false);
}
