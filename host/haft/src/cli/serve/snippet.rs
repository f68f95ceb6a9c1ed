//! What to add to a client's configuration. Every client has a form of its own for the same three
//! things: what to start, or where it is, and the token. No token is ever written into it.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;
use serde_json::{Map, Value, json};

use crate::program::FILE_NAME;
use haft_core::manifest::Manifest;
use haft_mcp::server::http::PATH;

/// A client that can be told of haft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    /// Claude Code and Claude Desktop
    Claude,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// Cursor
    Cursor,
    /// VS Code
    Vscode,
}

/// How a client comes to the tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    name: String,
    way: Way,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    Start { command: String, arguments: Vec<String> },
    Http { url: String, variable: String },
}

impl Server {
    /// The program `program`, or the one that is here, served by the haft at `own`; over HTTP at `http`
    /// where that is given, with the token in the environment variable `variable`.
    pub(super) fn new(
        own: &Path,
        program: Option<&Path>,
        http: Option<SocketAddr>,
        variable: &str,
    ) -> anyhow::Result<Self> {
        let here = Some(Path::new(FILE_NAME)).filter(|path| path.exists());
        let program = program.or(here);
        let manifest = program.map(Manifest::load).transpose()?;
        let named = manifest.and_then(|manifest| manifest.program);
        let name = named.map_or_else(|| "haft".to_owned(), |program| program.name.as_str().to_owned());
        let way = match http {
            Some(address) => {
                Way::Http { url: format!("http://{address}{PATH}"), variable: variable.to_owned() }
            }
            None => Way::Start { command: text(own)?, arguments: arguments(program)? },
        };
        Ok(Self { name, way })
    }
}

fn arguments(program: Option<&Path>) -> anyhow::Result<Vec<String>> {
    let mut arguments = vec!["serve".to_owned()];
    if let Some(program) = program {
        let whole = std::path::absolute(program)
            .with_context(|| format!("cannot find out where `{}` is", program.display()))?;
        arguments.extend(["--program".to_owned(), text(&whole)?]);
    }
    Ok(arguments)
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| {
        format!("`{}` is not valid UTF-8, which configuration files have to be", path.display())
    })
}

impl Client {
    /// Where the snippet belongs, for the person.
    pub(super) fn place(self) -> &'static str {
        match self {
            Self::Claude => {
                "Claude Code: `.mcp.json` in your project (or `~/.claude.json` for all of them); Claude Desktop: \
                 `claude_desktop_config.json`, from Settings, Developer, Edit Config"
            }
            Self::Codex => "Codex: `~/.codex/config.toml`",
            Self::Gemini => {
                "Gemini CLI: `.gemini/settings.json` in your project, or `~/.gemini/settings.json`"
            }
            Self::Cursor => "Cursor: `.cursor/mcp.json` in your project, or `~/.cursor/mcp.json`",
            Self::Vscode => "VS Code: `.vscode/mcp.json` in your project, or `MCP: Open User Configuration`",
        }
    }

    /// The snippet, a whole file in itself.
    pub(super) fn snippet(self, server: &Server) -> anyhow::Result<String> {
        if self == Self::Codex {
            return codex(server);
        }
        let entry = match &server.way {
            Way::Start { command, arguments } => self.started(command, arguments),
            Way::Http { url, variable } => self.reached(url, variable),
        };
        let servers = if self == Self::Vscode { "servers" } else { "mcpServers" };
        let mut file = Map::new();
        file.insert(servers.into(), json!({ &server.name: entry }));
        if let (Self::Vscode, Way::Http { .. }) = (self, &server.way) {
            let ask = json!({ "type": "promptString", "id": INPUT, "description": "Token of haft", "password": true });
            file.insert("inputs".into(), json!([ask]));
        }
        Ok(serde_json::to_string_pretty(&Value::Object(file))? + "\n")
    }

    fn started(self, command: &str, arguments: &[String]) -> Value {
        match self {
            Self::Gemini | Self::Cursor | Self::Codex => json!({ "command": command, "args": arguments }),
            Self::Claude | Self::Vscode => json!({ "type": "stdio", "command": command, "args": arguments }),
        }
    }

    fn reached(self, url: &str, variable: &str) -> Value {
        let headers = |value: String| json!({ "Authorization": format!("Bearer {value}") });
        match self {
            Self::Claude | Self::Codex => {
                json!({ "type": "http", "url": url, "headers": headers(format!("${{{variable}}}")) })
            }
            Self::Gemini => json!({ "httpUrl": url, "headers": headers(format!("${{{variable}}}")) }),
            Self::Cursor => json!({ "url": url, "headers": headers(format!("${{env:{variable}}}")) }),
            Self::Vscode => {
                json!({ "type": "http", "url": url, "headers": headers(format!("${{input:{INPUT}}}")) })
            }
        }
    }
}

/// What VS Code asks for once and keeps.
const INPUT: &str = "haft-token";

/// Codex has TOML.
fn codex(server: &Server) -> anyhow::Result<String> {
    let entry = match &server.way {
        Way::Start { command, arguments } => json!({ "command": command, "args": arguments }),
        Way::Http { url, variable } => json!({ "url": url, "bearer_token_env_var": variable }),
    };
    Ok(toml::to_string(&json!({ "mcp_servers": { &server.name: entry } }))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> Server {
        let arguments =
            ["serve", "--program", "/home/ada/my \"tools\"/program.toml"].map(str::to_owned).into();
        Server { name: "tools".into(), way: Way::Start { command: "/opt/haft".into(), arguments } }
    }

    #[test]
    fn every_client_gets_a_file_that_it_can_read() {
        let reached = Server {
            name: "tools".into(),
            way: Way::Http { url: "http://127.0.0.1:8080/mcp".into(), variable: "HAFT_TOKEN".into() },
        };
        for server in [started(), reached] {
            for client in Client::value_variants() {
                let text = client.snippet(&server).unwrap();
                let entry: Value = if *client == Client::Codex {
                    toml::from_str::<Value>(&text).unwrap()["mcp_servers"]["tools"].clone()
                } else {
                    let file: Value = serde_json::from_str(&text).unwrap();
                    let servers = if *client == Client::Vscode { "servers" } else { "mcpServers" };
                    file[servers]["tools"].clone()
                };
                match &server.way {
                    Way::Start { arguments, .. } => {
                        assert_eq!(entry["command"], "/opt/haft", "{client:?}: {text}");
                        assert_eq!(entry["args"], json!(arguments), "{client:?}: {text}");
                    }
                    Way::Http { .. } => assert!(text.contains("127.0.0.1:8080/mcp"), "{client:?}: {text}"),
                }
            }
        }
    }
}
