//! Configuration snippets for MCP clients. Every client has its own format for the same three values: the command,
//! or the URL, and the token. A snippet never contains a token.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use serde_json::{Map, Value, json};

use haft::program::FILE_NAME;
use haft_manifest::Manifest;
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
    /// opencode
    Opencode,
    /// Zed
    Zed,
    /// goose
    Goose,
    /// Crush
    Crush,
}

/// A server for the configuration of a client.
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
    /// Returns the server of the program `program`, or of the program in this folder. The client starts this haft
    /// with `options`, or connects over HTTP to `http`, with the token in the environment variable `variable`.
    pub(super) fn new(
        program: Option<&Path>,
        http: Option<SocketAddr>,
        variable: &str,
        options: Vec<String>,
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
            None => {
                Way::Start { command: text(&own_path()?)?, arguments: arguments("serve", program, options)? }
            }
        };
        Ok(Self { name, way })
    }
}

/// Returns the path of this haft, for the configuration of a client that starts it.
pub(in crate::cli) fn own_path() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find out where haft is")
}

/// Returns the words after the command in the configuration of a client that starts `verb`.
pub(in crate::cli) fn arguments(
    verb: &str,
    program: Option<&Path>,
    options: impl IntoIterator<Item = String>,
) -> anyhow::Result<Vec<String>> {
    let mut arguments = vec![verb.to_owned()];
    if let Some(program) = program {
        let whole = std::path::absolute(program)
            .with_context(|| format!("cannot find out where `{}` is", program.display()))?;
        arguments.extend(["--program".to_owned(), text(&whole)?]);
    }
    arguments.extend(options);
    Ok(arguments)
}

pub(in crate::cli) fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| {
        format!("`{}` is not valid UTF-8, which configuration files require", path.display())
    })
}

impl Client {
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
            Self::Opencode => {
                "opencode: `opencode.json` in your project, or `~/.config/opencode/opencode.json`"
            }
            Self::Zed => {
                "Zed: `settings.json` (`zed: open settings file`); it does not expand variables: insert the \
                 token yourself"
            }
            Self::Goose => "goose: `~/.config/goose/config.yaml`",
            Self::Crush => "Crush: `.crush.json` in your project, or `~/.config/crush/crush.json`",
        }
    }

    /// Returns the snippet, which is a complete file.
    pub(super) fn snippet(self, server: &Server) -> anyhow::Result<String> {
        if self == Self::Codex {
            return codex(server);
        }
        if self == Self::Goose {
            return Ok(goose(server));
        }
        let entry = match &server.way {
            Way::Start { command, arguments } => self.started(command, arguments),
            Way::Http { url, variable } => self.reached(url, variable),
        };
        let mut file = Map::new();
        if let Some(schema) = self.schema() {
            file.insert("$schema".into(), schema.into());
        }
        file.insert(self.servers().into(), json!({ &server.name: entry }));
        if let (Self::Vscode, Way::Http { .. }) = (self, &server.way) {
            let ask = json!({ "type": "promptString", "id": INPUT, "description": "Token of haft", "password": true });
            file.insert("inputs".into(), json!([ask]));
        }
        Ok(serde_json::to_string_pretty(&Value::Object(file))? + "\n")
    }

    /// Returns the key of the servers in a client's file.
    fn servers(self) -> &'static str {
        match self {
            Self::Claude | Self::Gemini | Self::Cursor => "mcpServers",
            Self::Codex => "mcp_servers",
            Self::Vscode => "servers",
            Self::Opencode | Self::Crush => "mcp",
            Self::Zed => "context_servers",
            Self::Goose => "extensions",
        }
    }

    /// Returns the schema that a client's file refers to.
    fn schema(self) -> Option<&'static str> {
        match self {
            Self::Opencode => Some("https://opencode.ai/config.json"),
            Self::Crush => Some("https://charm.land/crush.json"),
            _ => None,
        }
    }

    fn started(self, command: &str, arguments: &[String]) -> Value {
        match self {
            Self::Gemini | Self::Cursor | Self::Codex | Self::Goose => {
                json!({ "command": command, "args": arguments })
            }
            Self::Zed => json!({ "command": command, "args": arguments, "env": {} }),
            Self::Claude | Self::Vscode | Self::Crush => {
                json!({ "type": "stdio", "command": command, "args": arguments })
            }
            Self::Opencode => {
                let words: Vec<_> =
                    std::iter::once(command).chain(arguments.iter().map(String::as_str)).collect();
                json!({ "type": "local", "command": words, "enabled": true })
            }
        }
    }

    fn reached(self, url: &str, variable: &str) -> Value {
        let headers = |value: String| json!({ "Authorization": format!("Bearer {value}") });
        match self {
            Self::Claude | Self::Codex | Self::Goose => {
                json!({ "type": "http", "url": url, "headers": headers(format!("${{{variable}}}")) })
            }
            Self::Gemini => json!({ "httpUrl": url, "headers": headers(format!("${{{variable}}}")) }),
            Self::Cursor => json!({ "url": url, "headers": headers(format!("${{env:{variable}}}")) }),
            Self::Opencode => {
                let headers = headers(format!("{{env:{variable}}}"));
                json!({ "type": "remote", "url": url, "enabled": true, "oauth": false, "headers": headers })
            }
            // Zed has no variables: the user inserts the token.
            Self::Zed => json!({ "url": url, "headers": headers(format!("<the token in {variable}>")) }),
            Self::Crush => json!({ "type": "http", "url": url, "headers": headers(format!("${variable}")) }),
            Self::Vscode => {
                json!({ "type": "http", "url": url, "headers": headers(format!("${{input:{INPUT}}}")) })
            }
        }
    }
}

