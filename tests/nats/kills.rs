//! Kill loops: processes are killed, stopped and started again while calls are made. No mark is made twice, no call that
//! only reads is lost, every call is answered. They take minutes, and run where `HAFT_NATS_HEAVY` is set.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haft::call::ToolResult;
use serde_json::json;

use super::world::{Gate, Worker, World};

/// Calls of a loop, half of which only read; `HAFT_NATS_CALLS` sets another number.
const CALLS: usize = 1000;

/// Calls at one time.
const AT_ONCE: usize = 8;

/// No call takes longer, whatever happens to its worker.
const ANSWERED: Duration = Duration::from_mins(1);

fn calls() -> Option<usize> {
    if std::env::var_os("HAFT_NATS_HEAVY").is_none() {
        eprintln!("\nSKIPPED: no process was killed in a loop, since `HAFT_NATS_HEAVY` is not set\n");
        return None;
    }
    let named = std::env::var("HAFT_NATS_CALLS").ok();
    Some(named.map_or(CALLS, |count| count.parse().unwrap()))
}

/// What the calls of a loop came to.
#[derive(Debug, Default)]
struct Tally {
    /// Marks that were made, by what was said of them.
    marked: Vec<String>,
    unrun: Vec<String>,
    unknown: Vec<String>,
    other: Vec<String>,
    read: usize,
    /// What was said of calls that only read and failed.
    unread: Vec<String>,
    slowest: Duration,
}

impl Tally {
    fn note(&mut self, mark: &str, answer: &ToolResult, took: Duration, reads: bool) {
        self.slowest = self.slowest.max(took);
        let text = answer.content.as_str();
        match (reads, answer.is_error) {
            (true, false) => self.read += 1,
            (true, true) => self.unread.push(text.to_owned()),
            (false, false) => self.marked.push(mark.to_owned()),
            (false, true) if text.contains("can be made again") => self.unrun.push(mark.to_owned()),
            (false, true) if text.contains("nobody knows") => self.unknown.push(mark.to_owned()),
            (false, true) => self.other.push(format!("{mark}: {text}")),
        }
    }
}

/// Makes `count` calls, half of which only read, until `is_over`.
async fn make(gate: &Gate, count: usize) -> Tally {
    let tally = Arc::new(std::sync::Mutex::new(Tally::default()));
    let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut making = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (gate, tally, next) = (gate.clone(), tally.clone(), next.clone());
        making.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                let (mark, reads, begun) = (format!("m{number}"), number % 2 == 0, Instant::now());
                let answer = if reads {
                    tokio::time::timeout(ANSWERED, gate.call("time", json!({}))).await
                } else {
                    tokio::time::timeout(ANSWERED, gate.call("program__far__mark", json!({ "mark": mark })))
                        .await
                };
                let answer = answer.expect("every call is answered");
                tally.lock().unwrap().note(&mark, &answer, begun.elapsed(), reads);
            }
        });
    }
    making.join_all().await;
    Arc::into_inner(tally).unwrap().into_inner().unwrap()
}

/// What the marks say of what was told.
fn judge(name: &str, world: &World, tally: &Tally, count: usize) {
    let mut made: HashMap<String, usize> = HashMap::new();
    for mark in world.marks() {
        *made.entry(mark).or_default() += 1;
    }
    let times = |mark: &String| made.get(mark).copied().unwrap_or(0);
    let twice: Vec<_> = made.iter().filter(|(_, times)| **times > 1).collect();
    let (marked, unknown) = (&tally.marked, &tally.unknown);
    eprintln!(
        "{name}: {count} calls: {} read, {} marked, {} did not run, {} unknown (of which {} ran), {} twice, slowest {:?}",
        tally.read,
        marked.len(),
        tally.unrun.len(),
        unknown.len(),
        unknown.iter().filter(|mark| times(mark) == 1).count(),
        twice.len(),
        tally.slowest,
    );
    assert!(twice.is_empty(), "made twice: {twice:?}");
    assert!(tally.unread.is_empty(), "reading calls lost: {:?}", tally.unread);
    assert!(tally.other.is_empty(), "answered otherwise: {:?}", tally.other);
    assert!(marked.iter().all(|mark| times(mark) == 1), "said to be made, and not");
    assert!(tally.unrun.iter().all(|mark| times(mark) == 0), "said not to have run, and did");
    assert_eq!(tally.read + marked.len() + tally.unrun.len() + unknown.len(), count);
}

/// Two workers, at least one of which is there at any time.
fn workers(world: &World) -> [Worker; 2] {
    ["eu-1", "eu-2"].map(|name| world.worker(name, &["--label", "eu"]))
}

/// Does `disturb` again and again, each time with the number of times, while the calls are made.
async fn disturbed(
    world: World,
    name: &str,
    pause: Duration,
    mut disturb: impl FnMut(&mut World, usize) + Send + 'static,
) {
    let Some(count) = calls() else { return };
    let gate = world.gate().await;
    gate.until_answered("time", json!({})).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    let disturbing = std::thread::spawn(move || {
        let (mut world, mut times) = (world, 0);
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(pause);
            disturb(&mut world, times);
            times += 1;
        }
        (world, times)
    });
    let tally = make(&gate, count).await;
    is_over.store(true, Ordering::Relaxed);
    let (world, times) = tokio::task::spawn_blocking(|| disturbing.join().unwrap()).await.unwrap();
    // What a stopped worker still does is done by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    judge(&format!("{name} {times} times"), &world, &tally, count);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n10_killed_workers_run_nothing_twice() {
    let Some(world) = World::start() else { return };
    let mut both = workers(&world);
    disturbed(world, "a worker killed", Duration::from_millis(1500), move |world, times| {
        let name = ["eu-1", "eu-2"][times % 2];
        both[times % 2].kill();
        both[times % 2] = world.worker(name, &["--label", "eu"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n11_a_server_that_is_killed_and_comes_back_loses_nothing() {
    let Some(world) = World::start() else { return };
    let both = workers(&world);
    disturbed(world, "the server killed", Duration::from_secs(2), move |world, _| {
        let _ = &both;
        world.server.kill();
        std::thread::sleep(Duration::from_millis(300));
        world.server.start();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n12_a_worker_that_stood_still_runs_nothing_twice() {
    let Some(world) = World::start() else { return };
    let both = workers(&world);
    disturbed(world, "a worker stopped", Duration::from_secs(1), move |_, times| {
        let id = rustix::process::Pid::from_raw(both[times % 2].id().cast_signed()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_secs(5));
        rustix::process::kill_process(id, rustix::process::Signal::CONT).unwrap();
    })
    .await;
}

/// A gate that is killed in a call leaves no mark twice: nobody makes its calls again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n13_a_killed_gate_s_calls_run_once_at_most() {
    let (Some(world), Some(count)) = (World::start(), calls()) else { return };
    let _both = workers(&world);
    world.gate().await.until_answered("time", json!({})).await;
    let gates = (count / 10).max(1);
    for number in 0..gates {
        let mark = format!("mark=g{number}");
        let mut gate = world.command(&["call", "program__far__mark", "--arg", &mark]).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(number as u64 % 50 * 10)).await;
        let _ = gate.kill();
        gate.wait().unwrap();
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let marks = world.marks();
    let once: std::collections::BTreeSet<_> = marks.iter().collect();
    eprintln!("a gate killed {gates} times: {} calls ran, {} twice", once.len(), marks.len() - once.len());
    assert_eq!(marks.len(), once.len(), "{marks:?}");
}
