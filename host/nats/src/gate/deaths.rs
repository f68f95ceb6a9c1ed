//! Detects workers that are gone: the server reports it within milliseconds if this user may subscribe to its
//! system account; otherwise the worker's silence shows it, unless the server itself is silent.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_nats::Subscriber;
use serde::Deserialize;
use tokio_stream::StreamExt;

use super::Connected;
use super::fleet::Fleet;
use crate::message::CONNECTION;

/// How often silence is checked.
const LOOK: Duration = Duration::from_millis(100);

/// A delay of a check that shows that this process itself was suspended.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// How much longer a worker may be silent after the server was asked whether it is available: a delayed beat has
/// arrived by then.
const CONFIRMING: Duration = Duration::from_millis(500);

/// The relevant part of the server's event about a closed connection.
#[derive(Deserialize)]
struct Disconnect {
    client: Client,
}

#[derive(Deserialize)]
struct Client {
    #[serde(default)]
    name: String,
}

/// Receives the events of the server.
pub(super) async fn listen(fleet: Arc<Fleet>, mut messages: Subscriber) {
    while let Some(message) = messages.next().await {
        let Ok(Disconnect { client }) = serde_json::from_slice(&message.payload) else { continue };
        if let Some(instance) = client.name.strip_prefix(CONNECTION) {
            fleet.gone(|worker| worker.instance == instance);
        }
    }
}

/// Checks for silent workers, except while the server is silent, the connection is down, or this process was
/// suspended.
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
