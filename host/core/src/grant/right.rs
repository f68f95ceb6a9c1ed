//! A right on a command line: `read=DIR`, `write=DIR`, `host=HOST`, `env=NAME`, `credentials=STORE`, `service=SERVICE`,
//! `state=SIZE`, `cache=SIZE`. A parsed text alone: no path is resolved, and nothing is granted.

use std::fmt;
use std::str::FromStr;

use super::credentials::{CredentialStore, CredentialStoreError};
use super::host::{HostPattern, HostPatternError};
use super::service::{Service, ServiceError};
use crate::limit::Limits;
use crate::units::{format_size, parse_size};

/// A right.
#[derive(Clone, Debug, PartialEq)]
pub enum Right {
    /// Read a directory.
    Read(String),
    /// Read and write a directory.
    Write(String),
    /// Connect to a host.
    Host(HostPattern),
    /// Read an environment variable.
    Env(String),
    /// Read a credential store.
    Credentials(CredentialStore),
    /// Use a service of this machine; of processes alone.
    Service(Service),
    /// Store this many bytes of keys and values, and as many of files.
    State(u64),
    /// Store this many bytes of cache files, which may be removed at any time.
    Cache(u64),
}

/// The reason why a text is not a [`Right`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RightError {
    /// The form is invalid.
    #[error(
        "expected `read=DIR`, `write=DIR`, `host=HOST`, `env=NAME`, `credentials=STORE`, `service=SERVICE`, `state=SIZE` or `cache=SIZE`"
    )]
    Form,
    /// The host is invalid.
    #[error("{0}")]
    Host(#[from] HostPatternError),
    /// The credential store is unknown.
    #[error("{0}")]
    Store(#[from] CredentialStoreError),
    /// The service is unknown.
    #[error("{0}")]
    Service(#[from] ServiceError),
}

impl FromStr for Right {
    type Err = RightError;

    fn from_str(text: &str) -> Result<Self, RightError> {
        let (kind, value) = text.split_once('=').ok_or(RightError::Form)?;
        match kind {
            _ if value.is_empty() || value.contains(char::is_control) => Err(RightError::Form),
            "read" => Ok(Self::Read(value.into())),
            "write" => Ok(Self::Write(value.into())),
            "host" => Ok(Self::Host(value.parse()?)),
            "env" => Ok(Self::Env(value.into())),
            "credentials" => Ok(Self::Credentials(value.parse()?)),
            "service" => Ok(Self::Service(value.parse()?)),
            "state" => size(value, Limits::MAX_STATE).map(Self::State),
            "cache" => size(value, Limits::MAX_CACHE).map(Self::Cache),
            _ => Err(RightError::Form),
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, value) = self.parts();
        write!(f, "{kind}={value}")
    }
}

impl Right {
    /// Returns the kind and the value, as they are written.
    fn parts(&self) -> (&'static str, String) {
        match self {
            Self::Read(path) => ("read", path.clone()),
            Self::Write(path) => ("write", path.clone()),
            Self::Host(host) => ("host", host.to_string()),
            Self::Env(name) => ("env", name.clone()),
            Self::Credentials(store) => ("credentials", store.to_string()),
            Self::Service(service) => ("service", service.to_string()),
            Self::State(bytes) => ("state", format_size(*bytes)),
            Self::Cache(bytes) => ("cache", format_size(*bytes)),
        }
    }

    /// Returns the list of a grant in program.toml for this right, and its text in the list; `None` for a right with
    /// its own key.
    pub fn list_entry(&self) -> Option<(&'static str, String)> {
        match self.parts() {
            ("host", value) => Some(("hosts", value)),
            ("service", value) => Some(("services", value)),
            ("state" | "cache", _) => None,
            entry => Some(entry),
        }
    }

    /// Returns whether this right includes `other`. Compares texts: relative paths of both have one base directory.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Write(ours), Self::Read(theirs) | Self::Write(theirs))
            | (Self::Read(ours), Self::Read(theirs)) => lies_in(theirs, ours),
            (Self::Host(ours), Self::Host(theirs)) => ours.contains(theirs),
            // Every host of a process is the network of this machine, with its own ports.
            (Self::Host(ours), Self::Service(theirs)) => ours.is_any() && theirs.host().is_some(),
            (Self::State(ours), Self::State(theirs)) | (Self::Cache(ours), Self::Cache(theirs)) => {
                ours >= theirs
            }
            _ => self == other,
        }
    }
}

