//! One session of an editor: a dialogue with the user at the editor.

use std::path::Path;
use std::pin::Pin;

use async_trait::async_trait;
use haft::program::{Agreement, Untrusted};
use serde_json::Value;

use crate::cli::dialogue::{Dialogue, hinted};
use crate::cli::server_prompts;
use crate::cli::sessions;
use crate::cli::terminal::told;
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

/// Loads the program of the folder.
type Open = dyn Fn() -> Opened + Send + Sync;

pub(super) type Opened = Pin<Box<dyn Future<Output = anyhow::Result<Dialogue>> + Send>>;

/// A session of an editor.
pub(super) struct Talk {
    /// `None` in a folder whose program.toml has no consent yet: nothing of it is loaded.
    dialogue: Option<Dialogue>,
    /// The consent that the first prompt asks for, and what follows it.
    unagreed: Option<(Agreement, Box<Open>)>,
    id: String,
    /// Notices that the user has not seen yet.
    notices: Vec<String>,
}

impl Talk {
    /// Returns the session of a dialogue; `id` is or becomes the id of its saved session.
    pub(super) fn begun(dialogue: Dialogue, id: String) -> Self {
        let mut talk = Self { dialogue: None, unagreed: None, id, notices: Vec::new() };
        talk.open(dialogue);
        talk
    }

    /// Returns a session that calls `open` after the user has agreed.
    pub(super) fn unagreed(
        open: impl Fn() -> Opened + Send + Sync + 'static,
        agreement: Agreement,
        id: String,
    ) -> Self {
        Self { dialogue: None, unagreed: Some((agreement, Box::new(open))), id, notices: Vec::new() }
    }

    fn open(&mut self, mut dialogue: Dialogue) {
        dialogue.promised = Some(self.id.clone());
        self.notices = dialogue.program.problems.iter().map(|problem| problem.message().to_owned()).collect();
        self.dialogue = Some(dialogue);
    }

    /// Returns the dialogue, unless the user has not agreed to its program.toml.
    fn agreed(&mut self) -> Result<&mut Dialogue, Failure> {
        match (&mut self.dialogue, &self.unagreed) {
            (Some(dialogue), _) => Ok(dialogue),
            (None, Some((agreement, _))) => Err(failure(Untrusted(Box::new(agreement.clone())).into())),
            (None, None) => Err(failure(anyhow::anyhow!("the session is not open"))),
        }
    }

    /// Loads the program of the folder, after the user has agreed to it.
    async fn begin(&mut self, turn: &Turn) -> anyhow::Result<()> {
        if let (None, Some((agreement, open))) = (&self.dialogue, &self.unagreed) {
            ask(agreement, turn).await?;
            let dialogue = open().await?;
            self.open(dialogue);
        }
        Ok(())
    }
}

async fn ask(agreement: &Agreement, turn: &Turn) -> anyhow::Result<()> {
    let question = Question {
        call: String::new(),
        tool: "trust".to_owned(),
        agent: Some("program.toml".to_owned()),
        verb: "Trust",
        what: agreement.sheet(),
        difference: None,
        text: agreement.sheet(),
        arguments: Value::Null,
        rule: None,
        written_by: None,
    };
    match turn.approvals.question(&question).await {
        Decision::Approved | Decision::Always | Decision::Written => agreement.agree(),
        Decision::Denied | Decision::Unasked(_) => Err(Untrusted(Box::new(agreement.clone())).into()),
    }
}

#[async_trait]
impl Conversation for Talk {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn messages(&self) -> &[Message] {
        self.dialogue.as_ref().map_or(&[], |dialogue| dialogue.history.messages())
    }

    fn workspace(&self) -> Option<&Path> {
        self.dialogue.as_ref()?.program.grant.workspace().map(Root::path)
    }

    fn models(&self) -> (Vec<Model>, String) {
        let Some(Dialogue { program, choice, .. }) = &self.dialogue else {
            return (Vec::new(), String::new());
        };
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
        self.agreed()?.use_model(id).await.map_err(failure)
    }

    fn window(&mut self) -> (usize, Option<u32>) {
        self.dialogue.as_mut().map_or((0, None), Dialogue::fill)
    }

    fn commands(&self) -> Vec<Command> {
        let Some(dialogue) = &self.dialogue else { return Vec::new() };
        let own = COMMANDS.iter().map(|(name, argument, about)| Command {
            name: (*name).to_owned(),
            argument: (*argument).to_owned(),
            about: (*about).to_owned(),
        });
        let of_servers = server_prompts::all(dialogue).into_iter().map(|prompt| Command {
            argument: prompt.usage(),
            name: prompt.name,
            about: prompt.about,
        });
        own.chain(of_servers).collect()
    }

    async fn command(&mut self, name: &str, argument: &str, turn: &Turn) -> Result<Invoked, Failure> {
        let dialogue = self.agreed()?;
        let which = match (name, argument) {
            ("undo", "") => Which::Last,
            ("undo", "all") => Which::All,
            ("compact", "") => return dialogue.compact().await.map(Invoked::Text).map_err(failure),
            _ => {
                let prompts = server_prompts::all(dialogue);
                let Some(prompt) = prompts.iter().find(|prompt| prompt.name == name) else {
                    return Err(Failure(format!("`/{name}` does not take `{argument}`")));
                };
                let got = prompt.get(argument, &session(dialogue, turn), turn.is_planning).await;
                return got.map(Invoked::Prompt).map_err(failure);
            }
        };
        let undone = dialogue.undo(which).map_err(failure)?;
        Ok(Invoked::Text(sessions::undone_text(undone.as_ref())))
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    async fn prompt(&mut self, prompt: Prompt, turn: Turn) -> Result<Outcome, Failure> {
        self.begin(&turn).await.map_err(failure)?;
        let dialogue = self.agreed()?;
        let told = prompt.told();
        dialogue.is_planning = turn.is_planning;
        dialogue.push_prompt(prompt).map_err(hinted).map_err(failure)?;
        let session = session(dialogue, &turn);
        dialogue.work(Some(&told), &session).await.map_err(hinted).map_err(failure)
    }

    async fn close(self: Box<Self>) {
        if let Some(dialogue) = self.dialogue {
            dialogue.program.close().await;
        }
    }
}

/// Returns the session for the tool calls of `turn`.
fn session(dialogue: &Dialogue, turn: &Turn) -> Session {
    let Turn { events, cancel, approvals, .. } = turn.clone();
    Session { cancel, approvals, ..dialogue.program.session("acp", events) }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error")]
pub(super) fn failure(error: anyhow::Error) -> Failure {
    Failure(told(&error))
}
