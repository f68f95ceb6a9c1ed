//! Publishes an artifact: the blobs first, then the manifest that names them, so that no client finds an
//! incomplete artifact. The manifest depends only on the content: equal content has an equal digest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::LOCATION;
use reqwest::{Method, Response, Url};
use serde_json::json;

use super::credentials::Access;
use super::error::{Failure, OciError};
use super::exchange::{Ask, Payload};
use super::manifest::{
    COMPONENT, COMPONENT_CONFIG, Content, Descriptor, EMPTY_CONFIG, MANIFEST, Manifest, PACKAGE, TITLE,
};
use super::pull::resolve;
use super::reference::{DEFAULT_TAG, Reference};
use super::registry::{PUSH, Registry, WITHIN, document, unless_missing};
use crate::listing::io_error;
use crate::{Digest, MAX_SIZE, Progress, Step};

/// Time limit for the upload of a layer: the largest size at 150 KB/s.
const UPLOAD: Duration = Duration::from_mins(30);

/// The creation time of every artifact: the current time would change the digest.
const NO_TIME: &str = "1970-01-01T00:00:00Z";

/// An artifact to publish.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The kind of content.
    pub content: Content,
    /// The component's or archive's file.
    pub file: PathBuf,
    /// The annotations of the manifest, such as `org.opencontainers.image.version`.
    pub annotations: BTreeMap<String, String>,
    /// Names of the component's imports, which registries display.
    pub imports: Vec<String>,
    /// Names of the component's exports.
    pub exports: Vec<String>,
}

/// The result of a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The digest of the manifest, for pinning.
    pub digest: Digest,
    /// The digest of the file.
    pub layer: Digest,
    /// The size of the file, in bytes.
    pub size: u64,
    /// Whether the registry already had this manifest under this tag.
    pub was_there: bool,
}

/// Publishes `publication` as `reference`. Its tag must be unused or name this content, unless `replace` is
/// set.
pub async fn push(
    reference: &Reference,
    publication: &Publication,
    replace: bool,
    access: &Access,
    progress: &Progress,
) -> Result<Pushed, OciError> {
    let registry = Registry::new(reference, PUSH, access)?;
    let failed = |failure| registry.failed(failure);
    let (manifest, config) = manifest(publication).map_err(failed)?;
    let [layer] = manifest.layers.as_slice() else {
        return Err(failed(Failure::Content("has no layer".into())));
    };
    let bytes = serde_json::to_vec(&manifest).unwrap_or_default();
    let pushed = Pushed {
        digest: Digest::hash(&bytes),
        layer: layer.checked().map_err(|why| failed(Failure::Content(why)))?,
        size: layer.size,
        was_there: false,
    };
    match resolve(reference, access).await? {
        Some(found) if found == pushed.digest => return Ok(Pushed { was_there: true, ..pushed }),
        Some(found) if !replace => {
            let tag = reference.tag().unwrap_or(DEFAULT_TAG).to_owned();
            return Err(failed(Failure::Exists { tag, found }));
        }
        _ => {}
    }
    let _transfer = progress.begin(Step::Sending { what: &reference.to_string(), total: layer.size });
    send(&registry, reference, publication, &manifest, config, bytes).await?;
    Ok(pushed)
}

async fn send(
    registry: &Registry<'_>,
    reference: &Reference,
    publication: &Publication,
    manifest: &Manifest,
    config: Vec<u8>,
    bytes: Vec<u8>,
) -> Result<(), OciError> {
    for layer in &manifest.layers {
        let payload = Payload::File { path: publication.file.clone(), size: layer.size };
        blob(registry, layer, payload).await?;
    }
    let media_type = manifest.config.media_type.clone();
    blob(registry, &manifest.config, Payload::Bytes { media_type, bytes: config }).await?;
    let expected = Digest::hash(&bytes);
    let tag = reference.tag().unwrap_or(DEFAULT_TAG);
    let url = registry.url(&format!("manifests/{tag}"));
    let payload = Payload::Bytes { media_type: MANIFEST.to_owned(), bytes };
    registry.send(&Ask { method: Method::PUT, payload, ..Ask::get(url) }, WITHIN).await?;
    // The registry may rewrite a manifest; clients would then get another digest.
    let (_, found) = document(registry, tag, None).await?;
    if found == expected {
        return Ok(());
    }
    Err(registry.failed(Failure::Digest { what: "the registry's copy", expected, found }))
}

/// Uploads a blob, unless the registry has it.
async fn blob(registry: &Registry<'_>, descriptor: &Descriptor, payload: Payload) -> Result<(), OciError> {
    let have = registry.url(&format!("blobs/{}", descriptor.digest));
    let have = Ask { method: Method::HEAD, ..Ask::get(have) };
    if unless_missing(registry.send(&have, WITHIN).await)?.is_some() {
        return Ok(());
    }
    let opening = Ask { method: Method::POST, ..Ask::get(registry.url("blobs/uploads/")) };
    let begun = registry.send(&opening, WITHIN).await?;
    let url = upload(registry, &begun, descriptor).map_err(|failure| registry.failed(failure))?;
    registry.send(&Ask { method: Method::PUT, payload, ..Ask::get(url) }, UPLOAD).await?;
    Ok(())
}

fn upload(registry: &Registry<'_>, begun: &Response, descriptor: &Descriptor) -> Result<Url, Failure> {
    let location = begun.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let missing =
        || Failure::Malformed { what: "the answer to an upload", why: "has no upload location".to_owned() };
    let mut url = registry.upload(location.ok_or_else(missing)?)?;
    url.query_pairs_mut().append_pair("digest", &descriptor.digest);
    Ok(url)
}

fn manifest(publication: &Publication) -> Result<(Manifest, Vec<u8>), Failure> {
    let file = &publication.file;
    let (digest, size) = Digest::of_file(file, MAX_SIZE).map_err(io_error("read", file))?;
    let (media_type, config_type, config) = match publication.content {
        Content::Component => (COMPONENT, COMPONENT_CONFIG, component_config(publication, &digest)),
        Content::Archive => (PACKAGE, EMPTY_CONFIG, b"{}".to_vec()),
    };
    let title = [(TITLE.to_owned(), name(file))].into();
    let layer = descriptor(media_type, &digest, size, title);
    let config_descriptor =
        descriptor(config_type, &Digest::hash(&config), config.len() as u64, BTreeMap::new());
    let manifest = Manifest {
        schema_version: 2,
        media_type: Some(MANIFEST.to_owned()),
        artifact_type: (publication.content == Content::Archive).then(|| PACKAGE.to_owned()),
        config: config_descriptor,
        layers: vec![layer],
        annotations: publication.annotations.clone(),
    };
    Ok((manifest, config))
}

/// Builds the configuration of a component, in the format of the WebAssembly working group's clients.
fn component_config(publication: &Publication, layer: &Digest) -> Vec<u8> {
    let config = json!({
        "created": NO_TIME,
        "author": publication.annotations.get("org.opencontainers.image.authors"),
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [layer.to_string()],
        "component": { "exports": publication.exports, "imports": publication.imports, "target": null },
    });
    config.to_string().into_bytes()
}

fn descriptor(
    media_type: &str,
    digest: &Digest,
    size: u64,
    annotations: BTreeMap<String, String>,
) -> Descriptor {
    let (media_type, digest) = (media_type.to_owned(), digest.to_string());
    Descriptor { media_type, digest, size, annotations, platform: None, artifact_type: None }
}

fn name(file: &Path) -> String {
    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
