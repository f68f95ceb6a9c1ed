//! A client's configuration file: its servers, and its text with some of them behind `haft wrap`.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use haft_core::report::{Source, Span, plain};
use rustix::fs::OFlags;

use super::client::{Client, Machine, Place, under};
use super::edit;
use super::server::{Server, Start, prefix};
use super::syntax::{Node, Syntax};
use super::variable::{Folders, Part, parts};

/// Maximum size in bytes of a file: Claude Code's contains more than servers.
const MAX_FILE: u64 = 32 << 20;

/// The byte order mark, with which some editors begin a file.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A configuration file.
#[derive(Clone, Debug)]
pub struct Config {
    /// The client of the file.
    pub client: &'static Client,
    /// The file.
    pub path: PathBuf,
    /// The scope of the file.
    pub scope: &'static str,
    /// The complete text.
    pub text: String,
    /// The servers, in the order of the file.
    pub servers: Vec<Server>,
    syntax: Syntax,
}

/// The reason why a configuration file cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A mistake in the text; the place is `FILE:LINE:COLUMN`.
    #[error("{place}: {message}")]
    Syntax {
        /// The place of the error.
        place: String,
        /// The error.
        message: String,
    },
    /// A file that is no client's.
    #[error(
        "`{}` has no servers: neither `mcpServers`, `mcp_servers`, `servers`, `context_servers` nor `mcp`", .0.display()
    )]
    Unknown(PathBuf),
    /// The text with the change would mean something else than it has to.
    #[error("`{}` has a form that haft cannot change; write `haft wrap NAME --` in front of the command by hand", .0.display())]
    Form(PathBuf),
}

impl Config {
    /// Reads the file of a client; `None` if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read, or is not in the client's format.
    pub fn read(client: &'static Client, place: &Place) -> Result<Option<Self>, ConfigError> {
        match Self::text(&place.path) {
            Err(ConfigError::Unreadable { error, .. }) if is_absent(&error) => Ok(None),
            text => Self::parse(client, place, text?).map(Some),
        }
    }

    /// Reads the file at `path`; its location and its content identify the client.
    ///
    /// # Errors
    /// The file cannot be read, or belongs to no client.
    pub fn of_file(path: &Path, machine: &Machine) -> Result<Self, ConfigError> {
        let text = Self::text(path)?;
        let body = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
        let root = tree(path, body, Syntax::of(body))?;
        let (client, place) = root
            .and_then(|root| Client::of_file(path, &root, machine))
            .ok_or_else(|| ConfigError::Unknown(path.to_owned()))?;
        Self::parse(client, &Place { path: path.to_owned(), ..place }, text)
    }

    /// Returns the file of a client at `path`, which holds `text`.
    ///
    /// # Errors
    /// The text is not in the client's format.
    pub fn of_text(client: &'static Client, path: &Path, text: String) -> Result<Self, ConfigError> {
        Self::parse(client, &Place { path: path.to_owned(), scope: "file" }, text)
    }

    fn text(path: &Path) -> Result<String, ConfigError> {
        let unreadable = |error| ConfigError::Unreadable { path: path.to_owned(), error };
        let bytes = read_bounded(path).map_err(unreadable)?;
        String::from_utf8(bytes)
            .map_err(|error| unreadable(io::Error::new(io::ErrorKind::InvalidData, error.utf8_error())))
    }

    fn parse(client: &'static Client, place: &Place, text: String) -> Result<Self, ConfigError> {
        let mut config = Self {
            client,
            path: place.path.clone(),
            scope: place.scope,
            servers: Vec::new(),
            syntax: client.syntax,
            text,
        };
        let root = tree(&place.path, config.body(), client.syntax)?;
        config.servers = root.map(|root| servers(client, &root)).unwrap_or_default();
        Ok(config)
    }

