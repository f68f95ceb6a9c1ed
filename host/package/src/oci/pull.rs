//! Downloads an artifact: the manifest, its one layer, the attached signatures, and their check against the
//! required signer. Trusts no size and no digest before it has computed them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Response, Url};
use tokio::fs::File;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

use super::credentials::Access;
use super::error::{Failure, OciError};
use super::exchange::{Ask, broken, read};
use super::manifest::{Content, Descriptor, Document, INDEX, MAX_MANIFEST, Manifest, judge};
use super::reference::Reference;
use super::registry::{PULL, Registry, WITHIN, blob, document, unless_missing};
use crate::listing::io_error;
use crate::signature::{self, MAX_STATEMENT, MAX_STATEMENTS, Statement, Subject, Verdict};
use crate::{Digest, FetchError, Fetching, Hasher, MAX_SIZE, Progress, Step};

/// Time limit for a layer: the largest size at 150 KB/s.
const DOWNLOAD: Duration = Duration::from_mins(30);

/// The name of the layer in messages.
const THE_LAYER: &str = "the layer";

/// The file name of a fetched layer in [`Fetching::directory`].
const FILE: &str = "layer";

/// Returns the digest that `reference` resolves to now; `None` if it does not exist.
pub async fn resolve(reference: &Reference, access: &Access) -> Result<Option<Digest>, OciError> {
    let registry = Registry::new(reference, PULL, access)?;
    let found = document(&registry, &reference.target(), reference.digest()).await;
    Ok(unless_missing(found)?.map(|(_, digest)| digest))
}

/// A downloaded artifact.
#[derive(Debug)]
pub struct Pulled {
    /// The file, in [`Fetching::directory`].
    pub file: PathBuf,
    /// The content according to the manifest. The format of the bytes decides.
    pub content: Content,
    /// The digest of the manifest or index that the reference names: the signed and pinned digest.
    pub digest: Digest,
    /// The digest of the file.
    pub layer: Digest,
    /// The size of the file, in bytes.
    pub size: u64,
    /// The result of the signature check.
    pub verdict: Verdict,
}

/// Downloads the one layer of `reference`, at most [`MAX_SIZE`] bytes, to a file in [`Fetching::directory`].
/// Checks its size and digest against the manifest, and its signature against [`Fetching::trust`].
pub async fn pull(reference: &Reference, fetching: &Fetching<'_>) -> Result<Pulled, FetchError> {
    let (pulled, statements) = fetch_layer(reference, fetching).await?;
    let subject = Subject::Manifest(&pulled.digest);
    let judged = signature::judge(&statements, subject, fetching.trust, fetching.root);
    let verdict = judged.map_err(|error| {
        // A file without the required signature is not kept.
        let _ = std::fs::remove_file(&pulled.file);
        FetchError::Signature { what: reference.to_string(), error }
    })?;
    Ok(Pulled { verdict, ..pulled })
}

async fn fetch_layer(
    reference: &Reference,
    fetching: &Fetching<'_>,
) -> Result<(Pulled, Vec<Statement>), OciError> {
    let registry = Registry::new(reference, PULL, fetching.access)?;
    let (pulled, statements) = described(&registry, reference, fetching.directory.join(FILE)).await?;
    let what = reference.to_string();
    let _transfer = fetching.progress.begin(Step::Started { what: &what, total: Some(pulled.size) });
    let fetched = layer(&registry, &pulled, &fetching.progress).await;
    if fetched.is_err() {
        // A partial file is not kept.
        let _ = std::fs::remove_file(&pulled.file);
    }
    fetched.map(|()| (pulled, statements))
}

