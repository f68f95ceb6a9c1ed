//! The committed components match the committed sources, and the documents quote existing files. This test builds
//! nothing; `plugins/build` builds the components.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The list that `plugins/build` writes.
const LIST: &str = "plugins/built/SHA256SUMS";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The digests that `plugins/build` wrote, by path from the root of the repository.
fn listed() -> BTreeMap<String, String> {
    let list = fs::read_to_string(root().join(LIST)).unwrap();
    let rows = list.lines().map(|line| line.split_once("  ").unwrap());
    rows.map(|(digest, path)| (path.to_owned(), digest.to_owned())).collect()
}

/// The digests of the current files, by path from the root of the repository.
fn actual() -> BTreeMap<String, String> {
    let mut files = Vec::new();
    for top in ["wit", "plugins", "tests/guests"] {
        walk(&root().join(top), &mut files);
    }
    let paths = files.iter().map(|file| file.strip_prefix(root()).unwrap().to_str().unwrap());
    paths.filter(|path| is_part(path)).map(|path| (path.to_owned(), digest(&root().join(path)))).collect()
}

/// True for the source of a component and for a component.
fn is_part(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    match parts.as_slice() {
        ["wit", ..]
        | ["plugins", _, "src", ..]
        | ["tests", "guests", _, "src", ..]
        | ["plugins", _, "Cargo.toml"]
        | ["tests", "guests", _, "Cargo.toml"] => true,
        ["plugins", "built", name] | ["tests", "guests", "built", name] => {
            Path::new(name).extension().is_some_and(|extension| extension == "wasm")
        }
        _ => false,
    }
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}

fn digest(path: &Path) -> String {
    Sha256::digest(fs::read(path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn components_are_those_of_their_sources() {
    let (listed, actual) = (listed(), actual());
    let paths: std::collections::BTreeSet<_> = listed.keys().chain(actual.keys()).collect();
    let differing: Vec<_> = paths.into_iter().filter(|path| listed.get(*path) != actual.get(*path)).collect();
    assert!(differing.is_empty(), "run `plugins/build`: {LIST} does not fit {differing:#?}");
}

#[test]
fn every_plugin_is_built() {
    for folder in ["plugins", "tests/guests"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            // A crate that only other plugins use is not a component.
            let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap_or_default();
            if !manifest.contains("cdylib") {
                continue;
            }
            let component = root().join(folder).join(format!("built/{name}.wasm"));
            let bytes =
                fs::read(&component).unwrap_or_else(|error| panic!("{}: {error}", component.display()));
            // `\0asm`, then the version and layer of a component (a core module has 1 and 0).
            assert_eq!(&bytes[..8], b"\0asm\x0d\0\x01\0", "{} is no component", component.display());
        }
    }
}

#[test]
fn documents_quote_the_smallest_plugin_as_it_is() {
    for (document, file) in [
        ("plugins/README.md", "plugins/hello/src/lib.rs"),
        ("plugins/sdk/README.md", "plugins/hello/src/lib.rs"),
    ] {
        let quoted = format!("```rust\n{}```\n", fs::read_to_string(root().join(file)).unwrap());
        assert!(
            fs::read_to_string(root().join(document)).unwrap().contains(&quoted),
            "{document} quotes {file}"
        );
    }
}
