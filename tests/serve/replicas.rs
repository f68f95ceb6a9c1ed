//! Several processes that serve one program, and a restarted one: a user's answer is valid for any of them, once.

use serde_json::{Value, json};

use super::Stage;
use super::eras::meta;
use super::http::Site;
use super::peer::{Peer, text};

const CONFIRM: &str = "\n[builtins]\nshell_confirm = true\n";

fn call(site: &Site, command: &str, more: &Value) -> Value {
    call_tool(site, "bash", &json!({"command": command}), more)
}

fn call_tool(site: &Site, name: &str, arguments: &Value, more: &Value) -> Value {
    let mut params = json!({"name": name, "arguments": arguments});
    params["_meta"] = meta(&json!({"elicitation": {}}));
    more.as_object().unwrap().iter().for_each(|(key, value)| params[key] = value.clone());
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", name)];
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    site.post(&headers, &message).answer()
}

/// A yes to the question of `asked`.
fn yes(asked: &Value) -> Value {
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let yes = json!({"approve": {"action": "accept", "content": {"approve": true}}});
    json!({"requestState": asked["result"]["requestState"], "inputResponses": yes})
}

/// C07: an answer to one replica's question is valid for another replica, also one started later, and only once.
#[test]
fn an_answer_is_good_for_every_replica_once() {
    let stage = Stage::new(CONFIRM);
    let (one, two) = (Site::open(&stage), Site::open(&stage));
    let answer = yes(&call(&one, "echo 4711", &json!({})));
    let other = call(&two, "echo 0815", &answer);
    assert_eq!(other["error"]["code"], -32602, "another call: {other}");
    let done = call(&two, "echo 4711", &answer);
    assert_eq!(text(&done["result"]), "4711\n", "{done}");
    for replica in [&one, &two] {
        assert_eq!(call(replica, "echo 4711", &answer)["error"]["code"], -32602, "used twice");
    }
    let waiting = yes(&call(&one, "echo after", &json!({})));
    drop(one);
    let again = Site::open(&stage);
    assert_eq!(call(&again, "echo 4711", &answer)["error"]["code"], -32602, "used before it was started");
    let done = call(&again, "echo after", &waiting);
    assert_eq!(text(&done["result"]), "after\n", "asked before it was started: {done}");
    assert_eq!(call(&two, "echo after", &waiting)["error"]["code"], -32602);
}

/// C07: a yes is valid for the text that the user read: if program.toml has another command by then, haft asks again.
#[test]
fn an_answer_is_good_for_the_words_that_were_read() {
    let program = |command: &str| {
        format!(
            "[[tools]]\nname = \"say\"\ndescription = \"Says.\"\ncommand = [\"echo\", \"{command}\"]\nconfirm = true\n"
        )
    };
    let stage = Stage::new("");
    stage.program(&program("harmless"));
    let one = Site::open(&stage);
    let say = |site: &Site, answer: &Value| call_tool(site, "program__stage__say", &json!({}), answer);
    let asked = say(&one, &json!({}));
    assert!(asked.to_string().contains("harmless"), "{asked}");
    let answer = yes(&asked);
    drop(one);
    stage.program(&program("dangerous"));
    let two = Site::open(&stage);
    let again = say(&two, &answer);
    assert!(again["result"]["inputRequests"].to_string().contains("dangerous"), "{again}");
    let done = say(&two, &yes(&again));
    assert!(text(&done["result"]).contains("dangerous"), "{done}");
}

/// C07: an answer is invalid for another caller and another program, and no tool reads the key.
#[test]
fn an_answer_is_good_for_its_caller_and_program_alone() {
    let stage = Stage::new(CONFIRM);
    let site = Site::open(&stage);
    let answer = yes(&call(&site, "echo 4711", &json!({})));
    let mut peer = Peer::start(&stage, &[]);
    let mut params = json!({"name": "bash", "arguments": {"command": "echo 4711"}});
    params["_meta"] = meta(&json!({"elicitation": {}}));
    answer.as_object().unwrap().iter().for_each(|(key, value)| params[key] = value.clone());
    let id = peer.ask("tools/call", params);
    assert_eq!(peer.answer(id)["error"]["code"], -32602, "another caller");
    std::fs::create_dir(stage.path("other")).unwrap();
    std::fs::copy(stage.path("program.toml"), stage.path("other/program.toml")).unwrap();
    let other = Site::start(&stage, &["--token-env", "HAFT_TEST_TOKEN", "-p", "other/program.toml"]);
    assert_eq!(call(&other, "echo 4711", &answer)["error"]["code"], -32602, "another program");
    let key = stage.home().join(".local/state/haft/approvals/key");
    assert_eq!(std::fs::read(&key).unwrap().len(), 32);
    stage.program("");
    let command = format!("cat {}; ls {}", key.display(), key.parent().unwrap().display());
    let read = stage.command(&["call", "bash", &json!({"command": command}).to_string()]).output().unwrap();
    let said = String::from_utf8_lossy(&read.stdout).into_owned() + &String::from_utf8_lossy(&read.stderr);
    assert!(said.contains("No such file") || said.contains("denied"), "{said}");
    let done = call(&site, "echo 4711", &answer);
    assert!(done["error"].is_null(), "the answer is still good for whom it was given: {done}");
}
