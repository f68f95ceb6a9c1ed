//! program.lock: the exact installed content and the recorded consent. Grants nothing: rights are only in
//! program.toml.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::digest::{Digest, DigestError};
use super::disclosure::DisclosureDigests;
use super::foreign;
use super::listing::{TreeError, io_error, read_text};
use super::oci::Reference;
use super::signature::Signer;
use super::{Kind, PackageSource};
use haft_manifest::Name;

/// The version of the file format that is written, and the newest that is read.
const VERSION: u32 = 3;

/// The version of a file without servers, which an earlier haft reads.
const WITHOUT_SERVERS: u32 = 2;

/// Limit on the bytes of a lock file: a thousand pins of some KiB.
const MAX_LOCK: u64 = 8 << 20;

/// The comment at the top of the file.
const HEAD: &str = "# Written by haft: the exact installed content, with your consent.\n# Keep this file \
                    with program.toml; `haft update` changes it, `haft verify` checks it.\n";

/// The pins, sorted by name in the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    /// One pin for each installed entry of program.toml.
    pub pins: Vec<Pin>,
    /// The expected tools of MCP servers.
    pub servers: Vec<ServerPin>,
}

/// The installed content of one entry of program.toml.
#[derive(Clone, Debug, PartialEq)]
pub struct Pin {
    /// The entry's name.
    pub name: Name,
    /// The entry's table.
    pub kind: Kind,
    /// The source, as the entry names it.
    pub source: PackageSource,
    /// The content that the source resolved to: a commit, a manifest's digest.
    pub resolved: Option<String>,
    /// The digest of the fetched file or tree.
    pub digest: Digest,
    /// The digest of the stored content.
    pub kept: Digest,
    /// The package's version, if declared.
    pub version: Option<semver::Version>,
    /// The contracts of the components.
    pub contracts: Vec<String>,
    /// The signer. An update must be signed with this key.
    pub signer: Option<Signer>,
    /// The requests of the package.
    pub asked: Vec<String>,
    /// The requests that were granted at the last installation or update.
    pub granted: Vec<String>,
    /// The digests of the disclosure before consent (`shown` in the file); `None` if an earlier haft wrote the
    /// pin, which recorded none.
    pub disclosed: Option<DisclosureDigests>,
}

/// The agreed tools of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerPin {
    /// The server's name.
    pub name: String,
    /// The digest of the server's configuration.
    pub configuration: String,
    /// The digests of each tool, by name.
    pub tools: BTreeMap<String, String>,
}

/// Reasons why a lock file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] TreeError),
    /// A later haft wrote the file.
    #[error("`{}` has version {version}; this haft supports up to {VERSION}", path.display())]
    Newer { path: PathBuf, version: u64 },
    /// haft did not write this content.
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
}