    /// Returns the text without a byte order mark.
    fn body(&self) -> &str {
        self.text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.text)
    }

    /// Returns the text with the servers at `picked` behind `haft wrap`; `haft` is the program as written in the
    /// file. The variables that the file gives a server are granted to it. A wrapped server stays unchanged.
    ///
    /// # Errors
    /// The file has a form that cannot be changed.
    pub fn wrapped(&self, haft: &str, machine: &Machine, picked: &[usize]) -> Result<String, ConfigError> {
        let words = |at: usize, server: &Server| {
            let is_picked = |wrapped: bool| !wrapped && picked.contains(&at);
            let process = server.process().filter(|process| is_picked(process.is_wrapped(haft)))?;
            let more = self.variables_of_file(server, machine).unwrap_or_default();
            let variables = process.variables().chain(more.iter().map(String::as_str));
            Some(prefix(haft, &server.name, variables))
        };
        self.changed(|at, server| {
            let Some(words) = words(at, server) else { return (Vec::new(), None) };
            let process = server.process().map(|own| own.words.iter());
            let expected = words.iter().chain(process.into_iter().flatten()).cloned().collect();
            (server.wrap(self.body(), self.syntax, &words), Some(expected))
        })
    }

    /// Returns the text with no server behind `haft wrap`.
    ///
    /// # Errors
    /// The file has a form that cannot be changed.
    pub fn unwrapped(&self, haft: &str) -> Result<String, ConfigError> {
        self.changed(|_, server| {
            let wrapped = server.process().filter(|process| process.is_wrapped(haft));
            let own = wrapped.map(|process| process.words.iter().skip_while(|word| *word != "--").skip(1));
            let expected = own.map(|words| words.cloned().collect());
            (expected.as_ref().map(|_| server.unwrap(self.body())).unwrap_or_default(), expected)
        })
    }

    /// Returns the text with the edits of each server, checked against the expected words; all else stays.
    fn changed(
        &self,
        change: impl Fn(usize, &Server) -> (Vec<edit::Edit>, Option<Vec<String>>),
    ) -> Result<String, ConfigError> {
        let servers = self.servers.iter().enumerate();
        let changes: Vec<_> = servers.map(|(at, server)| change(at, server)).collect();
        let edits = changes.iter().flat_map(|(edits, _)| edits.clone()).collect();
        let mark = self.text.get(..self.text.len() - self.body().len()).unwrap_or_default();
        let text = format!("{mark}{}", edit::apply(self.body(), edits));
        let place = Place { path: self.path.clone(), scope: self.scope };
        let expected = self.servers.iter().zip(changes).map(|(server, (_, words))| {
            let mut start = server.start.clone();
            if let (Start::Process(process), Some(words)) = (&mut start, words) {
                process.words = words;
            }
            (server.name.clone(), server.project.clone(), start)
        });
        let is_right = Self::parse(self.client, &place, text.clone()).is_ok_and(|new| {
            new.servers.into_iter().map(|one| (one.name, one.project, one.start)).eq(expected)
        });
        if is_right { Ok(text) } else { Err(ConfigError::Form(self.path.clone())) }
    }

    /// Returns the names of the variables in a server's `envFile`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn variables_of_file(&self, server: &Server, machine: &Machine) -> io::Result<Vec<String>> {
        let Some(written) = server.process().and_then(|process| process.env_file.as_deref()) else {
            return Ok(Vec::new());
        };
        let folders = Folders { home: &machine.home, project: &machine.project };
        match parts(written, self.client.notation, folders).as_slice() {
            [Part::Text(path)] => variables(&machine.project.join(path)),
            _ => Ok(Vec::new()),
        }
    }
}

fn servers(client: &Client, root: &Node) -> Vec<Server> {
    let tables = client.tables.iter().flat_map(|keys| under(root, keys));
    tables
        .flat_map(|(project, table)| {
            let members = table.members().iter().filter(|member| member.node.is_table());
            members.filter_map(move |member| Server::read(&member.key, project, &member.node))
        })
        .collect()
}

fn tree(path: &Path, text: &str, syntax: Syntax) -> Result<Option<Node>, ConfigError> {
    syntax.parse(text).map_err(|error| {
        let source = Source::new(path.display().to_string(), text);
        let place = source.place(Span { start: error.at, end: error.at });
        ConfigError::Syntax { place, message: plain(&error.message) }
    })
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Reads a regular file of at most 32 MiB; waits for no pipe.
pub(crate) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 32 MiB"));
    }
    Ok(bytes)
}

/// Returns the names of the variables in a `.env` file, in its order. Their values are not kept.
fn variables(path: &Path) -> io::Result<Vec<String>> {
    let text = read_bounded(path)?;
    let name = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, _) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
        Some(name.trim().to_owned())
    };
    Ok(String::from_utf8_lossy(&text).lines().filter_map(name).collect())
}

#[cfg(test)]
mod tests;
