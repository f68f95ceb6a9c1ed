//! The saved data of a session, and the commands for sessions.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::Place;
use super::model::{Model, Says, answers, asked};
use crate::cli::Answer;

/// Reads two files in one turn, writes a third, and reports their content.
fn script(messages: &[Value]) -> Says {
    let read = |name: &str| ("read", json!({ "file_path": name }));
    let done: Vec<_> = answers(messages);
    match done.len() {
        0 => Says { text: "I look.".into(), calls: vec![read("a.txt"), read("b.txt")], ..Says::default() },
        2 => Says::call("bash", json!({ "command": "echo written > c.txt; echo ok" })),
        _ if asked(messages).ends_with("what next?") => Says::text("Nothing."),
        _ => Says::text(format!("I read {} and {}.", done[0].2.trim(), done[1].2.trim())),
    }
}

fn place() -> Place {
    let place = Place::new(Model::start(script), "");
    place.home.write("a.txt", "alpha\n");
    place.home.write("b.txt", "beta\n");
    place
}

/// PL03: a run with two concurrent calls prints the answer alone to standard output, and a line per call to standard
/// error; haft saves the session.
#[test]
fn a_task_with_two_tools_at_once_is_done_and_kept() {
    let place = place();
    let answer = place.haft(&["run", "read both"]);
    assert_eq!((answer.stdout.as_str(), answer.code), ("I read alpha and beta.\n", 0), "{}", answer.stderr);
    let report: Vec<_> = answer.stderr.lines().filter(|line| !line.starts_with("  ")).collect();
    assert_eq!(report.len(), 3, "{}", answer.stderr);
    let begins = ["✓ read ", "✓ read ", "✓ bash echo written > c.txt; echo ok ("];
    assert!(report.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{}", answer.stderr);
    let [file] = place.files().try_into().unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = place.listed();
    assert_eq!(
        (&listed[0]["state"], &listed[0]["turns"], &listed[0]["title"]),
        (&json!("done"), &json!(3), &json!("read both"))
    );
    let quiet = place.haft(&["run", "--quiet", "read both"]);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("I read alpha and beta.\n", ""));
    let table = place.haft(&["session", "list", "-n", "1"]);
    assert!(table.stdout.contains("done") && table.stdout.contains("read both"), "{}", table.stdout);
    assert_eq!(place.haft(&["session", "list", "--here", "--json"]).stdout.lines().count(), 2);
}

/// `--json` prints events as JSON lines; the last one is the end.
#[test]
fn events_are_json_lines() {
    let place = place();
    let answer = place.haft(&["run", "--json", "read both"]);
    let events: Vec<Value> = answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
    assert_eq!((of("asked"), of("started"), of("running"), of("completed"), of("ended")), (3, 3, 3, 3, 1));
    let end = events.last().unwrap();
    assert_eq!((&end["event"], &end["text"]), (&json!("ended"), &json!("I read alpha and beta.")));
    assert_eq!(end["session"], place.listed()[0]["id"]);
    let said: String = events
        .iter()
        .filter(|event| event["event"] == "said")
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert_eq!(said, "I look.I read alpha and beta.");
    assert_eq!(answer.stderr, "");
}

#[test]
fn a_session_goes_on_with_another_prompt_and_only_with_one() {
    let place = place();
    place.haft(&["run", "read both"]);
    let finished = place.haft(&["run", "--resume"]);
    assert_eq!(finished.code, 5);
    assert!(finished.stderr.contains("this session has no unfinished task"), "{}", finished.stderr);
    let told = place.haft(&["run", "--resume", "--json"]);
    let end: Value = serde_json::from_str(told.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&end["event"], &end["end"]), (&json!("ended"), &json!("failed")), "every end is told");
    assert!(
        end["session"].is_string()
            && end["shortfall"].as_str().unwrap().contains("this session has no unfinished task")
    );
    assert_eq!(end["resume"], json!(null), "there is nothing to go on with");
    let id = place.listed()[0]["id"].as_str().unwrap().to_owned();
    let next = place.haft(&["run", "--resume", &id[..5], "what next?"]);
    assert_eq!((next.stdout.as_str(), next.code), ("Nothing.\n", 0), "{}", next.stderr);
    assert!(next.stderr.contains(&format!("continuing session {id} (3 turns so far)")), "{}", next.stderr);
    assert_eq!(place.listed().len(), 1);
    let wrong = place.haft(&["run", "--resume", "go on"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("--resume last 'PROMPT'"), "{}", wrong.stderr);
    let unknown = place.haft(&["run", "--resume", "00000000", "x"]);
    assert!(unknown.stderr.contains("no session begins with `00000000`\nhint: "), "{}", unknown.stderr);
    place.model.assert_content();
    let removed = place.haft(&["session", "remove", &id]);
    assert_eq!((removed.code, place.files().len()), (0, 0), "{}", removed.stderr);
}

