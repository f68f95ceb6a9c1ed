//! What clients are told of other tools, prompts and resources: those with a session or connection for as long as it lasts,
//! and those without (2026-07-28) by a subscription, a request that is answered when haft ends.

use std::sync::{Arc, Weak};

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, GetMeta, GetPromptRequestParams, PromptListChangedNotification,
    ReadResourceRequestParams, ResourceListChangedNotification, ServerNotification, SubscriptionFilter,
    SubscriptionsAcknowledgedNotification, SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenResult, ToolListChangedNotification,
};
use serde_json::json;

use super::call::Answered;
use super::{Answer, Handler, bounded_text};
use crate::server::conversation::{Link, Requester};
use crate::server::listing;
use crate::server::snapshot::{ToolSnapshot, ToolSnapshots};
use haft_core::call::ToolResult;
use haft_core::sync::Lock;
use haft_core::tool::Entry;

/// The news of one client: the tools that it knows or was told of last. Nothing before them is told of.
#[derive(Debug, Default)]
pub(in crate::server) struct ToolNews(Lock<Option<Weak<ToolSnapshot>>>);

/// What clients see another of.
#[derive(Clone, Copy, Debug)]
struct Differences {
    tools: bool,
    /// Prompts or resources.
    offers: bool,
}

impl ToolNews {
    /// Notes that the client knows the tools of `snapshots`, unless it knew others before.
    pub(in crate::server) fn begin(&self, snapshots: &ToolSnapshots) {
        self.0.lock().get_or_insert_with(|| Arc::downgrade(&snapshots.now()));
    }

    /// Tells the client at `link` of every change, and first that there was one where it missed it. May be dropped and begun
    /// again; of several only one tells of a change.
    pub(in crate::server) async fn tell(&self, snapshots: &ToolSnapshots, link: &dyn Link) {
        let mut now = snapshots.now();
        loop {
            let before = self.0.lock().replace(Arc::downgrade(&now));
            if let Some(before) = before {
                // What is not there any more was replaced, and perhaps by the same.
                let all = Differences { tools: true, offers: !now.offers().is_empty() };
                let missed = before.upgrade().map_or(all, |before| differences(&before, &now));
                for notification in notifications(missed) {
                    link.tell(notification, false);
                }
            }
            let Some(other) = snapshots.other_than(&now).await else { return };
            now = other;
        }
    }
}

impl Handler {
    /// Tells the client of what it subscribes to, until it takes the request back or haft ends.
    pub(super) async fn listen(&self, filter: SubscriptionFilter, requester: Requester) -> Answer {
        let config = self.config();
        let accepted = filter.supported_by(&config.capabilities);
        let params = SubscriptionsAcknowledgedNotificationParams::new(accepted.clone());
        let acknowledged = SubscriptionsAcknowledgedNotification::new(params);
        tell(&requester, ServerNotification::SubscriptionsAcknowledgedNotification(acknowledged));
        tokio::select! {
            () = self.tell_changes(&accepted, &requester) => {}
            () = requester.cancel.cancelled() => {}
            () = self.shared.calls.closed() => {}
        }
        let mut result = SubscriptionsListenResult::complete(requester.id);
        result.meta.set_server_info(config.server_info);
        Ok(result.into())
    }

    async fn tell_changes(&self, accepted: &SubscriptionFilter, requester: &Requester) {
        let mut seen = self.shared.snapshots.now();
        while let Some(other) = self.shared.snapshots.other_than(&seen).await {
            let changes = notifications(differences(&seen, &other));
            changes.filter(|change| is_accepted(accepted, change)).for_each(|change| tell(requester, change));
            seen = other;
        }
        std::future::pending::<()>().await;
    }
}

/// What the client did not subscribe to it is not told.
fn is_accepted(accepted: &SubscriptionFilter, change: &ServerNotification) -> bool {
    let kind = match change {
        ServerNotification::ToolListChangedNotification(_) => accepted.tools_list_changed,
        ServerNotification::PromptListChangedNotification(_) => accepted.prompts_list_changed,
        ServerNotification::ResourceListChangedNotification(_) => accepted.resources_list_changed,
        _ => None,
    };
    kind == Some(true)
}

