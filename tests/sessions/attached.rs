//! Files that a user attaches in `haft chat`.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::Place;
use super::model::{Model, Says};
use super::terminal::Terminal;

/// Reports the attachments of the last message.
fn script(messages: &[Value]) -> Says {
    let last = messages.last().unwrap()["content"].to_string();
    let pictures = last.matches("data:image/png").count();
    let text = if last.contains("Four thousand") { "the text" } else { "no text" };
    Says::text(format!("I see {pictures} pictures and {text}."))
}

#[test]
fn a_person_attaches_files_to_what_is_said_next() {
    let place = Place::new(Model::start(script), "");
    fs::write(place.home.work().join("a dot.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    place.home.write("notes.txt", "Four thousand.\n");
    let Some(terminal) = Terminal::start(&place, "attached", &["chat"]) else { return };
    let steps = [
        (
            "/attach 'a dot.png' notes.txt",
            "attached to your next message: a dot.png: image/png, 8 bytes; notes.txt: text/plain, 15 bytes",
        ),
        ("/attach none.png", "cannot attach `none.png`"),
        ("What is it?", "I see 1 pictures and the text."),
        ("/attach notes.txt", "attached to your next message: notes.txt"),
        ("/detach", "no files are attached to your next message"),
        ("And now?", "I see 0 pictures and no text."),
        ("/quit", "ended with 0"),
    ];
    terminal.converse(&steps);
    place.model.assert_content();
}

/// Files attached to a prompt that the provider refused are sent with the next prompt.
#[test]
fn files_outlive_a_turn_that_was_refused() {
    let was_asked = AtomicBool::new(false);
    let refusing = move |messages: &[Value]| {
        if was_asked.swap(true, Ordering::SeqCst) {
            script(messages)
        } else {
            Says { status: 401, ..Says::default() }
        }
    };
    let place = Place::new(Model::start(refusing), "");
    fs::write(place.home.work().join("dot.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    let Some(terminal) = Terminal::start(&place, "refused", &["chat"]) else { return };
    let steps = [
        ("/attach dot.png", "attached to your next message: dot.png: image/png, 8 bytes"),
        ("What is it?", "401 Unauthorized"),
        ("I ask again.", "I see 1 pictures and no text."),
        ("/quit", "ended with 0"),
    ];
    terminal.converse(&steps);
    place.model.assert_content();
}
