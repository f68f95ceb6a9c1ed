//! Several haft processes in one program and one store, and killed ones: real processes, and files that are
//! consistent at every moment.

use std::cell::Cell;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

use super::place::{Answer, Place, program, saying};
use crate::common::wait::until;

/// Changes of a package while it is looked at and cleared away.
const ROUNDS: usize = 6;

/// Processes that are killed.
const KILLS: u32 = 24;

/// The exit code of haft where it could not do its part.
const FAILURE: i32 = 5;

/// Looks at a haft after which it is killed at the latest: a few less than it takes on an idle machine.
const MAX_LOOKS: u32 = 40;

/// What is said where a sweep found no moment without an install.
const IN_USE: &str = "is in use by another haft";

/// A package whose every version has another content and another right that it asks for, so that an update
/// changes both files and the store.
fn package(place: &Place, name: &str, version: usize) {
    let rights: Vec<_> = (0..=version).map(|number| format!("\"./docs-{number}\"")).collect();
    let component = saying(&format!("{name} {version}"));
    place.write(&format!("{name}/{name}.wasm"), component);
    let plugin = format!(
        "[[plugins]]\nname = \"{name}\"\ncomponent = \"{name}.wasm\"\n[plugins.grant]\nread = [{}]",
        rights.join(", ")
    );
    place.write(&format!("{name}/program.toml"), program(name, &format!("1.0.{version}"), &plugin));
}

/// Makes everything in the store look as if it had been installed long ago, so that a sweep judges it.
fn age_all(place: &Place) {
    let past = SystemTime::now() - Duration::from_hours(1);
    for path in place.kept() {
        // It may be swept just now.
        let _ = File::open(path).and_then(|entry| entry.set_modified(past));
    }
}

/// Adds, updates and removes a package again and again; in the end it is there.
fn change(place: &Place, name: &str) {
    for round in 0..ROUNDS {
        package(place, name, 2 * round);
        place.haft(&["add", &format!("./{name}"), "--yes"]).good();
        package(place, name, 2 * round + 1);
        place.haft(&["update", name, "--yes"]).good();
        if round + 1 < ROUNDS {
            place.haft(&["remove", name]).good();
        }
    }
}

/// Clears away what is old until `is_done`; how often there was a moment for it.
fn sweep(place: &Place, is_done: &AtomicBool) -> usize {
    let mut swept = 0;
    while !is_done.load(Ordering::Relaxed) {
        age_all(place);
        let answer = place.haft(&["cache", "clean"]);
        if answer.code == 0 {
            swept += 1;
        } else {
            answer.ends(FAILURE, IN_USE);
        }
    }
    swept
}

/// C19: two packages are added, updated and removed while others verify and sweep the same program and store, to
/// which everything looks old.
#[test]
fn gc_and_verify_beside_changes() {
    let place = Place::new();
    let (running, is_done) = (AtomicUsize::new(2), AtomicBool::new(false));
    let (verified, swept) = std::thread::scope(|scope| {
        for name in ["one", "two"] {
            let (place, running, is_done) = (&place, &running, &is_done);
            scope.spawn(move || {
                // The others end too where this one fails.
                let _ends = Ends { running, is_done };
                change(place, name);
            });
        }
        let sweeping = scope.spawn(|| sweep(&place, &is_done));
        let mut verified = 0;
        while !is_done.load(Ordering::Relaxed) {
            place.haft(&["verify"]).good();
            verified += 1;
        }
        (verified, sweeping.join().unwrap())
    });
    assert!(verified > 0 && swept > 0, "{verified} looks, {swept} sweeps");
    in_order(&place, &["one", "two"]);
}

/// What a haft says that begins while `change` is half made: the folder's lock is held from before until it is done.
/// `None` where haft gave up waiting before.
fn beside_a_change(place: &Place, arguments: &[&str], change: impl FnOnce()) -> Option<Answer> {
    let folder = File::open(place.work()).unwrap();
    flock(&folder, FlockOperation::LockExclusive).unwrap();
    let mut command = place.command(arguments);
    let mut haft = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = haft.id();
    until("haft opens the folder", || has_open(id, &place.work()) || haft.try_wait().unwrap().is_some());
    let has_waited = haft.try_wait().unwrap().is_none();
    change();
    let waits = has_open(id, &place.work());
    drop(folder);
    let answer = Answer::from(haft.wait_with_output().unwrap());
    (waits || !has_waited).then_some(answer)
}

/// Whether a process has a folder open: haft holds the one of its program open while it waits for its lock.
fn has_open(id: u32, folder: &Path) -> bool {
    let folder = folder.canonicalize().unwrap();
    let mut open = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
    open.any(|open| open.path().read_link().is_ok_and(|open| open == folder))
}

