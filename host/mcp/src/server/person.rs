//! The user behind an MCP client, who answers questions of MCP servers during the client's calls (specification
//! 2025-11-25, "Elicitation"). Every answer comes from the client.

use std::sync::Arc;

use async_trait::async_trait;
use rmcp::model::{ElicitRequestParams, ElicitationAction};

use super::board::Board;
use super::conversation::{Link, Requester};
use haft_core::random;
use haft_core::tool::{ElicitationMode, ElicitationQuestion, Elicitor, Reply};

/// Number of bytes of the id of a question about a URL.
const ID: usize = 16;

/// The user of one call.
pub(super) struct ClientPerson {
    link: Arc<dyn Link>,
    /// The questions of a client without a session.
    board: Option<Arc<Board>>,
    shows_forms: bool,
    shows_urls: bool,
    /// Whether the client sees one server only, whose questions need no name.
    is_one_server: bool,
}

impl ClientPerson {
    /// Returns the user of a call; `None` if its client shows no questions.
    pub(super) fn of(requester: &Requester, is_one_server: bool) -> Option<Arc<dyn Elicitor>> {
        let (shows_forms, shows_urls) = (requester.shows_forms(), requester.shows_urls());
        let (link, board) = (requester.link.clone(), requester.board.clone());
        let person = Self { link, board, shows_forms, shows_urls, is_one_server };
        (shows_forms || shows_urls).then(|| Arc::new(person) as Arc<dyn Elicitor>)
    }

    fn request(&self, question: &ElicitationQuestion) -> Option<ElicitRequestParams> {
        let ElicitationQuestion { server, message, mode, .. } = question;
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
        let answer = match &self.board {
            Some(board) => board.ask(question.key.as_deref(), request).await,
            None => self.link.ask(request).await,
        };
        match answer {
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
