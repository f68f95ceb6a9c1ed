//! Sources of MCP servers in other formats: packages of npm and PyPI, and MCP bundles. Parses text only.

use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

use super::{PackageSource, SourceError};
use crate::{KeyringEntry, SecretSource};

/// The end of the name of an MCP bundle.
const BUNDLE: &str = ".mcpb";

/// An MCP server that haft makes a package of: `npm:NAME@VERSION#SETTINGS`, `pypi:NAME==VERSION#SETTINGS` or
/// `PLACE.mcpb#SETTINGS`. `to_string` gives back the text that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Where it is.
    pub origin: Origin,
    /// `KEY=VALUE` pairs in the order of the text, joined by `&`. A key may occur more than once.
    pub settings: Vec<(String, String)>,
}

/// Where an MCP server of others is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A package of npm, and its exact version; the latest without one.
    Npm(String, Option<String>),
    /// A package of PyPI, perhaps with extras, and its exact version; the latest without one.
    Pypi(String, Option<String>),
    /// An MCP bundle on this machine, as written.
    File(PathBuf),
    /// An MCP bundle at an `https://` URL, or `http://` on this machine.
    Url(String),
}

impl Foreign {
    /// Reads a source; `None` if the text is another kind of source.
    pub(super) fn parse(text: &str) -> Option<Result<Self, SourceError>> {
        let (place, settings) = text.split_once('#').unwrap_or((text, ""));
        let origin = match place.split_once(':') {
            Some(("npm", package)) => npm(package),
            Some(("pypi", package)) => pypi(package),
            Some(("mcp", _)) => Err(SourceError::NoRegistry),
            _ => bundle(place)?,
        };
        Some(origin.and_then(|origin| Ok(Self { origin, settings: parse_settings(settings)? })))
    }

    /// Returns the values of a setting.
    pub fn values<'s>(&'s self, key: &'s str) -> impl Iterator<Item = &'s str> {
        self.settings.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns where a setting says that a secret is: `env:NAME` or `keyring:SERVICE/USER`.
    pub fn secret_place(value: &str) -> Option<SecretSource> {
        match value.split_once(':')? {
            ("env", name) => name.parse().ok().map(SecretSource::Env),
            ("keyring", entry) => entry.parse().ok().map(SecretSource::Keyring),
            _ => None,
        }
    }

    /// Reports whether a setting names this entry of the keyring.
    pub fn names(&self, entry: &KeyringEntry) -> bool {
        let own = |value: &String| matches!(Self::secret_place(value), Some(SecretSource::Keyring(own)) if own == *entry);
        self.settings.iter().any(|(_, value)| own(value))
    }

    /// Returns this source with an exact version, which a bundle has not.
    #[must_use]
    pub fn at(&self, version: &str) -> Self {
        let origin = match &self.origin {
            Origin::Npm(name, _) => Origin::Npm(name.clone(), Some(version.to_owned())),
            Origin::Pypi(name, _) => Origin::Pypi(name.clone(), Some(version.to_owned())),
            bundle => bundle.clone(),
        };
        Self { origin, ..self.clone() }
    }

    /// Returns the exact version, if the source names one.
    pub fn version(&self) -> Option<&str> {
        match &self.origin {
            Origin::Npm(_, version) | Origin::Pypi(_, version) => version.as_deref(),
            Origin::File(_) | Origin::Url(_) => None,
        }
    }

    /// Returns the source of a bundle's archive; `None` for a package of npm or PyPI.
    pub fn archive(&self) -> Option<PackageSource> {
        match &self.origin {
            Origin::File(path) => Some(PackageSource::Path(path.clone())),
            Origin::Url(url) => Some(PackageSource::Url(url.clone())),
            Origin::Npm(..) | Origin::Pypi(..) => None,
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Npm(name, None) => write!(f, "npm:{name}"),
            Origin::Npm(name, Some(version)) => write!(f, "npm:{name}@{version}"),
            Origin::Pypi(name, None) => write!(f, "pypi:{name}"),
            Origin::Pypi(name, Some(version)) => write!(f, "pypi:{name}=={version}"),
            Origin::File(path) => path.display().fmt(f),
            Origin::Url(url) => f.write_str(url),
        }?;
        for (index, (key, value)) in self.settings.iter().enumerate() {
            f.write_char(if index == 0 { '#' } else { '&' })?;
            write!(f, "{}={}", escaped(key), escaped(value))?;
        }
        Ok(())
    }
}

/// `@scope/name@1.2.0`
fn npm(package: &str) -> Result<Origin, SourceError> {
    let at = package.get(1..).and_then(|rest| rest.rfind('@')).map(|at| at + 1);
    let (name, version) = match at.and_then(|at| package.split_at_checked(at)) {
        Some((name, version)) => (name, version.get(1..)),
        None => (package, None),
    };
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-', '_'])
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c))
    };
    let is_name = match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| plain(scope) && plain(name)),
        None => plain(name),
    };
    let is_exact = version.is_none_or(|version| semver::Version::parse(version).is_ok());
    if !is_name || !is_exact {
        return Err(SourceError::Npm);
    }
    Ok(Origin::Npm(name.to_owned(), version.map(str::to_owned)))
}

