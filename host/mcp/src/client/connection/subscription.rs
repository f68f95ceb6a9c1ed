//! The subscription to changes of the lists of a stateless server, which notifies subscribers only. A subscription that
//! ends is opened again: a proxy, a restart or a full buffer may end it, while calls go on.

use std::time::Duration;

use rmcp::model::{ErrorCode, SubscriptionFilter};
use rmcp::{Peer, RoleClient, ServiceError};
use tokio::time::{Instant, sleep};

use crate::client::handler::ServerRequestHandler;

/// The pause before the second subscription. Each further subscription doubles the pause.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause. The end of a subscription that has lasted longer resets the pause.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// Returns the task that reports changes of the server's lists, if the server is stateless and announces changes. The task
/// ends with the connection.
pub(super) fn listen_for_changes(
    peer: &Peer<RoleClient>,
    handler: &ServerRequestHandler,
) -> Option<impl Future<Output = ()> + use<>> {
    let info = peer.peer_info().filter(|info| !info.protocol_version.has_initialize())?;
    let mut filter = SubscriptionFilter::builder().tools_list_changed().build();
    (filter.prompts_list_changed, filter.resources_list_changed) = (Some(true), Some(true));
    let filter = filter.supported_by(&info.capabilities);
    let is_empty = [filter.tools_list_changed, filter.prompts_list_changed, filter.resources_list_changed]
        .iter()
        .all(|wanted| *wanted != Some(true));
    if is_empty {
        return None;
    }
    let (peer, changed) = (peer.clone(), handler.changed.clone());
    Some(async move {
        let (mut pause, mut is_first) = (FIRST_PAUSE, true);
        loop {
            let begun = Instant::now();
            match peer.listen(filter.clone()).await {
                Ok(mut subscription) => {
                    // Nobody was notified of a change before this subscription.
                    if !is_first {
                        changed.say();
                    }
                    while let Ok(Some(_)) = subscription.next().await {
                        changed.say();
                    }
                }
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => return,
                Err(error) => tracing::debug!(%error, "haft cannot receive changes of a server's tools yet"),
            }
            if peer.is_transport_closed() {
                return;
            }
            if begun.elapsed() > MAX_PAUSE {
                pause = FIRST_PAUSE;
            }
            sleep(pause).await;
            (pause, is_first) = ((pause * 2).min(MAX_PAUSE), false);
        }
    })
}
