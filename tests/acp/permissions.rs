//! Calls that need the approval of the user at the editor.

use serde_json::{Value, json};

use super::{Place, begin, prompt};
use crate::sessions::{Says, answers};

/// Makes `count` calls and repeats their output.
fn calls(count: usize) -> impl Fn(&[Value]) -> Says + Send + Sync + 'static {
    move |messages| match answers(messages) {
        done if done.len() < count => {
            Says::call("bash", json!({ "command": format!("echo {}", done.len()) }))
        }
        done => {
            Says::text(done.iter().map(|(_, _, answer)| format!("{} ", answer.trim())).collect::<String>())
        }
    }
}

/// The model's final text with the answer `permit` to questions, and the number of questions.
fn outcome(permit: Result<&'static str, i64>) -> (String, usize) {
    let place = Place::new(calls(2));
    let mut editor = place.editor();
    editor.permit = permit;
    let session = begin(&mut editor, &place.folder());
    let answer = editor.ask("session/prompt", prompt(&session, "call"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    place.model.assert_content();
    (editor.said(), editor.questions())
}

/// RS06: `allow-once` allows one call, and `allow-always` allows all calls of the session.
#[test]
fn a_yes_runs_it_once_and_always_for_the_session() {
    assert_eq!(outcome(Ok("allow-once")), ("0 1 ".into(), 2));
    assert_eq!(outcome(Ok("allow-always")), ("0 1 ".into(), 1));
}

/// RS06: `reject` denies the call; a dismissed, failed or invalid answer also prevents the call, with the reason.
#[test]
fn a_no_is_no_and_silence_is_none() {
    let (said, questions) = outcome(Ok("reject"));
    assert!(said.contains("Command execution denied by user."), "{said}");
    assert_eq!(questions, 2);
    for (permit, why) in [
        (Ok("dismiss"), "dismissed"),
        (Err(-32601), "the editor failed to ask:"),
        (Ok("yes"), "does not fit the question"),
    ] {
        let (said, _) = outcome(permit);
        assert!(said.contains("it needs a person's approval") && said.contains(why), "{said}");
    }
}

/// If the task is cancelled, haft withdraws its open question.
#[test]
fn a_question_is_taken_back_with_its_task() {
    let place = Place::new(calls(1));
    let mut editor = place.editor();
    let session = begin(&mut editor, &place.folder());
    let id = editor.send("session/prompt", prompt(&session, "call"));
    let question = editor.until(|message| message["method"] == "session/request_permission");
    let asked = &question["params"];
    let updates = editor.updates();
    let call = updates.iter().find(|update| update["sessionUpdate"] == "tool_call").expect("the call");
    assert_eq!(asked["toolCall"]["toolCallId"], call["toolCallId"]);
    assert!(asked["toolCall"]["content"].to_string().contains("echo 0"), "{asked}");
    let kinds: Vec<_> = asked["options"].as_array().unwrap().iter().map(|option| &option["kind"]).collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
    editor.notify("session/cancel", json!({ "sessionId": session }));
    let taken_back = editor.until(|message| message["method"] == "$/cancel_request");
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
}

/// U11: in plan mode a session writes nothing; the editor sets the mode by `session/set_mode` or by a configuration
/// option.
#[test]
fn a_session_in_plan_mode_writes_nothing() {
    let place = Place::new(|messages| match messages.last() {
        Some(last) if last["role"] == "tool" => Says::text("tried"),
        _ => Says::call("write", json!({ "file_path": "a", "content": "x" })),
    });
    let mut editor = place.editor();
    let opened = editor.ask("session/new", json!({ "cwd": place.folder(), "mcpServers": [] }));
    let modes = &opened["result"]["modes"];
    assert_eq!(
        (&modes["currentModeId"], &modes["availableModes"][1]["id"]),
        (&json!("default"), &json!("plan"))
    );
    assert_eq!(opened["result"]["configOptions"][0]["category"], "mode");
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    let wrong = editor.ask("session/set_mode", json!({ "sessionId": session, "modeId": "yolo" }));
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    let set = editor.ask("session/set_mode", json!({ "sessionId": session, "modeId": "plan" }));
    assert!(set["result"].is_object(), "{set}");
    editor.ask("session/prompt", prompt(&session, "write"));
    assert!(!place.folder().join("a").exists());
    let option = json!({ "sessionId": session, "configId": "mode", "value": "default" });
    let set = editor.ask("session/set_config_option", option);
    assert_eq!(set["result"]["configOptions"][0]["currentValue"], "default", "{set}");
    editor.ask("session/prompt", prompt(&session, "write"));
    assert!(place.folder().join("a").exists());
}

/// U3: the question about an edit contains the difference in the editor's own form.
#[test]
fn an_edit_is_asked_about_as_a_difference() {
    let place = Place::new(|messages| match answers(messages).as_slice() {
        [] => {
            let arguments = json!({ "file_path": "a.txt", "old_string": "alpha", "new_string": "omega" });
            Says::call("edit", arguments)
        }
        _ => Says::text("done"),
    });
    place.program("", "[agent]\nask = [\"edit\"]");
    place.home.write("a.txt", "alpha\n");
    let mut editor = place.editor();
    let session = begin(&mut editor, &place.folder());
    let id = editor.send("session/prompt", prompt(&session, "change it"));
    let question = editor.until(|message| message["method"] == "session/request_permission");
    let path = place.folder().canonicalize().unwrap().join("a.txt");
    let diff = json!({ "type": "diff", "path": path, "oldText": "alpha", "newText": "omega" });
    let content = question["params"]["toolCall"]["content"].as_array().unwrap();
    assert!(content.contains(&diff) && content[0].to_string().contains("edit a.txt"), "{content:?}");
    editor.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
}
