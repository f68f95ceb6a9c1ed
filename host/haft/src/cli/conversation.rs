//! A conversation between a user, a model and its tools, and its session: what `haft run` and `haft chat` share.
//! Refuses a session that another haft has open.

use crate::cli::common::Common;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use super::model_args::ModelArgs;
use super::terminal::{Hinted, Screen, Show, Terminal};
use crate::program::{Dirs, Program};
use haft_agent::provider::{Prompt, Provider};
use haft_agent::{
    Agent, AgentSettings, History, Outcome, Restored, Routed, Saved, SessionError, Sessions, route,
};
use haft_core::tool::{Approvals, Session, Toolbox};

/// A session as a person names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SessionName {
    /// The newest of this program in this folder.
    Last,
    /// The one whose id begins so.
    Id(String),
}

/// Hexadecimal digits of an id that are enough to find one.
const MIN_ID: usize = 4;

impl FromStr for SessionName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |c: char| c.is_ascii_digit() || matches!(c, 'a'..='f');
        match text {
            "last" => Ok(Self::Last),
            id if id.len() >= MIN_ID && id.chars().all(is_digit) => Ok(Self::Id(id.to_owned())),
            _ => {
                Err("expected `last`, or four or more digits of a session's id as `haft sessions` shows it; \
                      a prompt comes after it: `--resume last 'PROMPT'`"
                    .to_owned())
            }
        }
    }
}

impl SessionName {
    /// The session that is meant.
    pub(super) fn find(&self, common: &Common) -> anyhow::Result<Saved> {
        let sessions = Sessions::new(Dirs::of_this_machine()?.sessions());
        let found = match self {
            Self::Last => sessions.last(&common.begun()),
            Self::Id(id) => sessions.find(id),
        };
        found.map_err(hinted)
    }
}

/// A conversation that goes on.
pub(super) struct Conversation {
    pub(super) program: Program,
    pub(super) choice: ModelArgs,
    pub(super) toolbox: Toolbox,
    pub(super) approvals: Approvals,
    settings: AgentSettings,
    provider: Arc<dyn Provider>,
    history: History,
    terminal: Terminal,
    screen: Arc<Screen>,
}

impl Conversation {
    /// Loads the program and begins a session, or goes on with the one that is named.
    pub(super) async fn begin(
        common: &Common,
        terminal: Terminal,
        screen: &Arc<Screen>,
        choice: ModelArgs,
        resume: Option<&SessionName>,
    ) -> anyhow::Result<Self> {
        let saved = resume.map(|name| name.find(common)).transpose()?;
        let program = common.of_session(saved.as_ref()).program(terminal, true).await?;
        let (toolbox, settings) = (choice.tools(&program, terminal)?, choice.settings(&program));
        let provider = program.provider(&choice.model()).await?;
        let approvals = Approvals::by(screen.person());
        let (screen, history) = (screen.clone(), History::default());
        let mut conversation =
            Self { program, choice, toolbox, approvals, settings, provider, history, terminal, screen };
        if let Some(saved) = saved {
            conversation.resume(&saved)?;
        }
        Ok(conversation)
    }

    /// Forgets what was said. What is said next begins another session.
    pub(super) fn clear(&mut self) {
        self.history = History::default();
    }

    /// Adds what a person said, and begins a session with the first of it: one in which nothing was said is none. It is
    /// on the disk once this returns.
    fn push_prompt(&mut self, prompt: Prompt) -> Result<(), SessionError> {
        match self.program.sessions().filter(|_| self.history.log().is_none()) {
            Some(sessions) => {
                let log = sessions.begin(self.program.begun(), prompt.clone(), &self.program.redactor)?;
                self.history = History::logged(log, prompt);
                Ok(())
            }
            None => self.history.push_prompt(prompt),
        }
    }

    /// Goes on with a session.
    fn resume(&mut self, saved: &Saved) -> anyhow::Result<()> {
        let Some(sessions) = self.program.sessions() else {
            let hint = "leave out `--no-journal`, and unset `HAFT_JOURNAL`";
            return Err(Hinted::new("no session is kept, so none can be gone on with", hint).into());
        };
        let (log, restored) = sessions.resume(saved, &self.program.redactor).map_err(hinted)?;
        self.greet(saved, &restored);
        self.history = History::restored(restored, Some(log)).map_err(hinted)?;
        Ok(())
    }

