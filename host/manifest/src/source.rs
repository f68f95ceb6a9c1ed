//! The source of a package, as a user writes it. Parses text only: opens, requests and resolves nothing.

mod foreign;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use haft_core::net::is_loopback;

pub use self::foreign::{Foreign, Origin};
use super::entry::Entry;
use super::table::{FromValue, Kind};
use super::values::{check_url as is_url, host_of};

/// Bytes of a source; the longest URLs in use are shorter.
const MAX_LENGTH: usize = 2048;

/// Where a package comes from. `to_string` gives back what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageSource {
    /// A folder, an archive or a component on this machine, as written.
    Path(PathBuf),
    /// An archive or a component at an `https://` URL, or `http://` on this machine.
    Url(String),
    /// An OCI reference without its `oci://`: `ghcr.io/owner/name:tag` or `…@sha256:…`.
    Oci(String),
    /// A git repository.
    Git {
        /// What git is given: `https://…`, or `file://…`.
        url: String,
        /// A branch, a tag or a commit; the repository's own default without one.
        reference: Option<String>,
        /// The plugin of the marketplace in the repository; the repository itself is the package without one.
        plugin: Option<String>,
    },
    /// An MCP server as others distribute it: of npm, PyPI or in an MCP bundle.
    Foreign(Foreign),
}

/// Why a text is not a [`PackageSource`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Nothing.
    #[error("expected a folder, an archive, a component, an `https://` URL or an `oci://` reference")]
    Empty,
    /// Too long, or with characters that no source has.
    #[error("a source has at most {MAX_LENGTH} bytes and no control characters")]
    Text,
    /// A scheme that means nothing here.
    #[error("expected a path, `https://…`, `oci://…`, `git+https://…`, `npm:…` or `pypi:…`")]
    Scheme,
    /// git by way of ssh, for which haft has no keys.
    #[error(
        "haft fetches only over `git+https://`, without your keys; clone a private repository yourself and \
         add its folder"
    )]
    Ssh,
    /// Not encrypted.
    #[error("a package is code: use `https://`; `http://` is only for this machine")]
    Unencrypted,
    /// An invalid URL, or may show a secret.
    #[error("expected a URL with a host, without a user name, a password or `#`")]
    Url,
    /// Not an OCI reference.
    #[error("expected a reference such as `oci://ghcr.io/owner/name:1.0`")]
    Oci,
    /// Not the name of a commit, branch or tag.
    #[error("expected a branch, a tag or a commit after `@`: letters, digits, `.`, `_`, `-`, `/`")]
    Reference,
    /// Not a package of npm.
    #[error(
        "expected `npm:NAME` or `npm:NAME@VERSION` with an exact version such as `1.2.0`; without a version \
         it is the latest"
    )]
    Npm,
    /// Not a package of PyPI.
    #[error(
        "expected `pypi:NAME` or `pypi:NAME==VERSION` with an exact version such as `1.2.0`; without a \
         version it is the latest"
    )]
    Pypi,
    /// Not a pair after `#`.
    #[error("expected `KEY=VALUE` pairs after `#`, joined by `&`; `%26` stands for a `&`, `%23` for a `#`")]
    Setting,
    /// A name of a registry of MCP servers.
    #[error(
        "`mcp:NAME` is only for `haft add`; here write the package itself: `npm:NAME`, `pypi:NAME` or the \
         `.mcpb` file"
    )]
    NoRegistry,
}

impl PackageSource {
    /// Returns whether it is an MCP server of npm, PyPI or a bundle: these formats request no rights.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign(_))
    }
}

impl FromStr for PackageSource {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        if text.trim().is_empty() {
            return Err(SourceError::Empty);
        }
        if text.len() > MAX_LENGTH || text.contains(char::is_control) {
            return Err(SourceError::Text);
        }
        if let Some(foreign) = Foreign::parse(text) {
            return foreign.map(Self::Foreign);
        }
        match text.split_once("://") {
            None if text.contains("git@") => Err(SourceError::Ssh),
            None => Ok(Self::Path(text.into())),
            Some(("oci", reference)) => oci(reference),
            Some(("git+https" | "git+http" | "git+file", _)) => git(text.get(4..).unwrap_or_default()),
            Some(("https" | "http", rest)) => {
                check_url(text)?;
                if rest.split(['?', '@']).next().is_some_and(|path| path.strip_suffix(".git").is_some()) {
                    return git(text);
                }
                Ok(Self::Url(text.to_owned()))
            }
            Some(("git+ssh" | "ssh", _)) => Err(SourceError::Ssh),
            Some(_) => Err(SourceError::Scheme),
        }
    }
}

impl FromValue for PackageSource {
    const KIND: Kind = Kind::Text;

    fn from_value(entry: &Entry<'_>) -> Option<Self> {
        entry.path().and_then(|_| entry.parse())
    }
}

impl fmt::Display for PackageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Url(url) => f.write_str(url),
            Self::Oci(reference) => write!(f, "oci://{reference}"),
            Self::Git { url, reference, plugin } => {
                write!(f, "git+{url}")?;
                reference.iter().try_for_each(|reference| write!(f, "@{reference}"))?;
                plugin.iter().try_for_each(|plugin| write!(f, "#{plugin}"))
            }
            Self::Foreign(foreign) => foreign.fmt(f),
        }
    }
}

