//! Rust: `cargo build` for `wasm32-wasip2` builds a component directly. The project chooses the toolchain, as
//! with any use of cargo.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde_json::Value;

use super::{Facts, File, Language, Template};
use crate::bindings::{self, Generator};
use crate::{Build, Need, Tool};
use haft_core::lookup::{find_on_path, is_executable};
use haft_core::report::{Problem, Report};

#[derive(Debug)]
pub(super) struct Rust;

const TARGET: &str = "wasm32-wasip2";

/// The file of a typed plugin's bindings: generated once and compiled in seconds, where a macro takes minutes.
const BINDINGS: &str = "src/bindings.rs";

const CARGO: Need = Need {
    program: "cargo",
    purpose: "builds Rust plugins",
    ways: &[
        "with rustup, which also has the target `wasm32-wasip2`: https://rustup.rs",
        "`apt install rustup && rustup default stable`, `brew install rustup`, `pacman -S rustup`",
    ],
};

#[async_trait]
impl Language for Rust {
    fn facts(&self) -> &'static Facts {
        &Facts {
            name: "rust",
            title: "Rust",
            aliases: &["rs"],
            marks: &["Cargo.toml"],
            outputs: &["target", "Cargo.lock", BINDINGS],
            typed: Template { files: TYPED, begin: "`wit/world.wit` and `src/lib.rs`" },
            sdk: Some(Template { files: SDK, begin: "`src/lib.rs`" }),
        }
    }

    fn generated(&self, wit: &Path) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
        Ok(vec![(BINDINGS.into(), one_file(bindings::make(GENERATOR, wit, None)?)?)])
    }

    async fn prepare(&self, build: &Build<'_>) -> anyhow::Result<Tool> {
        let cargo = cargo()?;
        let version = add_target(build).await?;
        build.used(version);
        Ok(Tool::new(cargo))
    }

    async fn build(&self, build: &Build<'_>, cargo: Tool) -> anyhow::Result<Vec<u8>> {
        if wants_bindings(build) {
            bindings::write_changed(&build.path(BINDINGS), &project_bindings(build)?)?;
        }
        let messages = build.read(&compile(build, cargo)).await?;
        let component = artifact(&messages, &build.path("Cargo.toml")).ok_or_else(|| {
            let problem = Problem::new("cargo made no component of this crate");
            Report::from(problem.hint("Cargo.toml needs `[lib]` with `crate-type = [\"cdylib\"]`"))
        })?;
        build.reads(dependencies(&component.with_extension("d")));
        build.reads(around(&build.project.folder));
        crate::read(&component)
    }
}

/// Reads the source files of a component from cargo's dep-info file, including those of other crates by path.
fn dependencies(path: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let files = text.lines().filter_map(|line| line.split_once(": ")).flat_map(|(_, files)| {
        // A space in a path is written as `\ `.
        files.replace("\\ ", "\0").split(' ').map(|file| file.replace('\0', " ")).collect::<Vec<_>>()
    });
    files.map(PathBuf::from).collect()
}

/// Returns the files that configure cargo for a crate in `folder`, besides its source files.
fn around(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let names = ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", "rust-toolchain.toml", "rust-toolchain"];
    folder.ancestors().flat_map(move |folder| names.map(|name| folder.join(name)))
}

/// Finds cargo on `PATH`; the error mentions an installation by rustup that is not on `PATH`.
fn cargo() -> Result<PathBuf, Report> {
    find_on_path(CARGO.program).ok_or_else(|| {
        let problem = CARGO.missing("looked for it on PATH");
        let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
        match home.filter(|home| is_executable(&home.join("bin/cargo"))) {
            Some(home) => {
                problem.hint(format!("or load the installed one: `. {}/env`", home.display())).into()
            }
            None => problem.into(),
        }
    })
}