/// Returns the artifact that is to be downloaded to `file`, and the signatures found, none of them verified yet.
async fn described(
    registry: &Registry<'_>,
    reference: &Reference,
    file: PathBuf,
) -> Result<(Pulled, Vec<Statement>), OciError> {
    let (top, digest) = document(registry, &reference.target(), reference.digest()).await?;
    let manifest = match top {
        Document::Manifest(manifest) => manifest,
        Document::Index(index) => {
            let content = |why| registry.failed(Failure::Content(why));
            let chosen = index.choose().and_then(Descriptor::checked).map_err(content)?;
            match document(registry, &chosen.to_string(), Some(&chosen)).await? {
                (Document::Manifest(manifest), _) => manifest,
                (Document::Index(_), _) => return Err(content("is an index of indexes".to_owned())),
            }
        }
    };
    // Without a list of signatures the artifact counts as unsigned.
    let statements = attached_statements(registry, reference, &digest).await.unwrap_or_default();
    let (content, layer) = checked(&manifest).map_err(|failure| registry.failed(failure))?;
    let size = layer.size;
    let layer = layer.checked().map_err(|why| registry.failed(Failure::Content(why)))?;
    Ok((Pulled { file, content, digest, layer, size, verdict: Verdict::Unsigned }, statements))
}

fn checked(manifest: &Manifest) -> Result<(Content, &Descriptor), Failure> {
    let (content, layer) = judge(manifest).map_err(Failure::Content)?;
    if layer.size > MAX_SIZE {
        return Err(Failure::TooLarge { what: THE_LAYER, limit: MAX_SIZE });
    }
    Ok((content, layer))
}

/// Downloads the layer to a file; starts again if the connection breaks.
async fn layer(registry: &Registry<'_>, pulled: &Pulled, progress: &Progress) -> Result<(), OciError> {
    let failed = |failure| registry.failed(failure);
    let mut target = Target::create(&pulled.file).await.map_err(failed)?;
    let ask = Ask::get(registry.url(&format!("blobs/{}", pulled.layer)));
    let mut attempts = 1;
    loop {
        let response = registry.send(&ask, WITHIN).await?;
        let receiving = tokio::time::timeout(DOWNLOAD, target.receive(response, pulled, progress));
        match receiving.await.unwrap_or(Err(Failure::TimedOut(DOWNLOAD))) {
            Ok(()) => return Ok(()),
            Err(failure) => registry.wait_after(failure, &mut attempts, None).await?,
        }
        target.restart().await.map_err(failed)?;
    }
}

struct Target<'a> {
    file: File,
    path: &'a Path,
}

impl<'a> Target<'a> {
    async fn create(path: &'a Path) -> Result<Self, Failure> {
        let mut options = File::options();
        let opened = options.write(true).create_new(true).mode(0o600).open(path).await;
        Ok(Self { file: opened.map_err(io_error("create", path))?, path })
    }

    async fn restart(&mut self) -> Result<(), Failure> {
        self.file.rewind().await.map_err(io_error("write", self.path))?;
        Ok(self.file.set_len(0).await.map_err(io_error("write", self.path))?)
    }

    /// Writes the body, whose size and digest must match the manifest.
    async fn receive(
        &mut self,
        mut response: Response,
        pulled: &Pulled,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let expected = pulled.size;
        let size = |found| Failure::Size { what: THE_LAYER, expected, found };
        if let Some(length) = response.content_length().filter(|length| *length != expected) {
            return Err(size(length.to_string()));
        }
        let (mut received, mut hasher) = (0, Hasher::default());
        while let Some(chunk) = response.chunk().await.map_err(|error| broken(&error))? {
            received += chunk.len() as u64;
            if received > expected {
                return Err(size("more".to_owned()));
            }
            hasher.update(&chunk);
            self.file.write_all(&chunk).await.map_err(io_error("write", self.path))?;
            progress.report(Step::Received { bytes: received });
        }
        self.file.flush().await.map_err(io_error("write", self.path))?;
        let found = hasher.finish();
        match received == expected {
            false => Err(size(received.to_string())),
            true if found != pulled.layer => {
                Err(Failure::Digest { what: THE_LAYER, expected: pulled.layer.clone(), found })
            }
            true => Ok(()),
        }
    }
}

// Finds the signatures of a manifest in its repository: cosign's tag and the manifest's referrers. Verifies
// nothing; a registry may omit signatures.

/// The media type of the layer that cosign signs.
const SIMPLE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Annotations of that layer: the signature, and the certificate and the entry of the transparency log if it is keyless.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const ENTRY: &str = "dev.sigstore.cosign/bundle";
/// The prefix of a bundle's media type; a version follows.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";

const WHAT: &str = "a signature";

