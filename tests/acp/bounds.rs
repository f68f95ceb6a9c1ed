//! Editors that send invalid, oversized or misordered messages. haft answers each with an error and continues.

use serde_json::json;

use super::{Editor, Place, begin, prompt};
use crate::sessions::Says;

#[test]
fn what_is_no_message_is_answered_and_changes_nothing() {
    let place = Place::new(|_| Says::text("Here."));
    let mut command = place.home.command(&["acp"]);
    command.current_dir("/");
    let mut editor = Editor::silent(command);
    let early = editor.ask("session/new", json!({ "cwd": place.folder(), "mcpServers": [] }));
    assert_eq!(early["error"]["code"], -32600, "{early}");
    assert!(editor.ask("initialize", json!({ "protocolVersion": 99 }))["error"].is_null());
    for (line, id, code) in [
        ("garbage", json!(null), -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":71,\"method\":\"session/new\"", json!(71), -32700),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":72,\"method\":\"session/new\",\"params\":{\"cwd\":7}}",
            json!(72),
            -32602,
        ),
        ("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"session/fly\"}", json!("x"), -32601),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":73,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"x\",\"prompt\":[]}}",
            json!(73),
            -32002,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":74,\"method\":\"session/load\",\"params\":{\"sessionId\":\"../x\",\"cwd\":\"/\",\"mcpServers\":[]}}",
            json!(74),
            -32002,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":75,\"method\":\"session/new\",\"params\":{\"cwd\":\"here\",\"mcpServers\":[]}}",
            json!(75),
            -32602,
        ),
        ("[{\"jsonrpc\":\"2.0\",\"id\":76,\"method\":\"initialize\"}]", json!(null), -32600),
    ] {
        editor.write(format!("{line}\n").as_bytes());
        let answer = editor.read();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{line}: {answer}");
    }
    // haft ignores messages that need no answer.
    editor.write(b"\n{\"jsonrpc\":\"2.0\",\"method\":\"$/unknown\"}\n{\"jsonrpc\":\"2.0\",\"id\":4711,\"result\":{}}\n");
    let session = begin(&mut editor, &place.folder());
    editor.ask("session/prompt", prompt(&session, "there?"));
    assert_eq!(editor.said(), "Here.");
    assert!(editor.ask("session/close", json!({ "sessionId": session }))["error"].is_null());
    assert_eq!(editor.ask("session/prompt", prompt(&session, "there?"))["error"]["code"], -32002);
    assert_eq!(editor.leave(), 0);
}

/// haft answers a message over 16 MiB with an error for its id, and reads the next message.
#[test]
fn a_message_too_long_is_refused_and_the_next_one_read() {
    let place = Place::new(|_| Says::text("Here."));
    let mut editor = place.editor();
    let session = begin(&mut editor, &place.folder());
    let mut long = prompt(&session, &"x".repeat(17 << 20)).to_string();
    long.insert_str(0, "{\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\"session/prompt\",\"params\":");
    editor.write(format!("{long}}}\n").as_bytes());
    let answer = editor.answer(99);
    assert!(answer["error"]["message"].as_str().unwrap().contains("16 MiB"), "{answer}");
    editor.ask("session/prompt", prompt(&session, "there?"));
    assert_eq!(editor.said(), "Here.");
}
