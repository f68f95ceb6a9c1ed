//! OCI manifests and indexes, as a registry sends them. Checks only the form: sizes and digests are checked
//! against the downloaded bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::excerpt;
use super::reference::digest;
use crate::Digest;

/// Limit on the bytes of a manifest: the limit that the distribution specification recommends to registries.
pub(super) const MAX_MANIFEST: u64 = 4 << 20;

/// The media type of a manifest: a list of layers.
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of an index: a list of manifests, one per platform.
pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Docker's media types of manifests and indexes.
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// All supported media types, for the `Accept` header.
pub(super) const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// A blob of a registry, identified by its digest.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) artifact_type: Option<String>,
}

impl Descriptor {
    /// Returns the digest, if its algorithm is supported.
    pub(super) fn checked(&self) -> Result<Digest, String> {
        digest(&self.digest)
            .map_err(|why| format!("has the invalid digest `{}`: {why}", excerpt(&self.digest)))
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Platform {
    pub(super) architecture: String,
    pub(super) os: String,
}

/// The configuration and the layers of one artifact.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) artifact_type: Option<String>,
    pub(super) config: Descriptor,
    pub(super) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    pub(super) manifests: Vec<Descriptor>,
}

#[derive(Clone, Debug)]
pub(super) enum Document {
    Manifest(Box<Manifest>),
    Index(Index),
}

/// The fields that identify a document's type.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(default)]
    schema_version: Option<u32>,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    manifests: Option<serde_json::Value>,
}

impl Document {
    /// Parses a document with the header `content_type`. The media type in the document takes precedence: it is
    /// covered by the digest, the header is not.
    pub(super) fn parse(bytes: &[u8], content_type: &str) -> Result<Self, String> {
        let json = |error: serde_json::Error| match bytes.trim_ascii_start().first() {
            Some(b'<') => "is not JSON but a page of HTML".to_owned(),
            _ => format!("is not a manifest: {error}"),
        };
        let head: Head = serde_json::from_slice(bytes).map_err(json)?;
        if head.schema_version != Some(2) {
            let found = head.schema_version.map_or_else(|| "none".to_owned(), |version| version.to_string());
            return Err(format!("has the schema version {found}; expected 2"));
        }
        let content_type = content_type.split(';').next().unwrap_or_default().trim();
        match head.media_type.as_deref().unwrap_or(content_type) {
            INDEX | DOCKER_INDEX => Ok(Self::Index(serde_json::from_slice(bytes).map_err(json)?)),
            MANIFEST | DOCKER_MANIFEST => Ok(Self::Manifest(serde_json::from_slice(bytes).map_err(json)?)),
            _ if head.manifests.is_some() => Ok(Self::Index(serde_json::from_slice(bytes).map_err(json)?)),
            _ => Ok(Self::Manifest(serde_json::from_slice(bytes).map_err(json)?)),
        }
    }
}

impl Index {
    /// Returns the manifest that may hold a plugin: the only one, or the only one for WebAssembly.
    pub(super) fn choose(&self) -> Result<&Descriptor, String> {
        if let [only] = self.manifests.as_slice() {
            return Ok(only);
        }
        let is_wasm = |descriptor: &&Descriptor| {
            let platform = descriptor.platform.as_ref();
            platform
                .is_some_and(|platform| platform.architecture == "wasm" || platform.os.starts_with("wasi"))
        };
        let mut found = self.manifests.iter().filter(is_wasm);
        match (found.next(), found.next()) {
            (Some(descriptor), None) => Ok(descriptor),
            (None, _) => Err(format!("is an index of {}, none of them for WebAssembly", self.platforms())),
            (Some(_), Some(_)) => {
                Err(format!("is an index of {}: more than one for WebAssembly", self.platforms()))
            }
        }
    }

    /// Lists the first platforms, for messages.
    fn platforms(&self) -> String {
        /// Limit on the listed platforms, so that the message stays on one line.
        const SHOWN: usize = 6;
        let name = |descriptor: &Descriptor| match &descriptor.platform {
            Some(platform) => format!("`{}/{}`", platform.os, platform.architecture),
            None => "one without a platform".to_owned(),
        };
        let names: Vec<String> = self.manifests.iter().take(SHOWN).map(name).collect();
        let more = if self.manifests.len() > SHOWN { ", …" } else { "" };
        format!("{} manifests ({}{more})", self.manifests.len(), names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Document, String> {
        Document::parse(text.as_bytes(), MANIFEST)
    }

    const LAYER: &str = r#"{ "mediaType": "application/wasm", "digest": "sha256:00", "size": 8 }"#;

    #[test]
    fn a_document_is_what_it_says_it_is() {
        let manifest =
            format!(r#"{{ "schemaVersion": 2, "config": {LAYER}, "layers": [{LAYER}], "new": 1 }}"#);
        assert!(matches!(parse(&manifest), Ok(Document::Manifest(_))));
        let index = format!(r#"{{ "schemaVersion": 2, "mediaType": "{INDEX}", "manifests": [{LAYER}] }}"#);
        assert!(matches!(parse(&index), Ok(Document::Index(_))));
        let index = format!(r#"{{ "schemaVersion": 2, "manifests": [{LAYER}] }}"#);
        assert!(matches!(Document::parse(index.as_bytes(), "text/plain"), Ok(Document::Index(_))));
    }

    #[test]
    fn what_is_no_document_says_what_it_is() {
        assert_eq!(parse("  <html>").unwrap_err(), "is not JSON but a page of HTML");
        assert_eq!(parse(r#"{ "schemaVersion": 1 }"#).unwrap_err(), "has the schema version 1; expected 2");
        assert_eq!(parse("[]").unwrap_err(), "has the schema version none; expected 2");
        assert!(parse(r#"{ "schemaVersion": 2 }"#).unwrap_err().contains("missing field `config`"));
        assert!(parse("").unwrap_err().starts_with("is not a manifest"));
    }

    #[test]
    fn one_manifest_of_an_index_is_for_webassembly() {
        let entry = |os: &str| {
            let mut entry: Descriptor = serde_json::from_str(LAYER).unwrap();
            entry.platform = Some(Platform { architecture: "amd64".into(), os: os.into() });
            entry
        };
        let index = |names: &[&str]| Index { manifests: names.iter().map(|name| entry(name)).collect() };
        assert!(index(&["linux"]).choose().is_ok());
        assert_eq!(index(&["linux", "wasip2"]).choose().unwrap().platform.as_ref().unwrap().os, "wasip2");
        assert!(
            index(&["linux", "windows"]).choose().unwrap_err().contains("`linux/amd64`, `windows/amd64`")
        );
        assert!(index(&["wasip1", "wasip2"]).choose().unwrap_err().contains("more than one for WebAssembly"));
        assert!(index(&[]).choose().is_err());
    }
}
