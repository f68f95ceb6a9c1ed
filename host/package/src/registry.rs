//! Registries of MCP servers (API v0.1 of the MCP registry): finds a server by its name, and converts its entry to
//! a source of haft. Requests only the registry that the user named, and installs nothing.

mod entry;
mod input;
mod resolve;

use haft_core::encoding::percent_encoded;
use haft_manifest::TextOrSecret;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::entry::{Answer, Status};
use crate::download::{self, DownloadError};
use crate::{Digest, ForeignError, PackageSource};

/// Limit on the bytes of an answer: an entry with a hundred settings takes a tenth.
const MAX_ANSWER: usize = 1 << 20;

/// Maximum size in bytes of a page of a list.
const MAX_PAGE: usize = 8 << 20;

/// Maximum number of proposed names for an unknown name.
const MAX_NEAR: usize = 10;

/// Servers of a page: the most that the API gives.
const PAGE: usize = 100;

/// Maximum number of pages of one search: more are too many for a person.
const MAX_PAGES: usize = 5;

/// Limits on the bytes of a name and a version, of the schema.
const MAX_NAME: usize = 200;
const MAX_VERSION: usize = 255;

/// A registry, and the requests to it.
#[derive(Clone, Debug)]
pub struct Registry {
    /// The URL of the registry: `https://`, or `http://` on this machine.
    pub url: String,
}

/// The requested server: `NAME[@VERSION]`, with settings.
#[derive(Clone, Debug)]
pub struct Wanted {
    name: String,
    version: Option<String>,
    /// The user's values.
    pub settings: Vec<(String, String)>,
    /// Whether secrets without a source are [`ForeignError::Secrets`]; otherwise they are variables.
    pub asks: bool,
}

/// A registry's server, as a source of haft or a URL.
#[derive(Clone, Debug)]
pub struct Registered {
    /// The version.
    pub version: String,
    /// The form of the server.
    pub start: Start,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}

/// The form of a registry's server on this machine.
#[derive(Clone, Debug)]
pub enum Start {
    /// A package.
    Package {
        /// The source, with the values of the entry.
        source: PackageSource,
        /// The digest in the registry.
        digest: Option<Digest>,
    },
    /// A remote server, reached by streamable HTTP.
    Remote {
        /// A text that becomes the server's name.
        name: String,
        /// The server's URL.
        url: String,
        /// The headers of every request.
        headers: Vec<(String, TextOrSecret)>,
    },
}

/// Reasons why a server of a registry cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The text is no name.
    #[error(
        "expected `mcp:NAMESPACE/NAME` or `mcp:NAMESPACE/NAME@VERSION`, as the registry calls the server"
    )]
    Name,
    /// The registry does not answer.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// The answer is not of the form of the API and the schema.
    #[error("the registry's answer cannot be parsed: {0}")]
    Unreadable(String),
    /// The registry has no such server or version.
    #[error("the registry has no `{name}`")]
    Unknown {
        /// The name, perhaps with a version.
        name: String,
        /// Similar names.
        near: Vec<String>,
    },
    /// The entry, or a value for it, cannot be used by haft.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// No installable form, with a remedy.
    #[error("{what}")]
    Elsewhere {
        /// The form.
        what: String,
        /// The remedy.
        way_out: String,
    },
}

impl RegistryError {
    /// Returns a hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { near, .. } if near.is_empty() => {
                Some("write names as in the registry, such as `io.github.owner/server`".to_owned())
            }
            Self::Unknown { near, .. } => Some(format!("it has `{}`", near.join("`, `"))),
            Self::Elsewhere { way_out, .. } => Some(way_out.clone()),
            Self::Foreign(error) => error.hint(),
            _ => None,
        }
    }
}

