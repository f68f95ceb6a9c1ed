//! An MCP server of a plugin, in the format of Agent Plugins or of Claude Code.

use haft_core::grant::Right;
use haft_manifest::TextOrSecret;

/// An MCP server of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginServer {
    /// The name in the plugin.
    pub name: String,
    /// The unique name in haft.
    pub called: String,
    /// The skill whose head names the server; `None` for a server of the plugin.
    pub skill: Option<String>,
    /// The connection to the server.
    pub start: Start,
    /// The author's proposal; `None` if nothing is proposed for any part of the plugin.
    pub proposed: Option<Vec<Right>>,
}

/// The connection to a server. Words and variables have the placeholders of §9.2.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// A child process.
    Stdio {
        /// The words of the command line.
        words: Vec<String>,
        /// Variables, in the order of the file. Only the format of Claude Code can name a variable of haft's
        /// environment as a value.
        env: Vec<(String, TextOrSecret)>,
        /// The working directory.
        directory: Directory,
    },
    /// Streamable HTTP.
    Http {
        /// The server's URL.
        url: String,
        /// Headers, as above.
        headers: Vec<(String, TextOrSecret)>,
    },
}

impl Start {
    /// Returns the working directory of a child process.
    pub fn directory(&self) -> Option<&Directory> {
        match self {
            Self::Stdio { directory, .. } => Some(directory),
            Self::Http { .. } => None,
        }
    }
}

/// The working directory of a server (§7.2.1); the path has no `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directory {
    /// A path below the plugin's folder; empty for the folder itself.
    Root(String),
    /// A path below the plugin's data directory; empty for the directory itself.
    Data(String),
}
