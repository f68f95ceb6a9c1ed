//! The program.toml of a package that is made from an MCP server in another format.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use haft_manifest::{Foreign, Name, SecretSource};
use semver::Version;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ForeignError;
use super::error::io_error;
use crate::inventory::MANIFEST;

/// Limit on the bytes of a file of JSON that describes a package: the lock of ten thousand packages.
const MAX_JSON: u64 = 16 << 20;

/// The value of a variable that the server gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Env {
    Text(String),
    /// haft's own variable, at the time of the start.
    Variable {
        env: String,
    },
    /// An entry of the user's keyring, read at the start.
    Keyring {
        keyring: String,
    },
}

impl Env {
    pub(super) fn variable(name: &str) -> Self {
        Self::Variable { env: name.to_owned() }
    }

    /// Returns the value of a secret of the setting `value`: `env:NAME` or `keyring:SERVICE/USER`.
    pub(super) fn secret(value: &str) -> Option<Self> {
        match Foreign::secret_place(value)? {
            SecretSource::Env(name) => Some(Self::variable(name.as_str())),
            SecretSource::Keyring(entry) => Some(Self::Keyring { keyring: entry.to_string() }),
            SecretSource::File(_) => None,
        }
    }
}

/// A server, and its description.
#[derive(Debug)]
pub(super) struct Server {
    /// A text that becomes the server's name.
    pub(super) name: String,
    pub(super) version: Version,
    pub(super) description: Option<String>,
    pub(super) author: Option<String>,
    pub(super) license: Option<String>,
    /// The words of the command line. A word that begins with `./` is a file of the package.
    pub(super) command: Vec<String>,
    pub(super) env: Vec<(String, Env)>,
}

#[derive(Serialize)]
struct Written {
    program: Program,
    #[serde(skip_serializing_if = "Requirements::is_empty")]
    host_requirements: Requirements,
    mcp_servers: [Entry; 1],
}

#[derive(Serialize)]
struct Program {
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    authors: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<String>,
}

#[derive(Serialize)]
struct Requirements {
    required: Vec<String>,
}

impl Requirements {
    fn is_empty(&self) -> bool {
        self.required.is_empty()
    }
}

#[derive(Serialize)]
struct Entry {
    name: String,
    command: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, Env>,
}

impl Server {
    /// Writes the program.toml into `folder`, which must not contain one.
    pub(super) fn write(self, folder: &Path) -> Result<(), ForeignError> {
        let unusable = |error| {
            let name = haft_core::report::plain(&self.name);
            ForeignError::Unsupported(format!("it has no usable name (`{name}`: {error})"))
        };
        let name = Name::of_text(&self.name).map_err(unusable)?;
        let program = self.command.first().filter(|word| !word.contains('/'));
        let written = Written {
            program: Program {
                name: name.to_string(),
                version: self.version.to_string(),
                description: self.description,
                authors: self.author.into_iter().collect(),
                license: self.license,
            },
            host_requirements: Requirements { required: program.into_iter().cloned().collect() },
            mcp_servers: [Entry {
                name: name.to_string(),
                command: self.command,
                env: self.env.into_iter().collect(),
            }],
        };
        let path = folder.join(MANIFEST);
        // Serialization cannot fail: every value is a string, or a list or map of strings.
        let text = toml::to_string(&written).unwrap_or_default();
        put(&path, &text)?;
        Ok(())
    }
}

/// Writes a new file. An existing file of the package is not replaced.
pub(super) fn put(path: &Path, text: &str) -> Result<(), ForeignError> {
    let written = crate::folder::write(text.as_bytes(), path, text.len() as u64, false);
    written.map(|_| ()).map_err(io_error("write", path))
}

/// Reads the JSON of `file` in `folder`.
pub(super) fn read_json<T: DeserializeOwned>(folder: &Path, file: &str) -> Result<T, ForeignError> {
    let text = read(folder, file)?;
    let unreadable = |error: serde_json::Error| ForeignError::Unreadable {
        file: haft_core::report::plain(file),
        why: haft_core::report::plain(&error.to_string()),
    };
    serde_json::from_str(&text).map_err(unreadable)
}

/// Reads the text of `file` in `folder`, of at most 16 MiB.
pub(super) fn read(folder: &Path, file: &str) -> Result<String, ForeignError> {
    let (path, mut text) = (folder.join(file), String::new());
    let opened = fs::symlink_metadata(&path).and_then(|_| File::open(&path));
    let read = opened.and_then(|opened| opened.take(MAX_JSON).read_to_string(&mut text));
    read.map(|_| text).map_err(io_error("read", &path))
}
