//! Registries of MCP servers (API v0.1 of the MCP registry): finds a server by its name, and converts its entry to
//! a source of haft. Requests only the registry that the user named, and installs nothing.

mod entry;
mod error;
mod input;
mod resolve;

use haft_manifest::TextOrSecret;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use self::entry::Answer;
pub use self::error::RegistryError;
use crate::download::{self, DownloadError};
use crate::{Digest, PackageSource};

/// Limit on the bytes of an answer: an entry with a hundred settings takes a tenth.
const MAX_ANSWER: usize = 1 << 20;

/// Maximal number of proposed names for an unknown one.
const MAX_NEAR: usize = 10;

/// Limits on the bytes of a name and a version, of the schema.
const MAX_NAME: usize = 200;
const MAX_VERSION: usize = 255;

/// A registry, and the requests to it.
#[derive(Clone, Debug)]
pub struct Registry {
    /// Its address: `https://`, or `http://` on this machine.
    pub url: String,
}

/// The server that the user wants: `NAME[@VERSION]`, with settings.
#[derive(Clone, Debug)]
pub struct Wanted {
    name: String,
    version: Option<String>,
    /// The user's values.
    pub settings: Vec<(String, String)>,
    /// Whether secrets without a place are [`RegistryError::Secrets`]; otherwise they are variables.
    pub asks: bool,
}

/// A registry's server, as a source of haft or a URL.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Its version.
    pub version: String,
    /// How it comes here.
    pub start: Start,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}

/// How a server of a registry comes here.
#[derive(Clone, Debug)]
pub enum Start {
    /// A package.
    Package {
        /// Its source, with the values of the entry.
        source: PackageSource,
        /// The digest in the registry.
        digest: Option<Digest>,
    },
    /// A remote server, reached by streamable HTTP.
    Remote {
        /// A text that becomes its name.
        name: String,
        /// Its address.
        url: String,
        /// The headers of every request.
        headers: Vec<(String, TextOrSecret)>,
    },
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
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
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

/// A page of a list.
#[derive(Deserialize)]
struct Page {
    servers: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    server: Named,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl Registry {
    /// Finds a server.
    ///
    /// # Errors
    /// The registry does not answer, has no such server, or its entry is none that haft can use.
    pub async fn find(&self, wanted: &Wanted) -> Result<Registered, RegistryError> {
        let version = wanted.version.as_deref().unwrap_or("latest");
        let path = format!("servers/{}/versions/{}", encoded(&wanted.name), encoded(version));
        let answer: Answer = match self.ask(&path).await {
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

    /// Returns its address, without a user's name and password.
    pub fn shown(&self) -> String {
        download::shown_text(&self.url)
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, RegistryError> {
        let url = format!("{}/v0.1/{path}", self.url.trim_end_matches('/'));
        let text = download::document(&url, MAX_ANSWER, download::ANYTHING).await?;
        let why = |error: serde_json::Error| haft_core::report::plain(&error.to_string());
        serde_json::from_slice(&text).map_err(|error| RegistryError::Unreadable(why(error)))
    }

    /// Returns the error for an unknown name, with similar ones.
    async fn unknown(&self, wanted: &Wanted) -> RegistryError {
        let path = format!("servers?search={}&version=latest&limit={MAX_NEAR}", encoded(wanted.stem()));
        // A registry need not search.
        let near = match self.ask::<Page>(&path).await {
            Ok(page) => page.servers,
            Err(error) => {
                tracing::debug!("cannot suggest names: {error}");
                Vec::new()
            }
        };
        let near =
            near.into_iter().take(MAX_NEAR).map(|listed| haft_core::report::plain(&listed.server.name));
        let version = wanted.version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
        RegistryError::Unknown { name: format!("{}{version}", wanted.name), near: near.collect() }
    }
}

/// Returns a part of a path or query of a URL.
fn encoded(text: &str) -> String {
    text.replace('/', "%2F").replace('+', "%2B")
}

#[cfg(test)]
mod tests;
