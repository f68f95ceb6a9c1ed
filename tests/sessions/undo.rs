//! Undo (U11): changes of components' tools are reverted, byte by byte, except files that were changed since.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Place;
use super::model::{Model, Says, answers, asked};
use super::terminal::Terminal;

/// Modes and contents by path.
type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

fn tree(folder: &Path) -> Tree {
    let (mut seen, mut left) = (Tree::new(), vec![folder.to_owned()]);
    while let Some(path) = left.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
        if metadata.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        seen.insert(path, (metadata.mode(), content));
    }
    seen
}

/// The next number of a sequence that is equal in every run.
fn next(seed: &mut u64) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 11) as usize
}

const FILES: usize = 12;

/// Two hundred edits, writes and creations, in existing and new folders.
fn deeds() -> Vec<(&'static str, Value)> {
    let mut seed = 4711;
    let deed = |number: usize| {
        let file = next(&mut seed) % FILES;
        let there = format!("there-{file}.txt");
        match next(&mut seed) % 3 {
            0 => (
                "edit",
                json!({ "file_path": there, "old_string": "word", "new_string": format!("word{number}"), "replace_all": true }),
            ),
            1 => (
                "write",
                json!({ "file_path": there, "content": format!("word {number}\n").repeat(number % 7 + 1) }),
            ),
            _ => (
                "write",
                json!({ "file_path": format!("new-{}/{}/made-{number}", number % 5, number % 3), "content": "made" }),
            ),
        }
    };
    (0..200).map(deed).collect()
}

/// U11: `session undo` restores bytes and modes after 200 edits, writes and creations, and one write of an agent.
#[test]
fn two_hundred_changes_are_undone() {
    let model = Model::start(|messages| {
        if asked(messages).starts_with("help") {
            return match answers(messages).as_slice() {
                [] => Says::call("write", json!({ "file_path": "there-0.txt", "content": "of the helper" })),
                _ => Says::text("helped"),
            };
        }
        let done = answers(messages);
        // One call per turn, because two concurrent changes of one file conflict.
        match deeds().into_iter().nth(done.len()) {
            Some(next) => Says { calls: vec![next], ..Says::default() },
            None if done.len() == 200 => Says::call("agent__helper", json!({ "task": "help" })),
            None => Says::text("done"),
        }
    });
    let more = "[agent]\nmax_turns = 300\n[[agents]]\nname = \"helper\"\ndescription = \"Helps.\"\n";
    let place = Place::new(model, more);
    for file in 0..FILES {
        let name = format!("there-{file}.txt");
        place.home.write(&name, &format!("a word of {file}\n"));
        let bits = [0o644, 0o600, 0o755, 0o664][file % 4];
        fs::set_permissions(place.home.work().join(name), fs::Permissions::from_mode(bits)).unwrap();
    }
    let before = tree(&place.home.work());
    let answer = place.haft(&["run", "--json", "change it all"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let events = answer.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let done =
        events.filter(|event| event["event"] == "completed" && event["result"]["is_error"] == false).count();
    let after = tree(&place.home.work());
    assert!(done > 150 && after.len() > before.len() + 40, "{done}, {}", after.len());
    let undone = place.haft(&["session", "undo"]);
    assert_eq!(undone.code, 0, "{}", undone.stderr);
    assert_eq!(tree(&place.home.work()), before);
    let again = place.haft(&["session", "undo"]);
    assert!(again.code == 0 && again.stderr.contains("this session has nothing to undo"), "{}", again.stderr);
}

/// Changes the file that the user names, with a tool and with a command.
fn changes(messages: &[Value]) -> Says {
    match messages.last() {
        Some(last) if last["role"] == "tool" => Says::text("changed"),
        _ => {
            let file = asked(messages).lines().last().unwrap_or_default().to_owned();
            Says {
                calls: vec![
                    ("write", json!({ "file_path": file, "content": "of the tool" })),
                    ("bash", json!({ "command": format!("touch by-{file}") })),
                ],
                ..Says::default()
            }
        }
    }
}

/// U11: undo names and keeps a file that was edited later, and names commands; no tool reads the saved contents.
#[test]
fn what_was_changed_since_is_refused_and_named() {
    let place = Place::new(Model::start(changes), "");
    place.home.write("mine", "old");
    assert_eq!(place.haft(&["run", "mine"]).code, 0);
    let folder = place.state().join("haft/changes");
    let kept: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(fs::metadata(&kept[0]).unwrap().mode() & 0o777, 0o600);
    let read = place.haft(&["call", "read", &json!({ "file_path": kept[0] }).to_string()]);
    assert!(read.code != 0 && !read.stdout.contains("before"), "{}", read.stdout);
    let read = place.haft(&["call", "bash", "--arg", &format!("command=cat {}", kept[0].display())]);
    assert!(read.code != 0 && !read.stdout.contains("before"), "{}", read.stdout);
    place.home.write("mine", "my own");
    let undone = place.haft(&["session", "undo"]);
    let path = place.home.work().canonicalize().unwrap().join("mine");
    let told = format!("`{}` was edited later", path.display());
    assert!(undone.code != 0 && undone.stderr.contains(&told), "{}", undone.stderr);
    assert!(undone.stderr.contains("bash touch by-mine"), "{}", undone.stderr);
    assert_eq!(place.read("mine"), "my own");
    place.home.write("mine", "of the tool");
    let undone = place.haft(&["session", "undo"]);
    assert_eq!((undone.code, place.read("mine").as_str()), (0, "old"), "{}", undone.stderr);
    let id = place.listed()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(place.haft(&["session", "remove", &id]).code, 0);
    assert!(!kept[0].exists());
    assert_eq!(place.haft(&["run", "--no-journal", "other"]).code, 0);
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
}

/// U11: in chat `/undo` reverts one prompt, and the model gets a message about it.
#[test]
fn a_person_undoes_what_was_done_in_chat() {
    let place = Place::new(Model::start(changes), "");
    let Some(terminal) = Terminal::start(&place, "undo", &["chat"]) else { return };
    for (number, file) in (1..).zip(["one", "two"]) {
        terminal.prompts(number);
        terminal.enter(file);
        terminal.sees("input tokens", number);
    }
    assert_eq!([place.read("one"), place.read("two")], ["of the tool", "of the tool"]);
    terminal.prompts(3);
    terminal.enter("/undo");
    terminal.sees("restored: ", 1);
    terminal.prompts(4);
    assert_eq!([place.read("one"), place.read("two")], ["of the tool", ""]);
    terminal.enter("/undo");
    terminal.sees("restored: ", 2);
    terminal.prompts(5);
    assert_eq!(place.read("one"), "");
    terminal.enter("three");
    terminal.sees("input tokens", 3);
    let id = place.listed()[0]["id"].as_str().unwrap().to_owned();
    let replayed = place.haft(&["session", "show", &id]).stdout;
    assert!(replayed.contains("[The user has undone your changes to `"), "{replayed}");
}