    /// Says what is gone on with.
    fn greet(&self, saved: &Saved, restored: &Restored) {
        if self.screen.show() != Show::All {
            return;
        }
        let turns = restored.turns;
        self.terminal.message(format_args!("going on with session {} ({turns} turns so far)", saved.id));
        if restored.begun.path != self.program.begun().path {
            let path = restored
                .begun
                .path
                .as_ref()
                .map_or("no program.toml".into(), |path| path.display().to_string());
            self.terminal.warning(&format!("the session was begun with another program: {path}"));
        }
        if restored.broken > 0 {
            self.terminal.warning(&format!("{} lines of the session could not be read", restored.broken));
        }
        for call in restored.unknown() {
            let text = format!("haft was ended while `{}` ran; nobody knows what came of it", call.tool);
            self.terminal.warning(&format!("{text}, and the model is told so"));
        }
    }

    /// The session's id.
    pub(super) fn id(&self) -> Option<String> {
        self.history.log().map(|log| log.id().to_owned())
    }

    /// Whether there is something left to do of what was asked for.
    pub(super) fn is_unfinished(&self) -> bool {
        self.history.is_unfinished()
    }

    /// What was said so far.
    pub(super) fn history(&self) -> &History {
        &self.history
    }

    /// The model that is asked.
    pub(super) fn model(&self) -> &str {
        self.provider.model()
    }

    /// Asks another model from now on.
    pub(super) async fn use_model(&mut self, model: &str) -> anyhow::Result<()> {
        let mut choice = self.choice.clone();
        choice.model = Some(model.to_owned());
        self.provider = self.program.provider(&choice.model()).await?;
        self.choice = choice;
        Ok(())
    }

    /// Runs a prompt, or continues the one before. `None` where Ctrl-C was pressed twice: the user wants to leave.
    pub(super) async fn task(&mut self, prompt: Option<Prompt>) -> anyhow::Result<Option<Outcome>> {
        if prompt.is_none() && !self.is_unfinished() {
            let hint = "write what to do next: `haft run --resume last 'PROMPT'`";
            return Err(Hinted::new("nothing is left to do in this session", hint).into());
        }
        // Before the first model is asked, be it only for the route.
        let told = prompt.as_ref().map(Prompt::told);
        prompt.map_or(Ok(()), |prompt| self.push_prompt(prompt)).map_err(hinted)?;
        let approvals = self.approvals.clone();
        let session = Session { approvals, ..self.program.session(self.screen.events()) };
        let cancel = session.cancel.clone();
        let history = &mut self.history;
        let (provider, toolbox, settings) = (&self.provider, &self.toolbox, &self.settings);
        let way = self.program.route(&self.choice.model());
        let work = async {
            let Some(told) = told else {
                let agent = Agent::new(provider.clone(), toolbox.clone(), settings.clone());
                return agent.go_on(history, &session).await;
            };
            let Routed { model, usage } = route(provider.as_ref(), way, &told, &session).await;
            let settings = AgentSettings { model: Some(model), ..settings.clone() };
            let agent = Agent::new(provider.clone(), toolbox.clone(), settings);
            let mut outcome = agent.go_on(history, &session).await?;
            outcome.usage += usage;
            Ok(outcome)
        };
        let mut work = std::pin::pin!(work);
        let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        let done = loop {
            tokio::select! {
                outcome = &mut work => break Some(outcome),
                _ = interrupts.recv() => {
                    if cancel.is_cancelled() {
                        break None;
                    }
                    cancel.cancel();
                }
            }
        };
        self.screen.rest();
        done.transpose().map_err(hinted)
    }

    /// Ends what the program keeps running.
    pub(super) async fn close(self) {
        // A second or third Ctrl-C does not wait for servers to end by themselves: they are killed.
        tokio::select! {
            () = self.program.close() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}

/// The error with its way out.
pub(super) fn hinted(error: SessionError) -> anyhow::Error {
    match error.hint() {
        Some(hint) => Hinted::new(error.to_string(), hint).into(),
        None => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_not_taken_for_a_session() {
        assert_eq!("last".parse(), Ok(SessionName::Last));
        assert_eq!("3f9a".parse(), Ok(SessionName::Id("3f9a".into())));
        for prompt in ["go on", "add", "", "bad", "Deadbeef", "../x"] {
            assert!(prompt.parse::<SessionName>().unwrap_err().contains("--resume last"), "{prompt}");
        }
    }
}