/// Returns all statements that claim to sign the manifest with this digest.
async fn attached_statements(
    registry: &Registry<'_>,
    reference: &Reference,
    digest: &Digest,
) -> Result<Vec<Statement>, OciError> {
    let mut statements = simple(registry, digest).await?;
    for referrer in referrers(registry, reference, digest).await? {
        if statements.len() < MAX_STATEMENTS {
            statements.extend(bundles(registry, &referrer).await?);
        }
    }
    Ok(statements)
}

fn tag(digest: &Digest, suffix: &str) -> String {
    format!("sha256-{}{suffix}", digest.hex())
}

async fn simple(registry: &Registry<'_>, digest: &Digest) -> Result<Vec<Statement>, OciError> {
    let Some((Document::Manifest(manifest), _)) =
        unless_missing(document(registry, &tag(digest, ".sig"), None).await)?
    else {
        return Ok(Vec::new());
    };
    let mut statements = Vec::new();
    let layers = manifest.layers.iter().filter(|layer| layer.media_type == SIMPLE).take(MAX_STATEMENTS);
    for layer in layers {
        let Some(signature) = layer.annotations.get(SIGNATURE).cloned() else { continue };
        let payload = blob(registry, layer, WHAT, MAX_STATEMENT).await?;
        let annotation = |name: &str| layer.annotations.get(name).filter(|text| !text.is_empty()).cloned();
        let (certificate, entry) = (annotation(CERTIFICATE), annotation(ENTRY));
        statements.push(Statement::Cosign { payload, signature, certificate, entry });
    }
    Ok(statements)
}

/// Returns the manifests that refer to this manifest and have a bundle's type.
async fn referrers(
    registry: &Registry<'_>,
    reference: &Reference,
    digest: &Digest,
) -> Result<Vec<Descriptor>, OciError> {
    let index = match listed(registry, digest).await? {
        Some(index) => index,
        // For registries without the referrers API, clients store the list under a tag.
        None => match unless_missing(document(registry, &tag(digest, ""), None).await)? {
            Some((Document::Index(index), _)) => index,
            Some((Document::Manifest(_), _)) | None => return Ok(Vec::new()),
        },
    };
    tracing::debug!("{} manifests refer to `{reference}`", index.manifests.len());
    let is_bundle = |entry: &Descriptor| {
        entry.artifact_type.as_deref().is_some_and(|artifact_type| artifact_type.starts_with(BUNDLE))
    };
    Ok(index.manifests.into_iter().filter(is_bundle).take(MAX_STATEMENTS).collect())
}

/// Returns the list of the registry's referrers API, if it is supported.
async fn listed(
    registry: &Registry<'_>,
    digest: &Digest,
) -> Result<Option<super::manifest::Index>, OciError> {
    let url: Url = registry.url(&format!("referrers/{digest}"));
    let ask = Ask { accept: Some(INDEX), ..Ask::get(url) };
    let response = match registry.send(&ask, WITHIN).await {
        Ok(response) => response,
        // Older registries respond to an unknown path with various client errors.
        Err(OciError { failure: Failure::Missing(_) | Failure::Status { status: 400..500, .. }, .. }) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let body = read(response, "the list of referrers", MAX_MANIFEST, WITHIN).await;
    let body = body.map_err(|failure| registry.failed(failure))?;
    match Document::parse(&body, INDEX) {
        Ok(Document::Index(index)) => Ok(Some(index)),
        Ok(Document::Manifest(_)) | Err(_) => Ok(None),
    }
}

async fn bundles(registry: &Registry<'_>, referrer: &Descriptor) -> Result<Vec<Statement>, OciError> {
    let expected = referrer.checked().map_err(|why| registry.failed(Failure::Content(why)))?;
    let (document, _) = document(registry, &expected.to_string(), Some(&expected)).await?;
    let Document::Manifest(manifest) = document else { return Ok(Vec::new()) };
    let mut statements = Vec::new();
    let layers = manifest.layers.iter().filter(|layer| layer.media_type.starts_with(BUNDLE));
    for layer in layers.take(MAX_STATEMENTS) {
        statements.push(Statement::Bundle(blob(registry, layer, WHAT, MAX_STATEMENT).await?));
    }
    Ok(statements)
}
