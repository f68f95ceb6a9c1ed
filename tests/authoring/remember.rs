//! The build records: no up-to-date component is built again, and no component that is older than its sources is
//! called, tested or published.

use std::fs;

use serde_json::Value;

use super::{cargo_haft, has_target, offline_project};
use crate::cli::Home;
use crate::common::repository;

/// A project whose build command records each run beside the project's folder, with one test.
fn project() -> Home {
    let home = Home::new();
    home.write(
        "program.toml",
        "[program]\nname = \"p\"\nversion = \"1.0.0\"\n[[plugins]]\nname = \"p\"\ncomponent = \"p.wasm\"\n\
         [build]\ncommand = [\"sh\", \"-c\", \"echo run >>../runs && cp source p.wasm\"]\n",
    );
    source(&home, "hello.wasm");
    fs::create_dir(home.work().join("tests")).unwrap();
    test(&home, "hello you");
    home
}

fn source(home: &Home, built: &str) {
    fs::copy(repository().join("plugins/built").join(built), home.work().join("source")).unwrap();
}

fn test(home: &Home, answer: &str) {
    home.write("tests/hello.toml", &format!(
        "[[test]]\nname = \"greets\"\ntool = \"hello\"\narguments = {{ name = \"you\" }}\nanswer = \"{answer}\"\n"
    ));
}

/// The number of runs of the build command.
fn runs(home: &Home) -> usize {
    fs::read_to_string(home.work().join("../runs")).unwrap_or_default().lines().count()
}

/// U5: `haft plugin test` does not build an up-to-date component again.
#[test]
fn a_test_takes_what_was_built() {
    let home = project();
    assert_eq!(home.haft(&["plugin", "build"]).code, 0);
    let tested = home.haft(&["plugin", "test"]);
    assert!(tested.code == 0 && tested.stderr.contains("`p.wasm` is up to date: "), "{}", tested.stderr);
    // haft's own output files are not sources.
    for output in ["p.folded", "p.core", "p-0.1.0.tar.gz"] {
        home.write(output, "");
    }
    assert!(home.haft(&["plugin", "test"]).stderr.contains("`p.wasm` is up to date: "));
    // Tests and grants of program.toml are not sources of the component.
    test(&home, "hello me");
    let granted = fs::read_to_string(home.work().join("program.toml")).unwrap();
    home.write("program.toml", &granted.replace("[build]", "[plugins.grant]\nread = [\"docs\"]\n[build]"));
    let tested = home.haft(&["plugin", "test"]);
    assert!(tested.code == 1 && runs(&home) == 1, "{}", tested.stderr);
    let bytes = fs::read(home.work().join("p.wasm")).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("read = [\"docs\"]"), "it says what it asks for now");
    source(&home, "wordcount.wasm");
    assert!(home.haft(&["plugin", "test"]).stderr.contains("built `p.wasm`"));
    assert_eq!(runs(&home), 2);
    // Only the build command knows its inputs, so `haft plugin build` always runs it.
    assert!(home.haft(&["plugin", "build"]).stderr.contains("built `p.wasm`"));
    assert_eq!(runs(&home), 3);
}

