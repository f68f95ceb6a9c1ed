//! Prompts of MCP servers as commands of an editor's session.

use std::fs;

use serde_json::{Value, json};

use super::editor::Editor;
use super::{Place, begin, prompt};
use crate::mcp::fake;
use crate::sessions::{Says, asked};

/// A session with the prompt of a server, and the message that announced the prompt.
fn opened(builtins: &str) -> (Place, Editor, String, Value) {
    let place = Place::new(|messages| Says::text(format!("<{}>", asked(messages))));
    let program = place.program("", builtins).join("program.toml");
    let server = fake::toml("own", &fake::with_prompt(), "");
    fs::write(&program, fs::read_to_string(&program).unwrap() + &server).unwrap();
    assert_eq!(place.home.haft(&["trust", "--yes"]).code, 0);
    let mut editor = place.editor();
    let session = begin(&mut editor, &place.folder());
    let told = editor.until(|message| {
        let commands = message["params"]["update"]["availableCommands"].as_array();
        commands.is_some_and(|all| all.iter().any(|one| one["name"] == "mcp__own__review"))
    });
    (place, editor, session, told)
}

fn was_got(place: &Place) -> bool {
    fake::methods(&place.folder()).iter().any(|method| *method == "prompts/get")
}

/// A server's prompt is a command with its arguments, and its messages replace the command in the request to the
/// model.
#[test]
fn a_prompt_of_a_server_is_a_command() {
    let (place, mut editor, session, told) = opened("");
    let commands = told["params"]["update"]["availableCommands"].as_array().unwrap();
    let review = commands.iter().find(|one| one["name"] == "mcp__own__review").unwrap();
    assert_eq!(
        (&review["description"], &review["input"]["hint"]),
        (&json!("Reviews a file"), &json!("file [depth]"))
    );
    let answer = editor.ask("session/prompt", prompt(&session, "/mcp__own__review depth=2"));
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("needs `file`"), "{answer}");
    let answer = editor.ask("session/prompt", prompt(&session, "/mcp__own__review 'a b.rs' depth=2"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(editor.said(), "<User:\nReview it.\n\nAssistant:\nI do.>");
    let got: Vec<Value> = fake::received(&place.folder());
    let got = got.iter().find(|message| message["method"] == "prompts/get").unwrap();
    assert_eq!(
        (&got["params"]["name"], &got["params"]["arguments"]),
        (&json!("review"), &json!({ "file": "a b.rs", "depth": "2" }))
    );
    // haft sends unknown commands to the model unchanged.
    editor.ask("session/prompt", prompt(&session, "/mcp__own__other a"));
    assert!(editor.said().ends_with("</mcp__own__other a>"), "{}", editor.said());
    place.model.assert_content();
}

/// haft does not request a server's prompt in plan mode, because it cannot limit the server to reading.
#[test]
fn a_prompt_of_a_server_is_not_got_in_plan_mode() {
    let (place, mut editor, session, _) = opened("");
    editor.ask("session/set_mode", json!({ "sessionId": session, "modeId": "plan" }));
    let answer = editor.ask("session/prompt", prompt(&session, "/mcp__own__review a"));
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("is not available in plan mode"), "{answer}");
    assert!(!was_got(&place) && !editor.said().contains('<'));
}

/// A rule `ask` makes haft ask the user about a prompt; the user can refuse or allow it.
#[test]
fn a_rule_has_the_user_asked_about_a_prompt() {
    let (place, mut editor, session, _) = opened("[agent]\nask = [\"mcp__own__*\"]");
    editor.permit = Ok("reject");
    let answer = editor.ask("session/prompt", prompt(&session, "/mcp__own__review a"));
    assert!(answer["error"]["message"].is_string(), "{answer}");
    assert!(!was_got(&place) && editor.questions() == 1);
    editor.permit = Ok("allow-once");
    editor.ask("session/prompt", prompt(&session, "/mcp__own__review a"));
    assert!(was_got(&place) && editor.questions() == 2 && editor.said().contains("<User:"));
}
