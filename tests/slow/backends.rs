//! The delay of a capture, and the cost of a command over a shared connection.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::backends::host_context::{Bed, local_tmux, run, ssh, ssh_config};

/// The median time of `times` runs.
async fn median(times: usize, mut work: impl AsyncFnMut()) -> Duration {
    let mut all = Vec::new();
    for _ in 0..times {
        let begun = Instant::now();
        work().await;
        all.push(begun.elapsed());
    }
    all.sort_unstable();
    all[times / 2]
}

/// TM03: `capture-pane` waits for its delay, in both forms.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "by night: it measures time"]
async fn a_delay_is_waited_for() {
    let Some(kind) = local_tmux() else { return };
    let bed = Bed::new(&kind).await;
    bed.run("true").await;
    let capture = async |arguments: Value| drop(bed.call("capture-pane", arguments).await.unwrap());
    let plain = median(5, async || capture(json!({})).await).await;
    for delayed in [json!({ "delay": "2s" }), json!({ "delay_ms": 2000 })] {
        let delayed = median(3, async || capture(delayed.clone()).await).await;
        assert!(delayed > plain * 4, "{plain:?}, delayed {delayed:?}");
    }
    bed.backend.close().await;
}

/// BE04: a command over the shared connection takes less than eight plain ssh commands over it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "by night: it measures time"]
async fn a_command_over_a_shared_connection_is_cheap() {
    let Some(kind) = ssh() else { return };
    let bed = Bed::new(&kind).await;
    let (socket, config) = (find_socket(&bed.host_context.state), ssh_config().unwrap());
    let words = ["ssh", "-F", config.to_str().unwrap(), "-S", &socket, "box", "true"].map(str::to_owned);
    let plain = median(50, async || drop(run(&words))).await;
    let ours = median(50, async || drop(bed.run("true").await)).await;
    eprintln!("over one connection: a command {ours:?}, plain `ssh box true` {plain:?}");
    assert!(ours < plain * 8, "{ours:?}, plain {plain:?}");
    bed.backend.close().await;
}

fn find_socket(state: &Path) -> String {
    let folders = std::fs::read_dir(state).unwrap().flatten();
    let socket = folders.map(|entry| entry.path().join("s")).find(|socket| socket.exists()).unwrap();
    socket.to_str().unwrap().to_owned()
}
