//! Tests of parsing third-party files, with files of their form.

use super::pypi::console_scripts;
use super::*;
use crate::PackageSource;

fn foreign(text: &str) -> Foreign {
    match text.parse() {
        Ok(PackageSource::Foreign(foreign)) => foreign,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn versions_of_pypi_become_semantic_ones_in_their_order() {
    let order = ["0.9", "1.0.dev1", "1.0a1", "1.0rc1", "1.0", "1.0.1", "2025.8.1", "2025.10.0"];
    for pair in order.windows(2) {
        let (one, other) = (semantic(pair[0]), semantic(pair[1]));
        assert!(one < other, "{one} {other}");
    }
    for (written, expected) in [
        ("1.2.3-rc.1", "1.2.3-rc.1"),
        ("2.1", "2.1.0"),
        ("1.2.3.4", "1.2.3+4"),
        ("1.2.post3", "1.2.0+post3"),
        ("1!2.0", "2.0.0"),
        ("v1.4", "1.4.0"),
        ("next", "0.0.0+next"),
    ] {
        assert_eq!(semantic(written).to_string(), expected, "{written}");
    }
}

#[test]
fn what_was_resolved_is_fetched_as_of_that_time() {
    let resolved = "1.2.0 as of 2026-01-02T03:04:05Z";
    let exact = exact(&foreign("npm:@a/b#arg=."), resolved);
    assert_eq!(exact.to_string(), "npm:@a/b@1.2.0#arg=.&before=2026-01-02T03:04:05Z");
    assert_eq!(super::exact(&exact, resolved), exact);
    assert_eq!(resolved_version(resolved), "1.2.0");
}

#[test]
fn only_dotted_names_of_entry_points_become_code() {
    let text = "[gui]\nx = a:b\n[console_scripts]\n server = a.b:main [extra]\nm=a:App.run\n\
        bad = a:main()\nworse = a;import os:x\nnone = a\n[other]\ny = a:b\n";
    let found = console_scripts(text);
    let found: Vec<_> = found.iter().map(|(name, (module, f))| format!("{name} {module} {f}")).collect();
    assert_eq!(found, ["server a.b main", "m a App.run"]);
}

fn variable(name: &str) -> TextOrSecret {
    TextOrSecret::Secret(SecretSource::Env(name.parse().unwrap()))
}

#[test]
fn settings_of_npm_and_pypi_are_words_and_variables() {
    let (words, env) = added(&foreign("npm:a#arg=.&arg=-x&env=TOKEN&env.DIR=/d&bin=b"), &["bin"]).unwrap();
    assert_eq!(words, [".", "-x"]);
    let expected =
        [("TOKEN".to_owned(), variable("TOKEN")), ("DIR".to_owned(), TextOrSecret::Text("/d".to_owned()))];
    assert_eq!(env, expected);
    let secrets = added(&foreign("npm:a#secret.A=env:B&secret.C=keyring:haft/a/c"), &[]).unwrap().1;
    let keyring = TextOrSecret::Secret(SecretSource::Keyring("haft/a/c".parse().unwrap()));
    assert_eq!(secrets, [("A".to_owned(), variable("B")), ("C".to_owned(), keyring)]);
    let error = added(&foreign("npm:a#secret.A=hunter2"), &[]).unwrap_err().to_string();
    assert_eq!(error, "the value of `secret.A` is not usable: expected `env:NAME` or `keyring:SERVICE/USER`");
    let error = added(&foreign("pypi:a#scripts=run"), &["bin"]).unwrap_err().to_string();
    assert_eq!(
        error,
        "it has no setting `scripts`; its settings are `arg`, `env`, `env.NAME`, `secret.NAME`, `bin`"
    );
}

#[test]
fn a_folder_without_a_program_is_told_what_it_is() {
    for (file, expected) in [
        ("manifest.json", "mcpb pack"),
        ("package.json", "npm:NAME"),
        ("pyproject.toml", "pypi:NAME"),
        ("README.md", "haft init"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "{}").unwrap();
        assert!(what_is(folder.path()).contains(expected), "{file}");
    }
}
