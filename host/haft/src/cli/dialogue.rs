//! A dialogue of a user, a model and its tools, saved as a session: shared by `haft run`, `haft chat` and `haft acp`.
//! Prints nothing and asks no user.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::grant;
use super::model_args::{ModelArgs, check_prices};
use super::terminal::{Hinted, Terminal};
use haft::program::Program;
use haft_agent::provider::{OutputSchema, Prompt, Provider};
use haft_agent::{
    Agent, AgentSettings, Begun, History, Outcome, PLAN, Restored, Routed, Saved, SessionError, SessionLog,
    Steering, planned, route,
};
use haft_core::call::Attachment;
use haft_core::event::Events;
use haft_core::report::plain;
use haft_core::tool::{Session, Toolbox, Widening};
use haft_core::undo::{Undone, Which};

/// Maximum number of restored paths in a message to the model.
const MAX_TOLD: usize = 20;

/// A conversation of a user with a model.
pub(super) struct Dialogue {
    pub(super) program: Program,
    pub(super) choice: ModelArgs,
    pub(super) toolbox: Toolbox,
    settings: AgentSettings,
    provider: Arc<dyn Provider>,
    pub(super) history: History,
    /// The id for the next session, from [`Sessions::promise`](haft_agent::Sessions::promise).
    pub(super) promised: Option<String>,
    /// Rights that the user grants to refused calls.
    widening: Widening,
    /// Whether tools only read (plan mode), for the next prompts and for continued tasks.
    pub(super) is_planning: bool,
    /// Text that the user enters while the model works.
    steering: Steering,
    /// Restored paths that the model does not know of yet.
    undone: BTreeSet<PathBuf>,
}

impl Dialogue {
    pub(super) async fn new(program: Program, choice: ModelArgs, terminal: Terminal) -> anyhow::Result<Self> {
        let toolbox = choice.tools(&program, terminal)?;
        let settings = choice.settings(&program, &toolbox);
        let provider = program.provider(&choice.model()).await?;
        check_prices(settings.budget, provider.as_ref(), program.route(&choice.model()))?;
        if let Some(unused) = program.unused_of_provider(&choice.model()) {
            terminal.warning(&unused);
        }
        program.agents.use_model(&choice.model());
        let (history, promised, is_planning) = (History::default(), None, false);
        let (undone, steering) = (BTreeSet::new(), Steering::default());
        let widening = grant::widening_at(terminal, &program);
        Ok(Self {
            program,
            choice,
            toolbox,
            settings,
            provider,
            history,
            promised,
            widening,
            is_planning,
            steering,
            undone,
        })
    }

    /// Asks the user, who is also asked for approvals, for rights of refused calls.
    pub(super) fn widen(&mut self, terminal: Terminal) {
        self.widening = grant::widening(self.program.widening(), &self.program.begun(), terminal);
    }

    /// Sets the form of the answers.
    pub(super) fn expect(&mut self, output: Arc<OutputSchema>) {
        self.settings.output = Some(output);
    }

    /// Tells the model which folder the user has open, if it is not the workspace.
    pub(super) fn tell_folder(&mut self, folder: &Path) {
        if self.program.grant.workspace().is_none_or(|workspace| workspace.path() != folder) {
            let line = format!("\nThe user has this folder open: {}", folder.display());
            self.settings.system.push_str(&line);
        }
    }

    /// Continues a session, after a call of `greet` with its restored state.
    pub(super) fn resume(&mut self, saved: &Saved, greet: impl FnOnce(&Restored)) -> anyhow::Result<()> {
        let Some(sessions) = self.program.sessions() else {
            let hint = "remove `--no-journal`, and unset `HAFT_JOURNAL`";
            return Err(
                Hinted::new("sessions are not saved in this run, so none can be resumed", hint).into()
            );
        };
        let (log, restored) = sessions.resume(saved, &self.program.redactor).map_err(hinted)?;
        greet(&restored);
        self.history = History::restored(restored, Some(log)).map_err(hinted)?;
        // Pending calls of the session were requested in plan mode.
        self.is_planning |= self.history.is_unfinished() && self.history.is_planned();
        Ok(())
    }

    /// Restores files that tools changed, and tells the model with the next prompt. Returns `None` if this session
    /// has no stored files.
    pub(super) fn undo(&mut self, which: Which) -> anyhow::Result<Option<Undone>> {
        let undone = self.history.log().map_or(Ok(None), |log| log.undo(which)).map_err(hinted)?;
        if let Some(undone) = &undone {
            self.undone.extend(undone.restored.iter().cloned());
        }
        Ok(undone)
    }

    pub(super) fn id(&self) -> Option<String> {
        self.history.log().map(|log| log.id().to_owned())
    }

    pub(super) fn model(&self) -> &str {
        self.provider.model()
    }

    pub(super) async fn use_model(&mut self, model: &str) -> anyhow::Result<()> {
        let mut choice = self.choice.clone();
        choice.model = Some(model.to_owned());
        let provider = self.program.provider(&choice.model()).await?;
        check_prices(self.settings.budget, provider.as_ref(), self.program.route(&choice.model()))?;
        self.provider = provider;
        self.program.agents.use_model(&choice.model());
        self.choice = choice;
        Ok(())
    }

    /// Returns the reason why the model's API does not accept `file`, if one is known.
    pub(super) fn refusal(&self, file: &Attachment) -> Option<String> {
        self.provider.refusal(file)
    }

