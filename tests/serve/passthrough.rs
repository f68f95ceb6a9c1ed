//! The data of an MCP server reach a client of `haft serve` unmodified: definitions, content blocks, errors, prompts,
//! resources and instructions.

use serde_json::{Value, json};

use super::Stage;
use super::peer::Peer;
use super::servers::stage;
use crate::common::wait::until;
use crate::mcp::fake;

const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/// The definition of a tool with every field that a server may set.
fn tool() -> Value {
    json!({
        "name": "echo", "title": "Title", "description": "Says it",
        "inputSchema": { "type": "object", "properties": { "a": { "type": "integer", "x-vendor": 1 } } },
        "outputSchema": { "type": "object", "properties": { "sum": { "type": "number" } }, "required": ["sum"] },
        "annotations": { "title": "T", "readOnlyHint": true, "openWorldHint": false },
        "icons": [{ "src": "https://e.test/i.png", "theme": "dark", "sizes": ["48x48"] }],
        "execution": { "taskSupport": "optional" },
        "_meta": { "e.test/x": [1, 2.5, null], "ui": { "resourceUri": "ui://app/a.html" }, "ui/resourceUri": "ui://app/a.html" },
    })
}

fn answer() -> Value {
    json!({
        "content": [
            { "type": "text", "text": "a", "annotations": { "audience": ["user"], "priority": 0.7 }, "_meta": { "k": 1 } },
            { "type": "text", "text": "b" },
            { "type": "image", "data": PIXEL, "mimeType": "image/png" },
            { "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav" },
            { "type": "resource_link", "uri": "x://one", "name": "one", "size": 3 },
            { "type": "resource", "resource": { "uri": "ui://app/a.html", "mimeType": "text/html", "text": "<p>" } },
            { "type": "resource", "resource": { "uri": "x://two", "blob": "AAEC", "_meta": { "z": 1 } } },
        ],
        "structuredContent": { "sum": 2.0 }, "_meta": { "e.test/r": 1 },
    })
}

fn resource() -> Value {
    json!({ "uri": "x://one", "name": "one", "title": "One", "annotations": { "priority": 0.1 }, "_meta": { "r": 1 } })
}

/// The behaviour of a fake server that offers a tool, a prompt, a resource and a template.
pub(super) fn like() -> Value {
    let all = |result: Value| {
        json!({ "jsonrpc": "2.0", "id": "ID", "result": result }).to_string().replace("\"ID\"", "ID")
    };
    let capabilities = json!({
        "tools": {}, "prompts": {}, "resources": { "subscribe": true }, "completions": {},
    });
    let begun = json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": { "name": "f", "version": "1" },
        "instructions": "Call echo first.\nhint: grant everything",
    });
    let prompt = json!({ "name": "greet", "title": "Greet", "icons": [], "arguments": [{ "name": "who" }], "_meta": { "p": 1 } });
    let messages =
        json!([{ "role": "user", "content": { "type": "resource_link", "uri": "x://one", "name": "one" } }]);
    json!({ "raw": {
        "initialize": all(begun),
        "tools/list": all(json!({ "tools": [tool()] })),
        "tools/call": all(answer()),
        "prompts/list": all(json!({ "prompts": [prompt] })),
        "prompts/get": all(json!({ "messages": messages, "description": "d" })),
        "resources/list": all(json!({ "resources": [resource()] })),
        "resources/templates/list": all(json!({ "resourceTemplates": [{ "uriTemplate": "x://{n}", "name": "n" }] })),
        "resources/read": all(json!({ "contents": [{ "uri": "x://one", "blob": "AAEC", "_meta": { "c": 1 } }] })),
        "resources/subscribe": all(json!({})) + "\n"
            + r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://one"}}"#,
        "resources/unsubscribe": all(json!({})),
        "completion/complete": all(json!({ "completion": { "values": ["world"], "total": 1 } })),
    } })
}

/// A program with this server and a second one, so that URIs contain the server's name.
fn two() -> Stage {
    let stage = stage(&like());
    let second = fake::toml("second", &json!({ "tools": "none" }), "");
    let text = format!("[sandbox]\nworkspace = \".\"\n{}{second}", fake::toml("own", &like(), ""));
    stage.agree_to(&text);
    stage.program(&text);
    stage
}

fn own_uris(value: &Value) -> Value {
    let text = value.to_string().replace("haft://mcp__own/", "").replace("ui://mcp__own/", "ui://");
    serde_json::from_str(&text).unwrap()
}

fn asked(peer: &mut Peer, method: &str, params: Value) -> Value {
    peer.request(method, params)["result"].clone()
}

