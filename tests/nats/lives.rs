//! Plugins and MCP servers on workers, and answers that are too large for one message.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use super::setup::Setup;
use super::world::World;
use crate::common::hostile;
use crate::common::wait::{eventually, eventually_some};

/// A plugin on workers with large answers.
fn plugin() -> String {
    let component = hostile().display().to_string();
    format!(
        "\n[[plugins]]\nname = \"guest\"\ncomponent = {component:?}\ntools = [\"echo\"]\non = [\"eu\"]\n\
         [plugins.limits]\nresult = \"16MiB\"\n"
    )
}

/// An MCP server on workers: another haft, which serves a plugin. Its folders are below the worker's folder.
pub(super) fn server(folder: &std::path::Path) -> String {
    let (haft, component) = (env!("CARGO_BIN_EXE_haft"), hostile().display().to_string());
    let program: PathBuf = folder.join("inner.toml");
    let inner = format!(
        "[program]\nname = \"inner\"\nversion = \"1.0.0\"\n\n[[plugins]]\nname = \"guest\"\ncomponent = {component:?}\n\
         tools = [\"echo\"]\n\n[builtins]\nshell = false\nfiles = false\nfetch = false\nsearch = false\ntime = false\n\
         tmux = false\n"
    );
    std::fs::write(&program, inner).unwrap();
    let program = program.to_str().unwrap();
    format!(
        "\n[[mcp_servers]]\nname = \"inner\"\ncommand = [{haft:?}, \"serve\", \"--program\", {program:?}]\n\
         env = {{ XDG_CACHE_HOME = \"OWN/own\", XDG_STATE_HOME = \"OWN/own\" }}\non = [\"eu\"]\n"
    )
}

/// N14: a plugin with a label runs on a worker with this label alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_runs_on_the_worker_that_has_its_label() {
    let Some(world) = World::with(Setup::Guide, &plugin()) else { return };
    let _other = world.worker("us-1", &["--label", "us"]);
    let gate = world.gate().await;
    gate.until_answered("time", json!({})).await;
    let answer = gate.call("guest__echo", json!({ "text": "one" })).await;
    assert!(answer.content.contains("no worker labelled `eu`"), "{}", answer.content);
    let _worker = world.worker("eu-1", &["--label", "eu"]);
    let answer = gate.until_answered("guest__echo", json!({ "text": "two" })).await;
    assert_eq!(answer.content, "two");
    let noted = world.until_logged("guest__echo").await;
    assert!(noted.contains("eu-1: ") && !noted.contains("us-1: "), "{noted}");
}

/// N14: workers report the tools of an MCP server with a label, and only they start the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_mcp_server_runs_on_the_worker_that_has_its_label() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(world) = World::with(Setup::Guide, &server(folder.path())) else { return };
    let alone = world.gate().await;
    assert!(!alone.has("mcp__inner__guest__echo"), "no worker told of it");
    let _worker = world.worker("eu-1", &["--label", "eu"]);
    let told = async || Some(world.gate().await).filter(|gate| gate.has("mcp__inner__guest__echo"));
    let gate = eventually_some("the worker tells of the server's tools", told).await;
    let answer = gate.until_answered("mcp__inner__guest__echo", json!({ "text": "far" })).await;
    assert_eq!(answer.content, "far");
    // The server's state is in the worker's folder and not in the gate's, which proves its place.
    assert!(world.folder("eu-1").join("own").exists() && !world.gate_folder().join("own").exists());
    let noted = world.until_logged("mcp__inner__guest__echo").await;
    assert!(noted.contains("eu-1: "), "{noted}");
}

/// N05: arguments and answers above the server's message limit arrive whole, through the object store, which is empty
/// afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_answers_travel() {
    let Some(world) = World::with(Setup::Guide, &plugin()) else { return };
    let _worker = world.worker("eu-1", &["--label", "eu"]);
    let gate = world.gate().await;
    gate.until_answered("guest__echo", json!({ "text": "small" })).await;
    let before = world.stored().await.map_or(0, |(written, _)| written);
    assert_eq!(before, 0, "small messages need no store");
    let large = "0123456789abcdef\n".repeat(300_000);
    let answer = gate.call("guest__echo", json!({ "text": large })).await;
    assert!(!answer.is_error, "{}", answer.content.get(..500).unwrap_or(&answer.content));
    assert!(answer.content == large, "{} bytes came", answer.content.len());
    let (written, _) = world.stored().await.expect("arguments and answer were stored");
    assert!(written >= 2 * (large.len() as u64 >> 20), "{written}");
    eventually_some("nothing is left of them", async || {
        world.stored().await.filter(|(_, left)| *left < 10_000)
    })
    .await;
}

/// N09: a worker that is told to end does so during calls, and calls that did not run succeed on another worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_ends_while_calls_come() {
    let Some(world) = World::start() else { return };
    let mut ending = world.worker("eu-1", &["--label", "eu"]);
    let gate = world.gate().await;
    gate.until_answered("time", json!({})).await;
    let _other = world.worker("eu-2", &["--label", "eu"]);
    let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let local = tokio::task::LocalSet::new();
    let callers = (0..64).map(|number| {
        let (gate, is_over, answered) = (gate.clone(), is_over.clone(), answered.clone());
        local.spawn_local(async move {
            while !is_over.load(Ordering::Relaxed) {
                // Each answer is a success, or says that the call did not run and can be repeated.
                let (tool, arguments) = if number % 2 == 0 {
                    ("time", json!({}))
                } else {
                    ("program__far__mark", json!({ "mark": "x" }))
                };
                gate.until_answered(tool, arguments).await;
                answered.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    let meanwhile = async {
        eventually("many calls are answered", || answered.load(Ordering::Relaxed) > 500).await;
        tokio::task::spawn_blocking(move || ending.end()).await.unwrap();
        is_over.store(true, Ordering::Relaxed);
        for caller in callers {
            caller.await.unwrap();
        }
    };
    local.run_until(meanwhile).await;
}
