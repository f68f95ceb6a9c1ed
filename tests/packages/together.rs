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

/// Number of rounds of changes of a package during `verify` and `cache clean`.
const ROUNDS: usize = 6;

/// Number of processes that the test kills.
const KILLS: u32 = 24;

/// The exit code of a haft that failed.
const FAILURE: i32 = 5;

/// Maximum number of checks before the test kills a haft: slightly below the number during a run on an idle machine.
const MAX_LOOKS: u32 = 40;

/// The message of a `cache clean` during an installation.
const IN_USE: &str = "is in use by another haft";

/// A package whose versions all have different content and rights, so that an update changes both files and the
/// store.
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

/// Sets old modification times in the store, so that `cache clean` considers all content.
fn age_all(place: &Place) {
    let past = SystemTime::now() - Duration::from_hours(1);
    for path in place.kept() {
        // Another process may be deleting the content.
        let _ = File::open(path).and_then(|entry| entry.set_modified(past));
    }
}

/// Adds, updates and removes a package repeatedly; at the end the package is installed.
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

/// Runs `cache clean` until `is_done`, and returns the number of successful runs.
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

/// C19: two packages are added, updated and removed while other processes run `verify` and `cache clean` on the
/// program and the store, whose content all looks old.
#[test]
fn gc_and_verify_beside_changes() {
    let place = Place::new();
    let (running, is_done) = (AtomicUsize::new(2), AtomicBool::new(false));
    let (verified, swept) = std::thread::scope(|scope| {
        for name in ["one", "two"] {
            let (place, running, is_done) = (&place, &running, &is_done);
            scope.spawn(move || {
                // If this thread fails, the other threads end too.
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

/// The answer of a haft that starts during `change`, while the test holds the folder's lock. `None` if haft stopped
/// waiting before the end of the change.
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

/// True if a process has the folder open: haft keeps its program's folder open while it waits for the lock.
fn has_open(id: u32, folder: &Path) -> bool {
    let folder = folder.canonicalize().unwrap();
    let mut open = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
    open.any(|open| open.path().read_link().is_ok_and(|open| open == folder))
}

/// C19: a run sees the program before or after a change, never between: `haft remove` deletes the pin before the
/// entry.
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

/// C19: every process that can read a folder can lock it permanently, including tools; haft still runs a program in a
/// locked folder.
#[test]
fn a_folder_that_stays_locked_keeps_nobody_from_running() {
    let place = Place::new();
    package(&place, "one", 0);
    place.haft(&["add", "./one", "--yes"]).good();
    let folder = File::open(place.work()).unwrap();
    flock(&folder, FlockOperation::LockExclusive).unwrap();
    assert!(place.tools().contains(&"one__tiny".to_owned()));
}

/// Sets `is_done` when the last changing process ends, or after a panic.
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

/// Asserts that both files and the store agree, that exactly these packages are installed, and that no other content
/// remains.
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

/// The next number of a fixed sequence (Numerical Recipes' generator).
fn next(state: &mut u32) -> u32 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *state >> 8
}

/// C19: an update, add or remove that is killed at any moment leaves readable files, and a repetition of the command
/// completes it.
#[test]
fn a_killed_change_is_repaired_by_the_next() {
    let place = Place::new();
    package(&place, "one", 0);
    place.haft(&["add", "./one", "--yes"]).good();
    let (mut state, mut kills) = (19, 0);
    for version in 1..=KILLS {
        package(&place, "one", version as usize);
        // The first process is killed at once, the others after some checks, or after a change of a file.
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

/// Runs the command again, which may find its work done.
fn again(place: &Place, line: &[&str], version: u32) {
    // Both files are readable after a kill.
    let listed = place.haft(&["--json", "list"]).json();
    assert!(listed.as_array().unwrap().len() <= 1, "{listed}");
    if line[0] == "update" {
        // The pinned content exists, whichever version it is.
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
