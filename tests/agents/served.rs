//! An agent that an MCP client calls: progress notifications, and the state after a cancellation.

use serde_json::{Value, json};

use super::{Team, delegates, runs};
use crate::backends::host_context::{processes, unusual};
use crate::common::wait::until;
use crate::serve::peer::{Peer, text};

/// Starts haft as a server, and opens a session.
fn served(team: &Team) -> Peer {
    let mut peer = Peer::of(team.command(&["serve"]));
    let answer = peer.initialize("2025-11-25", &json!({}));
    assert!(answer["result"].is_object(), "{answer}");
    peer.notify("notifications/initialized", json!({}));
    peer
}

fn look(meta: &Value) -> Value {
    json!({ "name": "agent__reviewer", "arguments": { "task": "look" }, "_meta": meta })
}

/// An agent's turns and calls are progress notifications of the client's call.
#[test]
fn a_client_sees_how_far_an_agent_is() {
    let team = Team::new(delegates("agent__reviewer"), runs("echo seen"), ["", "", ""]);
    let mut peer = served(&team);
    let id = peer.ask("tools/call", look(&json!({ "progressToken": "p" })));
    let answer = peer.answer(id);
    assert!(text(&answer["result"]).starts_with("found seen"), "{answer}");
    let told = peer.aside.iter().filter(|message| message["method"] == "notifications/progress");
    let told: Vec<_> = told.map(|message| &message["params"]).collect();
    assert!(told.iter().all(|params| params["progressToken"] == "p"), "{told:?}");
    let messages: Vec<_> = told.iter().filter_map(|params| params["message"].as_str()).collect();
    for expected in ["turn 1", "turn 1: bash", "turn 2"] {
        assert!(messages.contains(&expected), "{expected}: {told:?}");
    }
    peer.aside.clear();
    peer.request("tools/call", look(&json!({})));
    assert!(
        peer.aside.iter().all(|message| message["method"] != "notifications/progress"),
        "{:?}",
        peer.aside
    );
}

/// The processes of an agent end with the cancellation of its call, and with haft, even if haft is killed.
#[test]
fn what_an_agent_has_started_ends_with_the_call_of_the_client() {
    let sleep = format!("sleep {}", unusual());
    let team = Team::new(delegates("agent__reviewer"), runs(&sleep), ["", "", ""]);
    let mut peer = served(&team);
    let id = peer.ask("tools/call", look(&json!({})));
    until("the agent's command runs", || !processes(&sleep).is_empty());
    peer.notify("notifications/cancelled", json!({ "requestId": id }));
    until("nothing is left of a call that was taken back", || processes(&sleep).is_empty());
    assert_eq!(text(&peer.call("bash", json!({ "command": "echo on" }))), "on\n");
    peer.ask("tools/call", look(&json!({})));
    until("the agent's command runs again", || !processes(&sleep).is_empty());
    peer.child.kill().unwrap();
    until("nothing is left of a haft that was killed", || processes(&sleep).is_empty());
}
