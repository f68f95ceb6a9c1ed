//! `haft acp`: the agent for editors that speak the Agent Client Protocol, on standard input and output. A session
//! behaves like `haft chat` in the folder that the editor has open.

mod programs;
mod talk;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::programs::Programs;
use super::common::Common;
use super::model_args::ModelArgs;
use super::pipes::{signals, streams};
use super::terminal::Terminal;
use super::{Exit, common};

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
            let own = std::env::current_exe().context("cannot find out where haft is")?;
            let text = editor.snippet(
                &own,
                common.program.as_deref(),
                self.choice.words().chain(common::words(common, false)),
            )?;
            terminal.message(editor.place());
            terminal.verbatim(&text)?;
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
    /// Returns the place of the snippet, as a text for the user.
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

    /// Returns the snippet that starts the haft at `own`, with `program` if it is named.
    fn snippet(
        self,
        own: &Path,
        program: Option<&Path>,
        options: impl Iterator<Item = String>,
    ) -> anyhow::Result<String> {
        let command = text(own)?;
        let mut arguments = vec!["acp".to_owned()];
        if let Some(program) = program {
            let whole = std::path::absolute(program)
                .with_context(|| format!("cannot find out where `{}` is", program.display()))?;
            arguments.extend(["--program".to_owned(), text(&whole)?]);
        }
        arguments.extend(options);
        Ok(match self {
            Self::Zed => agent_servers(&json!({
                "type": "custom", "command": command, "args": arguments, "env": {},
            }))?,
            Self::JetBrains => agent_servers(&json!({ "command": command, "args": arguments, "env": {} }))?,
            Self::CodeCompanion => {
                let words = std::iter::once(&command).chain(&arguments).map(|word| lua(word));
                CODE_COMPANION.replace("COMMAND", &words.collect::<Vec<_>>().join(", "))
            }
            Self::Avante => {
                let words = arguments.iter().map(|word| lua(word)).collect::<Vec<_>>().join(", ");
                AVANTE.replace("COMMAND", &lua(&command)).replace("ARGUMENTS", &words)
            }
        })
    }
}

/// Returns the agent in the format of both editors with JSON.
fn agent_servers(agent: &Value) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&json!({ "agent_servers": { "haft": agent } }))? + "\n")
}

/// An adapter for `CodeCompanion`.
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

/// A provider for avante.nvim.
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

/// Returns a path as UTF-8, which the configuration files require.
fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).with_context(|| {
        format!("`{}` is not valid UTF-8, which configuration files require", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_editor_gets_what_it_can_read() {
        let (own, program) = (Path::new("/opt/ha\"ft"), Path::new("/home/ada/program.toml"));
        for editor in [Editor::Zed, Editor::JetBrains] {
            let text = editor.snippet(own, Some(program), std::iter::empty()).unwrap();
            let value: Value = serde_json::from_str(&text).unwrap();
            let agent = &value["agent_servers"]["haft"];
            assert_eq!(agent["command"], "/opt/ha\"ft");
            assert_eq!(agent["args"], json!(["acp", "--program", "/home/ada/program.toml"]));
        }
        let text = Editor::CodeCompanion.snippet(own, None, std::iter::empty()).unwrap();
        assert!(text.contains(r#"default = { "/opt/ha\"ft", "acp" }"#), "{text}");
        let text = Editor::Avante.snippet(own, Some(program), std::iter::empty()).unwrap();
        assert!(text.contains(r#"command = "/opt/ha\"ft", args = { "acp", "--program", "#), "{text}");
        assert_eq!(lua("a\n\\"), r#""a\010\\""#);
    }
}
