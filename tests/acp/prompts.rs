//! Prompts of MCP servers as commands of an editor's session.

use std::fs;

use serde_json::{Value, json};

use super::{Place, begin, prompt};
use crate::mcp::fake;
use crate::sessions::{Says, asked};

/// A prompt is among the commands with its arguments, and what it says goes to the model in place of the command.
#[test]
fn a_prompt_of_a_server_is_a_command() {
    let place = Place::new(|messages| Says::text(format!("<{}>", asked(messages))));
    let folder = place.program("", "");
    let program = folder.join("program.toml");
    let server = fake::toml("own", &fake::with_prompt(), "");
    fs::write(&program, fs::read_to_string(&program).unwrap() + &server).unwrap();
    assert_eq!(place.home.haft(&["trust", "--yes"]).code, 0);
    let mut editor = place.editor();
    let session = begin(&mut editor, &folder);
    let told = editor.until(|message| {
        let commands = message["params"]["update"]["availableCommands"].as_array();
        commands.is_some_and(|commands| commands.iter().any(|one| one["name"] == "mcp__own__review"))
    });
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
    let got: Vec<Value> = fake::received(&folder);
    let got = got.iter().find(|message| message["method"] == "prompts/get").unwrap();
    assert_eq!(
        (&got["params"]["name"], &got["params"]["arguments"]),
        (&json!("review"), &json!({ "file": "a b.rs", "depth": "2" }))
    );
    // Others go to the model as they are.
    editor.ask("session/prompt", prompt(&session, "/mcp__own__other a"));
    assert!(editor.said().ends_with("</mcp__own__other a>"), "{}", editor.said());
    place.model.assert_content();
}
