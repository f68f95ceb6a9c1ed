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

// The content of a layer, by its media type: clients write different configurations. haft does not choose between
// several layers.

/// The media type of a component, as clients of the WebAssembly working group push it.
pub const COMPONENT: &str = "application/wasm";
/// The media type of a package: a folder with a program.toml, archived and compressed.
pub const PACKAGE: &str = "application/vnd.haft.package.v1.tar+gzip";
/// The media type of the configuration of a [`COMPONENT`].
pub(super) const COMPONENT_CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// The media type of an empty configuration.
pub(super) const EMPTY_CONFIG: &str = "application/vnd.oci.empty.v1+json";

/// The annotation with a layer's file name.
pub(super) const TITLE: &str = "org.opencontainers.image.title";

/// Media types of components that older clients push.
const OLDER_COMPONENTS: &[&str] =
    &["application/vnd.wasm.content.layer.v1+wasm", "application/vnd.module.wasm.content.layer.v1+wasm"];

/// Media types of generic archives.
const ARCHIVES: &[&str] = &[
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/gzip",
    "application/x-gzip",
    "application/x-gtar",
    "application/x-tar",
    "application/tar+gzip",
];

/// Media types of container images' configurations.
const IMAGES: &[&str] =
    &["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];

/// The content of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A component.
    Component,
    /// A tar archive, compressed or not, which should contain a program.toml.
    Archive,
}

pub(super) fn judge(manifest: &Manifest) -> Result<(Content, &Descriptor), String> {
    match manifest.layers.as_slice() {
        [] => Err("has no layers".to_owned()),
        [only] => kind(only).map(|kind| (kind, only)).ok_or_else(|| {
            format!(
                "has a layer of the type `{}`, which is neither a component (`{COMPONENT}`) nor a package \
                 (`{PACKAGE}`)",
                only.media_type
            )
        }),
        layers if IMAGES.contains(&manifest.config.media_type.as_str()) => {
            Err(format!("is a container image with {} layers, not a plugin", layers.len()))
        }
        layers => Err(format!("has {} layers; expected one component or one package", layers.len())),
    }
}

fn kind(layer: &Descriptor) -> Option<Content> {
    let media_type = layer.media_type.as_str();
    let title = layer.annotations.get(TITLE).map(String::as_str).unwrap_or_default();
    // A client without a configured media type pushes a file as an archive, with the file's name as title.
    let is_component = |title: &str| title.to_ascii_lowercase().ends_with(".wasm");
    match media_type {
        COMPONENT => Some(Content::Component),
        PACKAGE => Some(Content::Archive),
        older if OLDER_COMPONENTS.contains(&older) => Some(Content::Component),
        archive if ARCHIVES.contains(&archive) => {
            Some(if is_component(title) { Content::Component } else { Content::Archive })
        }
        _ => None,
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

    fn manifest(config: &str, layers: &[(&str, &str)]) -> Manifest {
        let layer = |(media_type, title): &(&str, &str)| Descriptor {
            media_type: (*media_type).to_owned(),
            digest: String::new(),
            size: 0,
            annotations: [(TITLE.to_owned(), (*title).to_owned())].into(),
            platform: None,
            artifact_type: None,
        };
        let layers = layers.iter().map(layer).collect();
        let config = layer(&(config, ""));
        let (media_type, artifact_type, annotations) = (None, None, BTreeMap::new());
        Manifest { schema_version: 2, media_type, artifact_type, config, layers, annotations }
    }

    #[test]
    fn the_layer_decides_whatever_the_configuration() {
        for config in [COMPONENT_CONFIG, EMPTY_CONFIG, IMAGES[0], "application/vnd.unknown.config.v1+json"] {
            for (media_type, title, expected) in [
                (COMPONENT, "", Content::Component),
                (OLDER_COMPONENTS[0], "", Content::Component),
                (ARCHIVES[1], "words.wasm", Content::Component),
                (PACKAGE, "", Content::Archive),
                (ARCHIVES[0], "words.tar.gz", Content::Archive),
            ] {
                let manifest = manifest(config, &[(media_type, title)]);
                assert_eq!(judge(&manifest).unwrap().0, expected, "{config} {media_type}");
            }
        }
    }

    #[test]
    fn what_is_no_plugin_is_refused_with_what_it_is() {
        let of = |config, layers: &[_]| judge(&manifest(config, layers)).unwrap_err();
        assert_eq!(of(COMPONENT_CONFIG, &[]), "has no layers");
        assert!(of(IMAGES[0], &[(ARCHIVES[0], ""); 3]).starts_with("is a container image with 3 layers"));
        assert!(of(COMPONENT_CONFIG, &[(COMPONENT, ""); 2]).starts_with("has 2 layers; expected one"));
        assert!(of(EMPTY_CONFIG, &[("text/plain", "")]).contains("a layer of the type `text/plain`"));
    }
}
