//! Attempts of hostile child processes, as root and as an ordinary user, with every layer of the sandbox and without
//! each single layer. The effects outside of the sandbox decide, never exit codes. Each case must escape without its
//! layer; otherwise the case would prove nothing.

mod bounds;
mod cases;
mod honest;
pub(crate) mod host;
mod lifetime;
mod moved;
mod reach;
mod signals;
mod stage;
mod traces;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft::grant::SandboxMode;
use haft::native::bash::Bash;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use self::cases::{Case, Needs, Off};
use self::host::{Host, User, confiner, is_inner, tried_alone};
use self::stage::{Scene, Stage};
use crate::common::HANG;
use crate::common::wait::eventually;
use crate::workspace::Workspace;

/// SB02, SB04, SB05, SB06, SB07: no case escapes from the complete sandbox, neither as root nor as an ordinary user.
#[tokio::test(flavor = "multi_thread")]
async fn no_case_escapes() -> Result<(), String> {
    if is_inner() {
        play().await;
        return Ok(());
    }
    judge("confine::no_case_escapes", 10, &[Off::NOTHING])
}

/// Without one layer, exactly the cases escape that only this layer blocks; without any layer, all cases escape.
#[tokio::test(flavor = "multi_thread")]
async fn each_layer_is_needed() -> Result<(), String> {
    if is_inner() {
        play().await;
        return Ok(());
    }
    let columns = [Off::NAMESPACES, Off::LANDLOCK, Off::SECCOMP, Off::CAPABILITIES, Off::ALL];
    judge("confine::each_layer_is_needed", 0, &columns)
}

/// True if no process of a command still holds the lock on a file.
fn is_free(path: &Path) -> bool {
    flock(fs::File::open(path).unwrap(), FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// The variable that tells the host process which layers to leave out.
const OFF: &str = "HAFT_SUITE_OFF";
/// The prefix of every line with the outcome of a case.
const MARK: &str = "outcome: ";

/// Plays all scenes as the host and prints the outcome of each case.
async fn play() {
    let host = Host::new();
    let off = Off::parse(&std::env::var(OFF).unwrap());
    let mut played = Vec::new();
    for scene in Scene::ALL {
        let stage = Stage::new(*scene, off, &host);
        let mut workspace = Workspace::unheard();
        workspace.grant = stage.grant.clone();
        let command = format!("exec {} hostile.py plan.json", host.python.display());
        let result = workspace.call(&Bash::new(confiner(off), HANG), json!({"command": command})).await;
        // A case that ends the watcher also ends the call.
        let ended = result.as_ref().is_ok_and(|result| !result.is_error);
        assert!(ended || *scene == Scene::Alone, "{scene:?}: {result:?}");
        stage.tell_that_it_is_over();
        played.push((stage, host.struck()));
    }
    let goes_on = || played.iter().any(|(stage, _)| stage.goes_on());
    eventually("what outlived its call has come or is gone", || !goes_on()).await;
    for (mut stage, struck) in played {
        for outcome in stage.outcomes(&host, &struck) {
            eprintln!("{MARK}{outcome}");
        }
    }
}

/// Number of hosts that play at the same time; a host mostly waits.
const AT_ONCE: usize = 4;

/// Plays every case without each of `columns`, for every available user, and compares the outcomes with the table of
/// cases. `first` is the number of the first ordinary user: two tests run at the same time, and two hosts of one user
/// would receive each other's signals.
fn judge(test: &str, first: u32, columns: &[Off]) -> Result<(), String> {
    let is_root = User::all(0).contains(&User::Root);
    let plays: Vec<_> = columns
        .iter()
        .zip(first..)
        .flat_map(|(off, number)| User::all(number).into_iter().map(move |user| (user, *off)))
        .collect();
    let said = Mutex::new(BTreeMap::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let play_next = || {
            while let Some((user, off)) = plays.get(next.fetch_add(1, Ordering::SeqCst)) {
                let report = tried_alone(test, *user, (OFF, &off.to_string()));
                said.lock().unwrap().insert((*user == User::Root, off.to_string()), report);
            }
        };
        // Two hosts of the same user would receive each other's signals.
        (0..if is_root { AT_ONCE } else { 1 }).for_each(|_| drop(scope.spawn(play_next)));
    });
    let said = said.into_inner().unwrap();
    let mut wrong = Vec::new();
    for root in [true, false].into_iter().filter(|root| *root == is_root || !root) {
        let report = |off: &Off| Ok((*off, outcomes(said[&(root, off.to_string())].as_ref()?)));
        let columns = columns.iter().map(report).collect::<Result<Vec<_>, &String>>()?;
        wrong.extend(table(root, &columns));
    }
    // An error instead of a panic, because a backtrace would hide the list.
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn outcomes(said: &str) -> Vec<Value> {
    let lines = said.lines().filter_map(|line| line.strip_prefix(MARK));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Prints the outcome of every case and returns the unexpected outcomes.
fn table(root: bool, columns: &[(Off, Vec<Value>)]) -> Vec<String> {
    let user = if root { "as root" } else { "as an ordinary user" };
    let names: String = columns.iter().map(|(off, _)| format!("{:>14}", off.to_string())).collect();
    eprintln!("\n{user:<44}{names}");
    let (mut wrong, mut row) = (Vec::new(), 0);
    for (scene, case) in
        Scene::ALL.iter().flat_map(|scene| scene.cases().iter().map(move |case| (*scene, case)))
    {
        let mut cells = format!("{:<44}", format!("{scene} {}", case.name));
        for (off, outcomes) in columns {
            let outcome = &outcomes[row];
            assert_eq!(outcome["case"], case.name);
            let (escape, expected) = (outcome["escape"].as_str(), expected(scene, case, *off, root));
            if expected.is_some_and(|expected| expected != escape.is_some()) {
                wrong.push(format!("{user}, {off}, {scene}, {}: {outcome}", case.name));
            }
            cells.push_str(if escape.is_some() { "           out" } else { "             ." });
        }
        eprintln!("{cells}");
        row += 1;
    }
    wrong
}

/// True if the case must escape; `None` if that depends on the kernel.
fn expected(scene: Scene, case: &Case, off: Off, root: bool) -> Option<bool> {
    let without = if scene == Scene::Sealed(SandboxMode::Rwx) { case.without_in_rwx } else { case.without };
    // Ordinary users have no capabilities.
    let has_to_be_root = off == Off::CAPABILITIES && !root;
    if case.needs == Needs::Never || has_to_be_root || !(off == Off::ALL || off.has(without)) {
        return Some(false);
    }
    match case.needs {
        Needs::Kernel | Needs::RootAndKernel => None,
        Needs::Root if !root => None,
        _ => Some(true),
    }
}
