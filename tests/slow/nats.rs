//! The time in which a gate detects a worker's death: by the server's notice, or by missing heartbeats. A paused NATS
//! server does not count as a death.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::common::wait::{eventually, within};
use crate::nats::setup::Setup;
use crate::nats::world::World;

/// Deaths of each kind.
const DEATHS: usize = 6;

/// The times until deaths are reported, the shortest first.
async fn deaths(setup: Setup) -> Option<Vec<Duration>> {
    let world = World::with(setup, "")?;
    let gate = world.gate().await;
    let mut told = Vec::new();
    for number in 0..DEATHS {
        let mut worker = world.worker("eu-1", &["--label", "eu"]);
        gate.until_answered("time", json!({})).await;
        let mark = format!("slow{number}");
        let call = gate.spawn("program__far__slow", json!({ "mark": mark }));
        world.until_marked(&mark).await;
        // At different times between two heartbeats.
        tokio::time::sleep(Duration::from_millis(number as u64 * 83)).await;
        worker.kill();
        let killed = Instant::now();
        let answer = call.await.unwrap();
        told.push(killed.elapsed());
        assert!(answer.content.contains("the outcome is unknown"), "{}", answer.content);
    }
    told.sort();
    eprintln!("{setup:?}: deaths were told after {told:?}");
    Some(told)
}

/// N04: a gate reports a death at once if the server reports disconnections, and else within the promised 3 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "by night: it measures time"]
async fn the_death_of_a_worker_is_told_at_once() {
    let (Some(told), Some(silent)) = (deaths(Setup::Guide).await, deaths(Setup::Silent).await) else {
        return;
    };
    assert!(told[DEATHS / 2] * 4 < silent[0], "{told:?} {silent:?}");
    assert!(silent[0] < Duration::from_secs(3), "{silent:?}");
}

/// N23: a server that pauses for longer than a worker may be silent does not count as a death: a call that ended in
/// the pause has its true outcome (L5).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "by night: it measures time"]
async fn a_server_that_stood_still_loses_no_answer() {
    let nap = "\n[[tools]]\nname = \"nap\"\ndescription = \"Naps.\"\ncommand = [\"sh\", \"-c\", \"echo nap >> MARKS; sleep 3; \
               echo rested\"]\ngrant = { write = [\"OUT\"] }\non = [\"eu\"]\n";
    let Some(world) = World::with(Setup::Guide, nap) else { return };
    let _worker = world.worker("eu-1", &["--label", "eu"]);
    let gate = world.gate().await;
    gate.until_answered("time", json!({})).await;
    let call = gate.spawn("program__far__nap", json!({}));
    world.until_marked("nap").await;
    world.server.signal(Signal::STOP);
    tokio::time::sleep(Duration::from_secs(8)).await;
    world.server.signal(Signal::CONT);
    let answer = within("it is answered", call).await.unwrap();
    assert!(!answer.is_error && answer.content.contains("rested"), "{}", answer.content);
    eventually("nothing is made twice", || world.marks() == ["nap"]).await;
}