impl Wanted {
    /// Returns the server's name, without its namespace.
    pub fn stem(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    /// Reads `NAME[@VERSION]`.
    ///
    /// # Errors
    /// The text is not a name of a registry (schema 2025-12-11).
    pub fn parse(text: &str) -> Result<Self, RegistryError> {
        let parts = text.split_once('@');
        let (name, version) = parts.map_or((text, None), |(name, version)| (name, Some(version)));
        let fits = |text: &str, also: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
        };
        let is_name = name.len() <= MAX_NAME
            && name.split_once('/').is_some_and(|(space, own)| fits(space, ".-") && fits(own, "._-"));
        let is_version = version.is_none_or(|version| {
            version.len() <= MAX_VERSION && !version.starts_with('.') && fits(version, "._-+")
        });
        if !is_name || !is_version {
            return Err(RegistryError::Name);
        }
        Ok(Self {
            name: name.to_owned(),
            version: version.map(str::to_owned),
            settings: Vec::new(),
            asks: false,
        })
    }
}

/// A page of a list. An entry that cannot be read is no reason to miss the others.
#[derive(Deserialize)]
struct Page {
    servers: Vec<Value>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) description: String,
}

impl Page {
    /// Returns the servers that were not withdrawn.
    fn servers(self) -> impl Iterator<Item = Named> {
        let listed = self.servers.into_iter().filter_map(|value| serde_json::from_value(value).ok());
        listed
            .filter(|listed: &Answer<Named>| listed.meta.status() != Some(Status::Deleted))
            .map(|listed| listed.server)
    }
}

impl Registry {
    /// Finds a server.
    ///
    /// # Errors
    /// The registry does not answer, has no such server, or its entry cannot be used by haft.
    pub async fn find(&self, wanted: &Wanted) -> Result<Registered, RegistryError> {
        let version = wanted.version.as_deref().unwrap_or("latest");
        let path = format!(
            "servers/{}/versions/{}",
            percent_encoded(&wanted.name, b""),
            percent_encoded(version, b"")
        );
        let answer: Answer = match self.ask(&path, MAX_ANSWER).await {
            Err(RegistryError::Download(DownloadError::Status { status, .. }))
                if status.starts_with("404") =>
            {
                return Err(self.unknown(wanted).await);
            }
            answer => answer?,
        };
        answer.check(wanted)?;
        resolve::resolved(&answer, wanted)
    }

    /// Returns the registry's URL, without a user name and password.
    pub fn shown(&self) -> String {
        download::shown_text(&self.url)
    }

    /// Lists the servers whose names contain `word`, as the API searches. Returns whether there are more.
    pub(crate) async fn search(&self, word: &str) -> Result<(Vec<Named>, bool), RegistryError> {
        let (mut found, mut after) = (Vec::new(), String::new());
        for _ in 0..MAX_PAGES {
            let page = self.page(word, PAGE, &after).await?;
            let next = page.metadata.next_cursor.clone().filter(|next| !next.is_empty());
            found.extend(page.servers());
            match next {
                Some(next) => after = format!("&cursor={}", percent_encoded(&next, b"")),
                None => return Ok((found, false)),
            }
        }
        Ok((found, true))
    }

    async fn page(&self, word: &str, limit: usize, after: &str) -> Result<Page, RegistryError> {
        let path =
            format!("servers?search={}&version=latest&limit={limit}{after}", percent_encoded(word, b""));
        self.ask(&path, MAX_PAGE).await
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str, most: usize) -> Result<T, RegistryError> {
        let url = format!("{}/v0.1/{path}", self.url.trim_end_matches('/'));
        let text = download::document(&url, most, download::ANYTHING).await?;
        let why = |error: serde_json::Error| haft_core::report::plain(&error.to_string());
        serde_json::from_slice(&text).map_err(|error| RegistryError::Unreadable(why(error)))
    }

    async fn unknown(&self, wanted: &Wanted) -> RegistryError {
        // A registry need not search.
        let page = self.page(wanted.stem(), MAX_NEAR, "").await;
        let page = page.inspect_err(|error| tracing::debug!("cannot suggest names: {error}")).ok();
        let near = page.into_iter().flat_map(Page::servers).take(MAX_NEAR);
        let near = near.map(|server| haft_core::report::plain(&server.name));
        let version = wanted.version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
        RegistryError::Unknown { name: format!("{}{version}", wanted.name), near: near.collect() }
    }
}

#[cfg(test)]
mod tests;