/// `name[extra]==1.2`
fn pypi(package: &str) -> Result<Origin, SourceError> {
    let (name, version) = match package.split_once("==") {
        Some((name, version)) => (name, Some(version)),
        None => (package, None),
    };
    let (base, extras) = match name.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        Some((base, extras)) => (base, Some(extras)),
        None => (name, None),
    };
    let plain = |part: &str, also: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || also.contains(c);
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(fits)
    };
    let are_extras = extras.is_none_or(|extras| plain(extras, "-._,"));
    let is_exact = version.is_none_or(|version| plain(version, ".+!"));
    if !plain(base, "-._") || !are_extras || !is_exact {
        return Err(SourceError::Pypi);
    }
    Ok(Origin::Pypi(name.to_owned(), version.map(str::to_owned)))
}

/// `./server.mcpb`, `https://a.test/server.mcpb?key`
fn bundle(place: &str) -> Option<Result<Origin, SourceError>> {
    if place.starts_with("https://") || place.starts_with("http://") {
        let is_bundle = place.split('?').next().is_some_and(|path| path.strip_suffix(BUNDLE).is_some());
        return is_bundle.then(|| super::check_url(place).map(|()| Origin::Url(place.to_owned())));
    }
    let is_bundle = !place.contains("://") && Path::new(place).extension().is_some_and(|end| end == "mcpb");
    is_bundle.then(|| Ok(Origin::File(place.into())))
}

fn parse_settings(text: &str) -> Result<Vec<(String, String)>, SourceError> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').filter(|(key, _)| !key.is_empty())?;
        Some((unescaped(key)?, unescaped(value)?))
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|text| pair(text).ok_or(SourceError::Setting)).collect()
}

/// Replaces the characters that have a meaning in settings.
fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('&', "%26").replace('#', "%23").replace('=', "%3D")
}

fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_others_are_told_by_their_text_and_written_back() {
        let some = |version: &str| Some(version.to_owned());
        for (text, origin, settings) in [
            ("npm:server", Origin::Npm("server".into(), None), 0),
            ("npm:@a/b@1.2.0-rc.1", Origin::Npm("@a/b".into(), some("1.2.0-rc.1")), 0),
            ("npm:@a/b#arg=.&arg=%26%25x", Origin::Npm("@a/b".into(), None), 2),
            ("pypi:mcp_time==2025.1.post2", Origin::Pypi("mcp_time".into(), some("2025.1.post2")), 0),
            ("pypi:a[b,c]#env.X=%3D", Origin::Pypi("a[b,c]".into(), None), 1),
            ("./a.mcpb#key=", Origin::File("./a.mcpb".into()), 1),
            ("https://a.b/c.mcpb?x=1#k=v", Origin::Url("https://a.b/c.mcpb?x=1".into()), 1),
        ] {
            let foreign = Foreign::parse(text).expect(text).unwrap();
            assert_eq!((&foreign.origin, foreign.settings.len()), (&origin, settings), "{text}");
            assert_eq!(foreign.to_string(), text);
        }
        let foreign = Foreign::parse("npm:@a/b#arg=.&arg=%26%25x").unwrap().unwrap();
        assert_eq!(foreign.values("arg").collect::<Vec<_>>(), [".", "&%x"]);
        assert_eq!(foreign.at("2.0.0").to_string(), "npm:@a/b@2.0.0#arg=.&arg=%26%25x");
        assert!(Foreign::parse("./words").is_none() && Foreign::parse("https://a.b/c.tgz?x.mcpb").is_none());
    }

    #[test]
    fn what_npm_or_uv_could_take_for_something_else_is_refused() {
        for (text, error) in [
            ("npm:", SourceError::Npm),
            ("npm:--registry=x", SourceError::Npm),
            ("npm:a@latest", SourceError::Npm),
            ("npm:a@^1.0.0", SourceError::Npm),
            ("npm:../a", SourceError::Npm),
            ("npm:@a", SourceError::Npm),
            ("npm:a@file:../b", SourceError::Npm),
            ("npm:a b", SourceError::Npm),
            ("pypi:", SourceError::Pypi),
            ("pypi:-r x", SourceError::Pypi),
            ("pypi:a>=1", SourceError::Pypi),
            ("pypi:a==", SourceError::Pypi),
            ("pypi:a @ https://b.test", SourceError::Pypi),
            ("npm:a#x", SourceError::Setting),
            ("npm:a#=x", SourceError::Setting),
            ("npm:a#x=%4", SourceError::Setting),
            ("npm:a#x=%0a", SourceError::Setting),
            ("mcp:io.test/a", SourceError::NoRegistry),
            ("http://a.b/c.mcpb", SourceError::Unencrypted),
        ] {
            assert_eq!(Foreign::parse(text), Some(Err(error)), "{text}");
        }
    }
}
