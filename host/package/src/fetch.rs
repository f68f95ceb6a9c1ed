//! Brings a package from wherever it is to a temporary place, within bounds, and says what it is.
//! Installs nothing, and believes neither a name nor a header about what the bytes are.

mod error;
mod settings;

use std::io;
use std::path::{Path, PathBuf};

pub use self::error::FetchError;
pub use self::settings::Fetching;
use super::archive::{self, Form};
use super::download;
use super::folder;
use super::git;
use super::listing::{Listing, TreeError};
use super::oci::{self, Reference};
use super::signature::{self, Statement, Subject, Verdict};
use super::{Digest, MAX_SIZE, PackageSource};

/// What was fetched, in [`Fetching::directory`].
#[derive(Debug)]
pub struct Fetched {
    /// What it is.
    pub content: Content,
    /// Of what was fetched: of the file; of the tree for a folder and a repository.
    pub digest: Digest,
    /// Of what is kept: of the component, or of the package's tree.
    pub kept: Digest,
    /// Bytes of all files.
    pub size: u64,
    /// The exact thing that the source meant, where that says more: a commit, a manifest's digest.
    pub resolved: Option<String>,
    /// Who signed it, as far as that could be checked.
    pub verdict: Verdict,
    /// Files that lie in the folder and are no part of the package.
    pub left_out: Vec<String>,
}

/// What a package is.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A component: this file.
    Component(PathBuf),
    /// A folder with a program.toml, and the files in it.
    Tree(PathBuf, Listing),
}

/// Fetches `source`.
pub async fn fetch(source: &PackageSource, fetching: &Fetching<'_>) -> Result<Fetched, FetchError> {
    let raw = fetch_raw(source, fetching).await?;
    let (directory, expected) = (fetching.directory.to_owned(), fetching.expected.clone());
    let source_text = source.to_string();
    let opened = run_blocking(move || raw.open(&directory, &source_text, expected.as_ref()));
    opened.await
}

/// What was fetched, as it came.
struct Raw {
    /// A file of `directory`, or a folder anywhere.
    path: PathBuf,
    is_folder: bool,
    resolved: Option<String>,
    verdict: Verdict,
}

impl Raw {
    /// A file, and what was found beside it that vouches for it.
    fn file(
        path: PathBuf,
        beside: Option<String>,
        fetching: &Fetching<'_>,
        what: &str,
    ) -> Result<Self, FetchError> {
        let statements: Vec<_> = beside.map(Statement::Minisign).into_iter().collect();
        let verdict = signature::judge(&statements, Subject::File(&path), fetching.trust);
        let verdict = verdict.map_err(|error| FetchError::Signature { what: what.to_owned(), error })?;
        Ok(Self { path, is_folder: false, resolved: None, verdict })
    }

    /// A folder, which nothing can vouch for.
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
            let metadata = metadata.map_err(|source| FetchError::Io {
                action: "look at",
                path: path.clone(),
                source,
            })?;
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
            Ok(Raw { path: pulled.file, is_folder: false, resolved, verdict: pulled.verdict })
        }
        PackageSource::Git { url, reference } => {
            let (folder, commit) = git::clone(url, reference.as_deref(), fetching).await?;
            Ok(Raw { resolved: Some(commit), ..Raw::folder(folder, fetching, &what)? })
        }
    }
}

impl Raw {
    /// Checks the digest before the content: nothing unexpected is unpacked.
    fn open(self, directory: &Path, source: &str, expected: Option<&Digest>) -> Result<Fetched, FetchError> {
        let check = |found: &Digest| match expected {
            Some(expected) if expected != found => Err(FetchError::Digest {
                source_text: source.to_owned(),
                found: found.clone(),
                expected: expected.clone(),
            }),
            _ => Ok(()),
        };
        let tree = directory.join("tree");
        let (resolved, verdict) = (self.resolved, self.verdict);
        if self.is_folder {
            if !self.path.join(super::inventory::MANIFEST).is_file() {
                return Err(FetchError::NoManifest(self.path));
            }
            let left_out = folder::copy(&self.path, &tree)?;
            let (listing, size) = Listing::from_folder(&tree)?;
            let kept = listing.digest();
            check(&kept)?;
            let content = Content::Tree(tree, listing);
            return Ok(Fetched { content, digest: kept.clone(), kept, size, resolved, verdict, left_out });
        }
        let failed = |source| FetchError::Io { action: "read", path: self.path.clone(), source };
        let (digest, size) = Digest::of_file(&self.path, MAX_SIZE).map_err(failed)?;
        check(&digest)?;
        match archive::form(&self.path).map_err(failed)? {
            None => Err(FetchError::Form(haft_core::report::plain(without_query(source)))),
            Some(Form::Component) => {
                let (content, kept) = (Content::Component(self.path), digest.clone());
                Ok(Fetched { content, digest, kept, size, resolved, verdict, left_out: Vec::new() })
            }
            Some(form) => {
                let top = archive::unpack(&self.path, form, &tree)?;
                let (listing, size) = Listing::from_folder(&top)?;
                let kept = listing.digest();
                let content = Content::Tree(top, listing);
                Ok(Fetched { content, digest, kept, size, resolved, verdict, left_out: Vec::new() })
            }
        }
    }
}

/// Runs slow work that cannot be cancelled on a thread of its own.
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

/// A source for messages: a URL without its query, which may hold a secret.
fn without_query(source: &str) -> &str {
    let end = if source.contains("://") { source.find('?') } else { None };
    source.get(..end.unwrap_or(source.len())).unwrap_or(source)
}
