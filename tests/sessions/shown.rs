//! The display of a session whose model writes control characters.

use serde_json::json;

use super::Place;
use super::model::{Model, Says, answers};
use crate::terminal::{HOSTILE, assert_fits, assert_harmless, shown};

/// S13, C13: a model's words, its calls and their answers, while it works and afterwards.
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
            // How what turns while nothing is to be read is drawn, and drawn over.
            text = ["\u{1b}[2K", "\r"].iter().fold(text, |text, own| text.replace(own, ""));
        }
        assert!(!text.trim().is_empty(), "{what}");
        assert_harmless(&what, &text);
        // JSON is for programs, and a model's words come piece by piece: the terminal breaks them.
        if !arguments.contains(&"--json") && (arguments[0] != "run" || arguments.contains(&"--quiet")) {
            assert_fits(&what, &text, 40);
        }
    }
}
