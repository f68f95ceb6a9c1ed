//! Fetches a package from any source into a temporary directory, within limits, and detects its format.
//! Installs nothing; derives the format from the bytes, never from a name or a header.

mod error;
mod settings;

use std::io;
use std::path::{Path, PathBuf};

pub use self::error::FetchError;
pub use self::settings::{FetchGrants, Fetching};
use super::agent_plugin;
use super::agent_plugin::marketplace::{self, Place};
use super::archive::{self, Form};
use super::download;
use super::folder;
use super::foreign;
use super::git;
use super::listing::{Listing, TreeError, io_error};
use super::oci::{self, Reference};
use super::signature::{self, Statement, Subject, Verdict};
use super::{Digest, MAX_SIZE, PackageSource};
use haft_core::grant::Root;
use haft_manifest::Foreign;

/// The folder of a package's files in the directory of a fetch.
const TREE: &str = "tree";

/// Fetched content, in [`Fetching::directory`].
#[derive(Debug)]
pub struct Fetched {
    /// The content and its format.
    pub content: Content,
    /// The digest of the fetched file; for a folder or a repository, of the tree.
    pub digest: Digest,
    /// The digest of the stored content: the component, or the package's tree.
    pub kept: Digest,
    /// The bytes of all files.
    pub size: u64,
    /// The exact version that the source resolved to: a commit, a manifest's digest; `None` if the source has
    /// none.
    pub resolved: Option<String>,
    /// The result of the signature check.
    pub verdict: Verdict,
    /// Files of the folder that are not part of the package.
    pub left_out: Vec<String>,
    /// Notes for the user on a package made from an MCP server in another format, or listed by a marketplace, one
    /// sentence each.
    pub notes: Vec<String>,
}

/// The format of fetched content.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A component: one file.
    Component(PathBuf),
    /// A package: a folder with a program.toml, and its files.
    Tree(PathBuf, Listing),
}

/// Fetches `source`.
pub async fn fetch(source: &PackageSource, fetching: &Fetching<'_>) -> Result<Fetched, FetchError> {
    let raw = fetch_raw(source, fetching).await?;
    if let PackageSource::Foreign(foreign) = source {
        return raw.made(foreign, fetching).await;
    }
    let (directory, expected) = (fetching.directory.to_owned(), fetching.expected.clone());
    let source_text = source.to_string();
    let opened = run_blocking(move || raw.open(&directory, &source_text, expected.as_ref()));
    opened.await
}

/// Fetched bytes before they are unpacked.
struct Raw {
    /// A file in `directory`, or a folder anywhere.
    path: PathBuf,
    is_folder: bool,
    resolved: Option<String>,
    verdict: Verdict,
    /// A marketplace's description of a plugin without a manifest.
    manifest: Option<serde_json::Value>,
    notes: Vec<String>,
}

impl Raw {
    /// Checks a file against the signature beside it, if there is one.
    fn file(
        path: PathBuf,
        beside: Option<String>,
        fetching: &Fetching<'_>,
        what: &str,
    ) -> Result<Self, FetchError> {
        let statements: Vec<_> = beside.map(Statement::Minisign).into_iter().collect();
        let verdict = signature::judge(&statements, Subject::File(&path), fetching.trust, fetching.root);
        let verdict = verdict.map_err(|error| FetchError::Signature { what: what.to_owned(), error })?;
        Ok(Self::new(path, false, verdict))
    }

    fn new(path: PathBuf, is_folder: bool, verdict: Verdict) -> Self {
        Self { path, is_folder, resolved: None, verdict, manifest: None, notes: Vec::new() }
    }

    /// Checks a folder, which has no signature.
    fn folder(path: PathBuf, fetching: &Fetching<'_>, what: &str) -> Result<Self, FetchError> {
        Ok(Self { is_folder: true, ..Self::file(path, None, fetching, what)? })
    }
}

