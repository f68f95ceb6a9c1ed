//! The display of a session whose model writes control characters.

use serde_json::json;

use super::Place;
use super::model::{Model, Says, answers};
use crate::terminal::{HOSTILE, assert_fits, assert_harmless, shown};

/// S13, C13: control characters in a model's text, its calls and their answers do not reach the terminal, in any
/// output.
#[test]
fn what_a_model_writes_steers_no_terminal() {
    let hostile = HOSTILE.replace('\0', "");
    let command = format!("printf '%s' '{hostile}'");
    let place = Place::new(
        Model::start(move |messages| match answers(messages).len() {
            0 => Says::call("bash", json!({ "command": command.clone() })),
            1 => Says::call("no_such_tool", json!({ "text": HOSTILE })),
            _ => Says::text(format!("**{HOSTILE}** `{HOSTILE}` {}", "long words ".repeat(30))),
        }),
        "",
    );
    let all: &[&[&str]] = &[
        &["run", &hostile],
        &["run", "--quiet", &hostile],
        &["run", "--json", &hostile],
        &["session", "list"],
        &["session", "list", "--json"],
        &["session", "show"],
        &["session", "show", "--json"],
        &["session", "rerun", "--all"],
        &["log"],
        &["log", "-n", "all"],
    ];
    for arguments in all {
        let what = format!("{arguments:?}");
        let Some(mut text) = shown(&place.command(&[]), 40, arguments) else { return };
        if arguments.len() == 2 && arguments[0] == "run" {
            // The control sequences of the progress display.
            text = ["\u{1b}[2K", "\r"].iter().fold(text, |text, own| text.replace(own, ""));
        }
        assert!(!text.trim().is_empty(), "{what}");
        assert_harmless(&what, &text);
        // JSON is for programs, and the terminal wraps streamed text itself.
        if !arguments.contains(&"--json") && (arguments[0] != "run" || arguments.contains(&"--quiet")) {
            assert_fits(&what, &text, 40);
        }
    }
}
