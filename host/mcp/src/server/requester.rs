//! Who sends a request: what is known of the client, and the way back to it for what comes before the answer.

use std::sync::Arc;

use async_trait::async_trait;
use hyper::HeaderMap;
use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, ElicitResult, ProtocolVersion, RequestId, RequestMetaObject,
    ServerNotification,
};
use tokio_util::sync::CancellationToken;

/// The sender of one request.
#[derive(Clone)]
pub(super) struct Requester {
    pub(super) id: RequestId,
    /// What the request says of itself and its client (`_meta`).
    pub(super) meta: RequestMetaObject,
    /// Cancelled when the client takes the request back, or is gone.
    pub(super) cancel: CancellationToken,
    /// What its session agreed on; `None`: there is no session, and the request says everything itself.
    pub(super) session: Option<Agreed>,
    /// The headers of an HTTP request without a session that repeat arguments.
    pub(super) parameters: Option<HeaderMap>,
    pub(super) link: Arc<dyn Link>,
}

/// What a client and haft agreed on as the session was opened.
#[derive(Clone, Debug)]
pub(super) struct Agreed {
    pub(super) version: ProtocolVersion,
    /// Whether the client shows forms to its person.
    pub(super) shows_forms: bool,
}

/// The way to a client while a request of it is handled.
#[async_trait]
pub(super) trait Link: Send + Sync {
    /// Sends a notification without waiting. `is_piece`: one of many, of which some may be left out. Returns whether there
    /// was room for it.
    fn tell(&self, notification: ServerNotification, is_piece: bool) -> bool;

    /// Asks the person behind the client.
    ///
    /// # Errors
    /// Why nobody was asked.
    async fn ask(&self, form: ElicitRequestParams) -> Result<ElicitResult, String>;
}

impl Requester {
    /// The revision that the request is of.
    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        self.meta.protocol_version().or_else(|| self.session.as_ref().map(|agreed| agreed.version.clone()))
    }

    /// Whether the client opens no session and sends everything with each request (2026-07-28).
    pub(super) fn is_sessionless(&self) -> bool {
        self.version().is_some_and(|version| !version.has_initialize())
    }

    /// Whether the client shows forms to its person.
    pub(super) fn shows_forms(&self) -> bool {
        let own = self.meta.client_capabilities();
        own.map_or_else(
            || self.session.as_ref().is_some_and(|agreed| agreed.shows_forms),
            |own| shows_forms(&own),
        )
    }

    /// Whether the client takes a task for an answer.
    pub(super) fn takes_tasks(&self) -> bool {
        self.meta.client_capabilities().is_some_and(|own| own.supports_tasks())
    }
}

/// Whether a client shows forms. One that names no kind of elicitation does.
pub(super) fn shows_forms(capabilities: &ClientCapabilities) -> bool {
    let elicitation = capabilities.elicitation.as_ref();
    elicitation.is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none())
}