impl LockError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Read(_) => None,
            Self::Newer { .. } => Some("use the haft that wrote it, or a later one"),
            Self::Damaged { .. } => {
                Some("restore it, or remove it and run `haft add` to agree to everything again")
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    #[serde(default, rename = "pin")]
    pins: Vec<WrittenPin>,
    #[serde(default, rename = "server", skip_serializing_if = "Vec::is_empty")]
    servers: Vec<ServerPin>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPin {
    name: String,
    kind: Kind,
    source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resolved: Option<String>,
    digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tree: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    contracts: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signer: Option<String>,
    asked: Vec<String>,
    granted: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shown: Option<WrittenDigests>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDigests {
    #[serde(default)]
    tools: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// Returns the path of the lock file for the program file `program`: beside it, with the extension `lock`.
pub fn lock_path(program: &Path) -> PathBuf {
    program.with_extension("lock")
}

impl Lock {
    /// Reads the file at `path`; `None` if it does not exist.
    pub fn load(path: &Path) -> Result<Option<Self>, LockError> {
        match read_text(path, MAX_LOCK) {
            Err(error) if is_absent(error.kind()) => Ok(None),
            text => Self::parse(&text.map_err(io_error("read", path))?, path).map(Some),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, LockError> {
        let damaged = |why: String| LockError::Damaged { path: path.to_owned(), why };
        let message = |error: toml::de::Error| damaged(error.message().to_owned());
        let table: toml::Table = toml::from_str(text).map_err(message)?;
        // The version is checked first: the meaning of a later version's keys is unknown.
        let version = table.get("version").and_then(toml::Value::as_integer).unwrap_or_default();
        match u64::try_from(version) {
            Ok(version) if version > u64::from(VERSION) => {
                return Err(LockError::Newer { path: path.to_owned(), version });
            }
            Ok(1..) => {}
            _ => return Err(damaged("it has no `version`".to_owned())),
        }
        let written: Written = toml::from_str(text).map_err(message)?;
        let pins = written.pins.into_iter().map(|pin| Pin::read(pin).map_err(&damaged));
        Ok(Self { pins: pins.collect::<Result<_, _>>()?, servers: written.servers })
    }

    /// Returns the text of the file.
    pub fn text(&self) -> String {
        let mut pins: Vec<_> = self.pins.iter().map(Pin::written).collect();
        pins.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
        // Serialization cannot fail: every field is a string, an integer or a map of strings.
        let version = if self.servers.is_empty() { WITHOUT_SERVERS } else { VERSION };
        let written = Written { version, pins, servers: self.servers.clone() };
        let text = toml::to_string_pretty(&written).unwrap_or_default();
        format!("{HEAD}\n{text}")
    }

    /// Returns the pin of an entry.
    pub fn find(&self, kind: Kind, name: &str) -> Option<&Pin> {
        self.pins.iter().find(|pin| pin.kind == kind && pin.name.as_str() == name)
    }

    pub(crate) fn put(&mut self, pin: Pin) {
        self.remove(pin.kind, pin.name.as_str());
        self.pins.push(pin);
    }

    /// Removes the pin of an entry.
    pub fn remove(&mut self, kind: Kind, name: &str) {
        self.pins.retain(|pin| pin.kind != kind || pin.name.as_str() != name);
    }

    /// Returns the pin of the server called `name` as it is configured.
    pub fn server(&self, name: &str, configuration: &str) -> Option<&ServerPin> {
        self.servers.iter().find(|pin| pin.name == name && pin.configuration == configuration)
    }

    /// Sets the pin of a server, instead of those of its other configurations, and removes those of servers
    /// that `is_known` does not know.
    pub fn put_server(&mut self, pin: ServerPin, is_known: impl Fn(&str) -> bool) {
        self.servers.retain(|own| own.name != pin.name && is_known(&own.name));
        self.servers.push(pin);
        self.servers.sort_by(|one, other| one.name.cmp(&other.name));
    }
}

fn is_absent(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the source with another tag, branch or commit.
pub(crate) fn with_tag(source: &PackageSource, tag: &str) -> PackageSource {
    match source {
        PackageSource::Git { url, plugin, .. } => {
            let reference = Some(tag.to_owned());
            PackageSource::Git { url: url.clone(), reference, plugin: plugin.clone() }
        }
        source => match source.to_string().parse::<Reference>() {
            Ok(reference) => reference.with_tag(tag).source(),
            Err(_) => source.clone(),
        },
    }
}

impl Pin {
    /// Reports whether this is a component with a local path, which is used in place and not from the store.
    pub fn is_used_in_place(&self) -> bool {
        self.kind == Kind::Plugin && matches!(self.source, PackageSource::Path(_))
    }

    /// Reports whether the pinned content is signed as `signer` requires.
    pub fn is_signed_by(&self, signer: &Signer) -> bool {
        self.signer.as_ref().is_some_and(|pinned| signer.admits(pinned))
    }

    /// Returns the exact source: the commit instead of the branch, the manifest's digest instead of the tag.
    /// Returns the plain source if nothing more exact is known.
    pub fn exact_source(&self) -> PackageSource {
        match (&self.source, &self.resolved) {
            (source @ PackageSource::Git { .. }, Some(commit)) => with_tag(source, commit),
            (source @ PackageSource::Oci(_), Some(digest)) => {
                let (reference, digest) = (source.to_string().parse::<Reference>(), digest.parse());
                match (reference, digest) {
                    (Ok(reference), Ok(digest)) => reference.at_digest(digest).source(),
                    // The fetch reports the error.
                    _ => source.clone(),
                }
            }
            (PackageSource::Foreign(foreign), Some(resolved)) => {
                PackageSource::Foreign(foreign::exact(foreign, resolved))
            }
            (source, _) => source.clone(),
        }
    }

    fn read(pin: WrittenPin) -> Result<Self, String> {
        let named = |what: &str, error: &dyn std::fmt::Display| {
            format!("`{what}` of `{}`: {error}", haft_core::report::plain(&pin.name))
        };
        let digest: Digest = pin.digest.parse().map_err(|error| named("digest", &error))?;
        let tree = pin.tree.as_deref().map(str::parse).transpose().map_err(|error| named("tree", &error))?;
        let version = pin.version.as_deref().map(semver::Version::parse).transpose();
        let signer = pin.signer.as_deref().map(str::parse).transpose();
        Ok(Self {
            source: pin.source.parse().map_err(|error| named("source", &error))?,
            version: version.map_err(|error| named("version", &error))?,
            name: pin.name.parse().map_err(|error| named("name", &error))?,
            kept: tree.unwrap_or_else(|| digest.clone()),
            digest,
            kind: pin.kind,
            resolved: pin.resolved,
            contracts: pin.contracts,
            signer: signer.map_err(|error| named("signer", &error))?,
            asked: pin.asked,
            granted: pin.granted,
            disclosed: pin.shown.map(read_digests).transpose().map_err(|error| named("shown", &error))?,
        })
    }

    fn written(&self) -> WrittenPin {
        WrittenPin {
            name: self.name.as_str().to_owned(),
            kind: self.kind,
            source: self.source.to_string(),
            resolved: self.resolved.clone(),
            digest: self.digest.to_string(),
            tree: (self.kept != self.digest).then(|| self.kept.to_string()),
            version: self.version.as_ref().map(ToString::to_string),
            contracts: self.contracts.clone(),
            signer: self.signer.as_ref().map(ToString::to_string),
            asked: self.asked.clone(),
            granted: self.granted.clone(),
            shown: self
                .disclosed
                .as_ref()
                .map(|shown| WrittenDigests { tools: written(&shown.tools), files: written(&shown.files) }),
        }
    }
}

fn read_digests(shown: WrittenDigests) -> Result<DisclosureDigests, DigestError> {
    let read = |digests: BTreeMap<String, String>| {
        let digest = |(name, digest): (String, String)| Ok((name, digest.parse()?));
        digests.into_iter().map(digest).collect::<Result<_, DigestError>>()
    };
    Ok(DisclosureDigests { tools: read(shown.tools)?, files: read(shown.files)? })
}

fn written(digests: &BTreeMap<String, Digest>) -> BTreeMap<String, String> {
    digests.iter().map(|(name, digest)| (name.clone(), digest.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(name: &str, kind: Kind) -> Pin {
        Pin {
            name: name.parse().unwrap(),
            kind,
            source: "https://a.test/words-1.0.tar.gz".parse().unwrap(),
            resolved: None,
            digest: Digest::hash(b"archive"),
            kept: Digest::hash(b"tree"),
            version: Some(semver::Version::new(1, 0, 0)),
            contracts: vec!["haft:plugin".into()],
            signer: None,
            asked: vec!["words:read=./docs".into()],
            granted: vec![],
            disclosed: Some(DisclosureDigests {
                tools: [("words__count".to_owned(), Digest::hash(b"tool"))].into(),
                files: [("bin/run it".to_owned(), Digest::hash(b"script"))].into(),
            }),
        }
    }

    fn parse(text: &str) -> Result<Lock, String> {
        Lock::parse(text, Path::new("program.lock")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_lock_is_read_back_and_always_written_in_one_order() {
        let mut lock = Lock {
            pins: vec![pin("b", Kind::Plugin), pin("b", Kind::Package), pin("a", Kind::Plugin)],
            ..Lock::default()
        };
        let text = lock.text();
        let read = parse(&text).unwrap();
        let order: Vec<_> = read.pins.iter().map(|pin| (pin.name.as_str(), pin.kind)).collect();
        assert_eq!(order, [("a", Kind::Plugin), ("b", Kind::Package), ("b", Kind::Plugin)]);
        assert_eq!(read.text(), text);
        assert_eq!(read.find(Kind::Package, "b"), Some(&pin("b", Kind::Package)));
        lock.remove(Kind::Package, "b");
        assert_eq!(lock.pins.len(), 2);
        lock.put(pin("b", Kind::Plugin));
        assert_eq!(lock.pins.len(), 2);
    }

    #[test]
    fn pins_of_servers_are_kept_for_one_configuration_each() {
        let server = |name: &str, configuration: &str| ServerPin {
            name: name.into(),
            configuration: configuration.into(),
            tools: [("read a".to_owned(), "digests".to_owned())].into(),
        };
        let mut lock = Lock { servers: vec![server("gone", "1"), server("a", "1")], ..Lock::default() };
        lock.put_server(server("a", "2"), |name| name != "gone");
        let read = parse(&lock.text()).unwrap();
        assert_eq!(read, lock);
        assert_eq!(read.servers, [server("a", "2")]);
        assert!(read.server("a", "1").is_none() && read.server("a", "2").is_some());
        assert!(lock.text().contains("version = 3") && Lock::default().text().contains("version = 2"));
    }

    #[test]
    fn an_exact_source_names_the_commit_or_the_manifest() {
        let digest = Digest::hash(b"manifest").to_string();
        let exact = |source: &str, resolved: &str| {
            let (source, resolved) = (source.parse().unwrap(), Some(resolved.to_owned()));
            Pin { source, resolved, ..pin("a", Kind::Plugin) }.exact_source().to_string()
        };
        for source in ["oci://localhost:5000/owner/words:1.0", "oci://localhost:5000/owner/words"] {
            assert_eq!(exact(source, &digest), format!("oci://localhost:5000/owner/words@{digest}"));
        }
        assert_eq!(exact("git+https://a.test/b@main", "c0ffee"), "git+https://a.test/b@c0ffee");
        assert_eq!(exact("https://a.test/b.wasm", "c0ffee"), "https://a.test/b.wasm");
    }

    /// S02: an entry of an earlier haft is read, and has no digests of a disclosure.
    #[test]
    fn a_lock_of_the_version_before_is_read() {
        let text =
            Lock { pins: vec![Pin { disclosed: None, ..pin("a", Kind::Plugin) }], ..Lock::default() }.text();
        let old = text.replace("version = 2", "version = 1");
        assert_ne!(old, text);
        assert_eq!(parse(&old).unwrap().pins[0].disclosed, None);
    }

    #[test]
    fn a_lock_of_a_later_version_is_not_guessed_at() {
        let error = parse("version = 4\nanything = { else = true }\n").unwrap_err();
        assert_eq!(error, "`program.lock` has version 4; this haft supports up to 3");
        for (text, why) in [
            ("", "has no `version`"),
            ("version = 1\nx = 2", "unknown field `x`"),
            ("version = 1\n[[pin]]", "missing field"),
            ("version = ", "damaged"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let good = Lock { pins: vec![pin("a", Kind::Plugin)], ..Lock::default() }.text();
        for (from, to, why) in [
            ("sha256:", "md5:", "`digest` of `a`"),
            ("https://", "ftp://", "`source` of `a`"),
            ("\"a\"", "\"../a\"", "`name` of"),
            ("\"1.0.0\"", "\"1\"", "`version` of `a`"),
        ] {
            let error = parse(&good.replace(from, to)).unwrap_err();
            assert!(error.contains(why), "{to}: {error}");
        }
    }
}
