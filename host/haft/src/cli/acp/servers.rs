//! The MCP servers that the user has set up in the editor, as if program.toml declared them: they run with the rights of
//! the program's commands, and a server of program.toml keeps its name. What is no server haft could run is left out.

use secrecy::SecretString;

use haft_acp::StdioServer;
use haft_core::report::{Problem, Span};
use haft_core::secret::Redactor;
use haft_manifest::{Located, McpServer, Name, ServerLimits, TextOrSecret, Transport, is_credential};

/// The servers, and why others are left out. `redactor` learns the values of variables that are named as secrets are.
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
            // It is the editor's, in whose configuration no verb of haft agrees to anything.
            pinned: false,
            timeout: McpServer::DEFAULT_TIMEOUT,
            max_result: McpServer::DEFAULT_MAX_RESULT,
            grant: None,
            limits: ServerLimits::default(),
        });
    }
    (declared, left_out)
}

/// Something that stands in no program.toml.
fn here<T>(value: T) -> Located<T> {
    Located { value, span: Span::default() }
}

/// A name of an editor's, as names are in program.toml: `GitHub MCP` is `github-mcp`.
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