/// haft offers no resumption if the session's file is gone at the end of the task.
#[test]
fn a_session_that_is_not_on_file_any_more_is_not_offered() {
    let sessions = Arc::new(OnceLock::<PathBuf>::new());
    let own = sessions.clone();
    let model = Model::start(move |_| {
        if let Some(folder) = own.get() {
            fs::remove_dir_all(folder).unwrap();
        }
        Says::call("bash", json!({ "command": "true" }))
    });
    let place = Place::new(model, "[agent]\nmax_turns = 1\n");
    let end =
        |answer: Answer| -> Value { serde_json::from_str(answer.stdout.lines().last().unwrap()).unwrap() };
    let kept = end(place.haft(&["run", "--json", "do it"]));
    assert_eq!((&kept["end"], kept["resume"].is_string()), (&json!("turn_cap"), true), "{kept}");
    let none = end(place.haft(&["--no-journal", "run", "--json", "do it"]));
    assert_eq!((&none["end"], &none["resume"]), (&json!("turn_cap"), &json!(null)), "{none}");
    sessions.set(place.state().join("haft/sessions")).unwrap();
    let gone = end(place.haft(&["run", "--json", "do it"]));
    assert_eq!((&gone["end"], &gone["resume"]), (&json!("turn_cap"), &json!(null)), "{gone}");
}

/// A prompt may come from standard input; `--no-journal` saves no session.
#[test]
fn a_prompt_from_a_pipe_and_a_session_that_is_not_kept() {
    let place = place();
    let mut command = place.command(&["run", "-", "--no-journal", "--quiet"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"read both\n").unwrap();
    let answer = Answer::from(child.wait_with_output().unwrap());
    assert_eq!((answer.stdout.as_str(), answer.code), ("I read alpha and beta.\n", 0), "{}", answer.stderr);
    assert_eq!(place.files(), Vec::<PathBuf>::new());
    assert!(place.haft(&["run", " "]).stderr.contains("the prompt is empty"));
}

/// `session show` shows a session, and `session rerun` repeats its calls and compares the answers.
#[test]
fn a_session_is_replayed() {
    let place = place();
    place.haft(&["run", "read both"]);
    let shown = place.haft(&["session", "show"]);
    for part in ["## You\n\nread both\n", "I look.", "✓ **read** `a.txt`", "```\nalpha\n```", "I read alpha"]
    {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let kinds: Vec<Value> = place
        .haft(&["session", "show", "--json"])
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].clone())
        .collect();
    assert_eq!(kinds.first().unwrap(), "begun");
    assert_eq!(kinds.last().unwrap(), "ended");
    fs::remove_file(place.home.work().join("c.txt")).unwrap();
    let same = place.haft(&["session", "rerun"]);
    assert_eq!(same.code, 0, "{}", same.stderr);
    assert!(same.stderr.contains("answers: 2 equal, 0 different; 1 calls not made"), "{}", same.stderr);
    assert_eq!(place.read("c.txt"), "", "what changes something is not made again unasked");
    place.home.write("b.txt", "gamma\n");
    let other = place.haft(&["session", "rerun", "--all"]);
    assert_eq!(other.code, 1, "{}", other.stderr);
    assert!(other.stdout.contains("≠ read b.txt\n  - beta\n  + gamma\n"), "{}", other.stdout);
    assert_eq!(place.read("c.txt"), "written\n");
    // A rerun does not change the session.
    assert_eq!(place.haft(&["session", "show"]).stdout, shown.stdout);
}

/// Two processes cannot resume one session.
#[test]
fn a_session_in_use_is_left_alone() {
    let place = place();
    place.haft(&["run", "read both"]);
    let [file] = place.files().try_into().unwrap();
    let held = fs::File::open(&file).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let second = place.haft(&["run", "--resume", "last", "what next?"]);
    assert_eq!(second.code, 5);
    assert!(second.stderr.contains("is in use by another haft\nhint: "), "{}", second.stderr);
    assert_eq!(place.listed()[0]["state"], "in use");
}
