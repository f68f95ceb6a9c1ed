//! Kill loops: processes are killed, stopped and restarted during calls. No mark is made twice, no read-only call is
//! lost, every call is answered. The loops take minutes, and run if `HAFT_NATS_HEAVY` is set.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haft::call::ToolResult;
use serde_json::{Value, json};

use super::raw::Raw;
use super::setup::Setup;
use super::world::{Gate, Worker, World};
use crate::common::wait::{eventually, until, within};
use crate::serve::eras::modern;

/// Calls of a loop, half of which only read; `HAFT_NATS_CALLS` sets another number.
const CALLS: usize = 1000;

/// Concurrent calls.
const AT_ONCE: usize = 8;

/// Calls that may wait at a gate.
const WAITING: usize = 1024;

fn calls() -> Option<usize> {
    if std::env::var_os("HAFT_NATS_HEAVY").is_none() {
        eprintln!("\nSKIPPED: no process was killed in a loop, since `HAFT_NATS_HEAVY` is not set\n");
        return None;
    }
    let named = std::env::var("HAFT_NATS_CALLS").ok();
    Some(named.map_or(CALLS, |count| count.parse().unwrap()))
}

/// The results of the calls of a loop.
#[derive(Debug, Default)]
struct Tally {
    /// Marks by the reported outcome of their call.
    marked: Vec<String>,
    unrun: Vec<String>,
    unknown: Vec<String>,
    other: Vec<String>,
    /// The messages of calls that did not run.
    whys: Vec<String>,
    read: usize,
    /// The messages of failed read-only calls.
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
            (false, true) if text.contains("can be repeated") => {
                self.whys.push(text.to_owned());
                self.unrun.push(mark.to_owned());
            }
            (false, true) if text.contains("unknown") => self.unknown.push(mark.to_owned()),
            (false, true) => self.other.push(format!("{mark}: {text}")),
        }
    }

    /// The number of calls that did not run with `text` in their message.
    fn why(&self, text: &str) -> usize {
        self.whys.iter().filter(|why| why.contains(text)).count()
    }
}

/// The numbers of calls.
#[derive(Debug, Default)]
struct Numbers {
    next: usize,
    under_way: BTreeSet<usize>,
}

impl Numbers {
    fn begin(&mut self) -> usize {
        self.next += 1;
        self.under_way.insert(self.next - 1);
        self.next - 1
    }
}

/// Makes `count` calls, `at_once` of them concurrent; `reads` selects the numbers of read-only calls.
async fn make(
    gate: &Gate,
    count: usize,
    at_once: usize,
    numbers: &Arc<Mutex<Numbers>>,
    reads: fn(usize) -> bool,
) -> Tally {
    let tally = Arc::new(Mutex::new(Tally::default()));
    let mut making = tokio::task::JoinSet::new();
    for _ in 0..at_once {
        let (gate, tally, numbers) = (gate.clone(), tally.clone(), numbers.clone());
        making.spawn(async move {
            loop {
                let number = numbers.lock().unwrap().begin();
                if number >= count {
                    numbers.lock().unwrap().under_way.remove(&number);
                    return;
                }
                let (mark, reads, begun) = (format!("m{number}"), reads(number), Instant::now());
                let arguments = json!({ "mark": mark });
                let (tool, arguments) =
                    if reads { ("time", json!({})) } else { ("program__far__mark", arguments) };
                let answer = within("every call is answered", gate.call(tool, arguments)).await;
                numbers.lock().unwrap().under_way.remove(&number);
                tally.lock().unwrap().note(&mark, &answer, begun.elapsed(), reads);
            }
        });
    }
    making.join_all().await;
    Arc::into_inner(tally).unwrap().into_inner().unwrap()
}

/// Compares the marks with the reported outcomes.
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

const NAMES: [&str; 2] = ["eu-1", "eu-2"];