fn oci(reference: &str) -> Result<PackageSource, SourceError> {
    let is_right = reference.contains('/')
        && !reference.starts_with(['/', '-'])
        && reference.chars().all(|c| c.is_ascii_alphanumeric() || "./:@_-".contains(c));
    if is_right { Ok(PackageSource::Oci(reference.to_owned())) } else { Err(SourceError::Oci) }
}

/// What stands after `git+`.
fn git(text: &str) -> Result<PackageSource, SourceError> {
    let (text, plugin) = match text.rsplit_once('#') {
        Some((text, plugin)) if is_plugin(plugin) => (text, Some(plugin.to_owned())),
        _ => (text, None),
    };
    // An `@` in front of the path would be part of a user name, which `check_url` refuses.
    let (url, reference) = match text.rsplit_once('@') {
        Some((url, reference)) if url.matches('/').count() > 2 => (url, Some(reference)),
        _ => (text, None),
    };
    if !url.starts_with("file:///") {
        check_url(url)?;
    }
    if url.contains('?') {
        return Err(SourceError::Url);
    }
    let is_right = |reference: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        !reference.is_empty() && !reference.starts_with('-') && reference.chars().all(fits)
    };
    if reference.is_some_and(|reference| !is_right(reference)) {
        return Err(SourceError::Reference);
    }
    Ok(PackageSource::Git { url: url.to_owned(), reference: reference.map(str::to_owned), plugin })
}

/// Whether a text can name a plugin of a marketplace.
fn is_plugin(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

fn check_url(text: &str) -> Result<(), SourceError> {
    is_url(text).map_err(|_| SourceError::Url)?;
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let is_safe = text.starts_with("https:") || is_loopback(host_of(rest));
    if is_safe { Ok(()) } else { Err(SourceError::Unencrypted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PackageSource, SourceError> {
        text.parse()
    }

    #[test]
    fn every_kind_is_told_by_its_text_and_written_back() {
        let git = |url: &str, reference: Option<&str>| PackageSource::Git {
            url: url.into(),
            reference: reference.map(str::to_owned),
            plugin: None,
        };
        let of_market = PackageSource::Git {
            url: "https://a.b/c".into(),
            reference: Some("v1".into()),
            plugin: Some("tools".into()),
        };
        for (text, expected) in [
            ("./words", PackageSource::Path("./words".into())),
            ("words.wasm", PackageSource::Path("words.wasm".into())),
            ("~/words-1.0.tar.gz", PackageSource::Path("~/words-1.0.tar.gz".into())),
            ("https://a.b/c.wasm?x=@", PackageSource::Url("https://a.b/c.wasm?x=@".into())),
            ("http://localhost:80/c.tgz", PackageSource::Url("http://localhost:80/c.tgz".into())),
            ("http://[::1]:80/c.tgz", PackageSource::Url("http://[::1]:80/c.tgz".into())),
            ("oci://ghcr.io/a/b:1.0", PackageSource::Oci("ghcr.io/a/b:1.0".into())),
            ("git+https://a.b/c", git("https://a.b/c", None)),
            ("git+https://a.b/c.git@v1.0", git("https://a.b/c.git", Some("v1.0"))),
            ("git+file:///srv/c", git("file:///srv/c", None)),
            ("git+https://a.b/c@v1#tools", of_market),
        ] {
            assert_eq!(parse(text).as_ref(), Ok(&expected), "{text}");
            assert_eq!(expected.to_string(), text);
        }
        assert_eq!(parse("https://a.b/c.git@main"), parse("git+https://a.b/c.git@main"));
    }

    /// PR08: ambiguous sources and sources with a password are refused.
    #[test]
    fn odd_sources_are_refused() {
        for (text, error) in [
            (" ", SourceError::Empty),
            ("a\u{1b}[2J", SourceError::Text),
            (&"a".repeat(MAX_LENGTH + 1), SourceError::Text),
            ("ftp://a.b/c", SourceError::Scheme),
            ("git@a.b:c/d.git", SourceError::Ssh),
            ("git+ssh://git@a.b/c", SourceError::Ssh),
            ("http://a.b/c.wasm", SourceError::Unencrypted),
            ("http://localhost.evil.test/c", SourceError::Unencrypted),
            ("git+http://a.b/c", SourceError::Unencrypted),
            ("https://user:secret@a.b/c", SourceError::Url),
            ("git+https://user@a.b/c", SourceError::Url),
            ("https:///c", SourceError::Url),
            ("https://a.b/c#d", SourceError::Url),
            ("git+https://a.b/c?d", SourceError::Url),
            ("git+https://a.b/c@--upload-pack=x", SourceError::Reference),
            ("git+https://a.b/c@", SourceError::Reference),
            ("oci://name", SourceError::Oci),
            ("oci://-x/name", SourceError::Oci),
            ("oci://a.b/c d", SourceError::Oci),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }
}
