//! A dialogue with the user at the terminal, shared by `haft run` and `haft chat`. Refuses a session that another
//! haft process has open.

use crate::cli::common::Common;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use super::dialogue::{Dialogue, hinted};
use super::model_args::ModelArgs;
use super::server_prompts::ServerPrompt;
use super::terminal::{DIM, Hinted, Screen, Show, Terminal, Typing, reader_is_gone};
use super::{approvals, attach, guidance};
use haft::program::Dirs;
use haft_agent::provider::{OutputSchema, Prompt};
use haft_agent::{Begun, Outcome, Restored, Saved};
use haft_core::tool::{Approvals, Session};

/// A session on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SessionName {
    /// The newest session of this program in this folder.
    Last,
    /// The session with this prefix of its id.
    Id(String),
}

/// Interval between checks whether standard output still has a reader. Without a reader haft ends the task and spends
/// no more tokens.
const LOOK_FOR_READER: Duration = Duration::from_millis(500);

/// Minimum hexadecimal digits of an id on the command line.
const MIN_ID: usize = 4;

impl FromStr for SessionName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |c: char| c.is_ascii_digit() || matches!(c, 'a'..='f');
        match text {
            "last" => Ok(Self::Last),
            id if id.len() >= MIN_ID && id.chars().all(is_digit) => Ok(Self::Id(id.to_owned())),
            _ => Err(
                "expected `last`, or at least four digits of a session id of `haft session list`; the prompt \
                      follows: `--resume last 'PROMPT'`"
                    .to_owned(),
            ),
        }
    }
}

impl SessionName {
    /// Returns the session, which may also be a session of an agent that worked for another agent.
    pub(super) fn find_any(&self, common: &Common) -> anyhow::Result<Saved> {
        let found = self.find(common);
        match self {
            Self::Id(id) if found.is_err() => Dirs::of_this_machine()?.agent_sessions().find(id).or(found),
            _ => found,
        }
    }

    pub(super) fn find(&self, common: &Common) -> anyhow::Result<Saved> {
        let sessions = Dirs::of_this_machine()?.kept_sessions();
        let found = match self {
            Self::Last => sessions.last(&common.begun()),
            Self::Id(id) => sessions.find(id),
        };
        found.map_err(hinted)
    }
}

pub(super) struct Conversation {
    pub(super) dialogue: Dialogue,
    /// `run` or `chat`.
    verb: &'static str,
    pub(super) approvals: Approvals,
    terminal: Terminal,
    screen: Arc<Screen>,
    /// Whether the model receives text that the user enters while it works.
    pub(super) listens: bool,
    /// Commands that were entered while the model worked.
    commands: Vec<String>,
}

impl Conversation {
    /// Loads the program and begins a session, or continues the session `resume`.
    pub(super) async fn begin(
        common: &Common,
        terminal: Terminal,
        screen: &Arc<Screen>,
        verb: &'static str,
        choice: ModelArgs,
        resume: Option<&SessionName>,
    ) -> anyhow::Result<Self> {
        let saved = resume.map(|name| name.find(common)).transpose()?;
        let program = common.of_session(saved.as_ref()).program(terminal).await?;
        let dialogue = Dialogue::new(program, choice, terminal).await?;
        guidance::told(dialogue.program.guidance(), screen.show, terminal);
        let approvals = approvals::of(screen.person(), &dialogue.program, verb, terminal)?;
        let (screen, listens, commands) = (screen.clone(), false, Vec::new());
        let mut conversation = Self { dialogue, verb, approvals, terminal, screen, listens, commands };
        if let Some(saved) = saved {
            conversation.resume(&saved)?;
        }
        Ok(conversation)
    }

    fn resume(&mut self, saved: &Saved) -> anyhow::Result<()> {
        let (screen, terminal, own) = (&self.screen, self.terminal, self.dialogue.program.begun());
        let is_told = screen.show == Show::All;
        self.dialogue.resume(saved, |restored| {
            if is_told {
                greet(saved, restored, &own, terminal);
            }
        })
    }

    /// Returns the commands and the text that were entered while the model worked and did not reach the model.
    pub(super) fn left_over(&mut self) -> (Vec<String>, String) {
        (std::mem::take(&mut self.commands), self.dialogue.unheard().join("\n"))
    }

    /// Returns `[agent] output` of the program.
    pub(super) fn output(&self) -> anyhow::Result<Option<Arc<OutputSchema>>> {
        let program = &self.dialogue.program;
        Ok(program.output().map_err(|problem| program.manifest.report(vec![problem]))?)
    }

