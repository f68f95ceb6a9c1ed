//! Finds the signatures of a manifest in its repository: cosign's tag and the manifest's referrers. Verifies
//! nothing; a registry may omit signatures.

use reqwest::Url;

use super::document::{blob, document};
use super::error::{Failure, OciError};
use super::exchange::{Ask, read};
use super::manifest::{Descriptor, Document, INDEX, MAX_MANIFEST};
use super::reference::Reference;
use super::registry::{Registry, WITHIN};
use crate::Digest;
use crate::signature::{MAX_STATEMENT, MAX_STATEMENTS, Statement};

/// The media type of the layer that cosign signs.
const SIMPLE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Annotations of that layer: the signature, and the certificate if there is one.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
/// The prefix of a bundle's media type; a version follows.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";

const WHAT: &str = "a signature";

/// Returns all statements that claim to sign the manifest with this digest.
pub(super) async fn attached(
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

/// Returns the tag under which cosign stores objects for a digest.
fn tag(digest: &Digest, suffix: &str) -> String {
    format!("sha256-{}{suffix}", digest.hex())
}

async fn simple(registry: &Registry<'_>, digest: &Digest) -> Result<Vec<Statement>, OciError> {
    let Some(Document::Manifest(manifest)) =
        unless_missing(document(registry, &tag(digest, ".sig"), None).await)?
    else {
        return Ok(Vec::new());
    };
    let mut statements = Vec::new();
    let layers = manifest.layers.iter().filter(|layer| layer.media_type == SIMPLE).take(MAX_STATEMENTS);
    for layer in layers {
        let Some(signature) = layer.annotations.get(SIGNATURE).cloned() else { continue };
        let payload = blob(registry, layer, WHAT, MAX_STATEMENT).await?;
        let certificate = layer.annotations.get(CERTIFICATE).filter(|text| !text.is_empty()).cloned();
        statements.push(Statement::Cosign { payload, signature, certificate });
    }
    Ok(statements)
}

/// Returns the manifests that refer to this one and have a bundle's type.
async fn referrers(
    registry: &Registry<'_>,
    reference: &Reference,
    digest: &Digest,
) -> Result<Vec<Descriptor>, OciError> {
    let index = match listed(registry, digest).await? {
        Some(index) => index,
        // For registries without the referrers API, clients store the list under a tag.
        None => match unless_missing(document(registry, &tag(digest, ""), None).await)? {
            Some(Document::Index(index)) => index,
            Some(Document::Manifest(_)) | None => return Ok(Vec::new()),
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
    let body = read(response, "the list of what refers to it", MAX_MANIFEST, WITHIN).await;
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

fn unless_missing(found: Result<(Document, Digest), OciError>) -> Result<Option<Document>, OciError> {
    match found {
        Ok((document, _)) => Ok(Some(document)),
        Err(OciError { failure: Failure::Missing(_), .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
