//! The configuration of a server: transport, and environment or headers. Contains no secret; secrets are looked up
//! when the server is started.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};

use super::{Account, ServerError};
use haft_core::encoding::hex;
use haft_core::lookup::{find_on_path, is_executable};
use haft_core::report::Problem;
use haft_core::secret::Redactor;
use haft_manifest::ServerLimits;

/// A server, as program.toml declares it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server's name. Its tools are called `mcp__<name>__<tool>`.
    pub name: String,
    /// The connection to the server.
    pub endpoint: Endpoint,
    /// Time limit of one request.
    pub timeout: Duration,
    /// The limits of a child process.
    pub limits: ServerLimits,
    /// Whether the server is started only by calls, once its tools are known.
    pub on_use: bool,
    /// Maximum number of characters of one answer for the model.
    pub max_result: usize,
    /// Removes the server's secrets from its list of tools; answers of calls are redacted by the toolbox.
    pub redactor: Redactor,
}

/// The connection to a server.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// A child process.
    Stdio {
        /// The command line of the server, with at least one word. The first word is the bare name of a program on
        /// PATH, a path, or `~/…`.
        command: Vec<String>,
        /// The base of a relative path in the first word.
        folder: PathBuf,
        /// The expansion of `~`.
        home: PathBuf,
        /// The server's variables, in addition to those of every child.
        environment: Arc<dyn Values>,
    },
    /// Streamable HTTP.
    Http {
        /// The server's URL.
        url: String,
        /// Sent with every request.
        headers: Arc<dyn Values>,
        /// The login at the server; `None` if the headers authenticate haft.
        account: Option<Arc<Account>>,
    },
}

/// Named values, some of which are secrets.
#[async_trait]
pub trait Values: Debug + Send + Sync {
    /// Returns an identity, equal for equal values. Represents secrets by their sources.
    fn identity(&self) -> String;

    /// Returns the values in order; the error names the missing one.
    async fn read(&self) -> Result<Vec<(String, SecretString)>, String>;
}

