//! Compares a server's tools with the agreed ones. A tool that differs is neither offered nor called, whether it
//! is from the first list, a later list, a reconnection or the cache.

use std::sync::Arc;

use super::{Connection, KnownTools, Server, ServerError, ToolList};
use crate::pins::ToolPins;

impl Server {
    /// Accepts only tools that match `pins` from now on; `None` accepts every tool.
    pub fn hold_to(&self, pins: Option<Arc<ToolPins>>) {
        *self.pins.lock() = pins;
        let mut known = self.known.lock();
        if let Some(KnownTools { sent, listed, .. }) = known.as_mut() {
            *listed = self.offered(sent);
        }
    }

    /// Returns whether the server's tools are pinned.
    pub fn is_held(&self) -> bool {
        self.pins.lock().is_some()
    }

    /// Returns the server's last list, including tools that are held back; [`ToolList::sent`] has each tool as it
    /// was sent.
    pub fn sent(&self) -> Option<Arc<ToolList>> {
        self.known().map(|known| known.sent)
    }

    pub(super) fn offered(&self, sent: &Arc<ToolList>) -> Arc<ToolList> {
        match self.pins.lock().as_deref() {
            Some(pins) => Arc::new(sent.held_to(pins)),
            None => sent.clone(),
        }
    }

    /// Refuses a call of a tool that is held back. If the server has reported a change of its tools, the list is
    /// requested first.
    pub(super) async fn refuse_held(&self, tool: &str, connection: &Connection) -> Result<(), ServerError> {
        if self.pins.lock().is_none() {
            return Ok(());
        }
        if connection.takes_change() {
            self.refresh(connection).await.inspect_err(|_| connection.says_change())?;
        }
        let listed = self.known().map(|known| known.listed);
        let difference = listed.and_then(|listed| listed.held(tool).cloned());
        let server = self.config.name.clone();
        difference.map_or(Ok(()), |difference| Err(ServerError::Held { difference, server }))
    }
}
