//! Workers and gates over a real NATS server. `.ci/steps/nats` fetches one and passes its location; without that step
//! these tests report that they were skipped. Heavy tests, which kill processes a hundred times, run if
//! `HAFT_NATS_HEAVY` is set.

#![expect(clippy::disallowed_methods, reason = "these tests start haft, and a NATS server")]

mod health;
mod kills;
mod lives;
mod logins;
mod lost;
mod raw;
mod reload;
mod replicas;
mod roles;
pub(crate) mod setup;
mod told;
pub(crate) mod world;

use haft::event::Event;
use haft::event::Events;
use haft::tool::Session;
use serde_json::json;

use self::raw::Raw;
use self::world::{As, World};
use crate::common::wait::{eventually, within};

/// N01: a call runs on a worker with the label of its tool; without a worker of that label the call fails and can be
/// repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_runs_on_the_worker_that_has_its_label() {
    let Some(world) = World::start() else { return };
    let gate = world.gate().await;
    let early = gate.call("time", json!({})).await;
    assert!(early.is_error && early.content.contains("no worker labelled"), "{}", early.content);
    assert!(early.content.contains("can be repeated"), "{}", early.content);
    let _worker = world.worker("eu-1", &["--label", "eu"]);
    let answer = gate.until_answered("time", json!({})).await;
    assert!(answer.content.parse::<u64>().is_ok(), "{}", answer.content);
    let answer = gate.call("program__far__mark", json!({ "mark": "one" })).await;
    assert!(!answer.is_error, "{}", answer.content);
    assert_eq!(world.marks(), ["one"]);
    let answer = gate.call("program__far__mark_us", json!({ "mark": "two" })).await;
    assert!(answer.is_error && answer.content.contains("no worker labelled `us`"), "{}", answer.content);
    assert_eq!(world.marks(), ["one"]);
}

/// N02: a program without a NATS server has no tools of workers, but has its local tools.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_the_tool_is_not_there() {
    let Some(world) = World::start() else { return };
    let alone = world.program(As::Gate, false).await;
    assert!(alone.toolbox.find("program__far__mark").is_none() && alone.toolbox.find("bash").is_some());
}

/// N03: a worker with another program.lock or another definition of a tool gets no call, and a worker's credentials
/// cannot make calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_locks_definitions_and_stolen_credentials_are_refused() {
    let Some(world) = World::start() else { return };
    let gate = world.gate().await;
    let lock = format!(
        "version = 2\n[[pin]]\nname = \"x\"\nkind = \"plugin\"\nsource = \"x.wasm\"\ndigest = \"sha256:{}\"\n\
         contracts = []\nasked = []\ngranted = []\n",
        "0".repeat(64)
    );
    let mut other = world.worker_with("eu-1", &["--label", "eu"], |home| home.write("program.lock", &lock));
    let (beat, _) = Raw::login(&world, "gate").first("haft.1.*.*.beat.>");
    assert!(beat.contains(".beat.eu-1"), "{beat}");
    let answer = gate.call("time", json!({})).await;
    assert!(answer.content.contains("no worker labelled"), "another lock: {}", answer.content);
    assert!(other.is_running(), "it works, for other gates");
    let _other = world.worker_with("eu-2", &["--label", "eu"], |home| {
        let text = std::fs::read_to_string(home.work().join("program.toml")).unwrap();
        home.write("program.toml", &text.replace("Adds a mark.", "Adds a mark, says another one."));
    });
    gate.until_answered("time", json!({})).await;
    let answer = gate.call("program__far__mark", json!({ "mark": "no" })).await;
    assert!(answer.content.contains("no worker labelled"), "another definition: {}", answer.content);
    // A worker's password allows no calls and does not show the messages to other workers.
    let thief = world.gate_as(As::Worker("eu-2")).await;
    let answer = thief.call("time", json!({})).await;
    assert!(answer.is_error, "a worker's user made a call: {}", answer.content);
    assert_eq!(world.marks(), Vec::<String>::new());
}

/// N03: the server's user rights depend on the subject; a worker refuses a call of a tool other than the subject's
/// tool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_sent_as_another_tool_is_refused() {
    let Some(world) = World::start() else { return };
    let _worker = world.worker("eu-1", &["--label", "eu"]);
    let (beat, _) = Raw::login(&world, "gate").first("haft.1.*.*.beat.>");
    let id = "0".repeat(32);
    let call = json!({
        "id": id, "tool": "program__far__mark", "definition": "x", "sent": 0, "arguments": { "mark": "no" }
    })
    .to_string();
    let (subject, length) = (format!("{}.time.eu", beat.replace(".beat.", ".call.")), call.len());
    let mut gate = Raw::login(&world, "gate");
    let inbox = "haft.1.inbox.eu-1.test.1";
    gate.say(&format!("SUB {inbox} 3\r\nPUB {subject} {inbox} {length}\r\n{call}\r\n"));
    let (_, told) = gate.first(inbox);
    assert!(told.contains("it was sent as a call to another tool"), "{told}");
    assert_eq!(world.marks(), Vec::<String>::new());
}