impl Endpoint {
    /// Returns the texts that configure the server: transport, command, variables and headers. Secrets are
    /// represented by their sources.
    fn parts(&self) -> Vec<String> {
        match self {
            Self::Stdio { command, environment, .. } => {
                let words = command.iter().cloned();
                std::iter::once("stdio".to_owned()).chain(words).chain([environment.identity()]).collect()
            }
            Self::Http { url, headers, account } => {
                let own = vec!["http".to_owned(), url.clone(), headers.identity()];
                // Without a setting the texts are those from before logins existed.
                let login = account.as_ref().and_then(|account| account.identity());
                own.into_iter().chain(login).collect()
            }
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.parts() == other.parts() && self.places() == other.places()
    }

    /// Returns the folders that lead from the command to the program.
    fn places(&self) -> Option<(&Path, &Path)> {
        match self {
            Self::Stdio { folder, home, .. } => Some((folder, home)),
            Self::Http { .. } => None,
        }
    }

    /// Adds the server's configuration to a digest.
    pub(super) fn hash(&self, digest: &mut Sha256) {
        for part in self.parts() {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
    }
}

impl Config {
    /// Returns a digest of the server's configuration, under which its tools are pinned: transport, command,
    /// variables and headers in program.toml. Rights and limits are not a part: if a server's tools depend on them,
    /// the change is reported like any other.
    pub fn configuration(&self) -> String {
        let mut digest = Sha256::new();
        self.endpoint.hash(&mut digest);
        hex(&digest.finalize())
    }

    /// Returns whether both configurations declare one server.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let bounds = |config: &Self| (config.timeout, config.max_result, config.limits);
        self.name == other.name && bounds(self) == bounds(other) && self.endpoint.is_same(&other.endpoint)
    }

    /// Returns the reason why this server cannot be used, as far as can be checked without starting it.
    pub fn problem(&self) -> Option<Problem> {
        let error = match &self.endpoint {
            Endpoint::Stdio { .. } => self.program().err(),
            Endpoint::Http { url, .. } => super::address::parse_url(url).err(),
        }?;
        let problem = Problem::new(format!("MCP server `{}` {error}", self.name));
        Some(error.hints().into_iter().fold(problem, Problem::hint))
    }

    /// Returns the program that the command names; nothing is run to find it.
    pub fn program(&self) -> Result<PathBuf, ServerError> {
        let Endpoint::Stdio { command, folder, home, .. } = &self.endpoint else {
            return Err(ServerError::Start("it is not a command".to_owned()));
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

    /// Returns the program, and those of its arguments that are files or modules, with the files that they may
    /// import: a change of one may change the tools. `workspace` is the server's working directory.
    pub(super) fn files(&self, workspace: Option<&Path>) -> Vec<PathBuf> {
        let own = self.sources(workspace).into_iter().flat_map(|own| beside(&own));
        self.program().ok().into_iter().chain(own).collect()
    }

    /// Returns whether a change of files shows a change of the tools: not for package runners, nor for remote
    /// servers.
    pub(super) fn is_told_by_files(&self, workspace: Option<&Path>) -> bool {
        !self.sources(workspace).is_empty()
    }

    /// Returns the files that [`sources`](Self::sources) names, without links.
    pub(super) fn scripts(&self, workspace: Option<&Path>) -> Vec<PathBuf> {
        self.sources(workspace).iter().filter_map(|script| script.canonicalize().ok()).collect()
    }

    /// Returns the words of the command line that are files, and the module after `-m`.
    fn sources(&self, workspace: Option<&Path>) -> Vec<PathBuf> {
        let (Endpoint::Stdio { command, .. }, Some(workspace)) = (&self.endpoint, workspace) else {
            return Vec::new();
        };
        let own = |(before, word): (&String, &String)| {
            let module = || Some(workspace.join(word.replace('.', "/"))).filter(|_| before == "-m");
            let module = || module().map(|path| if path.is_dir() { path } else { path.with_extension("py") });
            Some(workspace.join(word))
                .filter(|path| path.is_file())
                .or_else(module)
                .filter(|path| path.exists())
        };
        command.iter().zip(command.iter().skip(1)).filter_map(own).collect()
    }
}

/// Maximum number of examined files of an import.
const MAX_SOURCES: usize = 2000;
/// Folders below that of the server's own file.
const MAX_DEPTH: usize = 4;
/// Folders that are looked into.
const MAX_FOLDERS: usize = 500;
/// File name extensions of sources, in the languages of servers.
const SOURCES: &[&str] = &["cjs", "cts", "go", "js", "mjs", "mts", "php", "pl", "py", "rb", "rs", "sh", "ts"];
/// Files that name the packages of such sources.
const PACKAGES: &[&str] = &[
    "go.sum",
    "package-lock.json",
    "package.json",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pyproject.toml",
    "requirements.txt",
    "uv.lock",
    "yarn.lock",
];

/// Returns `file`, and the sources in its folder and below; of a folder those in it.
fn beside(file: &Path) -> Vec<PathBuf> {
    let folder = if file.is_dir() { Some(file) } else { file.parent() };
    let (mut found, mut folders) = (vec![file.to_owned()], 0);
    let mut open: Vec<(PathBuf, usize)> = folder.map(|folder| (folder.to_owned(), 0)).into_iter().collect();
    while let Some((folder, depth)) = open.pop().filter(|_| folders < MAX_FOLDERS) {
        folders += 1;
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // Generated files are not sources; a package list shows changes of packages.
            let is_own = !name.starts_with('.') && !name.starts_with("__") && name != "node_modules";
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && is_own && depth < MAX_DEPTH => {
                    open.push((entry.path(), depth + 1));
                }
                Ok(kind) if kind.is_dir() => {}
                _ if is_source(&name) && found.len() < MAX_SOURCES => found.push(entry.path()),
                _ => {}
            }
        }
    }
    // The order of directory entries is arbitrary.
    found.sort();
    found.dedup();
    found
}

fn is_source(name: &str) -> bool {
    PACKAGES.contains(&name) || name.rsplit_once('.').is_some_and(|(_, end)| SOURCES.contains(&end))
}
