//! Plugin development as a user sees it: `haft plugin new`, `build`, `check`, `call`, `dev`, `pack`. Tests that need
//! a language's own tools report missing ones; `.ci/authoring` has all of them.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

use std::fs;
use std::path::Path;
use std::process::Command;

use haft::author::template::{self, ProjectName};
use haft::author::wit::Wit;
use haft::author::{LANGUAGES, Style};
use haft::manifest::Manifest;
use haft::plugin::inspect::read_sections;
use serde_json::{Value, json};

use crate::cli::{Answer, Home};
use crate::common::repository;

mod dev;
mod pack;
mod remember;
mod suite;
mod toolchains;

const STYLES: [Style; 2] = [Style::Typed, Style::Sdk];

/// True if this machine can compile Rust to components without a network.
fn has_target() -> bool {
    let rustc =
        Command::new("rustc").args(["--print", "target-libdir", "--target", "wasm32-wasip2"]).output();
    let library = rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let has = library.is_ok_and(|library| Path::new(&library).is_dir());
    if !has {
        eprintln!("SKIPPED: no Rust target `wasm32-wasip2` here; `.ci/authoring rust` tests it");
    }
    has
}

/// Runs haft with cargo's usual folders and without network access.
fn cargo_haft(home: &Home, arguments: &[&str]) -> Answer {
    let own = std::env::var_os("HOME").unwrap_or_default();
    let folder =
        |name: &str, usual: &str| std::env::var_os(name).unwrap_or(Path::new(&own).join(usual).into());
    let mut command = home.command(arguments);
    command
        .env("CARGO_HOME", folder("CARGO_HOME", ".cargo"))
        .env("RUSTUP_HOME", folder("RUSTUP_HOME", ".rustup"));
    command.env("CARGO_NET_OFFLINE", "true").env_remove("CARGO_TARGET_DIR");
    Answer::from(command.output().unwrap())
}

