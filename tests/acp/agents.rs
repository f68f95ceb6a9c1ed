//! Agents that are tools, at an editor: the user approves their calls there.

use serde_json::{Value, json};

use super::{Editor, Place, begin, prompt};
use crate::sessions::{Says, answers};

const PART: &str = "shell_confirm = true\n[[agents]]\nname = \"part\"\ndescription = \"P.\"\n\
                    system_prompt = \"You are a part.\"\ntools = [\"bash\"]\n";

/// The agent runs two commands and repeats their output; the main model repeats the agent's answer.
fn script(messages: &[Value]) -> Says {
    let done = answers(messages);
    match (messages[0]["content"] == "You are a part.", done.len()) {
        (true, made @ 0..2) => {
            Says::call("bash", json!({ "command": format!("echo {made}; # of the part") }))
        }
        (false, 0) => Says::call("agent__part", json!({ "task": "do it" })),
        _ => Says::text(done.iter().map(|(_, _, answer)| format!("{} ", answer.trim())).collect::<String>()),
    }
}

/// The editor's messages of a task whose questions are answered with `permit`.
fn asked(permit: &'static str) -> (Editor, Place) {
    let place = Place::new(script);
    place.program("", PART);
    let mut editor = place.editor();
    editor.permit = Ok(permit);
    let session = begin(&mut editor, &place.folder());
    let answer = editor.ask("session/prompt", prompt(&session, "go"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    place.model.assert_content();
    (editor, place)
}

/// The question about an agent's call has a card of its own, with the agent's name and the call's outcome.
#[test]
fn the_user_is_asked_about_what_an_agent_wants() {
    for (permit, status, said) in [("allow-once", "completed", "0 1"), ("reject", "failed", "denied by user")]
    {
        let (editor, _place) = asked(permit);
        assert!(editor.said().contains(said), "{}", editor.said());
        assert_eq!(editor.questions(), 2);
        let question =
            editor.seen.iter().find(|message| message["method"] == "session/request_permission").unwrap();
        let card = &question["params"]["toolCall"];
        assert_eq!(card["title"], "part: Run echo 0; # of the part");
        assert!(card["content"].to_string().contains("Run:\\n```\\necho 0; # of the part"), "{card}");
        let always = &question["params"]["options"][1]["name"];
        assert_eq!(always, "Always allow `bash` of the agent `part` in this session");
        let own: Vec<Value> = editor
            .updates()
            .into_iter()
            .filter(|update| update["toolCallId"] == card["toolCallId"])
            .collect();
        assert_eq!(own.len(), 1, "no call of the session has its id: {own:?}");
        assert_eq!(
            (&own[0]["sessionUpdate"], &own[0]["status"]),
            (&json!("tool_call_update"), &json!(status))
        );
    }
}

/// An approval for the session also applies to later calls of the agent.
#[test]
fn a_yes_for_the_session_is_one_to_the_agent() {
    let (editor, _place) = asked("allow-always");
    assert_eq!((editor.questions(), editor.said().contains("0 1")), (1, true), "{}", editor.said());
}