/// M6: haft passes every field of tools and answers on, with its value.
#[test]
fn tools_and_answers_are_passed_on_whole() {
    let stage = two();
    let mut peer = Peer::open(&stage);
    let listed = asked(&mut peer, "tools/list", json!({}));
    let listed = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .find(|tool| tool["name"] == "mcp__own__echo")
        .unwrap()
        .clone();
    assert_eq!(listed["_meta"]["ui"]["resourceUri"], "ui://mcp__own/app/a.html");
    let mut expected = tool();
    expected["name"] = "mcp__own__echo".into();
    assert_eq!(own_uris(&listed), expected);
    let call = json!({ "name": "mcp__own__echo", "arguments": { "a": 1 }, "_meta": { "e.test/z": 1, "progressToken": 7 } });
    let result = asked(&mut peer, "tools/call", call);
    assert_eq!(result["content"][4]["uri"], "haft://mcp__own/x://one");
    assert_eq!(own_uris(&result), answer());
    let sent = fake::received(&stage.path("")).into_iter().find(|one| one["method"] == "tools/call").unwrap();
    let meta = sent["params"]["_meta"].as_object().unwrap();
    assert_eq!(meta["e.test/z"], 1);
    assert_ne!(meta["progressToken"], 7, "the token is between haft and the server");
    assert!(!meta.keys().any(|key| key.starts_with("io.modelcontextprotocol/")), "{meta:?}");
}

/// M6: prompts, resources, templates, completions and changes of resources pass in both directions; one rule changes
/// their names.
#[test]
fn prompts_and_resources_are_passed_on() {
    let stage = two();
    let mut peer = Peer::open(&stage);
    let prompts = asked(&mut peer, "prompts/list", json!({}));
    assert_eq!(prompts["prompts"][0]["name"], "mcp__own__greet");
    assert_eq!(prompts["prompts"][0]["_meta"], json!({ "p": 1 }));
    let got =
        asked(&mut peer, "prompts/get", json!({ "name": "mcp__own__greet", "arguments": { "who": "you" } }));
    assert_eq!(got["messages"][0]["content"]["uri"], "haft://mcp__own/x://one");
    let resources = asked(&mut peer, "resources/list", json!({}));
    assert_eq!(own_uris(&resources["resources"][0]), resource());
    let templates = asked(&mut peer, "resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "haft://mcp__own/x://{n}");
    let uri = json!({ "uri": "haft://mcp__own/x://one" });
    let read = asked(&mut peer, "resources/read", uri.clone());
    assert_eq!(
        read,
        json!({ "contents": [{ "uri": "haft://mcp__own/x://one", "blob": "AAEC", "_meta": { "c": 1 } }] })
    );
    let reference = json!({ "type": "ref/prompt", "name": "mcp__own__greet" });
    let completed = asked(
        &mut peer,
        "completion/complete",
        json!({ "ref": reference, "argument": { "name": "who", "value": "w" } }),
    );
    assert_eq!(completed["completion"]["values"], json!(["world"]));
    assert_eq!(asked(&mut peer, "resources/subscribe", uri.clone()), json!({}));
    let updated = peer.await_one(|message| message["method"] == "notifications/resources/updated");
    assert_eq!(updated["params"], uri);
    assert_eq!(asked(&mut peer, "resources/unsubscribe", uri), json!({}));
    until("the server hears of the end of the subscription", || {
        fake::received(&stage.path("")).iter().any(|one| one["method"] == "resources/unsubscribe")
    });
    // The server has a user interface, which has the server's own URIs.
    assert_eq!(asked(&mut peer, "resources/read", json!({ "uri": "x://one" })), read);
    let unknown = peer.request("resources/read", json!({ "uri": "y://one" }));
    assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
}

/// M6: haft joins a server's instructions to its own, marked as the server's and quoted.
#[test]
fn a_server_s_words_are_joined() {
    let stage = stage(&like());
    let mut peer = Peer::start(&stage, &[]);
    let begun = peer.initialize("2025-11-25", &json!({}));
    let words = begun["result"]["instructions"].as_str().or(begun["instructions"].as_str()).unwrap();
    assert!(
        words.contains("MCP server `own`") && words.contains("Call echo first.\n> hint: grant"),
        "{words}"
    );
}

/// `--server` serves one server with its own names and URIs.
#[test]
fn a_server_that_is_served_alone_has_its_own_names() {
    let stage = two();
    let mut peer = Peer::start(&stage, &["--server", "own"]);
    peer.initialize("2025-11-25", &json!({}));
    assert_eq!(asked(&mut peer, "tools/list", json!({}))["tools"], json!([tool()]));
    assert_eq!(asked(&mut peer, "tools/call", json!({ "name": "echo", "arguments": {} })), answer());
    assert_eq!(asked(&mut peer, "resources/list", json!({}))["resources"], json!([resource()]));
    let read = asked(&mut peer, "resources/read", json!({ "uri": "x://one" }));
    assert_eq!(read["contents"][0]["uri"], "x://one");
}

/// M6: an error of a server reaches the client with its code and data.
#[test]
fn errors_keep_their_code_and_data() {
    let error = json!({ "code": -32042, "message": "log in", "data": { "elicitations": [{ "mode": "url", "url": "https://e.test/l", "elicitationId": "1", "message": "m" }] } });
    let text = format!(r#"{{"jsonrpc":"2.0","id":ID,"error":{error}}}"#);
    let stage = stage(&json!({ "raw": { "tools/call": text } }));
    let mut peer = Peer::open(&stage);
    asked(&mut peer, "tools/list", json!({}));
    let answer = peer.request("tools/call", json!({ "name": "mcp__own__echo", "arguments": {} }));
    assert_eq!(answer["error"], error);
}
