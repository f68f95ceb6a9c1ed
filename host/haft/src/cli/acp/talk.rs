//! One session of an editor: a dialogue with the user at the editor.

use std::path::Path;
use std::pin::Pin;

use async_trait::async_trait;
use haft::program::{Agreement, Untrusted};
use serde_json::Value;

use crate::cli::dialogue::{Dialogue, hinted};
use crate::cli::server_prompts;
use crate::cli::terminal::told;
use crate::cli::undo;
use haft_acp::{Command, Conversation, Failure, Invoked, Model, Turn};
use haft_agent::Outcome;
use haft_agent::provider::{Message, Prompt};
use haft_core::grant::Root;
use haft_core::tool::{Decision, Question, Session};
use haft_core::undo::Which;
use haft_manifest::Route;

/// The commands of `haft chat` that have no equivalent in the editor: name, argument and description.
const COMMANDS: &[(&str, &str, &str)] = &[
    (
        "undo",
        "all, or empty for the last changes",
        "Restore the files that tools changed in the last prompt, or in the whole session",
    ),
    ("compact", "", "Summarise the conversation now, to free context"),
];

/// A dialogue with its id.
pub(super) struct Talk {
    dialogue: Dialogue,
    id: String,
    /// Notices that the user has not seen yet.
    notices: Vec<String>,
}

impl Talk {
    /// Returns the session of a dialogue; `id` is or becomes the id of its saved session.
    pub(super) fn begun(mut dialogue: Dialogue, id: String) -> Self {
        dialogue.promise(&id);
        let notices = dialogue.program.problems.iter().map(|problem| problem.message().to_owned()).collect();
        Self { dialogue, id, notices }
    }
}

#[async_trait]
impl Conversation for Talk {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn messages(&self) -> &[Message] {
        self.dialogue.history().messages()
    }

    fn workspace(&self) -> Option<&Path> {
        self.dialogue.program.grant.workspace().map(Root::path)
    }

    fn models(&self) -> (Vec<Model>, String) {
        let Dialogue { program, choice, .. } = &self.dialogue;
        let choice = choice.model();
        let provider = program.manifest.provider.as_ref().filter(|_| choice.provider.is_none());
        let (complex, fast) = provider.map_or((None, None), |provider| {
            let plain = provider.model.as_ref();
            (provider.model_complex.as_ref().or(plain), provider.model_fast.as_ref())
        });
        let (Some(complex), Some(fast)) = (complex, fast) else { return (Vec::new(), String::new()) };
        let model = |id: &str, name: &str| Model { id: id.to_owned(), name: name.to_owned() };
        let auto = format!("{complex} or {fast}, chosen for each task");
        let models = vec![model("complex", complex), model("fast", fast), model("auto", &auto)];
        let current = program.route(&choice);
        let named = choice.model.filter(|name| !Route::ALL.iter().any(|(route, _)| route == name));
        match named {
            Some(own) => ([vec![model(&own, &own)], models].concat(), own),
            None => (models, current.as_str().to_owned()),
        }
    }

    async fn use_model(&mut self, id: &str) -> Result<(), Failure> {
        self.dialogue.use_model(id).await.map_err(failure)
    }

    fn window(&mut self) -> (usize, Option<u32>) {
        self.dialogue.fill()
    }

    fn commands(&self) -> Vec<Command> {
        let own = COMMANDS.iter().map(|(name, argument, about)| Command {
            name: (*name).to_owned(),
            argument: (*argument).to_owned(),
            about: (*about).to_owned(),
        });
        let of_servers = server_prompts::all(&self.dialogue).into_iter().map(|prompt| Command {
            argument: prompt.usage(),
            name: prompt.name,
            about: prompt.about,
        });
        own.chain(of_servers).collect()
    }

    async fn command(&mut self, name: &str, argument: &str, turn: &Turn) -> Result<Invoked, Failure> {
        let which = match (name, argument) {
            ("undo", "") => Which::Last,
            ("undo", "all") => Which::All,
            ("compact", "") => return self.dialogue.compact().await.map(Invoked::Text).map_err(failure),
            _ => {
                let prompts = server_prompts::all(&self.dialogue);
                let Some(prompt) = prompts.iter().find(|prompt| prompt.name == name) else {
                    return Err(Failure(format!("`/{name}` does not take `{argument}`")));
                };
                let got = prompt.get(argument, &session(&self.dialogue, turn), turn.is_planning).await;
                return got.map(Invoked::Prompt).map_err(failure);
            }
        };
        let undone = self.dialogue.undo(which).map_err(failure)?;
        Ok(Invoked::Text(undo::text(undone.as_ref())))
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    async fn prompt(&mut self, prompt: Prompt, turn: Turn) -> Result<Outcome, Failure> {
        let told = prompt.told();
        self.dialogue.plan(turn.is_planning);
        let pushed = self.dialogue.push_prompt(prompt).map_err(hinted);
        pushed.map_err(failure)?;
        let session = session(&self.dialogue, &turn);
        self.dialogue.work(Some(&told), &session).await.map_err(hinted).map_err(failure)
    }

    async fn close(self: Box<Self>) {
        self.dialogue.program.close().await;
    }
}

/// Returns the session for the tool calls of `turn`.
fn session(dialogue: &Dialogue, turn: &Turn) -> Session {
    let Turn { events, cancel, approvals, .. } = turn.clone();
    Session { cancel, approvals, ..dialogue.program.session("acp", events) }
}

/// Converts an error for the user of the editor.
#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error")]
pub(super) fn failure(error: anyhow::Error) -> Failure {
    Failure(told(&error))
}

// A session of an editor in a folder whose program.toml has no consent yet: nothing of program.toml is loaded, and
// the first prompt asks the user for consent.

/// Loads the program of the folder.
type Open = dyn Fn() -> Opened + Send + Sync;

pub(super) type Opened = Pin<Box<dyn Future<Output = anyhow::Result<Dialogue>> + Send>>;

/// A session that becomes a [`Talk`] after consent.
pub(super) struct Unagreed {
    open: Box<Open>,
    agreement: Agreement,
    id: String,
    /// The session, after the user has agreed.
    talk: Option<Talk>,
}

impl Unagreed {
    /// Returns a session that calls `open` after the user has agreed.
    pub(super) fn new(
        open: impl Fn() -> Opened + Send + Sync + 'static,
        agreement: Agreement,
        id: String,
    ) -> Self {
        Self { open: Box::new(open), agreement, id, talk: None }
    }

    /// Returns the session, and asks the user for consent first if necessary.
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

    fn commands(&self) -> Vec<Command> {
        self.talk.as_ref().map_or_else(Vec::new, Talk::commands)
    }

    async fn command(&mut self, name: &str, argument: &str, turn: &Turn) -> Result<Invoked, Failure> {
        match &mut self.talk {
            Some(talk) => talk.command(name, argument, turn).await,
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