/// Creates a Rust project whose single dependency has the version of this repository's `Cargo.lock`.
fn offline_project(home: &Home, name: &str) {
    let answer = home.haft(&["plugin", "new", "--lang", "rust", name]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    fs::copy(repository().join("Cargo.lock"), home.work().join(name).join("Cargo.lock")).unwrap();
}

/// Every template is complete: program.toml is valid, a typed template has a WIT world, and the project's name
/// replaces every placeholder.
#[test]
fn every_template_is_well_formed() {
    let name = ProjectName::new("word-tool").unwrap();
    for language in LANGUAGES {
        for style in STYLES {
            let Some(files) = template::files(*language, style, &name) else { continue };
            let text =
                |path: &str| files.iter().find(|(own, _)| own == Path::new(path)).map(|(_, text)| text);
            let manifest = Manifest::parse(text("program.toml").unwrap(), Path::new("program.toml")).unwrap();
            assert_eq!(manifest.build.unwrap().language.unwrap().value, language.facts().name);
            assert_eq!(manifest.plugins[0].name.as_str(), "word-tool");
            assert_eq!(text("wit/world.wit").is_some(), style == Style::Typed);
            let readme = text("README.md").unwrap();
            assert!(readme.contains("haft plugin build") && readme.lines().count() < 40, "one screen");
            assert!(text(".gitignore").unwrap().contains("*.wasm"));
            for (path, text) in files.iter().filter(|(path, _)| !path.starts_with("sdk")) {
                let left = ["my-plugin", "my_plugin", "MyPlugin", "LANGUAGE"]
                    .iter()
                    .find(|word| text.contains(**word));
                assert_eq!(left, None, "{} of {}", path.display(), language.facts().name);
            }
        }
    }
}

/// The WIT of the templates yields bindings for every language that has a generator, and its encoding keeps the
/// documentation.
#[test]
fn the_templates_wit_makes_bindings_and_keeps_its_documentation() {
    let folder = tempfile::tempdir().unwrap();
    let name = ProjectName::new("word-tool").unwrap();
    for language in LANGUAGES {
        let place = folder.path().join(language.facts().name);
        let paths = template::create(*language, Style::Typed, &name, &place).unwrap();
        assert!(paths.iter().all(|path| place.join(path).is_file()));
        let wit = Wit::read(&place.join("wit"), None).unwrap();
        assert_eq!(wit.world(), "tools");
        let encoded = wit.encode().unwrap();
        let text = String::from_utf8_lossy(&encoded);
        assert!(text.contains("Finds the most frequent words of a text"), "{}", language.facts().name);
    }
    let bindings = fs::read_to_string(folder.path().join("rust/src/bindings.rs")).unwrap();
    assert!(bindings.contains("pub mod word_tool") && bindings.contains("fn top_words("), "{bindings}");
}

#[test]
fn a_project_is_made_whole_or_not_at_all() {
    let home = Home::new();
    let answer = home.haft(&["plugin", "new", "--lang", "c", "word-tool"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, ""));
    assert!(answer.stderr.ends_with(
        "next: `cd word-tool && haft plugin build`, or `haft plugin dev` there to build on every change\n"
    ));
    let again = home.haft(&["plugin", "new", "--lang", "rust", "word-tool"]);
    assert_eq!(again.code, 3);
    assert!(
        again.stderr.contains("`word-tool` exists already") && again.stderr.contains("nothing was written")
    );
    assert!(!home.work().join("word-tool/Cargo.toml").exists());
    for (name, why) in [
        ("Word", "write `word`"),
        ("2words", "begins with a letter"),
        ("a--b", "joined by one `-`"),
        ("list", "the word is reserved"),
        ("..", "must not be empty"),
    ] {
        let refused = home.haft(&["plugin", "new", "--lang", "rust", name]);
        assert!(refused.code == 3 && refused.stderr.contains(why), "{name}: {}", refused.stderr);
    }
    let unknown = home.haft(&["plugin", "new", "--lang", "ruts", "x"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("did you mean `rust`?"), "{}", unknown.stderr);
    let sdk = home.haft(&["plugin", "new", "--lang", "c", "--sdk", "x"]);
    assert!(sdk.stderr.contains("haft has no SDK for C"), "{}", sdk.stderr);
    let names: Vec<_> = fs::read_dir(home.work()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["word-tool"], "nothing is left behind");
}

/// If a build tool is missing, the error names the tool, the searched PATH, and at least two ways to get the tool.
#[test]
fn a_missing_tool_is_named_with_the_ways_to_get_it() {
    let home = Home::new();
    for (language, tool) in [("rust", "cargo"), ("c", "zig")] {
        home.haft(&["plugin", "new", "--lang", language, language]);
        fs::remove_file(home.work().join(language).join("requirements.txt")).ok();
        let mut command = home.command(&["plugin", "build", language]);
        let empty = tempfile::tempdir().unwrap();
        let answer = Answer::from(command.env("PATH", empty.path()).output().unwrap());
        assert_eq!(answer.code, 3);
        let first = format!("error: cannot find `{tool}`, which ");
        assert!(answer.stderr.starts_with(&first) && answer.stderr.contains("on PATH"), "{}", answer.stderr);
        assert!(answer.stderr.matches("hint: ").count() >= 2, "{}", answer.stderr);
    }
}

/// `haft plugin build` compiles a new Rust project to a component that contains its own description.
#[test]
fn a_rust_project_is_built_and_says_everything_itself() {
    let home = Home::new();
    if !has_target() {
        return;
    }
    offline_project(&home, "word-tool");
    let answer = cargo_haft(&home, &["plugin", "build", "word-tool", "--json"]);
    if answer.stderr.contains("failed to download") || answer.stderr.contains("no matching package") {
        return eprintln!("SKIPPED: `wit-bindgen` is not among the crates of this machine");
    }
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let said: Value = serde_json::from_str(&answer.stdout).unwrap();
    let bytes = fs::read(said["component"].as_str().unwrap()).unwrap();
    assert_eq!(said["bytes"], json!(bytes.len()));
    assert!(said["tools"][0].as_str().unwrap().starts_with("Rust 1."));
    let found = read_sections(&bytes).unwrap();
    assert_eq!(found.wit.len(), 1);
    // S01: the component contains the rights it requests, but not how it is built.
    let program = found.program.unwrap();
    assert!(program.contains("name = \"word-tool\"") && !program.contains("[build]"), "{program}");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(!text.contains(&home.work().display().to_string()), "no path of this machine");
    // A second build gives identical bytes without compiling again.
    cargo_haft(&home, &["plugin", "build", "word-tool"]);
    assert_eq!(fs::read(home.work().join("word-tool/word-tool.wasm")).unwrap(), bytes);
    let broken = home.work().join("word-tool/src/lib.rs");
    fs::write(&broken, "fn").unwrap();
    let answer = cargo_haft(&home, &["plugin", "build", "word-tool"]);
    assert!(answer.code == 3 && answer.stderr.contains("failed: exit status: 101"), "{}", answer.stderr);
    assert_eq!(fs::read(home.work().join("word-tool/word-tool.wasm")).unwrap(), bytes, "the last one stays");
}

/// `[build] command` can use any language, as long as it produces a component.
#[test]
fn a_command_of_ones_own_builds_and_haft_finishes_it() {
    let home = Home::new();
    let built = repository().join("plugins/built/hello.wasm");
    home.write("program.toml", &format!(
        "[program]\nname = \"p\"\nversion = \"1.0.0\"\n[[plugins]]\nname = \"p\"\ncomponent = \"p.wasm\"\n\
         [build]\ncommand = [\"cp\", \"{}\", \"p.wasm\"]\n", built.display()
    ));
    let answer = home.haft(&["plugin", "build"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(
        answer.stderr.contains("built `p.wasm`") && answer.stderr.ends_with("`haft call p__TOOL`\n"),
        "{}",
        answer.stderr
    );
    let bytes = fs::read(home.work().join("p.wasm")).unwrap();
    assert!(read_sections(&bytes).unwrap().program.unwrap().contains("name = \"p\""));
    assert_eq!(home.haft(&["call", "p__hello", "-a", "name=you"]).stdout, "hello you\n");
    let nothing = home.haft(&["plugin", "build", "nowhere"]);
    assert!(nothing.code == 3 && nothing.stderr.contains("haft plugin new --lang"), "{}", nothing.stderr);
    home.write("program.toml", "[build]\ncommand = \"true\"");
    assert!(home.haft(&["plugin", "build"]).stderr.contains("has no plugin to build"));
}

/// `haft check` checks a component that is not installed.
#[test]
fn a_component_is_checked_without_installing_it() {
    let home = Home::new();
    let hello = repository().join("plugins/built/hello.wasm");
    fs::copy(&hello, home.work().join("hello.wasm")).unwrap();
    let answer = home.haft(&["check", "hello.wasm"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(
        answer.stdout.contains("haft:plugin, 1 tool") && answer.stdout.contains("hello__hello"),
        "{}",
        answer.stdout
    );
    assert!(
        answer.stderr.contains("the component does not declare the rights it requests"),
        "{}",
        answer.stderr
    );
    let grant = "[[plugins]]\nname = \"hello\"\ncomponent = \"hello.wasm\"\ngrant.hosts = [\"a.example\"]\n";
    home.write("program.toml", grant);
    let answer = home.haft(&["check", "hello.wasm"]);
    assert!(answer.stdout.contains("requests hosts [\"a.example\"]"), "{}", answer.stdout);
    assert!(
        answer.stderr.contains("requests `hosts` but imports no interface that uses it"),
        "{}",
        answer.stderr
    );
    let said: Value = serde_json::from_str(&home.haft(&["check", "hello.wasm", "--json"]).stdout).unwrap();
    assert_eq!((&said["tools"][0]["name"], &said["errors"]), (&json!("hello"), &json!([])));
    home.write("text.wasm", "not a component");
    let bad = home.haft(&["check", "text.wasm"]);
    assert!(bad.code == 3 && bad.stderr.contains("not a WebAssembly component"), "{}", bad.stderr);
    home.write(
        "program.toml",
        "[[plugins]]\nname = \"hello\"\ncomponent = \"hello.wasm\"\n[build]\nlanguage = \"rust\"",
    );
    let project = home.haft(&["check", "."]);
    assert!(project.code == 0 && project.stdout.contains("hello.wasm: "), "{}", project.stderr);
}