/// Adds [`TARGET`] to the toolchain, if it is missing; returns the toolchain's version.
async fn add_target(build: &Build<'_>) -> anyhow::Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let rustc = find_on_path(&rustc.to_string_lossy()).unwrap_or_else(|| rustc.into());
    let version = build.ask(&Tool::new(&rustc).args(["--version"])).await?.unwrap_or_default();
    let version = version.split(" (").next().unwrap_or_default().trim().replace("rustc ", "Rust ");
    let library = Tool::new(&rustc).args(["--print", "target-libdir", "--target", TARGET]);
    let library = build.ask(&library).await?.unwrap_or_default();
    if Path::new(library.trim()).is_dir() {
        return Ok(version);
    }
    let Some(rustup) = find_on_path("rustup") else {
        let problem = Problem::new(format!("{version} cannot compile for `{TARGET}`: the target is missing"));
        let problem = problem.hint(format!("with rustup: `rustup target add {TARGET}`"));
        return Err(Report::from(problem.hint(CARGO.ways.join("; "))).into());
    };
    build.announce(format!("adding the Rust target `{TARGET}` with rustup, once"));
    build.run(&Tool::new(rustup).args(["target", "add", TARGET])).await?;
    Ok(version)
}

/// Reports whether the crate declares the module for generated bindings.
fn wants_bindings(build: &Build<'_>) -> bool {
    let source = std::fs::read_to_string(build.path("src/lib.rs")).unwrap_or_default();
    build.project.wit_path().is_some()
        && source.lines().any(|line| line.trim_end().ends_with("mod bindings;"))
}

/// Generates `src/bindings.rs`, with the documentation of the WIT.
fn project_bindings(build: &Build<'_>) -> anyhow::Result<Vec<u8>> {
    one_file(build.bindings(GENERATOR)?)
}

fn one_file(files: Vec<bindings::File>) -> anyhow::Result<Vec<u8>> {
    let (_, bytes) = files.into_iter().next().ok_or_else(|| anyhow::anyhow!("no bindings were made"))?;
    Ok([HEADER.as_bytes(), &bytes].concat())
}

const HEADER: &str = "//! The types and functions of the WIT. `haft plugin build` writes this file again \
    when the WIT changes.\n\n";

/// Generates the bindings, with attributes that exclude them from rustfmt.
const GENERATOR: Generator = || {
    let options = wit_bindgen_rust::Opts { format: true, generate_all: true, ..Default::default() };
    Box::new(options.build())
};

fn compile(build: &Build<'_>, cargo: Tool) -> Tool {
    let tool = cargo.args(["build", "--release", "--target", TARGET]);
    let tool = tool.args(["--message-format", "json-render-diagnostics"]);
    // Line tables for the source locations; they are removed from the finished component.
    let tool = tool.args(["--config", "profile.release.debug = \"line-tables-only\""]);
    let tool = tool.args(["--config", "profile.release.strip = false"]);
    // Without this, the messages of panics contain local paths, which makes the bytes machine-dependent.
    tool.args(["--config", &format!("target.{TARGET}.rustflags = {}", flags(build))])
}

/// Returns `["--remap-path-prefix=/home/me/my-plugin=my-plugin", …]` as TOML.
fn flags(build: &Build<'_>) -> Value {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let folders = [(Some(build.project.folder.clone()), build.root()), (cargo, "/cargo".to_owned())];
    let flag = |(folder, name): (Option<PathBuf>, String)| {
        Some(format!("--remap-path-prefix={}={name}", folder?.to_str()?))
    };
    folders.into_iter().filter_map(flag).collect()
}

/// Returns the component among cargo's artifacts of the crate at `manifest`.
fn artifact(messages: &str, manifest: &Path) -> Option<PathBuf> {
    let made = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_own = |message: &Value| {
        message.get("reason").and_then(Value::as_str) == Some("compiler-artifact")
            && message
                .get("manifest_path")
                .and_then(Value::as_str)
                .is_some_and(|path| is_same(Path::new(path), manifest))
    };
    let files = |message: Value| {
        let files = message.get("filenames").and_then(Value::as_array).cloned().unwrap_or_default();
        files.into_iter().filter_map(|file| file.as_str().map(PathBuf::from))
    };
    let mut files = made.filter(is_own).flat_map(files);
    files.find(|file| file.extension().is_some_and(|extension| extension == "wasm"))
}

/// Compares two paths; cargo resolves links in the paths that it reports.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    one == other || real(one).is_some_and(|one| real(other) == Some(one))
}

const TYPED: &[File] = &[
    template!("Cargo.toml", "rust/manifest.toml"),
    template!("src/lib.rs", "rust/lib.rs"),
    template!("README.md", "rust/README.md"),
    template!(".gitignore", "rust/gitignore"),
];

