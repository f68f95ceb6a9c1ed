//! The messages between haft and a correct server.

use haft::event::Event;
use haft::tool::{Reply, Tool as _};
use serde_json::json;

use super::*;
use crate::common::wait::{eventually, within};

/// MC01: the messages of a start, a list and a call, in order, with servers of both eras.
#[tokio::test]
async fn a_server_is_started_asked_and_called() {
    for (speaks, expected) in [
        (
            "2024-11-05",
            &["server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call"][..],
        ),
        (
            "2025-11-25",
            &["server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call"],
        ),
        ("2026-07-28", &["server/discover", "tools/list", "tools/call"]),
    ] {
        let fixture = Fixture::new(&json!({ "speaks": speaks }));
        let listed = fixture.list().await.unwrap();
        assert_eq!(listed.tools[0].name, "echo", "{speaks}");
        assert_eq!(fixture.text("echo", json!({ "a": "ж" })).await, r#"{"a":"ж"}"#, "{speaks}");
        assert_eq!(fake::methods(&fixture.folder()), expected, "{speaks}");
        fixture.server.close().await;
    }
}

/// MC01: haft refuses a server with an unknown protocol version.
#[tokio::test]
async fn an_unknown_version_is_refused() {
    let fixture = Fixture::new(&json!({ "speaks": "1999-01-01" }));
    let error = fixture.list().await.unwrap_err().to_string();
    assert!(error.contains("only version `1999-01-01`"), "{error}");
}

/// MC01: haft falls back to `initialize` if a server fails at `server/discover`, ends or does not answer.
#[tokio::test]
async fn servers_that_know_only_initialize_are_served() {
    for discover in ["error", "exit", "hang"] {
        let fixture = Fixture::new(&json!({ "discover": discover }));
        assert_eq!(fixture.list().await.unwrap().tools.len(), 16, "{discover}");
        fixture.server.close().await;
    }
}

/// MC02, MC03: the server gets its own tool name; the result has all texts, pictures and data.
#[tokio::test]
async fn an_answer_is_told_whole() {
    let fixture = Fixture::new(&json!({}));
    let result = fixture.call("rich", json!({})).await.unwrap();
    assert_eq!(
        result.content,
        "one\ntwo\n[image, image/png, 8 bytes]\n[resource x <file:///x>]\n\
         [content of the unknown type `unheard_of`]\n{\"answer\":42}"
    );
    assert_eq!(result.structured, Some(json!({ "answer": 42 })));
    assert_eq!(
        (result.attachments[0].media_type.as_str(), result.attachments[0].data.len()),
        ("image/png", 8)
    );
    let failed = fixture.call("fail", json!({})).await.unwrap();
    assert_eq!((failed.content.as_str(), failed.is_error), ("no luck", true));
    let call = fake::received(&fixture.folder()).pop().unwrap();
    assert_eq!(call["params"]["name"], "fail");
}

/// MC04: a protocol error is the result of the call, in the server's words.
#[tokio::test]
async fn an_error_is_an_answer() {
    let fixture = Fixture::new(&json!({}));
    assert_eq!(
        fixture.error("refuse", json!({})).await,
        "Tool error: MCP server `fake` answered with an error: wrong arguments, says the server (-32602)"
    );
    assert_eq!(fixture.text("echo", json!({})).await, "{}");
}

/// MC05: haft answers a server's requests during a call, or refuses them with a reason.
#[tokio::test]
async fn a_server_s_requests_are_answered() {
    let fixture = Fixture::new(&json!({}));
    let answers: Value = serde_json::from_str(&fixture_text(&fixture).await).unwrap();
    assert_eq!(answers["ping"]["result"], json!({}));
    let root = answers["roots"]["result"]["roots"][0]["uri"].as_str().unwrap().to_owned();
    assert!(root.starts_with("file:///") && root.contains(&name(&fixture.folder())), "{root}");
    assert_eq!(answers["sampling"]["error"]["code"], -32601);
    assert!(
        answers["sampling"]["error"]["message"]
            .as_str()
            .unwrap()
            .contains("this client does not support sampling; return the data to the model instead")
    );
    assert_eq!(answers["odd"]["error"]["code"], -32601);
}

/// The result of `ask`, which must not be truncated.
async fn fixture_text(fixture: &Fixture) -> String {
    let text = fixture.text("ask", json!({})).await;
    assert!(!text.contains("truncated"), "{text}");
    text
}

/// MC05: a server's question gets the user's answer, or `decline` if haft cannot ask.
#[tokio::test]
async fn a_person_is_asked_where_there_is_one() {
    let nobody = Fixture::new(&json!({}));
    assert_eq!(nobody.text("elicit", json!({})).await, r#"{"action":"decline"}"#);
    let initialize =
        fake::received(&nobody.folder()).into_iter().find(|m| m["method"] == "initialize").unwrap();
    let extensions = json!({
        "io.modelcontextprotocol/skills": {}, "io.modelcontextprotocol/tasks": {},
        "io.modelcontextprotocol/ui": { "mimeTypes": ["text/html;profile=mcp-app"] },
    });
    let elicitation = json!({ "form": {}, "url": {} });
    let known = json!({ "elicitation": elicitation, "extensions": extensions, "roots": {} });
    assert_eq!(initialize["params"]["capabilities"], known);
    let reply = Reply::Accept(Some(json!({ "name": "Ada" })));
    let person = Arc::new(Sayer(reply));
    let fixture = Fixture::with(&json!({}), HANG, |host| Host { elicitor: Some(person), ..host });
    let text = fixture.text("elicit", json!({})).await;
    assert_eq!(text, r#"{"action":"accept","content":{"name":"Ada"}}"#);
}

/// MC05: in the stateless era a server asks through its answer, and haft repeats the call with the user's answer.
#[tokio::test]
async fn an_answer_may_ask_for_more() {
    let person = Arc::new(Sayer(Reply::Accept(Some(json!({ "name": "Ada" })))));
    let like = json!({ "speaks": "2026-07-28" });
    let fixture = Fixture::with(&like, HANG, |host| Host { elicitor: Some(person), ..host });
    let text = fixture.text("needs_more", json!({})).await;
    assert!(text.starts_with("sealed ") && text.contains("\"Ada\"") && text.contains("file:///"), "{text}");
}

/// MC06: haft follows the pages of a list, and ends at a repeated cursor; a list may be empty or have invalid tools.
#[tokio::test]
async fn pages_are_followed_and_a_circle_is_not() {
    let fixture = Fixture::new(&json!({ "tools": "pages" }));
    assert_eq!(fixture.list().await.unwrap().tools.len(), 16);
    let fixture = Fixture::new(&json!({ "tools": "circle" }));
    let listed = fixture.list().await.unwrap();
    assert!(
        listed.tools.len() == 1 && listed.rejected.iter().any(|rejected| rejected.why.contains("repeats"))
    );
    assert_eq!(fake::methods(&fixture.folder()).iter().filter(|method| *method == "tools/list").count(), 2);
    let fixture = Fixture::new(&json!({ "tools": "none" }));
    assert_eq!(fixture.list().await.unwrap().tools.len(), 0);
    for speaks in ["2025-11-25", "2026-07-28"] {
        let fixture = Fixture::new(&json!({ "tools": "bad", "speaks": speaks }));
        let listed = fixture.list().await.unwrap();
        assert_eq!((listed.tools.len(), listed.rejected.len()), (2, 1), "{speaks}");
    }
}

/// MC04: progress and log messages of a call reach the caller, in order.
#[tokio::test]
async fn progress_and_messages_are_events() {
    let fixture = Fixture::new(&json!({}));
    let heard = async {
        for number in 1..=4 {
            let is_heard = || fixture.workspace.received.lock().unwrap().len() == number;
            eventually("the server is heard", is_heard).await;
            std::fs::write(fixture.path(&format!("heard-{number}")), "").unwrap();
        }
    };
    tokio::join!(fixture.text("progress", json!({})), heard);
    let received = fixture.workspace.received.lock().unwrap();
    let report: Vec<_> = received
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Progress { call, done, total, message } => {
                Some(format!("{call} {done} {total:?} {message}"))
            }
            Event::Info { call, message } => Some(format!("{call} {message}")),
            _ => None,
        })
        .collect();
    assert_eq!(
        report,
        [
            "call-1 1 Some(3.0) step 1",
            "call-1 2 Some(3.0) step 2",
            "call-1 3 Some(3.0) step 3",
            "call-1 fake: be careful"
        ]
    );
}

/// MCP clients see a tool as in its own list, also if the server has sent another list since.
#[tokio::test]
async fn a_tool_is_shown_as_it_is_in_its_own_list() {
    let fixture = Fixture::new(&json!({}));
    let now = fixture.list().await.unwrap();
    let mut before = (*now).clone();
    before.sent.iter_mut().for_each(|tool| tool["own"] = "agreed".into());
    for tool in &now.tools {
        let shown = ServerTool::new(&fixture.server, &before, tool);
        assert_eq!(shown.served().unwrap().definition["own"], "agreed");
    }
}

/// MC06: after a change notification haft lists the tools again, and stores the new list.
#[tokio::test]
async fn a_changed_list_is_asked_for_again() {
    let memory = tempfile::tempdir().unwrap();
    let fixture = Fixture::with(&json!({}), HANG, |host| remembering(host, &memory));
    let mut changes = fixture.server.changes();
    assert_eq!(fixture.list().await.unwrap().tools.len(), 16);
    // T02: the first list counts as a change too: a program that was loaded during the list gets it.
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    fixture.text("change", json!({})).await;
    within("the list changes", changes.changed()).await.unwrap();
    assert_eq!(fixture.list().await.unwrap().tools.len(), 17);
    let again = Server::new(fixture.server.config().clone(), remembering(fixture.host(), &memory));
    let (remembered, age) = again.remembered().unwrap();
    assert_eq!(remembered.tools.len(), 17);
    assert!(age < haft::mcp::client::MAX_AGE);
    assert_eq!(fake::methods(&fixture.folder()).iter().filter(|method| *method == "tools/list").count(), 2);
}

/// MC01: haft remembers a server's era, and does not probe it again.
#[tokio::test]
async fn the_era_is_remembered() {
    let memory = tempfile::tempdir().unwrap();
    let fixture = Fixture::with(&json!({ "discover": "exit" }), HANG, |host| remembering(host, &memory));
    fixture.list().await.unwrap();
    fixture.server.close().await;
    let again = Server::new(fixture.server.config().clone(), remembering(fixture.host(), &memory));
    again.list().await.unwrap();
    again.close().await;
    let methods = fake::methods(&fixture.folder());
    let handshake = ["initialize", "notifications/initialized", "tools/list"];
    assert_eq!(methods, [&["server/discover"][..], &handshake, &handshake].concat());
}

fn remembering(host: Host, memory: &tempfile::TempDir) -> Host {
    Host { cache: Some(memory.path().to_owned()), ..host }
}
