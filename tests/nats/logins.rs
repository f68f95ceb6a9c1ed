//! Authentication at NATS: mutual TLS, nkeys, credentials files; and the detection of dead workers if the server
//! does not report disconnections.

use haft::program::Program;
use serde_json::json;

use super::kills;
use super::setup::Setup;
use super::world::{As, World};
use crate::common::wait::within;

/// Checks a call from gate to worker, both with the login of `setup`.
async fn is_served(setup: Setup) -> Option<World> {
    let world = World::with(setup, "")?;
    let _worker = world.worker("eu-1", &["--label", "eu"]);
    let gate = world.gate().await;
    gate.until_answered("program__far__mark", json!({ "mark": "one" })).await;
    assert_eq!(world.marks(), ["one"]);
    Some(world)
}

/// Checks that a worker reconnects from a thread that is confined since short calls ran on it: it resolves a name and
/// reads certificates.
async fn is_made_again(world: &mut World) {
    let _worker = world.worker("eu-2", &["--label", "eu"]);
    let gate = world.gate().await;
    for _ in 0..8 {
        gate.until_answered("time", json!({})).await;
    }
    world.server.kill();
    world.server.start();
    gate.until_answered("time", json!({})).await;
    gate.until_answered("program__far__mark", json!({ "mark": "two" })).await;
    assert_eq!(world.marks(), ["one", "two"]);
}

/// The error of a gate's call after `change` of its program.toml.
async fn refused(world: &World, change: impl Fn(String) -> String) -> String {
    let path = world.gate_folder().join("program.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, change(text)).unwrap();
    let program: Program = world.program(As::Gate, true).await;
    let call = haft::call::ToolCall { id: "test".into(), tool: "time".into(), arguments: json!({}) };
    let answer = program.toolbox.dispatch(call, &haft::tool::Session::default()).await;
    assert!(answer.is_error, "{}", answer.content);
    answer.content
}

/// N15: connections are encrypted, and both sides need certificates; a server of another authority gets no password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_show_certificates() {
    let Some(mut world) = is_served(Setup::Tls).await else { return };
    is_made_again(&mut world).await;
    let told = refused(&world, |text| text.replace("ca = \"ca.pem\"\n", "")).await;
    assert!(told.contains("did not run and can be repeated:") && told.contains("UnknownIssuer"), "{told}");
    let told = refused(&world, |text| {
        let without = text.replace("certificate = \"client.pem\"\nkey = \"client.key\"\n", "");
        without.replace("[nats]\n", "[nats]\nca = \"ca.pem\"\n")
    })
    .await;
    assert!(told.contains("did not run and can be repeated:"), "without a certificate of its own: {told}");
}

/// N16: users with nkeys have the permissions of the guide; the server refuses another key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_that_are_keys() {
    let Some(world) = is_served(Setup::Nkey).await else { return };
    let another = nkeys::KeyPair::new_user().seed().unwrap();
    std::fs::write(world.gate_folder().join("seed"), &another).unwrap();
    let told = refused(&world, |text| text).await;
    assert!(told.contains("refuses") && !told.contains(&another), "{told}");
}

/// N16: users log in with a credentials file of an operator's account; the server refuses another key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_with_credentials_files() {
    let Some(world) = is_served(Setup::Credentials).await else { return };
    let path = world.gate_folder().join("user.creds");
    let text = std::fs::read_to_string(&path).unwrap();
    let another = nkeys::KeyPair::new_user().seed().unwrap();
    let seed = text.lines().find(|line| line.starts_with("SU")).unwrap();
    std::fs::write(&path, text.replace(seed, &another)).unwrap();
    let told = refused(&world, |text| text).await;
    assert!(told.contains("refuses") && !told.contains(&another), "{told}");
}

/// N04: if the server reports no disconnections, gates detect a dead worker by missing heartbeats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_death_is_known_by_silence() {
    let Some(world) = World::with(Setup::Silent, "") else { return };
    let mut worker = world.worker("eu-1", &["--label", "eu"]);
    let gate = world.gate().await;
    gate.until_answered("time", json!({})).await;
    let call = gate.spawn("program__far__slow", json!({ "mark": "slow" }));
    world.until_marked("slow").await;
    worker.kill();
    let answer = within("the death is told", call).await.unwrap();
    assert!(answer.content.contains("the outcome is unknown"), "{}", answer.content);
}

/// N10: without the system account, killed workers run no call twice, although more calls run when a gate notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_without_the_system_account() {
    kills::of_workers(Setup::Silent, "a worker killed, without the system account,").await;
}