/// A file of the sdk, which is copied into the project: it is not published elsewhere. A crate that cargo packs has no
/// folder with a Cargo.toml in it, so that here it has another name.
macro_rules! sdk {
    ($path:literal) => {
        sdk!($path, $path)
    };
    ($path:literal, $here:literal) => {
        File { path: concat!("sdk/", $path), text: include_str!(concat!("../../sdk/", $here)) }
    };
}

const SDK: &[File] = &[
    template!("Cargo.toml", "rust-sdk/manifest.toml"),
    template!("src/lib.rs", "rust-sdk/lib.rs"),
    template!("README.md", "rust-sdk/README.md"),
    template!(".gitignore", "rust/gitignore"),
    sdk!("Cargo.toml", "manifest.toml"),
    sdk!("README.md"),
    sdk!("src/answer.rs"),
    sdk!("src/bindings.rs"),
    sdk!("src/context.rs"),
    sdk!("src/export.rs"),
    sdk!("src/host.rs"),
    sdk!("src/http/body.rs"),
    sdk!("src/http/error.rs"),
    sdk!("src/http/mod.rs"),
    sdk!("src/http/redirect.rs"),
    sdk!("src/http/request.rs"),
    sdk!("src/http/wire.rs"),
    sdk!("src/lib.rs"),
    sdk!("src/offer_bindings.rs"),
    sdk!("src/offers.rs"),
    sdk!("src/offers/export.rs"),
    sdk!("src/path.rs"),
    sdk!("src/schema.rs"),
    sdk!("src/testing.rs"),
    sdk!("src/tool.rs"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of the sdk that is not in the list would be missing in every new project.
    #[test]
    fn the_whole_sdk_goes_with_a_project() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk");
        let mut folders = vec![root.join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = format!("sdk/{}", path.strip_prefix(&root).unwrap().display());
                    // The sdk's own tests read files of this repository.
                    let is_test = name.ends_with("tests.rs");
                    assert_eq!(SDK.iter().any(|file| file.path == name), !is_test, "{name}");
                }
            }
        }
    }

    fn sdk_bindings(module: &str) -> Box<dyn wit_bindgen_core::WorldGenerator> {
        let options = wit_bindgen_rust::Opts {
            format: true,
            pub_export_macro: true,
            default_bindings_module: Some(module.to_owned()),
            ..Default::default()
        };
        Box::new(options.build())
    }

    /// With `HAFT_RECORD` set, the test writes the bindings.
    #[test]
    fn the_bindings_of_the_sdk_are_those_of_the_wit() {
        const NOTICE: &str = "//! The component ABI of a world of `wit`, generated. Committed, since the macro in its place more \
            than doubles the\n//! time that an author's first build takes.\n#![cfg_attr(rustfmt, rustfmt_skip)]\n\n";
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let worlds: [(&str, Generator, &str); 2] = [
            ("plugin", || sdk_bindings("haft_plugin::bindings"), "bindings.rs"),
            ("offering", || sdk_bindings("haft_plugin::offer_bindings"), "offer_bindings.rs"),
        ];
        for (world, generator, file) in worlds {
            let files = bindings::make(generator, &root.join("wit"), Some(world)).unwrap();
            let made = [NOTICE.as_bytes(), &files[0].1].concat();
            let path = root.join("plugins/sdk/src").join(file);
            if std::env::var_os("HAFT_RECORD").is_some() {
                bindings::write_changed(&path, &made).unwrap();
            }
            assert!(
                std::fs::read(&path).unwrap() == made,
                "{file} is not of the WIT: `HAFT_RECORD=1 cargo test --lib the_bindings_of_the_sdk`, then `plugins/build`"
            );
        }
    }

    #[test]
    fn the_component_is_found_among_what_cargo_says() {
        let dependency =
            r#"{"reason":"compiler-artifact","manifest_path":"/d/Cargo.toml","filenames":["/d.wasm"]}"#;
        let own = r#"{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","filenames":["/a.rlib","/p.wasm"]}"#;
        let output = format!("{dependency}\nno json\n{own}\n{{\"reason\":\"build-finished\"}}\n");
        assert_eq!(artifact(&output, Path::new("/p/Cargo.toml")), Some("/p.wasm".into()));
        assert_eq!(artifact(&output, Path::new("/other/Cargo.toml")), None);
    }
}
