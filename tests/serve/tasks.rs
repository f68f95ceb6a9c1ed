//! Long calls as tasks on one machine: every haft of the user knows the state of a task, and the kernel shows whether its process
//! lives. `HAFT_TEST_KILLS` sets the number of kills; `.ci/steps/sessions` sets 100.

use serde_json::{Value, json};

use super::Stage;
use super::eras::meta;
use super::http::Site;
use super::peer::{Peer, text};
use crate::common::wait::until_some;

/// The kills in the gate.
const USUAL_KILLS: usize = 2;

/// A command that leaves a mark, and ends when the file `go` is there.
const WAITS: &str = "echo >>marks; until [ -e go ]; do sleep 0.1; done; echo done";

fn modern(method: &str, mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = meta(capabilities);
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn with_tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// The answer of a haft over HTTP to a request of a client that supports tasks.
fn ask(site: &Site, method: &str, name: &str, params: Value) -> Value {
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", name)];
    site.post(&headers, &modern(method, params, &with_tasks())).answer()
}

/// Starts a call that becomes a task; its id.
fn begin(site: &Site, command: &str) -> String {
    let begun = ask(site, "tools/call", "bash", json!({"name": "bash", "arguments": {"command": command}}));
    assert_eq!(
        (&begun["result"]["resultType"], &begun["result"]["status"]),
        (&json!("task"), &json!("working")),
        "{begun}"
    );
    begun["result"]["taskId"].as_str().unwrap().to_owned()
}

fn task(site: &Site, method: &str, id: &str) -> Value {
    ask(site, method, id, json!({"taskId": id}))
}

/// The state of a task that has ended.
fn over(site: &Site, id: &str) -> Value {
    until_some("the task is over", || {
        let state = task(site, "tasks/get", id);
        assert!(state["error"].is_null(), "{state}");
        (state["result"]["status"] != "working").then(|| state["result"].clone())
    })
}

fn marks(stage: &Stage) -> usize {
    std::fs::read_to_string(stage.path("marks")).map_or(0, |marks| marks.lines().count())
}

/// RP03: every process knows the state and result of a task, and can cancel it. A client that does not support tasks waits.
#[test]
fn a_long_call_is_a_task_of_every_process() {
    let stage = Stage::new("");
    let (one, two) = (Site::open(&stage), Site::open(&stage));
    let id = begin(&one, WAITS);
    assert_eq!(task(&two, "tasks/get", &id)["result"]["status"], "working");
    let mut streams = Peer::start(&stage, &[]);
    streams.send(&modern("tasks/get", json!({"taskId": id}), &with_tasks()));
    assert_eq!(streams.answer(1)["error"]["code"], -32602, "another caller");
    streams.send(&modern("tasks/get", json!({"taskId": id}), &json!({})));
    assert_eq!(streams.answer(1)["error"]["data"]["requiredCapabilities"], with_tasks());
    std::fs::write(stage.path("go"), "").unwrap();
    for site in [&two, &one] {
        let over = over(site, &id);
        assert_eq!((&over["status"], text(&over["result"])), (&json!("completed"), "done\n"), "{over}");
    }
    let id = begin(&one, "exec sleep 7777.3");
    assert!(task(&two, "tasks/cancel", &id)["error"].is_null());
    assert_eq!(over(&two, &id)["status"], "cancelled");
    assert_eq!(marks(&stage), 1);
}

/// RP03: if haft is killed during a task, the task fails: its outcome is unknown, and the call is not repeated.
#[test]
fn a_killed_haft_tells_no_false_outcome() {
    let kills = std::env::var("HAFT_TEST_KILLS").ok().and_then(|kills| kills.parse().ok());
    let stage = Stage::new("");
    let two = Site::open(&stage);
    for kill in 1..=kills.unwrap_or(USUAL_KILLS) {
        let mut one = Site::open(&stage);
        let id = begin(&one, WAITS);
        one.child.kill().unwrap();
        one.child.wait().unwrap();
        let over = over(&two, &id);
        let why = over["error"]["message"].as_str().unwrap_or_else(|| panic!("{over}"));
        assert!(over["status"] == "failed" && why.contains("the outcome is unknown"), "{over}");
        assert_eq!(marks(&stage), kill);
    }
}
