//! The content of a manifest's layers, by the layer's media type: clients write different configurations.
//! Refuses to choose between several layers.

use super::manifest::{Descriptor, Manifest};

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
        let (media_type, artifact_type, annotations) = (None, None, std::collections::BTreeMap::new());
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
