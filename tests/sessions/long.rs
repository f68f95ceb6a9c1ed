//! An answer of megabytes: the model sees a part, reads the rest with `read`, and no other tool reaches it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::Place;
use super::model::{Model, Says, answers};

/// Lines of the answer, each a number: 3 MB.
const LINES: usize = 450_000;
/// Limit on the text that the model sees, in bytes: a quarter of the window, and the notice.
const SHOWN: usize = 16_384 / 4 * 3 + 600;

/// The file with the whole answer, which the notice names.
fn kept(answer: &str) -> Option<String> {
    let (_, rest) = answer.split_once("is in `")?;
    rest.split_once('`').map(|(path, _)| path.to_owned())
}

/// Prints, reads a part of the output, tries to write and to `cat` the file, and reports the answers.
fn script(messages: &[Value]) -> Says {
    let done = answers(messages);
    let path = || kept(&done[0].2).unwrap_or_else(|| "/nowhere".into());
    match done.len() {
        0 => Says::call("bash", json!({ "command": format!("seq 1 {LINES}") })),
        1 => Says::call("read", json!({ "file_path": path(), "offset": 222_222, "limit": 2 })),
        2 => Says::call("write", json!({ "file_path": path(), "content": "x" })),
        3 => Says::call("bash", json!({ "command": format!("cat {}", path()) })),
        _ => {
            let said = |index: usize| done[index].2.as_str();
            assert!(done[0].2.len() <= SHOWN, "{}", done[0].2.len());
            Says::text(json!([said(0), said(1), said(2), said(3)]).to_string())
        }
    }
}

fn place() -> Place {
    Place::new(Model::start(script), "[agent]\nsummarise = false\n")
}

fn answered(stdout: &str) -> Vec<String> {
    serde_json::from_str(stdout.trim()).unwrap()
}

fn program(place: &Place) {
    let toml = place.read("program.toml").replace("model = ", "context_window = 16384\nmodel = ");
    place.home.write("program.toml", &toml);
}

/// G02: an answer of 3 MB does not end a task, and the model can read every line of it.
#[test]
fn a_model_reads_on_in_an_answer_of_megabytes() {
    let place = place();
    program(&place);
    let answer = place.haft(&["run", "--quiet", "print"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let [first, read, written, printed] = answered(&answer.stdout).try_into().unwrap();
    let bytes: usize = (1..=LINES).map(|line| line.to_string().len() + 1).sum();
    assert!(first.contains(&format!("all of it, {bytes} bytes in {LINES} lines, is in `")), "{first}");
    assert!(first.contains("`read` shows a part of it"), "{first}");
    assert!(read.starts_with("222222\n222223"), "{read}");
    assert!(written.contains("write denied"), "{written}");
    assert!(printed.contains("No such file") || printed.contains("Permission denied"), "{printed}");
    let path = kept(&first).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes as u64);
    let id = place.listed()[0]["id"].as_str().unwrap().to_owned();
    assert!(Path::new(&path).parent().unwrap().ends_with(&id));
    assert_eq!(place.haft(&["session", "remove", &id]).code, 0);
    assert!(!Path::new(&path).exists(), "it goes with its session");
    place.model.assert_content();
}

/// Without a journal, or without the tool `read`, haft stores no answer, and tells the model to request a part.
#[test]
fn what_is_not_kept_or_cannot_be_opened_is_not_pointed_at() {
    for (arguments, tools) in [
        (["--no-journal", "run", "-q", "print"].as_slice(), ""),
        (&["run", "-q", "print"], "tools = [\"bash\"]\n"),
    ] {
        let place = Place::new(Model::start(script), &format!("[agent]\nsummarise = false\n{tools}"));
        program(&place);
        let answer = place.haft(arguments);
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        let first = &answered(&answer.stdout)[0];
        assert_eq!(kept(first), None, "{first}");
        assert!(first.contains("ask for a part of it to see the rest"), "{first}");
        assert!(
            !place
                .home
                .work()
                .join("../.local/share/haft/answers")
                .read_dir()
                .is_ok_and(|mut all| all.next().is_some())
        );
    }
}