async fn fetch_raw(source: &PackageSource, fetching: &Fetching<'_>) -> Result<Raw, FetchError> {
    let file = fetching.directory.join("fetched");
    let what = source.to_string();
    match source {
        PackageSource::Path(written) => {
            let path = match written.strip_prefix("~") {
                Ok(rest) => fetching.home.join(rest),
                Err(_) => fetching.base.join(written),
            };
            let metadata = std::fs::metadata(&path);
            if metadata.is_err()
                && let Some((market, plugin)) = path.to_str().and_then(|path| path.rsplit_once('#'))
            {
                return Raw::folder(market.into(), fetching, &what)?.of_marketplace(plugin, fetching).await;
            }
            let metadata = metadata.map_err(io_error("look at", &path))?;
            if metadata.is_dir() {
                return Raw::folder(path, fetching, &what);
            }
            let beside = signature::beside(&path);
            let beside = beside.map_err(|error| FetchError::Signature { what: what.clone(), error })?;
            let to = file.clone();
            run_blocking(move || folder::copy_file(&path, &to)).await?;
            Raw::file(file, beside, fetching, &what)
        }
        PackageSource::Url(url) => {
            download::download(url, &file, MAX_SIZE, &fetching.progress).await?;
            let beside = download::signature(url).await?;
            Raw::file(file, beside, fetching, &what)
        }
        PackageSource::Oci(_) => {
            let reference: Reference = what.parse()?;
            let pulled = oci::pull(&reference, fetching).await?;
            let resolved = Some(pulled.digest.to_string());
            Ok(Raw { resolved, ..Raw::new(pulled.file, false, pulled.verdict) })
        }
        PackageSource::Git { url, reference, plugin } => {
            let (folder, commit) = git::clone(url, reference.as_deref(), fetching).await?;
            let raw = Raw { resolved: Some(commit), ..Raw::folder(folder, fetching, &what)? };
            match plugin {
                Some(plugin) => raw.of_marketplace(plugin, fetching).await,
                None => Ok(raw),
            }
        }
        PackageSource::Foreign(foreign) => {
            if let Some(archive) = foreign.archive() {
                return Box::pin(fetch_raw(&archive, fetching)).await;
            }
            // Judged where the package is made: attestations are about the content that npm and uv fetch.
            Ok(Raw::new(fetching.directory.join(TREE), true, Verdict::Unsigned))
        }
    }
}

impl Raw {
    /// Returns the plugin of this name, if this is a marketplace. The lock has the marketplace's commit; for a
    /// marketplace in a folder, which has none, the commit of the plugin's repository.
    async fn of_marketplace(mut self, name: &str, fetching: &Fetching<'_>) -> Result<Self, FetchError> {
        // A local folder is the user's own, and has no commit.
        let is_local = self.resolved.is_none();
        let marketplace::Entry { place, manifest } = marketplace::find(&self.path, name, is_local)?;
        let (around, inside) = match place {
            Place::Here(inside) => (self.path.clone(), inside),
            Place::Elsewhere { url, reference, inside } => {
                let directory = fetching.directory.join("plugin");
                std::fs::create_dir(&directory).map_err(io_error("create folder", &directory))?;
                let fetching = Fetching { directory: &directory, ..fetching.clone() };
                let (folder, commit) = git::clone(&url, reference.as_deref(), &fetching).await?;
                let path = inside.display();
                self.notes.push(haft_core::report::plain(&format!("plugin from {url}@{commit}:{path}")));
                self.resolved = self.resolved.take().or(Some(commit));
                (folder, inside)
            }
        };
        let path = contained(&around, &inside).map_err(io_error("open", &around.join(&inside)))?;
        Ok(Self { path, manifest: Some(manifest), ..self })
    }

