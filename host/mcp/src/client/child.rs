//! A server that runs as a child process of haft.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::ServerError;
use super::stdio_transport::Wire;
use haft_core::grant::{Grant, RightsTable};
use haft_sandbox::confine::Refusal;
use haft_sandbox::service::Life;

/// Time limit for the exit of a server that closed its output.
pub(super) const DYING: Duration = Duration::from_secs(1);

/// A server that is a child.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) life: Life,
    pub(super) wire: Arc<Wire>,
    /// The rights of the child.
    pub(super) grant: Grant,
    /// The table of program.toml with these rights.
    pub(super) table: RightsTable,
}

/// Returns the end of a server that closed its output, or that was stopped because it read nothing.
pub(super) async fn ended(child: &Child) -> ServerError {
    let Child { life, wire, grant, table } = child;
    let was_stopped = life.is_stopping();
    let how = match timeout(DYING, life.ended()).await {
        _ if was_stopped => "it did not read its input and was stopped".to_owned(),
        Ok(how) => how.to_string(),
        Err(_) => {
            life.stop();
            "it closed its output and was stopped".to_owned()
        }
    };
    let words = life.last_words();
    // The last lines of standard error have more information.
    let noise = if words.is_empty() { wire.noise() } else { String::new() };
    let hints = Refusal::hints(&life.refused(), (grant, table), &words);
    ServerError::Ended { how: how + &noise, words, hints }
}