/// C19: a program that is run is read as it was before a change or after it: `haft remove` takes out the pin first.
#[test]
fn a_running_program_is_not_read_in_the_middle_of_a_change() {
    let place = Place::new();
    package(&place, "one", 0);
    place.haft(&["add", "./one", "--yes"]).good();
    let installed = place.read("program.toml");
    place.haft(&["remove", "one"]).good();
    let removed = place.read("program.toml");
    for command in ["tools", "check"] {
        let answer = (0..10).find_map(|_| {
            place.write("program.toml", &installed);
            beside_a_change(&place, &[command], || place.write("program.toml", &removed))
        });
        let answer = answer.expect("a moment on this machine").good();
        assert!(!answer.stderr.contains("not installed"), "{command}: {}", answer.stderr);
    }
}

/// C19: whoever may read a folder can lock it for ever, tools too; what is only run is run all the same.
#[test]
fn a_folder_that_stays_locked_keeps_nobody_from_running() {
    let place = Place::new();
    package(&place, "one", 0);
    place.haft(&["add", "./one", "--yes"]).good();
    let folder = File::open(place.work()).unwrap();
    flock(&folder, FlockOperation::LockExclusive).unwrap();
    assert!(place.tools().contains(&"one__tiny".to_owned()));
}

/// Reports when the last of the changing processes has ended, however it ended.
struct Ends<'a> {
    running: &'a AtomicUsize,
    is_done: &'a AtomicBool,
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if self.running.fetch_sub(1, Ordering::Relaxed) == 1 || std::thread::panicking() {
            self.is_done.store(true, Ordering::Relaxed);
        }
    }
}

/// Both files and the store agree, these packages are installed, and nothing else is left.
fn in_order(place: &Place, names: &[&str]) {
    place.haft(&["verify"]).good();
    age_all(place);
    place.haft(&["cache", "clean"]).good();
    place.haft(&["verify"]).good();
    let listed = place.haft(&["--json", "list"]).json();
    let mut listed: Vec<_> =
        listed.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    listed.sort_unstable();
    assert_eq!(listed, names);
    assert_eq!(place.kept().len(), names.len(), "content that nothing refers to");
    let leftovers: Vec<_> = [place.store(), place.work()]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".incoming") || name.starts_with(".haft-"))
        .collect();
    assert_eq!(leftovers, [""; 0]);
}

/// The next of a row of numbers that is the same in every run (Numerical Recipes' generator).
fn next(state: &mut u32) -> u32 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *state >> 8
}

/// C19: an update, an add or a remove that is killed at any moment leaves files that can be read, and the same
/// command once more does what the first was to do.
#[test]
fn a_killed_change_is_repaired_by_the_next() {
    let place = Place::new();
    package(&place, "one", 0);
    place.haft(&["add", "./one", "--yes"]).good();
    let (mut state, mut kills) = (19, 0);
    for version in 1..=KILLS {
        package(&place, "one", version as usize);
        // The first at once, the others after some looks, or where one of the files is another.
        let looks = Cell::new(if version == 1 { 1 } else { 1 + next(&mut state) % MAX_LOOKS });
        let files = || (place.kept().len(), place.read("program.lock"), place.read("program.toml"));
        let before = files();
        let point = || {
            looks.set(looks.get() - 1);
            looks.get() == 0 || (version.is_multiple_of(3) && files() != before)
        };
        let line: &[&str] = match version % 4 {
            0 => &["remove", "one"],
            _ if !place.read("program.toml").contains("[[packages]]") => &["add", "./one", "--yes"],
            _ => &["update", "one", "--yes"],
        };
        kills += u32::from(place.killed(line, point));
        again(&place, line, version);
    }
    assert!(kills > 0, "none was killed before its end");
    place.haft(&["add", "./one", "--yes"]).good();
    in_order(&place, &["one"]);
}

/// Runs the command once more; it may find that the first had done it all.
fn again(place: &Place, line: &[&str], version: u32) {
    // What a kill left can be read: both files are whole.
    let listed = place.haft(&["--json", "list"]).json();
    assert!(listed.as_array().unwrap().len() <= 1, "{listed}");
    if line[0] == "update" {
        // What is pinned is there, whichever that is.
        place.haft(&["verify"]).good();
    }
    let answer = place.haft(line);
    let is_done = match line[0] {
        "remove" => answer.stderr.contains("has no package or plugin `one`"),
        "add" => answer.stderr.contains("has an entry `one` already"),
        _ => false,
    };
    if !is_done {
        answer.good();
    }
    place.haft(&["verify"]).good();
    let installed = line[0] != "remove";
    let text = place.read("program.lock");
    assert_eq!(text.contains(&format!("version = \"1.0.{version}\"")), installed, "{text}");
    assert_eq!(place.read("program.toml").contains("name = \"one\""), installed);
}