/// Parses a size within the limits of program.toml.
fn size(text: &str, most: u64) -> Result<u64, RightError> {
    parse_size(text).ok().filter(|size| (Limits::MIN_KEPT..=most).contains(size)).ok_or(RightError::Form)
}

/// Returns whether `path` is `folder` or below it. Compares texts: a path with `..` is only below itself.
fn lies_in(path: &str, folder: &str) -> bool {
    let kind = |text: &str| (text.starts_with('/'), text.starts_with('~'));
    let parts = |text: &str| -> Vec<String> {
        text.split('/').filter(|part| !matches!(*part, "" | ".")).map(str::to_owned).collect()
    };
    let (inner, outer) = (parts(path), parts(folder));
    let leads_up = inner.iter().chain(&outer).any(|part| part == "..");
    path == folder || !leads_up && kind(path) == kind(folder) && inner.starts_with(&outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(text: &str) -> Right {
        text.parse().unwrap()
    }

    #[test]
    fn a_right_is_read_and_written_alike() {
        for text in [
            "read=./docs",
            "write=~/x",
            "host=*.a.test",
            "host=http://localhost:80",
            "env=LANG",
            "credentials=ssh",
            "service=docker",
            "service=5432",
            "state=10MiB",
            "cache=1GiB",
        ] {
            assert_eq!(right(text).to_string().parse(), Ok(right(text)), "{text}");
        }
        for wrong in ["read", "read=", "run=ls", "=x", "read=a\nb", "state=10", "state=1B", "state=2GiB"] {
            assert_eq!(wrong.parse::<Right>(), Err(RightError::Form), "{wrong}");
        }
    }

    /// PR10: a right covers narrower ones, so that an update that requests fewer rights does not stop.
    #[test]
    fn a_right_covers_what_lies_in_it() {
        for (ours, theirs) in [
            ("read=.", "read=./docs"),
            ("read=docs", "read=./docs/a/"),
            ("write=/a", "read=/a/b"),
            ("read=../x", "read=../x"),
            ("read=~", "read=~/x"),
            ("read=/", "read=/etc"),
            ("host=*.a.test", "host=b.a.test"),
            ("host=*", "host=b.a.test"),
            ("env=A", "env=A"),
            ("credentials=ssh", "credentials=ssh"),
            ("state=2MiB", "state=1MiB"),
            ("host=*", "service=5432"),
        ] {
            assert!(right(ours).covers(&right(theirs)), "{ours} {theirs}");
        }
        for (ours, theirs) in [
            ("read=./docs", "read=."),
            ("read=./docs", "read=./docs2"),
            ("read=/a", "write=/a"),
            ("read=.", "read=/etc"),
            ("read=.", "read=~/x"),
            ("read=.", "read=../x"),
            ("read=a", "read=a/../b"),
            ("host=b.a.test", "host=*.a.test"),
            ("host=a.test", "host=http://a.test"),
            ("env=A", "env=B"),
            ("credentials=ssh", "credentials=gh"),
            ("read=~", "credentials=ssh"),
            ("env=A", "read=A"),
            ("state=1MiB", "state=2MiB"),
            ("state=1MiB", "cache=1MiB"),
            ("host=*", "service=docker"),
            ("host=*.a.test", "service=5432"),
        ] {
            assert!(!right(ours).covers(&right(theirs)), "{ours} {theirs}");
        }
    }
}