/// Two workers; at least one of them is always available.
fn workers(world: &World) -> [Worker; 2] {
    let both = NAMES.map(|name| world.worker(name, &["--label", "eu"]));
    for name in NAMES {
        until_beaten(world, name, 1);
    }
    both
}

/// Waits for heartbeats of a worker; a worker sends two per second.
fn until_beaten(world: &World, name: &str, beats: usize) {
    let mut gate = Raw::login(world, "gate");
    gate.say(&format!("SUB haft.1.*.*.beat.{name}.> 3\r\n"));
    (0..beats).for_each(|_| drop(gate.until(|line| line.starts_with("MSG "))));
}

/// Repeats `disturb` with its number during the calls. No call is disturbed twice.
async fn disturbed(
    world: World,
    name: &str,
    mut disturb: impl FnMut(&mut World, &mut [Worker; 2], usize) + Send + 'static,
) {
    let Some(count) = calls() else { return };
    let mut both = workers(&world);
    let gate = world.gate().await;
    gate.until_answered("time", json!({})).await;
    let (is_over, numbers) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Numbers>>::default());
    let (over, seen) = (is_over.clone(), numbers.clone());
    let disturbing = std::thread::spawn(move || {
        let (mut world, mut times) = (world, 0);
        while !over.load(Ordering::Relaxed) {
            disturb(&mut world, &mut both, times);
            times += 1;
            let next = seen.lock().unwrap().next;
            until("the calls that met it are answered", || {
                seen.lock().unwrap().under_way.first().is_none_or(|oldest| *oldest >= next)
            });
        }
        // Running calls end before the marks are counted.
        both.iter_mut().for_each(Worker::end);
        (world, times)
    });
    let tally = make(&gate, count, AT_ONCE, &numbers, |number| number % 2 == 0).await;
    is_over.store(true, Ordering::Relaxed);
    let (world, times) = tokio::task::spawn_blocking(|| disturbing.join().unwrap()).await.unwrap();
    judge(&format!("{name} {times} times"), &world, &tally, count);
}

/// Kills one of two workers repeatedly during calls.
pub(super) async fn of_workers(setup: Setup, name: &str) {
    let Some(world) = World::with(setup, "") else { return };
    disturbed(world, name, |world, both, times| {
        both[times % 2].kill();
        both[times % 2] = world.worker(NAMES[times % 2], &["--label", "eu"]);
        until_beaten(world, NAMES[times % 2], 1);
    })
    .await;
}

/// N10: killed workers run no call twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_run_nothing_twice() {
    of_workers(Setup::Guide, "a worker killed").await;
}

/// N11: a NATS server that is killed and restarted loses no call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_comes_back_loses_nothing() {
    let Some(world) = World::start() else { return };
    disturbed(world, "the server killed", |world, _, _| {
        world.server.kill();
        world.server.start();
    })
    .await;
}

/// N12: a stopped worker runs no call twice after it continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_stood_still_runs_nothing_twice() {
    let Some(world) = World::start() else { return };
    disturbed(world, "a worker stopped", |world, both, times| {
        let id = rustix::process::Pid::from_raw(both[times % 2].id().cast_signed()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::STOP).unwrap();
        // Twice the time after which a silent worker counts as dead.
        until_beaten(world, NAMES[(times + 1) % 2], 11);
        rustix::process::kill_process(id, rustix::process::Signal::CONT).unwrap();
    })
    .await;
}

/// Running calls of a gate when it is killed.
const UNDER_WAY: usize = 10;

