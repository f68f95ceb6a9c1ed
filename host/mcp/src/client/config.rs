//! The configuration of a server: how it is reached, and with which environment or headers. It holds no secret; those
//! are looked up when the server is started.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;

use super::ServerError;
use haft_core::lookup::{find_on_path, is_executable};
use haft_core::report::Problem;
use haft_core::secret::Redactor;

/// A server, as program.toml declares it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its tools are called `mcp__<name>__<tool>`.
    pub name: String,
    /// How it is reached.
    pub endpoint: Endpoint,
    /// For one request.
    pub timeout: Duration,
    /// Characters of one answer that the model is shown.
    pub max_result: usize,
    /// Leaves out of its list of tools what it was given in secret; answers of calls are cleaned where all are.
    pub redactor: Redactor,
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// A child process.
    Stdio {
        /// The words that start it; at least one. The first is the bare name of a program on PATH,
        /// a path, or `~/…`.
        command: Vec<String>,
        /// What a relative path of the first word starts from.
        folder: PathBuf,
        /// What `~` means.
        home: PathBuf,
        /// Variables that it gets besides those that every child gets.
        environment: Arc<dyn Values>,
    },
    /// Streamable HTTP.
    Http {
        /// Where it answers.
        url: String,
        /// Sent with every request.
        headers: Arc<dyn Values>,
    },
}

impl Endpoint {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Stdio { command, folder, home, environment },
                Self::Stdio { command: others, folder: its_folder, home: its_home, environment: its_own },
            ) => {
                command == others
                    && (folder, home) == (its_folder, its_home)
                    && environment.identity() == its_own.identity()
            }
            (Self::Http { url, headers }, Self::Http { url: its_url, headers: its_own }) => {
                url == its_url && headers.identity() == its_own.identity()
            }
            (Self::Stdio { .. }, Self::Http { .. }) | (Self::Http { .. }, Self::Stdio { .. }) => false,
        }
    }
}

/// Named values, some of which are secrets.
#[async_trait]
pub trait Values: Debug + Send + Sync {
    /// Equal for equal values; holds no secret, but names, texts and where secrets are kept.
    fn identity(&self) -> String;

    /// Reads them, in order; the error says in words what cannot be had.
    async fn read(&self) -> Result<Vec<(String, SecretString)>, String>;
}

impl Config {
    /// Whether both declare the same server.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let bounds = |config: &Self| (config.timeout, config.max_result);
        self.name == other.name && bounds(self) == bounds(other) && self.endpoint.is_same(&other.endpoint)
    }

    /// Why this server cannot be used, as far as can be checked without starting it.
    pub fn problem(&self) -> Option<Problem> {
        let error = match &self.endpoint {
            Endpoint::Stdio { .. } => self.program().err(),
            Endpoint::Http { url, .. } => super::http::parse_url(url).err(),
        }?;
        let problem = Problem::new(format!("MCP server `{}` {error}", self.name));
        Some(error.hints().into_iter().fold(problem, Problem::hint))
    }

    /// The program that the command names; nothing is run to find it.
    pub fn program(&self) -> Result<PathBuf, ServerError> {
        let Endpoint::Stdio { command, folder, home, .. } = &self.endpoint else {
            return Err(ServerError::Start("it is no command".to_owned()));
        };
        let word = command.first().map(String::as_str).unwrap_or_default();
        if !word.contains('/') {
            return find_on_path(word).ok_or_else(|| ServerError::NotFound(word.to_owned()));
        }
        let path = match word.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => folder.join(word),
        };
        if is_executable(&path) { Ok(path) } else { Err(ServerError::NotExecutable(path)) }
    }

    /// The program, and those of its words that are files: when one of them changes, so may its
    /// tools. `workspace` is where the server runs.
    pub(super) fn files(&self, workspace: Option<&Path>) -> Vec<PathBuf> {
        let Endpoint::Stdio { command, .. } = &self.endpoint else { return Vec::new() };
        let words = command.iter().skip(1).filter(|word| !word.starts_with('-'));
        let own = words.filter_map(|word| Some(workspace?.join(word))).filter(|path| path.is_file());
        self.program().ok().into_iter().chain(own).collect()
    }
}