    /// Adds a prompt of the user. The first prompt begins a session: there is no session without messages. The
    /// session is on the disk when this returns.
    pub(super) fn push_prompt(&mut self, prompt: Prompt) -> Result<(), SessionError> {
        let prompt = told(prompt, &std::mem::take(&mut self.undone));
        let prompt = if self.is_planning { planned(prompt) } else { prompt };
        match self.program.sessions().filter(|_| self.history.log().is_none()) {
            Some(sessions) => {
                let begun = Begun { id: self.promised.clone().unwrap_or_default(), ..self.program.begun() };
                let log = sessions.begin(begun, prompt.clone(), &self.program.redactor)?;
                // The id is cleared after the session has begun: after an error the next attempt has the same id.
                self.promised = None;
                self.history = History::logged(log, prompt);
                Ok(())
            }
            None => self.history.push_prompt(prompt),
        }
    }

    /// Continues in a copy of the session, and returns the id of the original session.
    pub(super) fn fork(&mut self) -> anyhow::Result<String> {
        let id = self.id().ok_or_else(|| anyhow::anyhow!("the conversation has no saved message yet"))?;
        let sessions = self.program.sessions().ok_or_else(|| anyhow::anyhow!("this session is not saved"))?;
        let forked = sessions.find(&id).and_then(|saved| sessions.fork(&saved, &self.program.redactor));
        let forked = forked.map_err(hinted)?;
        self.resume(&forked, |_| {})?;
        Ok(id)
    }

    /// Summarises the messages, and returns the result as a text for the user.
    pub(super) async fn compact(&mut self) -> anyhow::Result<String> {
        let session = self.program.session("chat", Events::none());
        let (agent, (before, _)) = (self.agent(), self.fill());
        let Some((messages, _)) = agent.compact(&mut self.history, &session).await? else {
            return Ok("there is nothing to summarise yet".to_owned());
        };
        let (used, window) = self.fill();
        let fill = filled((used, window));
        Ok(format!("summarised {messages} messages: {before} tokens became about {used}{fill}"))
    }

    /// Returns the approximate number of tokens of the next request, and the size of the context window if it is
    /// known.
    pub(super) fn fill(&mut self) -> (usize, Option<u32>) {
        let agent = self.agent();
        agent.fill(&mut self.history)
    }

    fn agent(&self) -> Agent {
        let toolbox = if self.is_planning { self.toolbox.planning() } else { self.toolbox.clone() };
        let news = self.program.news(&self.toolbox, self.choice.patterns(), self.is_planning);
        Agent::new(self.provider.clone(), toolbox, self.settings.clone())
            .steered_by(self.steering.clone())
            .with_news(Arc::new(news))
    }

    /// Returns a function that accepts text of the user while the model works, in the present mode.
    pub(super) fn listener(&self) -> impl Fn(String) -> bool + use<> {
        let (steering, is_planning) = (self.steering.clone(), self.is_planning);
        move |said| steering.say(if is_planning { planned(said) } else { said.into() })
    }

    /// Removes and returns the text of the user that did not reach the model.
    pub(super) fn unheard(&self) -> Vec<String> {
        let words = |said: Prompt| said.text.trim_end_matches(PLAN).trim_end().to_owned();
        std::iter::from_fn(|| self.steering.take()).map(words).collect()
    }

    /// Answers the prompt that was pushed, with the text `told`, or continues the unfinished task.
    pub(super) async fn work(
        &mut self,
        told: Option<&str>,
        session: &Session,
    ) -> Result<Outcome, SessionError> {
        let keeper = self.history.log().map(SessionLog::keeper).unwrap_or_default();
        if told.is_some() {
            keeper.begin_prompt();
        }
        let session = &Session { keeper, widening: self.widening.clone(), ..session.clone() };
        let agent = self.agent();
        let Some(told) = told else { return agent.go_on(&mut self.history, session).await };
        let way = self.program.route(&self.choice.model());
        let Routed { model, usage } = route(self.provider.as_ref(), way, told, session).await;
        agent.asking(model).having_spent(usage).go_on(&mut self.history, session).await
    }
}

/// Returns a text about the used part of the context window, if the size of the window is known.
pub(super) fn filled((used, window): (usize, Option<u32>)) -> String {
    let Some(window) = window.and_then(|window| usize::try_from(window).ok()).filter(|window| *window > 0)
    else {
        return format!("; the conversation has about {used} tokens");
    };
    format!("; {}% of the window of {window} tokens used", used.saturating_mul(100) / window)
}

pub(super) fn hinted(error: SessionError) -> anyhow::Error {
    match error.hint() {
        Some(hint) => Hinted::new(error.to_string(), hint).into(),
        None => error.into(),
    }
}

/// Adds the paths that were restored since the previous prompt.
fn told(prompt: Prompt, undone: &BTreeSet<PathBuf>) -> Prompt {
    if undone.is_empty() {
        return prompt;
    }
    let named: Vec<_> = undone
        .iter()
        .take(MAX_TOLD)
        .map(|path| format!("`{}`", plain(&path.display().to_string())))
        .collect();
    let more = if undone.len() > MAX_TOLD { " and others" } else { "" };
    let line = format!("[The user has undone your changes to {}{more}.]", named.join(", "));
    Prompt { text: format!("{line}\n\n{}", prompt.text), ..prompt }
}
