//! The context window of a conversation (U11): its fill level, manual summaries, and the continuation in another
//! session.

use super::Place;
use super::model::{Model, Says, asked};
use super::terminal::Terminal;

/// U11: chat shows the fill level of the window, `/compact` summarises, and `/fork` does not change the earlier
/// session.
#[test]
fn a_person_sees_and_makes_room_and_forks() {
    let model = Model::start(|messages| {
        let all = serde_json::to_string(messages).unwrap();
        match asked(messages) {
            _ if all.contains("You sum up a part of a conversation") => Says::text("They want word 4711."),
            said if said.ends_with("what?") => {
                let is_told = all.contains("They want word 4711.") && !all.contains("word word");
                Says::text(if is_told { "I was told the summary." } else { "I was told all." })
            }
            said => Says::text(format!("You said {} characters.", said.len())),
        }
    });
    let place = Place::new(model, "");
    let text = place.read("program.toml").replace("\"scripted\"\n", "\"scripted\"\ncontext_window = 20000\n");
    place.home.write("program.toml", &text);
    let Some(terminal) = Terminal::start(&place, "room", &["chat"]) else { return };
    terminal.prompts(1);
    terminal.enter("/compact");
    terminal.sees("there is nothing to summarise yet", 1);
    for (number, said) in (2..).zip(["hello", &"word ".repeat(100), "and so on"]) {
        terminal.prompts(number);
        terminal.enter(said);
        terminal.sees("% of the window of 20000 tokens used", number - 1);
    }
    terminal.prompts(5);
    terminal.enter("/compact");
    terminal.sees("summarised 5 messages: ", 1);
    terminal.prompts(6);
    terminal.enter("what?");
    terminal.sees("I was told", 1);
    let before = place.listed()[0].clone();
    terminal.prompts(7);
    terminal.enter("/fork");
    terminal.sees("this conversation continues as session", 1);
    terminal.prompts(8);
    terminal.enter("what?");
    terminal.sees("I was told", 2);
    let sessions = place.listed();
    assert_eq!(sessions.len(), 2);
    assert_eq!(sessions[0]["turns"], before["turns"], "the one before stays");
    assert_eq!(sessions[1]["turns"].as_u64().unwrap(), before["turns"].as_u64().unwrap() + 1);
    place.model.assert_content();
}
