//! Opens the sessions of an editor: loads the program of a folder and a saved conversation. Grants no right beyond
//! program.toml and the command line.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use haft::program::{Ask, Dirs, Options, Untrusted};
use secrecy::SecretString;

use super::talk::{Opened, Talk, Unagreed, failure};
use crate::cli::common::Common;
use crate::cli::dialogue::{Dialogue, hinted};
use crate::cli::model_args::ModelArgs;
use crate::cli::sessions::shortened;
use crate::cli::terminal::Terminal;
use haft_acp::{Conversation, Failure, Host, Opening, StdioServer, Summary};
use haft_agent::{Saved, SessionError, Sessions};
use haft_core::report::{Problem, Span};
use haft_core::secret::Redactor;
use haft_manifest::{Located, McpServer, Name, ServerLimits, TextOrSecret, Transport, is_credential};

/// The programs of the folders that an editor opens.
#[derive(Clone)]
pub(super) struct Programs {
    common: Common,
    choice: ModelArgs,
    terminal: Terminal,
    options: Options,
    sessions: Sessions,
}

impl Programs {
    pub(super) fn new(common: &Common, choice: ModelArgs, terminal: Terminal) -> anyhow::Result<Self> {
        let mut options = common.options(terminal, true)?;
        // One process starts the children of all sessions.
        options.confiner.get_or_insert_default();
        // The terminal, if there is one, belongs to the editor.
        options.person = None;
        options.ask = Ask::WhereUnknown;
        let sessions = Dirs::of_this_machine()?.kept_sessions();
        Ok(Self { common: common.clone(), choice, terminal, options, sessions })
    }

    async fn dialogue(&self, opening: &Opening) -> anyhow::Result<Dialogue> {
        let (further_servers, left_out) = declared(&opening.servers, &self.options.redactor);
        let folder = Some(opening.folder.clone());
        let options = Options { folder, further_servers, ..self.options.clone() };
        let mut program = self.common.load(self.terminal, &options).await?;
        program.problems.extend(left_out);
        let mut dialogue = Dialogue::new(program, self.choice.clone(), self.terminal).await?;
        dialogue.widen(self.terminal);
        dialogue.tell_folder(&opening.folder);
        Ok(dialogue)
    }

    /// Returns the session with exactly this id.
    fn saved(&self, id: &str) -> anyhow::Result<Saved> {
        let found = self.sessions.find(id).ok().filter(|saved| saved.id == id);
        found.ok_or_else(|| anyhow::anyhow!("no session `{}` is stored here", shortened(id)))
    }

    fn summaries(&self, folder: Option<&Path>) -> anyhow::Result<Vec<Summary>> {
        let all = self.sessions.all().map_err(hinted)?.into_iter().rev();
        let summary = |saved: Saved| {
            let (begun, said) = saved.opening()?;
            let own = begun.folder?;
            let is_meant = folder.is_none_or(|folder| *folder == own);
            let changed = saved.changed()?.to_string();
            let title = said.map(|said| shortened(&said));
            is_meant.then_some(Summary { id: saved.id, folder: own, title, changed })
        };
        Ok(all.filter_map(summary).collect())
    }
}

#[async_trait]
impl Host for Programs {
    fn keeps(&self) -> bool {
        !self.options.no_journal
    }

    fn knows(&self, id: &str) -> bool {
        self.saved(id).is_ok()
    }

    async fn begin(&self, opening: Opening) -> Result<Box<dyn Conversation>, Failure> {
        let id = opening.id.clone().unwrap_or_else(Sessions::promise);
        match Box::pin(self.dialogue(&opening)).await {
            Ok(dialogue) => Ok(Box::new(Talk::begun(dialogue, id))),
            Err(error) => match error.downcast::<Untrusted>() {
                Ok(Untrusted(agreement)) => {
                    let programs = self.clone();
                    let open = move || -> Opened {
                        let (programs, opening) = (programs.clone(), opening.clone());
                        Box::pin(async move { Box::pin(programs.dialogue(&opening)).await })
                    };
                    Ok(Box::new(Unagreed::new(open, *agreement, id)))
                }
                Err(error) => Err(failure(error)),
            },
        }
    }

