//! How a gate hears that a worker is gone: the server says so within milliseconds, where this user may listen to its
//! system account; otherwise the worker's silence does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::Subscriber;
use serde::Deserialize;
use tokio::sync::watch;
use tokio_stream::StreamExt;

use super::fleet::Fleet;
use crate::link::State;
use crate::message::CONNECTION;

/// How often silence is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// A look that comes so late says that this process stood still itself.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// What the server tells of the end of a connection, as far as it matters here.
#[derive(Deserialize)]
struct Disconnect {
    client: Client,
}

#[derive(Deserialize)]
struct Client {
    #[serde(default)]
    name: String,
}

/// Listens to the server.
pub(super) async fn listen(fleet: Arc<Fleet>, mut messages: Subscriber) {
    while let Some(message) = messages.next().await {
        let Ok(Disconnect { client }) = serde_json::from_slice(&message.payload) else { continue };
        if let Some(instance) = client.name.strip_prefix(CONNECTION) {
            fleet.gone(|worker| worker.instance == instance);
        }
    }
}

/// Looks for silence, but for that of a connection that is down or of a process that stood still.
pub(super) async fn sweep(fleet: Arc<Fleet>, state: watch::Receiver<State>) {
    let (mut last, mut made) = (Instant::now(), 0);
    loop {
        tokio::time::sleep(LOOK).await;
        let now = *state.borrow();
        if !now.is_up || now.made != made || last.elapsed() > STOOD_STILL {
            fleet.was_deaf();
        }
        (last, made) = (Instant::now(), now.made);
        fleet.sweep();
    }
}
