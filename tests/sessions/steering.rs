//! Prompts that a user gives while the model works (U11).

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::Place;
use super::model::{Model, Says, asked};
use super::terminal::Terminal;
use crate::common::wait::until;

/// Whether the test entered the second prompt before the last word.
static SAID: AtomicBool = AtomicBool::new(false);

/// Runs a command until the test ends it, and reports the user's last message.
fn script(messages: &[Value]) -> Says {
    match asked(messages) {
        "paint" if messages.last().is_some_and(|last| last["role"] == "user") => {
            Says::call("bash", json!({ "command": "touch begun; until [ -e go ]; do sleep 0.02; done" }))
        }
        "take blue" => Says {
            text: "Blue it is".into(),
            before_last: Some(|| until("the next was said", || SAID.load(Ordering::Relaxed))),
            ..Says::default()
        },
        "and red" => Says::text("Red as well."),
        other => Says::text(format!("I heard `{other}`.")),
    }
}

/// U11: the model gets a prompt that the user enters during a turn at its next step; a command waits, and Ctrl-C
/// loses no prompt.
#[test]
fn the_model_is_told_what_is_said_while_it_works() {
    let place = Place::new(Model::start(script), "");
    let Some(terminal) = Terminal::start(&place, "steer", &["chat"]) else { return };
    terminal.prompts(1);
    terminal.enter("paint");
    until("the command runs", || place.home.work().join("begun").exists());
    terminal.enter("take blue");
    terminal.sees("the model reads this at its next step", 1);
    terminal.enter("/plan");
    place.home.write("go", "");
    terminal.sees("Blue it", 1);
    terminal.enter("and red");
    terminal.sees("the model reads this at its next step", 2);
    SAID.store(true, Ordering::Relaxed);
    terminal.sees("Red as well.", 1);
    terminal.sees("plan mode: tools only read", 1);
    terminal.sees("\nplan> ", 1);
    std::fs::remove_file(place.home.work().join("go")).unwrap();
    std::fs::remove_file(place.home.work().join("begun")).unwrap();
    terminal.enter("/plan off");
    terminal.sees("plan mode is off: tools have the rights of the program", 1);
    terminal.enter("paint");
    until("the command runs again", || place.home.work().join("begun").exists());
    terminal.enter("too late");
    terminal.sees("the model reads this at its next step", 3);
    terminal.key("C-c");
    terminal.sees("[cancelled]", 1);
    terminal.enter("/continue");
    terminal.sees("I heard too late.", 1);
    place.model.assert_content();
}