/// N13: no call of a killed gate runs twice, because haft does not repeat it. Every answer before the kill is true.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_gate_s_calls_run_once_at_most() {
    let (Some(world), Some(count)) = (World::start(), calls()) else { return };
    let mut both = workers(&world);
    world.gate().await.until_answered("time", json!({})).await;
    let (gates, begun, mut answered) = (count.div_ceil(UNDER_WAY), Instant::now(), Vec::new());
    for number in 0..gates {
        let before = world.marks().len();
        let mut gate = Served::start(&world);
        let marks = (0..UNDER_WAY).map(|call| format!("g{number}-{call}")).collect::<Vec<_>>();
        for mark in &marks {
            gate.ask(mark);
        }
        // From no started call to all calls answered.
        let reached = number % (UNDER_WAY + 1);
        eventually("so many calls have run, or did not", || {
            world.marks().len() + gate.refusals() >= before + reached
        })
        .await;
        answered.extend(gate.kill());
    }
    // Calls that continue without their gate end before the marks are counted.
    tokio::task::spawn_blocking(move || both.iter_mut().for_each(Worker::end)).await.unwrap();
    let marks = world.marks();
    let once: BTreeSet<_> = marks.iter().collect();
    eprintln!(
        "a gate killed {gates} times in {} calls: {} ran, {} were answered, {} ran twice, in {:?}",
        gates * UNDER_WAY,
        once.len(),
        answered.len(),
        marks.len() - once.len(),
        begun.elapsed(),
    );
    assert_eq!(marks.len(), once.len(), "{marks:?}");
    assert!(answered.iter().all(|mark| once.contains(mark)), "said to be made, and not");
    assert!(once.len() > gates, "hardly any call ran");
}

/// A gate as a process: `haft serve` on standard streams.
struct Served {
    child: std::process::Child,
    input: std::process::ChildStdin,
    answers: Arc<Mutex<Vec<Value>>>,
    reader: JoinHandle<()>,
}

impl Served {
    fn start(world: &World) -> Self {
        let mut command = world.command(&["serve"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let answers = Arc::<Mutex<Vec<Value>>>::default();
        let read = answers.clone();
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            let answers = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
            answers.for_each(|answer| read.lock().unwrap().push(answer));
        });
        Self { child, input, answers, reader }
    }

    /// The number of calls with an error as answer.
    fn refusals(&self) -> usize {
        let is_refusal = |answer: &&Value| answer["id"].is_string() && answer["result"]["isError"] != false;
        self.answers.lock().unwrap().iter().filter(is_refusal).count()
    }

    /// Calls `mark`, with the mark as the request's id.
    fn ask(&mut self, mark: &str) {
        let params = json!({ "name": "program__far__mark", "arguments": { "mark": mark } });
        let message = modern("tools/call", mark, params);
        let _ = writeln!(self.input, "{message}");
    }

    /// Kills the gate; the marks of the successful calls.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.reader.join().unwrap();
        let answers = self.answers.lock().unwrap();
        let well = answers.iter().filter(|answer| answer["result"]["isError"] == false);
        well.filter_map(|answer| answer["id"].as_str().map(str::to_owned)).collect()
    }
}

/// N17: with more concurrent calls than may wait, haft refuses calls without a place at once and calls that waited
/// too long later; none is lost or made twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_line_loses_no_call() {
    let (Some(world), Some(count)) = (World::start(), calls()) else { return };
    let mut both = NAMES.map(|name| world.worker(name, &["--label", "eu", "--places", "2"]));
    let gate = world.gate().await;
    gate.until_answered("time", json!({})).await;
    let all = WAITING + count;
    let tally = make(&gate, all, all, &Arc::default(), |_| false).await;
    // The queue is empty again.
    gate.until_answered("program__far__mark", json!({ "mark": "after" })).await;
    tokio::task::spawn_blocking(move || both.iter_mut().for_each(Worker::end)).await.unwrap();
    judge("a full line", &world, &tally, all);
    let too_many = tally.why("too many calls are waiting");
    eprintln!(
        "of those that did not run {too_many} found no room, and {} waited",
        tally.unrun.len() - too_many
    );
    // Some of the first calls may end before the last call arrives.
    assert!(too_many > 0 && too_many <= count, "{too_many}");
    assert!(!tally.marked.is_empty() && tally.unknown.is_empty());
}
