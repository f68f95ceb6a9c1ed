//! The client at the other end of standard streams: what answers its requests, and the way back to it. rmcp's loop and the
//! reader's thread share it.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use rmcp::model::{
    ClientNotification, ClientRequest, ElicitRequestParams, ElicitResult, GetMeta, JsonRpcMessage, RequestId,
    RequestMetaObject, ServerConfig, ServerJsonRpcMessage, ServerNotification, ServerResult,
};
use rmcp::service::{NotificationContext, Peer, RequestContext};
use rmcp::{ErrorData, RoleServer, Service};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::handler::{Answer, Handler};
use super::super::requester::{self, Agreed, Link, Requester};
use super::super::tool_news::ToolNews;
use super::writer::WeakWriter;
use haft_core::sync::Lock;

/// The client.
pub(in super::super) struct StdioClient {
    handler: Handler,
    /// rmcp's way to the client, once it has opened its session or called a tool.
    peer: Lock<Option<Peer<RoleServer>>>,
    writer: OnceLock<WeakWriter>,
    news: Arc<ToolNews>,
    /// Cancelled when the client is gone.
    life: CancellationToken,
    _ends_with_this: DropGuard,
}

/// The client as rmcp's loop takes it.
pub(in super::super) struct StdioService(pub(in super::super) Arc<StdioClient>);

/// The way to the client while a request of it is handled.
struct StdioLink {
    peer: Peer<RoleServer>,
    writer: Option<WeakWriter>,
}

impl StdioClient {
    /// A client whose requests `handler` answers.
    pub(in super::super) fn new(handler: Handler) -> Self {
        let (life, peer, writer) = (CancellationToken::new(), Lock::default(), OnceLock::new());
        let guard = life.clone().drop_guard();
        Self { handler, peer, writer, news: Arc::default(), life, _ends_with_this: guard }
    }

    /// Has notifications written by `writer` from now on.
    pub(super) fn connect(&self, writer: WeakWriter) {
        let _ = self.writer.set(writer);
    }

    /// Who sends `request`, to be answered outside rmcp, and what stops it; `None` before rmcp knows the client.
    pub(super) fn begin(
        &self,
        id: &RequestId,
        request: &mut ClientRequest,
    ) -> Option<(Requester, CancellationToken)> {
        let peer = self.peer.lock().clone()?;
        let stop = self.life.child_token();
        let meta = std::mem::take(request.get_meta_mut());
        Some((self.requester(id.clone(), meta, stop.clone(), peer), stop))
    }

    /// Answers a request of `requester`.
    pub(super) async fn answer(&self, request: ClientRequest, requester: Requester) -> Answer {
        self.handler.answer(request, requester).await
    }

    fn requester(
        &self,
        id: RequestId,
        meta: RequestMetaObject,
        cancel: CancellationToken,
        peer: Peer<RoleServer>,
    ) -> Requester {
        let session = peer.peer_info().map(|info| Agreed {
            version: info.protocol_version.clone(),
            shows_forms: requester::shows_forms(&info.capabilities),
        });
        let link = Arc::new(self.link(peer));
        Requester { id, meta, cancel, session, parameters: None, link }
    }

    fn link(&self, peer: Peer<RoleServer>) -> StdioLink {
        StdioLink { peer, writer: self.writer.get().cloned() }
    }

    /// Tells the client of other tools, from now on.
    fn tell_news(&self, peer: Peer<RoleServer>) {
        let (news, snapshots) = (self.news.clone(), self.handler.shared.snapshots.clone());
        let link = self.link(peer);
        let telling = async move { news.tell(&snapshots, &link).await };
        tokio::spawn(self.life.clone().run_until_cancelled_owned(telling));
    }
}

impl Service<RoleServer> for StdioService {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let RequestContext { id, meta, ct, peer, .. } = context;
        if let ClientRequest::InitializeRequest(_) | ClientRequest::CallToolRequest(_) = request {
            self.0.peer.lock().get_or_insert_with(|| peer.clone());
        }
        let requester = self.0.requester(id, meta, ct, peer);
        self.0.answer(request, requester).await
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if let ClientNotification::InitializedNotification(_) = notification {
            self.0.tell_news(context.peer);
        }
        Ok(())
    }

    fn get_info(&self) -> ServerConfig {
        self.0.handler.config()
    }
}

#[async_trait]
impl Link for StdioLink {
    fn tell(&self, notification: ServerNotification, is_piece: bool) -> bool {
        let message: ServerJsonRpcMessage = JsonRpcMessage::notification(notification);
        let writer = self.writer.as_ref().and_then(WeakWriter::upgrade);
        writer.is_some_and(|writer| writer.tell(&message, is_piece))
    }

    async fn ask(&self, form: ElicitRequestParams) -> Result<ElicitResult, String> {
        self.peer.create_elicitation(form).await.map_err(|error| error.to_string())
    }
}
