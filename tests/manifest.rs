//! Every file in `manifest/bad` is an invalid program.toml, and the `.err` file beside it is the complete message.
//! `BLESS=1 cargo test` writes the messages again; read the difference before a commit.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its files should fail")]

use std::fs;
use std::path::{Path, PathBuf};

use haft::manifest::Manifest;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/manifest/bad")
}

fn bad_files() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    files
}

/// The error message for a file, with the file name `program.toml`.
fn message(bytes: &[u8]) -> String {
    match Manifest::parse_bytes(bytes, Path::new("program.toml")) {
        Ok(_) => "no problem\n".to_owned(),
        Err(report) => format!("{report}\n"),
    }
}

fn check(file: &Path) -> Option<String> {
    let found = message(&fs::read(file).unwrap());
    let expected_file = file.with_extension("err");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&expected_file, &found).unwrap();
    }
    let expected = fs::read_to_string(&expected_file).unwrap_or_default();
    (expected != found || found == "no problem\n")
        .then(|| format!("{}\nexpected:\n{expected}\nfound:\n{found}", file.display()))
}

/// PR01: an error names its file, line and column, and the way to correct it.
#[test]
fn every_bad_file_gives_its_message() {
    let files = bad_files();
    let wrong: Vec<_> = files.iter().filter_map(|file| check(file)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(files.len() >= 40, "{}", files.len());
}

/// Every `.err` file belongs to a `.toml` file; without one it would promise a message that haft never prints.
#[test]
fn no_message_is_left_behind() {
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        assert!(path.with_extension("toml").exists(), "{}", path.display());
    }
}

/// Every message has one form: `error:` and a text in lower case without a period, then the place.
#[test]
fn messages_keep_to_one_form() {
    for file in bad_files() {
        for part in message(&fs::read(&file).unwrap()).trim_end().split("\n\n") {
            let first = part.lines().next().unwrap_or_default();
            if first.ends_with("more problems are not shown") {
                continue;
            }
            let what = first.strip_prefix("error: ").unwrap_or_else(|| panic!("{}: {first}", file.display()));
            assert!(!what.starts_with(char::is_uppercase) || what.starts_with("UTF"), "{first}");
            assert!(!what.ends_with('.'), "{first}");
            assert!(part.contains("program.toml:"), "{part}");
        }
    }
}