    /// Checks the digest before the content: unexpected bytes are never unpacked.
    fn open(self, directory: &Path, source: &str, expected: Option<&Digest>) -> Result<Fetched, FetchError> {
        let check = |found: &Digest| check(found, expected, source);
        let tree = directory.join(TREE);
        let (resolved, verdict, notes) = (self.resolved, self.verdict, self.notes);
        let fetched = |content, digest, kept, size| {
            let left_out = Vec::new();
            Fetched { content, digest, kept, size, resolved, verdict, left_out, notes }
        };
        if self.is_folder {
            let has = |file: &str| self.path.join(file).is_file();
            let left_out = if has(super::inventory::MANIFEST) {
                folder::copy(&self.path, &tree)?
            } else if agent_plugin::is_plugin(has) || self.manifest.is_some() {
                let left_out = agent_plugin::copy(&self.path, &tree)?;
                self.manifest.iter().try_for_each(|manifest| marketplace::complete(manifest, &tree))?;
                left_out
            } else {
                return Err(FetchError::NoManifest(self.path));
            };
            let (listing, size) = Listing::from_folder(&tree)?;
            let kept = listing.digest();
            check(&kept)?;
            let content = Content::Tree(tree, listing);
            return Ok(Fetched { left_out, ..fetched(content, kept.clone(), kept, size) });
        }
        let (digest, size) = Digest::of_file(&self.path, MAX_SIZE).map_err(io_error("read", &self.path))?;
        check(&digest)?;
        match archive::form(&self.path).map_err(io_error("read", &self.path))? {
            None => Err(FetchError::Form(haft_core::report::plain(without_query(source)))),
            Some(Form::Zip) => Err(FetchError::Zip(haft_core::report::plain(without_query(source)))),
            Some(Form::Component) => {
                let (content, kept) = (Content::Component(self.path), digest.clone());
                Ok(fetched(content, digest, kept, size))
            }
            Some(form) => {
                let top = archive::unpack(&self.path, form, &tree)?;
                let (listing, size) = Listing::from_folder(&top)?;
                let kept = listing.digest();
                let content = Content::Tree(top, listing);
                Ok(fetched(content, digest, kept, size))
            }
        }
    }

    /// Creates a package from an MCP server in another format. The digest of a bundle is checked before its content; a
    /// package of npm or PyPI has no digest before its installation.
    async fn made(self, foreign: &Foreign, fetching: &Fetching<'_>) -> Result<Fetched, FetchError> {
        let (source, tree) = (foreign.to_string(), fetching.directory.join(TREE));
        let (path, expected, to) = (self.path, fetching.expected.clone(), tree.clone());
        let (judged, is_file) = (self.verdict, !self.is_folder);
        let unpack = move || {
            let (digest, _) = Digest::of_file(&path, MAX_SIZE).map_err(io_error("read", &path))?;
            check(&digest, expected.as_ref(), &source)?;
            archive::unpack_whole(&path, Form::Zip, &to)?;
            Ok::<_, FetchError>(digest)
        };
        let digest = if is_file { Some(run_blocking(unpack).await?) } else { None };
        let made = foreign::make(foreign, &tree, fetching).await?;
        let listed = tree.clone();
        let (listing, size) = run_blocking(move || Listing::from_folder(&listed)).await?;
        let kept = listing.digest();
        if digest.is_none() {
            check(&kept, fetching.expected.as_ref(), &foreign.to_string())?;
        }
        let (digest, content) = (digest.unwrap_or_else(|| kept.clone()), Content::Tree(tree, listing));
        let (resolved, notes) = (made.resolved, made.notes);
        let verdict = if is_file { judged } else { made.verdict };
        Ok(Fetched { content, digest, kept, size, resolved, verdict, left_out: Vec::new(), notes })
    }
}

fn check(found: &Digest, expected: Option<&Digest>, source: &str) -> Result<(), FetchError> {
    match expected {
        Some(expected) if expected != found => Err(FetchError::Digest {
            source_text: source.to_owned(),
            found: found.clone(),
            expected: expected.clone(),
        }),
        _ => Ok(()),
    }
}

/// Returns the real path of the folder `inside` of `around`; a link must not lead outside.
fn contained(around: &Path, inside: &Path) -> io::Result<PathBuf> {
    let around = Root::resolve(Path::new("/"), around)?;
    let found = Root::resolve(around.real(), inside)?;
    if around.contains(&found) {
        return Ok(found.real().to_owned());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is outside the marketplace"))
}

/// Runs blocking work, which cannot be cancelled, on a thread of the blocking pool.
async fn run_blocking<T: Send + 'static, E: From<TreeError> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            let source = io::Error::other(error);
            Err(TreeError::Io { action: "work on", path: PathBuf::new(), source }.into())
        }
    }
}

/// Removes the query of a URL for messages, because it may hold a secret.
fn without_query(source: &str) -> &str {
    let end = if source.contains("://") { source.find('?') } else { None };
    source.get(..end.unwrap_or(source.len())).unwrap_or(source)
}
