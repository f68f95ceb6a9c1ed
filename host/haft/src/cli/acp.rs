//! `haft acp`: the agent for editors that speak the Agent Client Protocol, on standard input and output. A session
//! behaves like `haft chat` in the folder that the editor has open.

mod talk;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use async_trait::async_trait;
use clap::{Args, ValueEnum};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::talk::{Opened, Talk, failure};
use super::Exit;
use super::common::{self, Common};
use super::dialogue::{Dialogue, hinted};
use super::model_args::ModelArgs;
use super::pipes::{signals, streams};
use super::serve::snippet::{arguments, own_path, text};
use super::sessions::shortened;
use super::terminal::Terminal;
use haft::program::{Ask, Dirs, Options, Untrusted};
use haft_acp::{Conversation, Failure, Host, Opening, StdioServer, Summary};
use haft_agent::{Saved, SessionError, Sessions};
use haft_core::report::{Problem, Span};
use haft_core::secret::Redactor;
use haft_manifest::{Located, McpServer, Name, ServerLimits, TextOrSecret, Transport, is_credential};

#[derive(Debug, Args)]
#[command(after_help = "\
The editor starts this command. Each session uses the program.toml of its folder (or --program), with the \
rights that the file grants; --allow adds rights, with paths relative to the session's folder. Provider keys \
are read as for `haft run`:
from the editor's environment, or from the place in program.toml.

Examples:
  haft acp --print-config zed
  haft acp --print-config jetbrains > ~/.jetbrains/acp.json
  haft acp --model fast --allow write=.")]
pub(super) struct Acp {
    #[command(flatten)]
    choice: ModelArgs,
    /// Print what to add to an editor's configuration, and end
    #[arg(long, value_name = "EDITOR", value_enum)]
    print_config: Option<Editor>,
}

impl Acp {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        if let Some(editor) = self.print_config {
            let options = self.choice.words().chain(common::words(common, false));
            let arguments = arguments("acp", common.program.as_deref(), options)?;
            terminal.message(editor.place());
            terminal.verbatim(&editor.snippet(&text(&own_path()?)?, &arguments)?)?;
            return Ok(Exit::Success);
        }
        let host = Arc::new(Programs::new(common, self.choice, terminal)?);
        let stop = CancellationToken::new();
        let ending = tokio::spawn(signals(stop.clone()));
        let (input, output) = streams().context("cannot use the standard streams")?;
        tokio::select! {
            served = haft_acp::serve(host, terminal.redactor(), input, output, stop) => {
                served.context("cannot use the standard streams")?;
                Ok(Exit::Success)
            }
            exit = ending => Ok(exit?),
        }
    }
}

// The entry for an editor's configuration that starts the agent, in the format of each editor.

/// An editor that can be told of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Editor {
    /// Zed
    Zed,
    /// The IDEs of JetBrains
    #[value(name = "jetbrains")]
    JetBrains,
    /// Neovim with `CodeCompanion`
    #[value(name = "codecompanion", alias = "neovim", help = "Neovim with CodeCompanion")]
    CodeCompanion,
    /// Neovim with avante.nvim
    Avante,
}

impl Editor {
    fn place(self) -> &'static str {
        match self {
            Self::Zed => "Zed: `settings.json` (`zed: open settings file`), merged with your settings",
            Self::JetBrains => "JetBrains: `~/.jetbrains/acp.json` (AI Chat, Add Custom Agent)",
            Self::CodeCompanion => {
                "Neovim, CodeCompanion: in your configuration; `:CodeCompanionChat adapter=haft`"
            }
            Self::Avante => "Neovim, avante.nvim: in your configuration",
        }
    }

    fn snippet(self, command: &str, arguments: &[String]) -> anyhow::Result<String> {
        Ok(match self {
            Self::Zed => agent_servers(&json!({
                "type": "custom", "command": command, "args": arguments, "env": {},
            }))?,
            Self::JetBrains => agent_servers(&json!({ "command": command, "args": arguments, "env": {} }))?,
            Self::CodeCompanion => {
                let words = std::iter::once(command).chain(arguments.iter().map(String::as_str)).map(lua);
                CODE_COMPANION.replace("COMMAND", &words.collect::<Vec<_>>().join(", "))
            }
            Self::Avante => {
                let words = arguments.iter().map(|word| lua(word)).collect::<Vec<_>>().join(", ");
                AVANTE.replace("COMMAND", &lua(command)).replace("ARGUMENTS", &words)
            }
        })
    }
}

/// Returns the agent in the format of both editors with JSON.
fn agent_servers(agent: &Value) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&json!({ "agent_servers": { "haft": agent } }))? + "\n")
}

const CODE_COMPANION: &str = r#"require("codecompanion").setup({
  adapters = {
    acp = {
      haft = function()
        local helpers = require("codecompanion.adapters.acp.helpers")
        return {
          name = "haft",
          formatted_name = "haft",
          type = "acp",
          roles = { llm = "assistant", user = "user" },
          opts = { vision = true },
          commands = { default = { COMMAND } },
          defaults = { mcpServers = {}, timeout = 20000 },
          parameters = {
            protocolVersion = 1,
            clientCapabilities = { fs = { readTextFile = true, writeTextFile = true } },
            clientInfo = { name = "CodeCompanion.nvim", version = "1.0.0" },
          },
          handlers = {
            setup = function() return true end,
            auth = function() return true end,
            form_messages = function(self, messages, capabilities)
              return helpers.form_messages(self, messages, capabilities)
            end,
            on_exit = function() end,
          },
        }
      end,
    },
  },
})
"#;

const AVANTE: &str = r#"require("avante").setup({
  provider = "haft",
  acp_providers = {
    haft = { command = COMMAND, args = { ARGUMENTS } },
  },
})
"#;

/// Returns a text as a string literal of Lua (5.1, section 2.1). UTF-8 does not change.
fn lua(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_ascii_control() => {
                // Writing to a `String` cannot fail.
                let _ = write!(quoted, "\\{:03}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// The programs of the folders that an editor opens.
#[derive(Clone)]
struct Programs {
    common: Common,
    choice: ModelArgs,
    terminal: Terminal,
    options: Options,
    sessions: Sessions,
}

impl Programs {
    fn new(common: &Common, choice: ModelArgs, terminal: Terminal) -> anyhow::Result<Self> {
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
                    Ok(Box::new(Talk::unagreed(open, *agreement, id)))
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
fn declared(servers: &[StdioServer], redactor: &Redactor) -> (Vec<McpServer>, Vec<Problem>) {
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
    fn every_editor_gets_what_it_can_read() {
        let (own, program) =
            ("/opt/ha\"ft", ["acp", "--program", "/home/ada/program.toml"].map(str::to_owned));
        for editor in [Editor::Zed, Editor::JetBrains] {
            let text = editor.snippet(own, &program).unwrap();
            let value: Value = serde_json::from_str(&text).unwrap();
            let agent = &value["agent_servers"]["haft"];
            assert_eq!(agent["command"], "/opt/ha\"ft");
            assert_eq!(agent["args"], json!(["acp", "--program", "/home/ada/program.toml"]));
        }
        let text = Editor::CodeCompanion.snippet(own, &["acp".to_owned()]).unwrap();
        assert!(text.contains(r#"default = { "/opt/ha\"ft", "acp" }"#), "{text}");
        let text = Editor::Avante.snippet(own, &program).unwrap();
        assert!(text.contains(r#"command = "/opt/ha\"ft", args = { "acp", "--program", "#), "{text}");
        assert_eq!(lua("a\n\\"), r#""a\010\\""#);
    }

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
