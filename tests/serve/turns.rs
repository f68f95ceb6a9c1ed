//! Questions of MCP servers to clients without a session (2026-07-28): the answer to a call has the questions, and the call continues
//! with the client's next request.

use serde_json::{Value, json};

use super::Stage;
use super::eras::meta;
use super::http::Site;
use super::peer::text;
use super::servers::stage;

fn request(site: &Site, method: &str, name: &str, params: &Value, more: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = meta(&json!({"elicitation": {}}));
    more.as_object().unwrap().iter().for_each(|(key, value)| params[key] = value.clone());
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", name)];
    site.post(&headers, &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).answer()
}

fn call(site: &Site, tool: &str, more: &Value) -> Value {
    request(site, "tools/call", tool, &json!({"name": tool, "arguments": {}}), more)
}

/// The answer to the question `key` of `asked`.
fn answer(asked: &Value, key: &str) -> Value {
    let question = &asked["result"]["inputRequests"][key];
    assert_eq!(question["params"]["requestedSchema"]["properties"]["name"]["type"], "string", "{asked}");
    let answer = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
    json!({"requestState": asked["result"]["requestState"], "inputResponses": answer})
}

fn with_server(speaks: &str) -> (Stage, Site) {
    let stage = stage(&json!({ "speaks": speaks }));
    let site = Site::open(&stage);
    (stage, site)
}

/// A server that asks by a request, and one that asks by an answer: the client's answer reaches both, once, from the call alone
/// that was asked.
#[test]
fn a_server_s_question_is_answered_by_the_next_request() {
    for (speaks, tool, key, told) in [
        ("2025-11-25", "mcp__own__elicit", "question", r#"{"action":"accept","content":{"name":"Ada"}}"#),
        (
            "2026-07-28",
            "mcp__own__needs_more",
            "who",
            r#""who":{"action":"accept","content":{"name":"Ada"}}"#,
        ),
    ] {
        let (_stage, site) = with_server(speaks);
        let asked = call(&site, tool, &json!({}));
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let yes = answer(&asked, key);
        let other = request(&site, "tools/call", tool, &json!({"name": tool, "arguments": {"a": 1}}), &yes);
        assert_eq!(other["error"]["code"], -32602, "other arguments: {other}");
        let unanswered =
            json!({"requestState": yes["requestState"], "inputResponses": {"other": {"action": "accept"}}});
        let again = call(&site, tool, &unanswered);
        assert!(again["result"]["inputRequests"][key].is_object(), "{again}");
        let done = call(&site, tool, &answer(&again, key));
        assert!(text(&done["result"]).contains(told), "{done}");
        for used in [&yes, &answer(&again, key)] {
            assert_eq!(call(&site, tool, used)["error"]["code"], -32602, "it was used");
        }
        let early = json!({"inputResponses": yes["inputResponses"]});
        let answered = call(&site, tool, &early);
        if speaks == "2026-07-28" {
            assert!(text(&answered["result"]).contains(told), "answered before it was asked: {answered}");
        }
    }
}
