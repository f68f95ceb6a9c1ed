//! An MCP server of a plugin, in the format of Agent Plugins or of Claude Code.

use haft_core::grant::Right;

/// An MCP server of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginServer {
    /// The name in the plugin.
    pub name: String,
    /// The name in haft, of which no two servers have the same.
    pub called: String,
    /// The skill that names it in its head; `None` for a server of the plugin.
    pub skill: Option<String>,
    /// How it is reached.
    pub start: Start,
    /// The author's proposal; `None` if nothing is proposed for any part of the plugin.
    pub proposed: Option<Vec<Right>>,
}

/// How a server is reached. Words and variables have the placeholders of §9.2.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// A child process.
    Stdio {
        /// The words that start it.
        words: Vec<String>,
        /// Variables, in the order of the file: the value, or the variable of haft's environment that has the value.
        env: Vec<(String, Text)>,
        /// Where it works.
        directory: Directory,
    },
    /// Streamable HTTP.
    Http {
        /// Where it answers.
        url: String,
        /// Headers, as above.
        headers: Vec<(String, Text)>,
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

/// A value of a variable or a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// The text.
    Written(String),
    /// The value of this variable of haft's environment, which only the format of Claude Code can name.
    Variable(String),
}

/// The working directory of a server (§7.2.1); the path has no `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directory {
    /// Below the plugin's folder; empty for the folder itself.
    Root(String),
    /// Below the directory that the plugin keeps; empty for the directory itself.
    Data(String),
}
