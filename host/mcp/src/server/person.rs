//! The user behind an MCP client, who answers questions of MCP servers during the client's calls (specification
//! 2025-11-25, "Elicitation"). Every answer comes from the client.

use std::sync::Arc;

use async_trait::async_trait;
use rmcp::model::{ElicitRequestParams, ElicitationAction};

use super::conversation::{Link, Requester};
use haft_core::random;
use haft_core::tool::{ElicitationMode, ElicitationQuestion, Elicitor, Reply};

/// Number of bytes of the id of a question about a URL.
const ID: usize = 16;

/// The user of one call.
pub(super) struct ClientPerson {
    link: Arc<dyn Link>,
    shows_forms: bool,
    shows_urls: bool,
    /// Whether the client sees one server only, whose questions need no name.
    is_one_server: bool,
}

impl ClientPerson {
    pub(super) fn new(requester: &Requester, is_one_server: bool) -> Self {
        // A client without a session takes no requests.
        let has_session = !requester.is_sessionless();
        Self {
            link: requester.link.clone(),
            shows_forms: has_session && requester.shows_forms(),
            shows_urls: has_session && requester.shows_urls(),
            is_one_server,
        }
    }

    fn request(&self, question: &ElicitationQuestion) -> Option<ElicitRequestParams> {
        let ElicitationQuestion { server, message, mode } = question;
        let message = if self.is_one_server {
            message.clone()
        } else {
            // Quoted line by line, so that no line can pass for a line of haft.
            let lines: Vec<_> = message.lines().collect();
            format!("MCP server `{server}` asks: {}", lines.join("\n> "))
        };
        match mode {
            ElicitationMode::Form(schema) => {
                let requested_schema = serde_json::from_value(schema.clone()).ok()?;
                let form =
                    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
                Some(form).filter(|_| self.shows_forms)
            }
            ElicitationMode::Page(url)
                if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) =>
            {
                None
            }
            ElicitationMode::Page(url) => {
                let id: [u8; ID] = random::bytes().ok()?;
                let elicitation_id = haft_core::encoding::hex(&id);
                let url = url.clone();
                let page =
                    ElicitRequestParams::UrlElicitationParams { meta: None, message, url, elicitation_id };
                Some(page).filter(|_| self.shows_urls)
            }
        }
    }
}

#[async_trait]
impl Elicitor for ClientPerson {
    async fn ask(&self, question: &ElicitationQuestion) -> Reply {
        let Some(request) = self.request(question) else { return Reply::Decline };
        match self.link.ask(request).await {
            Ok(answer) => match answer.action {
                ElicitationAction::Accept => Reply::Accept(answer.content),
                ElicitationAction::Decline => Reply::Decline,
                _ => Reply::Cancel,
            },
            Err(error) => {
                tracing::info!(server = question.server, "the client failed to ask the user: {error}");
                Reply::Cancel
            }
        }
    }
}

impl std::fmt::Debug for ClientPerson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientPerson").finish_non_exhaustive()
    }
}