    /// Returns the session's id if the session is stored and has an unfinished task.
    pub(super) fn resumable(&self) -> Option<String> {
        let sessions = self.dialogue.program.sessions().filter(|_| self.is_unfinished())?;
        self.dialogue.id().filter(|id| sessions.find(id).is_ok())
    }

    pub(super) fn is_unfinished(&self) -> bool {
        self.dialogue.history.is_unfinished()
    }

    /// Gets a prompt of a plugin or an MCP server. Ctrl-C ends the call.
    pub(super) async fn get(&self, prompt: &ServerPrompt<'_>, words: &str) -> anyhow::Result<Prompt> {
        let session = self.dialogue.program.session(self.verb, self.screen.events());
        let session = Session { approvals: self.approvals.clone(), ..session };
        tokio::select! {
            got = prompt.get(words, &session, self.dialogue.is_planning) => got,
            _ = tokio::signal::ctrl_c() => anyhow::bail!("`/{}` was stopped", prompt.name),
        }
    }

    /// Runs a prompt, or continues the unfinished task. Returns `None` if the user pressed Ctrl-C twice and so wants
    /// to leave.
    pub(super) async fn task(&mut self, prompt: Option<Prompt>) -> anyhow::Result<Option<Outcome>> {
        if prompt.is_none() && !self.is_unfinished() {
            let hint = "add a prompt: `haft run --resume last 'PROMPT'`";
            return Err(Hinted::new("this session has no unfinished task", hint).into());
        }
        attach::check(prompt.iter().flat_map(|prompt| &prompt.attachments), &self.dialogue)?;
        let dialogue = &mut self.dialogue;
        // The prompt is stored before the first request to a model, including a request for the route.
        let told = prompt.as_ref().map(Prompt::told);
        prompt.map_or(Ok(()), |prompt| dialogue.push_prompt(prompt)).map_err(hinted)?;
        let approvals = self.approvals.clone();
        let session = Session { approvals, ..dialogue.program.session(self.verb, self.screen.events()) };
        let cancel = session.cancel.clone();
        let (say, commands) = (dialogue.listener(), &mut self.commands);
        let mut take = |line: String| {
            let is_command = line.starts_with('/');
            if is_command {
                commands.push(line.clone());
            }
            !is_command && !line.is_empty() && say(line)
        };
        let mut typing = self.listens.then(|| Typing::begin(&self.screen)).flatten();
        let mut work = std::pin::pin!(dialogue.work(told.as_deref(), &session));
        let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        let mut looks = tokio::time::interval(LOOK_FOR_READER);
        let done = loop {
            tokio::select! {
                outcome = &mut work => break Some(outcome),
                _ = interrupts.recv() => {
                    if cancel.is_cancelled() {
                        break None;
                    }
                    cancel.cancel();
                }
                line = entered(typing.as_mut()) => {
                    if take(line) {
                        self.terminal.message(format_args!("{DIM}the model reads this at its next \
                            step{DIM:#}"));
                    }
                }
                _ = looks.tick(), if !cancel.is_cancelled() => {
                    if reader_is_gone() {
                        cancel.cancel();
                    }
                }
            }
        };
        if let Some(typing) = typing {
            typing.end().await.into_iter().for_each(|line| _ = take(line));
        }
        self.screen.rest();
        done.transpose().map_err(hinted)
    }

    pub(super) async fn close(self) {
        // A second or third Ctrl-C does not wait for servers to end by themselves: they are killed.
        tokio::select! {
            () = self.dialogue.program.close() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}

/// Returns the next entered line, or waits without end if the user cannot enter text.
async fn entered(typing: Option<&mut Typing>) -> String {
    match typing {
        Some(typing) => typing.line().await,
        None => std::future::pending().await,
    }
}

/// Prints which session continues. `own` is the origin of the program's new sessions.
fn greet(saved: &Saved, restored: &Restored, own: &Begun, terminal: Terminal) {
    let turns = restored.turns;
    terminal.message(format_args!("continuing session {} ({turns} turns so far)", saved.id));
    if restored.begun.path != own.path {
        let path =
            restored.begun.path.as_ref().map_or("no program.toml".into(), |path| path.display().to_string());
        terminal.warning(&format!("the session was started with another program: {path}"));
    }
    if restored.broken > 0 {
        terminal.warning(&format!("{} lines of the session could not be read", restored.broken));
    }
    for call in restored.unknown() {
        let text = format!("haft ended while `{}` ran; the outcome of the call is unknown", call.tool);
        terminal.warning(&format!("{text}; the model is informed"));
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