/// Sends a notification of the subscription that is the request of `requester`.
fn tell(requester: &Requester, mut notification: ServerNotification) {
    notification.get_meta_mut().set_subscription_id(requester.id.clone());
    requester.link.tell(notification, false);
}

/// What differs between two snapshots.
fn differences(before: &ToolSnapshot, after: &ToolSnapshot) -> Differences {
    Differences { tools: before.tools() != after.tools(), offers: before.offers() != after.offers() }
}

/// What a client is told of these differences.
fn notifications(differs: Differences) -> impl Iterator<Item = ServerNotification> {
    let (tools, prompts, resources) = (
        ToolListChangedNotification::default(),
        PromptListChangedNotification::default(),
        ResourceListChangedNotification::default(),
    );
    let tools = differs.tools.then_some(ServerNotification::ToolListChangedNotification(tools));
    let offers = [
        ServerNotification::PromptListChangedNotification(prompts),
        ServerNotification::ResourceListChangedNotification(resources),
    ];
    tools.into_iter().chain(offers.into_iter().filter(move |_| differs.offers))
}

// Prompts and resources of plugins, for clients. Each is a call through the toolbox, as one of a tool is.

/// What the error of a call begins with whose arguments are wrong.
const WRONG: &str = "invalid arguments: ";

impl Handler {
    /// Gets a prompt.
    pub(super) async fn get(&self, request: GetPromptRequestParams, requester: Requester) -> Answer {
        let snapshot = self.shared.snapshots.complete().await;
        let Some((entry, prompt)) = snapshot.offers().prompt(snapshot.toolbox(), &request.name) else {
            let name = bounded_text(&request.name);
            return Err(ErrorData::invalid_params(format!("unknown prompt `{name}`"), None));
        };
        let GetPromptRequestParams { arguments, input_responses, request_state, .. } = request;
        let mut call = CallToolRequestParams::new(entry.def().name.clone());
        (call.arguments, call.input_responses, call.request_state) =
            (arguments, input_responses, request_state);
        match self.offered(&snapshot, entry, call, &requester).await? {
            Answered::Question(question) => Ok(question.into()),
            Answered::Result(result) => {
                let description = prompt.description.clone();
                succeeded(result)
                    .and_then(|result| listing::prompt_result(result, description))
                    .map(Into::into)
            }
        }
    }

    /// Reads a resource.
    pub(super) async fn read(&self, request: ReadResourceRequestParams, requester: Requester) -> Answer {
        let snapshot = self.shared.snapshots.complete().await;
        let Some((entry, listed)) = listing::resource(snapshot.toolbox(), &request.uri) else {
            let uri = bounded_text(&request.uri);
            return Err(ErrorData::resource_not_found(format!("there is no resource `{uri}`"), None));
        };
        let ReadResourceRequestParams { uri, input_responses, request_state, .. } = request;
        let mut call = CallToolRequestParams::new(entry.def().name.clone());
        call.arguments = json!({ "uri": uri }).as_object().cloned();
        (call.input_responses, call.request_state) = (input_responses, request_state);
        match self.offered(&snapshot, entry, call, &requester).await? {
            Answered::Question(question) => Ok(question.into()),
            Answered::Result(result) => {
                succeeded(result).and_then(|result| listing::read_result(result, uri, listed)).map(Into::into)
            }
        }
    }

    /// Runs a call of `entry`.
    async fn offered(
        &self,
        snapshot: &ToolSnapshot,
        entry: &Entry,
        call: CallToolRequestParams,
        requester: &Requester,
    ) -> Result<Answered, ErrorData> {
        let _permit = self.permit().map_err(|refusal| ErrorData::internal_error(refusal, None))?;
        self.run(snapshot, (Some(entry), entry.def().name.clone()), call, requester).await
    }
}

/// The result, unless it is an error, which is one of the protocol here.
fn succeeded(result: ToolResult) -> Result<ToolResult, ErrorData> {
    match result.is_error {
        false => Ok(result),
        true if result.content.starts_with(WRONG) => Err(ErrorData::invalid_params(result.content, None)),
        true => Err(ErrorData::internal_error(result.content, None)),
    }
}
