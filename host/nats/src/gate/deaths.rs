//! How a gate hears that a worker is gone: the server says so within milliseconds, where this user may listen to its
//! system account; otherwise the worker's silence does, where the server itself is not silent.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_nats::Subscriber;
use serde::Deserialize;
use tokio_stream::StreamExt;

use super::Connected;
use super::fleet::Fleet;
use crate::message::CONNECTION;

/// How often silence is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// A look that comes so late says that this process stood still itself.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// How much longer a worker may be silent once the server was asked whether it is there: a beat that it kept back is
/// there by then.
const CONFIRMING: Duration = Duration::from_millis(500);

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

/// Looks for silence, but for that of a server, of a connection that is down, or of a process that stood still.
pub(super) async fn sweep(fleet: Arc<Fleet>, connected: Arc<Connected>) {
    let state = connected.link.state();
    let (mut last, mut made) = (Instant::now(), 0);
    loop {
        tokio::time::sleep(LOOK).await;
        let now = *state.borrow();
        if !now.is_up || now.made != made || last.elapsed() > STOOD_STILL {
            fleet.was_deaf();
        } else if !fleet.silent().is_empty() {
            let (answered, ()) = tokio::join!(
                tokio::time::timeout(CONFIRMING, connected.server_answers()),
                tokio::time::sleep(CONFIRMING)
            );
            let is_silent = answered != Ok(true);
            connected.is_server_silent.store(is_silent, Ordering::Relaxed);
            if is_silent {
                fleet.was_deaf();
            } else {
                fleet.sweep();
            }
        }
        (last, made) = (Instant::now(), now.made);
    }
}