/// U4: haft builds an outdated component before a call, and refuses to publish or pack it.
#[test]
fn what_is_older_than_its_sources_is_built_first_or_refused() {
    let home = project();
    home.haft(&["plugin", "build"]);
    let call = || home.haft(&["call", "p__hello", "-a", "name=you"]);
    assert_eq!((call().stdout.as_str(), runs(&home)), ("hello you\n", 1));
    fs::write(home.work().join("more"), "new").unwrap();
    let told = "`p.wasm` is out of date: `more` changed";
    for checked in [home.haft(&["check"]), home.haft(&["check", "p.wasm"])] {
        assert!(checked.code == 0 && checked.stderr.contains(told), "{}", checked.stderr);
    }
    let reference = "oci://127.0.0.1:1/me/p:1";
    for arguments in [
        &["plugin", "publish", "--dry-run", reference][..],
        &["plugin", "publish", "--dry-run", reference, "p.wasm"],
        &["plugin", "pack"],
    ] {
        let refused = home.haft(arguments);
        assert!(refused.code == 3 && refused.stderr.contains(told), "{}", refused.stderr);
        assert!(refused.stderr.contains("hint: run `haft plugin build`, then "), "{}", refused.stderr);
    }
    // Another path of the folder names the same project.
    let other =
        home.command(&["call", "--program", "../work/program.toml", "p__hello", "-a", "name=me"]).output();
    let other = crate::cli::Answer::from(other.unwrap());
    assert!(other.stdout == "hello me\n" && other.stderr.contains("building it"), "{}", other.stderr);
    assert_eq!(runs(&home), 2);
    assert!(home.haft(&["plugin", "publish", "--dry-run", reference]).stderr.contains("would publish"));
    // If the build fails, haft reports the failure and does not call the older component.
    fs::write(home.work().join("source"), "no component").unwrap();
    let failed = call();
    assert!(failed.code == 3 && failed.stdout.is_empty(), "{}", failed.stderr);
    assert!(failed.stderr.contains("not a component"), "{}", failed.stderr);
    assert!(home.haft(&["call", "time"]).code == 0, "tools of others are not kept from working");
}

/// U4: haft does not build a component that came from elsewhere; it calls the component unchanged.
#[test]
fn what_was_not_built_here_is_called_as_it_is() {
    let home = project();
    home.haft(&["plugin", "build"]);
    fs::remove_file(home.work().join("p.wasm")).unwrap();
    let gone = home.haft(&["call", "p__hello", "-a", "name=you"]);
    assert!(gone.code != 0 && gone.stderr.contains("hint: run `haft plugin build`"), "{}", gone.stderr);
    fs::copy(repository().join("plugins/built/wordcount.wasm"), home.work().join("p.wasm")).unwrap();
    fs::write(home.work().join("more"), "new").unwrap();
    let answer = home.haft(&["call", "p__count", "-a", "path=more"]);
    assert!(answer.stderr.contains("cannot read `") && runs(&home) == 1, "{}", answer.stderr);
}

/// U5: an unchanged Rust project is not built again, and a partial build gives the bytes of a complete build.
#[test]
fn a_rust_project_is_built_again_where_it_changed() {
    let home = Home::new();
    if !has_target() {
        return;
    }
    offline_project(&home, "word-tool");
    let build =
        |more: &[&str]| cargo_haft(&home, &[&["plugin", "build", "word-tool", "--json"], more].concat());
    let first = build(&[]);
    if first.stderr.contains("failed to download") || first.stderr.contains("no matching package") {
        return eprintln!("SKIPPED: `wit-bindgen` is not among the crates of this machine");
    }
    let was_there = |answer: &crate::cli::Answer| -> bool {
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        serde_json::from_str::<Value>(&answer.stdout).unwrap()["was_there"].as_bool().unwrap()
    };
    assert!(!was_there(&first) && was_there(&build(&[])));
    let project = home.work().join("word-tool");
    let bytes = || fs::read(project.join("word-tool.wasm")).unwrap();
    let program = fs::read_to_string(project.join("program.toml")).unwrap();
    fs::write(
        project.join("program.toml"),
        program.replace("#[plugins.grant]", "[plugins.grant]\nread = [\"docs\"]"),
    )
    .unwrap();
    assert!(was_there(&build(&[])));
    let refreshed = bytes();
    assert!(!was_there(&build(&["--force"])) && refreshed == bytes(), "the same bytes as of a whole build");
    assert!(
        !was_there(&build(&["--debug"])) && !was_there(&build(&[])),
        "a component for debuggers is another"
    );
    let source = fs::read_to_string(project.join("src/lib.rs")).unwrap();
    fs::write(project.join("src/lib.rs"), format!("{source}\n// A change.\n")).unwrap();
    assert!(!was_there(&build(&[])));
    fs::remove_file(project.join("Cargo.lock")).unwrap();
    fs::copy(repository().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    assert!(!was_there(&build(&[])) && was_there(&build(&[])), "which versions are used is a part of it");
}