/// The name of the input that VS Code requests once and stores.
const INPUT: &str = "haft-token";

/// Returns the snippet for Codex, in TOML. Without `required` Codex starts without the tools if haft fails, and shows
/// no error.
fn codex(server: &Server) -> anyhow::Result<String> {
    let entry = match &server.way {
        Way::Start { command, arguments } => {
            json!({ "command": command, "args": arguments, "required": true })
        }
        Way::Http { url, variable } => {
            json!({ "url": url, "bearer_token_env_var": variable, "required": true })
        }
    };
    Ok(toml::to_string(&json!({ "mcp_servers": { &server.name: entry } }))?)
}

/// Returns the snippet for goose, in YAML. JSON values are valid YAML.
fn goose(server: &Server) -> String {
    let name = json!(server.name);
    let way = match &server.way {
        Way::Start { command, arguments } => {
            format!("    type: stdio\n    cmd: {}\n    args: {}\n", json!(command), json!(arguments))
        }
        Way::Http { url, variable } => {
            let headers = json!({ "Authorization": format!("Bearer ${{{variable}}}") });
            let variables = json!([variable]);
            format!(
                "    type: streamable_http\n    uri: {}\n    headers: {headers}\n    env_keys: {variables}\n",
                json!(url)
            )
        }
    };
    format!("extensions:\n  {name}:\n    name: {name}\n    enabled: true\n{way}    timeout: 300\n")
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
                let file: Value = match client {
                    Client::Codex => toml::from_str(&text).unwrap(),
                    Client::Goose => continue,
                    _ => serde_json::from_str(&text).unwrap(),
                };
                let entry = &file[client.servers()]["tools"];
                match &server.way {
                    Way::Start { arguments, .. } if *client == Client::Opencode => {
                        let words = [&["/opt/haft".to_owned()], arguments.as_slice()].concat();
                        assert_eq!(entry["command"], json!(words), "{text}");
                    }
                    Way::Start { arguments, .. } => {
                        assert_eq!(entry["command"], "/opt/haft", "{client:?}: {text}");
                        assert_eq!(entry["args"], json!(arguments), "{client:?}: {text}");
                    }
                    Way::Http { .. } => {
                        let key = if *client == Client::Gemini { "httpUrl" } else { "url" };
                        assert_eq!(entry[key], "http://127.0.0.1:8080/mcp", "{client:?}: {text}");
                    }
                }
                assert!(*client != Client::Codex || entry["required"] == true, "{text}");
            }
        }
    }

    #[test]
    fn goose_gets_yaml() {
        let text = Client::Goose.snippet(&started()).unwrap();
        let lines: Vec<_> = text.lines().map(str::trim_start).collect();
        let expected = [
            "extensions:",
            r#""tools":"#,
            r#"name: "tools""#,
            "enabled: true",
            "type: stdio",
            r#"cmd: "/opt/haft""#,
            r#"args: ["serve","--program","/home/ada/my \"tools\"/program.toml"]"#,
            "timeout: 300",
        ];
        assert_eq!(lines, expected);
    }
}
