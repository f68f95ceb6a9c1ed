//! A session of an editor in a folder whose program.toml nobody agreed to yet: nothing of it is loaded, and its first
//! prompt asks the user there.

use std::path::Path;
use std::pin::Pin;

use async_trait::async_trait;
use serde_json::Value;

use super::talk::{Talk, failure};
use crate::cli::dialogue::Dialogue;
use haft::program::{Agreement, Untrusted};
use haft_acp::{Command, Conversation, Failure, Model, Turn};
use haft_agent::Outcome;
use haft_agent::provider::{Message, Prompt};
use haft_core::tool::{Decision, Question};

/// Loads the program of the folder.
type Open = dyn Fn() -> Opened + Send + Sync;

/// The dialogue with it.
pub(super) type Opened = Pin<Box<dyn Future<Output = anyhow::Result<Dialogue>> + Send>>;

/// What is to become a [`Talk`].
pub(super) struct Unagreed {
    open: Box<Open>,
    agreement: Agreement,
    id: String,
    /// Once the user has agreed.
    talk: Option<Talk>,
}

impl Unagreed {
    /// What `open` opens once the user has agreed.
    pub(super) fn new(
        open: impl Fn() -> Opened + Send + Sync + 'static,
        agreement: Agreement,
        id: String,
    ) -> Self {
        Self { open: Box::new(open), agreement, id, talk: None }
    }

    /// The session, once the user has agreed.
    async fn talk(&mut self, turn: &Turn) -> anyhow::Result<&mut Talk> {
        if self.talk.is_none() {
            self.ask(turn).await?;
            let dialogue = (self.open)().await?;
            self.talk = Some(Talk::begun(dialogue, self.id.clone()));
        }
        self.talk.as_mut().ok_or_else(|| anyhow::anyhow!("the session is not open"))
    }

    async fn ask(&self, turn: &Turn) -> anyhow::Result<()> {
        let question = Question {
            call: String::new(),
            tool: "trust".to_owned(),
            agent: Some("program.toml".to_owned()),
            verb: "Trust",
            what: self.agreement.sheet(),
            difference: None,
            text: self.agreement.sheet(),
            arguments: Value::Null,
            rule: None,
            written_by: None,
        };
        match turn.approvals.question(&question).await {
            Decision::Approved | Decision::Always | Decision::Written => self.agreement.agree(),
            Decision::Denied | Decision::Unasked(_) => {
                Err(Untrusted(Box::new(self.agreement.clone())).into())
            }
        }
    }
}

#[async_trait]
impl Conversation for Unagreed {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn messages(&self) -> &[Message] {
        self.talk.as_ref().map_or(&[], Talk::messages)
    }

    fn workspace(&self) -> Option<&Path> {
        self.talk.as_ref().and_then(Talk::workspace)
    }

    fn models(&self) -> (Vec<Model>, String) {
        self.talk.as_ref().map_or_else(Default::default, Talk::models)
    }

    async fn use_model(&mut self, id: &str) -> Result<(), Failure> {
        match &mut self.talk {
            Some(talk) => talk.use_model(id).await,
            None => Err(failure(Untrusted(Box::new(self.agreement.clone())).into())),
        }
    }

    fn window(&mut self) -> (usize, Option<u32>) {
        self.talk.as_mut().map_or((0, None), Conversation::window)
    }

    fn commands(&self) -> &'static [Command] {
        self.talk.as_ref().map_or(&[], Talk::commands)
    }

    async fn command(&mut self, name: &str, argument: &str) -> Result<String, Failure> {
        match &mut self.talk {
            Some(talk) => talk.command(name, argument).await,
            None => Err(failure(Untrusted(Box::new(self.agreement.clone())).into())),
        }
    }

    fn notices(&mut self) -> Vec<String> {
        self.talk.as_mut().map(Talk::notices).unwrap_or_default()
    }

    async fn prompt(&mut self, prompt: Prompt, turn: Turn) -> Result<Outcome, Failure> {
        self.talk(&turn).await.map_err(failure)?.prompt(prompt, turn).await
    }

    async fn close(self: Box<Self>) {
        if let Some(talk) = self.talk {
            Box::new(talk).close().await;
        }
    }
}
