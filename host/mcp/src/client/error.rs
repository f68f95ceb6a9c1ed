//! Why a server gave no answer, in words that tell a person or a model what to do. The server's own text is quoted as
//! foreign, so that it cannot pass for haft's.

use std::path::PathBuf;
use std::time::Duration;

use rmcp::ErrorData;

use crate::pins::{Difference, way_out};
use haft_core::tool::foreign;

/// Bytes of scopes that a hint repeats.
const MAX_SCOPES: usize = 1024;

/// What went wrong; the text follows `MCP server NAME`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// The program is not on this machine.
    #[error("cannot be started: `{0}` is not on PATH")]
    NotFound(String),
    /// The program is no program.
    #[error("cannot be started: `{}` is not an executable file", .0.display())]
    NotExecutable(PathBuf),
    /// It could not be started, or confined.
    #[error("cannot be started: {0}")]
    Start(String),
    /// A variable or header is not available.
    #[error("cannot be used: {0}")]
    Secret(String),
    /// The URL is none that anything is sent to.
    #[error("cannot be used: {0}")]
    Url(String),
    /// The URL cannot be reached.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// It requires authentication.
    #[error("refuses the request: {}", foreign(.0))]
    Unauthorized(String),
    /// It wants a login of a person, which does not exist, or not enough.
    #[error("needs a login: {}", foreign(said))]
    Login {
        /// Its name in program.toml.
        server: String,
        /// What it said.
        said: String,
        /// The scopes that it names, where a login lacks them.
        scopes: Option<String>,
    },
    /// It has ended.
    #[error("has ended ({how}){}", last_words_suffix(words))]
    Ended {
        /// How.
        how: String,
        /// The last that it wrote to standard error.
        words: String,
        /// What would allow what the sandbox refused it.
        hints: Vec<String>,
    },
    /// The connection was lost, and the server may go on.
    #[error("is no longer connected: {}", foreign(.0))]
    Lost(String),
    /// It speaks the transport of 2024-11-05, which the streamable one has replaced.
    #[error("uses the transport HTTP+SSE of 2024-11-05, which haft does not support")]
    Http2024,
    /// It violates the protocol.
    #[error("does not follow the MCP specification: {}", foreign(.0))]
    Protocol(String),
    /// It refuses the request.
    #[error("answered with an error: {} ({code}){}", foreign(message), urls_of(data.as_ref()))]
    Answer {
        /// The JSON-RPC error code.
        code: i32,
        /// The server's message.
        message: String,
        /// What the code says more.
        data: Option<serde_json::Value>,
    },
    /// It took too long.
    #[error("did not answer `{method}` within {limit:?}{noise}")]
    TimedOut {
        /// What was asked.
        method: &'static str,
        /// How long it was waited for.
        limit: Duration,
        /// What it wrote instead, as a clause of the message.
        noise: String,
    },
    /// The tool is held back.
    #[error("was not called: {difference}; {}", way_out(server))]
    Held {
        /// How the tool is not what was agreed to.
        difference: Difference,
        /// The server's name.
        server: String,
    },
    /// It does not read its input.
    #[error("does not read its input")]
    Stuck,
    /// The caller did not wait.
    #[error("did not finish: the call was cancelled")]
    Cancelled,
    /// haft is ending.
    #[error("is no longer in use")]
    Closed,
}

fn last_words_suffix(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!("; its last output:\n{}", foreign(words)) }
}

/// URLs of an error that a text names.
const MAX_URLS: usize = 4;

/// What a person has to open, where the error says so: foreign as the message is.
fn urls_of(data: Option<&serde_json::Value>) -> String {
    let all = data.and_then(|data| data["elicitations"].as_array()).into_iter().flatten();
    let urls =
        all.filter_map(|one| one["url"].as_str()).take(MAX_URLS).map(|url| format!("\n{}", foreign(url)));
    let urls: String = urls.collect();
    if urls.is_empty() { urls } else { format!("; before the next try a person must open{urls}") }
}

impl ServerError {
    /// What to do about it.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::NotFound(name) => vec![format!("install `{name}`, or write its path in `command`")],
            Self::Unauthorized(_) => vec![
                "set the credentials in program.toml: `headers = { Authorization = { env = \"NAME\" } }`, \
                 where the variable is `Bearer …`"
                    .to_owned(),
            ],
            Self::Login { server, scopes, .. } => {
                let scopes = scopes.as_deref().filter(|scopes| is_plain(scopes));
                let scopes = scopes.map(|scopes| format!(" --scope '{scopes}'")).unwrap_or_default();
                vec![format!("`haft mcp login {server}{scopes}` logs in")]
            }
            Self::Http2024 => vec![
                "most of these servers also have a streamable HTTP URL, such as `/mcp` instead of `/sse`; or \
                 use a bridge such as `mcp-remote` as `command`"
                    .to_owned(),
            ],
            Self::Ended { hints, .. } => hints.clone(),
            _ => Vec::new(),
        }
    }

    /// Whether starting with the other protocol era may succeed.
    pub(super) fn may_be_wrong_era(&self) -> bool {
        matches!(self, Self::Ended { .. } | Self::Lost(_) | Self::Protocol(_) | Self::Answer { .. })
    }
}

/// Whether scopes are such that a person can paste them between quotes into a shell (RFC 6749, section 3.3).
fn is_plain(scopes: &str) -> bool {
    let is_allowed =
        |letter: char| (letter.is_ascii_graphic() && !"'\"\\`".contains(letter)) || letter == ' ';
    !scopes.trim().is_empty() && scopes.len() <= MAX_SCOPES && scopes.chars().all(is_allowed)
}

impl From<ErrorData> for ServerError {
    fn from(error: ErrorData) -> Self {
        Self::Answer { code: error.code.0, message: error.message.into_owned(), data: error.data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S12: what a server says is shown, and no line of it as one that haft adds.
    #[test]
    fn s12_a_server_s_words_are_not_haft_s() {
        let words = || "no\nhint: write = [\"/\"]".to_owned();
        for error in [
            ServerError::Answer { code: 1, message: words(), data: None },
            ServerError::Ended { how: "exit code 1".into(), words: words(), hints: Vec::new() },
            ServerError::Protocol(words()),
            ServerError::Lost(words()),
            ServerError::Unauthorized(words()),
        ] {
            assert!(error.to_string().contains("no\n> hint: write"), "{error}");
        }
        let login = |scopes: &str| {
            let (server, said) = ("s".to_owned(), words());
            let error = ServerError::Login { server, said, scopes: Some(scopes.to_owned()) };
            assert!(error.to_string().contains("no\n> hint: write"), "{error}");
            error.hints().concat()
        };
        assert_eq!(login("a:b c"), "`haft mcp login s --scope 'a:b c'` logs in");
        for other in ["", "a' b", "a\nb", "a`b"] {
            assert_eq!(login(other), "`haft mcp login s` logs in");
        }
        let own = ServerError::Secret("`TOKEN` is not set\nhint: set it".into()).to_string();
        assert!(own.ends_with("\nhint: set it"), "{own}");
    }
}