/// N04: if a worker is killed, its caller learns that the outcome is unknown, and haft does not repeat the call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_death_of_a_worker_is_told() {
    let Some(world) = World::start() else { return };
    let mut worker = world.worker("eu-1", &["--label", "eu"]);
    let gate = world.gate().await;
    gate.until_answered("time", json!({})).await;
    let call = gate.spawn("program__far__slow", json!({ "mark": "slow" }));
    world.until_marked("slow").await;
    worker.kill();
    let answer = within("the death is told", call).await.unwrap();
    assert!(answer.content.contains("the outcome is unknown"), "{}", answer.content);
    assert_eq!(world.marks(), ["slow"]);
}

/// N05: arguments larger than a NATS message reach the worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_arguments_travel() {
    let Some(world) = World::start() else { return };
    let _worker = world.worker("eu-1", &["--label", "eu"]);
    let gate = world.gate().await;
    gate.until_answered("time", json!({})).await;
    let path = world.folder("eu-1").join("large.txt");
    let large = "0123456789abcdef\n".repeat(200_000);
    let answer = gate.call("write", json!({ "file_path": path, "content": large })).await;
    assert!(!answer.is_error, "{}", answer.content);
    assert_eq!(std::fs::read_to_string(&path).unwrap().len(), large.len());
}

/// N06: a call's output reaches its caller during the call, and a cancellation ends the call on its worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_comes_and_a_cancel_goes() {
    let Some(world) = World::start() else { return };
    let _worker = world.worker("eu-1", &["--label", "eu"]);
    let gate = world.gate().await;
    gate.until_answered("time", json!({})).await;
    let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
    let events = Events::to(move |event| {
        if let Event::Stdout { chunk, .. } = event {
            let _ = sender.send(chunk.clone());
        }
    });
    let session = Session { events, ..Session::default() };
    let cancel = session.cancel.clone();
    let call = gate.spawn_in("program__far__slow", json!({ "mark": "told" }), session);
    let chunk = within("the output is told", told.recv()).await.unwrap();
    assert!(chunk.contains("told"), "{chunk}");
    cancel.cancel();
    let answer = within("the call ends", call).await.unwrap();
    assert!(answer.is_error && answer.content.contains("cancelled"), "{}", answer.content);
    world.until_no_sleep("eu-1").await;
}

/// N07: a call that needs approval is refused unless the caller's session has the approval.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_given_where_the_person_is() {
    let Some(world) = World::start() else { return };
    let _worker = world.worker("eu-1", &["--label", "eu"]);
    let gate = world.gate().await;
    gate.until_answered("time", json!({})).await;
    let (tool, arguments) = ("program__far__asked", json!({ "mark": "asked" }));
    let answer = gate.call(tool, arguments.clone()).await;
    assert!(answer.is_error && answer.content.contains("approval"), "{}", answer.content);
    let session = Session { approvals: world::approved(), ..Session::default() };
    let answer = gate.spawn_in(tool, arguments, session).await.unwrap();
    assert!(!answer.is_error, "{}", answer.content);
    assert_eq!(world.marks(), ["asked"]);
}

/// N08: `haft log` reads the journals of all workers over NATS; an outage of the server loses no records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journals_of_all_workers_are_read_at_once() {
    let Some(mut world) = World::start() else { return };
    let _workers = [world.worker("eu-1", &["--label", "eu"]), world.worker("us-1", &["--label", "us"])];
    let gate = world.gate().await;
    gate.until_answered("program__far__mark", json!({ "mark": "a" })).await;
    gate.until_answered("program__far__mark_us", json!({ "mark": "b" })).await;
    world.server.kill();
    world.server.start();
    gate.until_answered("program__far__mark", json!({ "mark": "c" })).await;
    let mut lines: Vec<String> = Vec::new();
    eventually("all three are in the journals", || {
        lines = world.log().lines().filter(|line| line.contains("__mark")).map(str::to_owned).collect();
        lines.len() >= 3
    })
    .await;
    let of = |worker: &str, mark: &str| {
        lines
            .iter()
            .filter(|line| line.contains(&format!("{worker}: ")) && line.ends_with(&format!("mark={mark}")))
            .count()
    };
    assert_eq!((of("eu-1", "a"), of("us-1", "b"), of("eu-1", "c")), (1, 1, 1), "{lines:#?}");
}

/// N09: if all places of a worker stay in use, a waiting call fails without running, and can be repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_workers_say_so() {
    let Some(world) = World::start() else { return };
    let _worker = world.worker("eu-1", &["--label", "eu", "--places", "1"]);
    let (one, other) = (world.gate().await, world.gate().await);
    one.until_answered("time", json!({})).await;
    other.until_answered("time", json!({})).await;
    let held = one.spawn("program__far__slow", json!({ "mark": "held" }));
    world.until_marked("held").await;
    let answer = other.call("program__far__mark", json!({ "mark": "none" })).await;
    assert!(
        answer.content.contains("are in use") && answer.content.contains("can be repeated later"),
        "{}",
        answer.content
    );
    assert_eq!(world.marks(), ["held"]);
    held.abort();
}
