//! Both protocol eras: sessions, and self-contained requests. Clients of the second era probe for support first, and
//! may open a session before they have the result.

use serde_json::{Value, json};

use super::Stage;
use super::peer::{Peer, text};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The `_meta` of a request of 2026-07-28.
pub(crate) fn meta(capabilities: &Value) -> Value {
    json!({
        VERSION: "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// A request of 2026-07-28.
pub(crate) fn modern(method: &str, id: impl Into<Value>, mut params: Value) -> Value {
    params["_meta"] = meta(&json!({}));
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// haft answers a list and a call of 2026-07-28 without a session.
#[test]
fn a_request_that_brings_everything_along_needs_no_session() {
    let stage = Stage::new("");
    let mut peer = Peer::start(&stage, &[]);
    peer.send(&modern("tools/list", "l", json!({})));
    let list = peer.answer("l");
    assert_eq!(list["result"]["resultType"], "complete", "{list}");
    assert!(list["result"]["ttlMs"].is_u64() && list["result"]["cacheScope"].is_string(), "{list}");
    peer.send(&modern("tools/call", "c", json!({"name": "guest__echo", "arguments": {"text": "modern"}})));
    assert_eq!(text(&peer.answer("c")["result"]), "modern");
    let mut old = modern("tools/list", "v", json!({}));
    old["params"]["_meta"][VERSION] = json!("1999-01-01");
    peer.send(&old);
    assert_eq!(peer.answer("v")["error"]["code"], -32022);
    assert_eq!(peer.hang_up(), Some(0));
}

/// haft serves a client that probes, sends `initialize` right behind, and cancels the answered probe.
#[test]
fn a_client_that_looks_first_and_opens_a_session_at_once_is_served() {
    let stage = Stage::new("");
    let mut peer = Peer::start(&stage, &[]);
    let client = json!({"name": "raw", "version": "0"});
    let open = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let probe = modern("server/discover", "probe", json!({}));
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": open});
    peer.write(&format!("{probe}\n{initialize}\n"));
    let discovered = peer.answer("probe");
    let versions = discovered["result"]["supportedVersions"].as_array().unwrap();
    assert!(
        versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2024-11-05")),
        "{discovered}"
    );
    assert_eq!(peer.answer(1)["result"]["protocolVersion"], "2025-06-18");
    peer.notify("notifications/cancelled", json!({"requestId": "probe"}));
    peer.notify("notifications/initialized", json!({}));
    assert_eq!(text(&peer.call("guest__echo", json!({"text": "both"}))), "both");
}

/// haft serves a client that cancels its probe before it opens a session, or probes without parameters.
#[test]
fn a_probe_that_is_taken_back_spoils_nothing() {
    let stage = Stage::new("");
    let mut peer = Peer::start(&stage, &[]);
    peer.send(&json!({"jsonrpc": "2.0", "id": "bare", "method": "server/discover"}));
    assert_eq!(peer.answer("bare")["error"]["code"], -32602);
    peer.send(&modern("server/discover", "probe", json!({})));
    peer.answer("probe");
    peer.notify("notifications/cancelled", json!({"requestId": "probe"}));
    peer.send(&json!({"jsonrpc": "2.0", "id": "early", "method": "tools/list"}));
    assert!(peer.answer("early")["error"]["code"].is_i64());
    let answer = peer.initialize("2025-11-25", &json!({}));
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
}

/// Later revisions: a call requests log messages itself, in its `_meta`.
#[test]
fn what_a_call_wants_to_hear_it_says_itself() {
    let stage = Stage::new("");
    let mut peer = Peer::start(&stage, &[]);
    let mut call =
        modern("tools/call", 1, json!({"name": "guest__log", "arguments": {"lines": 2, "bytes": 3}}));
    peer.send(&call);
    peer.answer(1);
    assert_eq!(peer.aside, Vec::<Value>::new(), "nobody asked");
    call["id"] = json!(2);
    call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
    peer.send(&call);
    peer.answer(2);
    assert_eq!(peer.aside.len(), 2, "{:?}", peer.aside);
}