    async fn resume(&self, id: &str, opening: Opening) -> Result<Box<dyn Conversation>, Failure> {
        let open = Box::pin(async {
            let saved = self.saved(id)?;
            let mut dialogue = Box::pin(self.dialogue(&opening)).await?;
            if let Err(error) = dialogue.resume(&saved, |_| {}) {
                dialogue.program.close().await;
                return Err(error);
            }
            Ok(dialogue)
        });
        let dialogue = open.await.map_err(failure)?;
        Ok(Box::new(Talk::begun(dialogue, id.to_owned())))
    }

    async fn list(&self, folder: Option<PathBuf>) -> Result<Vec<Summary>, Failure> {
        // The listing reads up to a thousand files.
        tokio::task::block_in_place(|| self.summaries(folder.as_deref())).map_err(failure)
    }

    async fn remove(&self, id: &str) -> Result<(), Failure> {
        match self.sessions.find(id) {
            Ok(saved) if saved.id == id => saved.remove().map_err(hinted).map_err(failure),
            // An unknown session counts as removed: the protocol requires that.
            Ok(_) | Err(SessionError::Unknown(_) | SessionError::Ambiguous(_)) => Ok(()),
            Err(error) => Err(failure(hinted(error))),
        }
    }
}

// The MCP servers that the user configured in the editor, as if program.toml declared them: they run with the
// rights of the program's commands, and a server of program.toml keeps its name. A server that haft cannot run is
// left out.

/// Returns the servers, and the reasons why others are left out. `redactor` learns the values of variables with the
/// names of credentials.
pub(super) fn declared(servers: &[StdioServer], redactor: &Redactor) -> (Vec<McpServer>, Vec<Problem>) {
    let secrets = servers.iter().flat_map(|server| &server.env).filter(|(name, _)| is_credential(name));
    let secrets: Vec<_> = secrets.map(|(_, value)| SecretString::from(value.clone())).collect();
    redactor.add(&secrets);
    let (mut declared, mut left_out) = (Vec::new(), Vec::new());
    for server in servers {
        let Some(name) = named(&server.name) else {
            let why = "has no letter or digit in its name";
            left_out.push(Problem::new(format!("an MCP server of the editor is left out: it {why}")));
            continue;
        };
        let env = server.env.iter().map(|(name, value)| (name.clone(), TextOrSecret::Text(value.clone())));
        declared.push(McpServer {
            on: Vec::new(),
            name: here(name),
            transport: Transport::Stdio { command: here(server.command.clone()), env: env.collect() },
            enabled: true,
            tools: None,
            // The server is declared in the editor's configuration, for which haft records no consent.
            pinned: false,
            timeout: McpServer::DEFAULT_TIMEOUT,
            max_result: McpServer::DEFAULT_MAX_RESULT,
            secrets: Vec::new(),
            grant: None,
            limits: ServerLimits::default(),
            skill: None,
        });
    }
    (declared, left_out)
}

/// Returns a value that is not from a program.toml.
fn here<T>(value: T) -> Located<T> {
    Located { value, span: Span::default() }
}

/// Converts a name of the editor into a name for program.toml: `GitHub MCP` becomes `github-mcp`.
fn named(text: &str) -> Option<Name> {
    let spelt = text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let words: String = spelt.collect();
    let words = words.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    let cut: String = words.chars().take(Name::MAX).collect();
    cut.trim_end_matches('-').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_editors_become_names_of_programs() {
        for (text, name) in [
            ("GitHub MCP", "github-mcp"),
            ("_x__y_", "x-y"),
            ("a.b/c", "a-b-c"),
            ("x".repeat(99).as_str(), ""),
        ] {
            let named = named(text).unwrap();
            assert!(named.as_str() == name || named.as_str().len() == Name::MAX, "{text}: {named}");
        }
        assert_eq!(named("…"), None);
    }

    #[test]
    fn variables_that_are_called_as_secrets_are_become_known_as_secrets() {
        let redactor = Redactor::default();
        let env =
            vec![("GITHUB_TOKEN".into(), "ghp-0123456789".into()), ("MODE".into(), "production".into())];
        let server = StdioServer { name: "a".into(), command: vec!["x".into()], env };
        assert_eq!(declared(&[server], &redactor).0.len(), 1);
        assert_eq!(redactor.redact("ghp-0123456789 in production"), "*** in production");
    }
}
