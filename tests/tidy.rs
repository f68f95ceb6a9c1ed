//! The borders inside haft, held by looking at its own source: which module may use which, and
//! which one alone may touch a dependency or start a process.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::repository;

/// Lines of a file, its tests included. Beyond this it holds more than one thing.
const MAX_LINES: usize = 450;

/// Flat lists, which are read by looking one thing up.
const CATALOGUES: &[&str] = &["manifest/catalogue.rs"];

/// Lines of a function's body.
const MAX_FUNCTION: usize = 60;

/// Names in the code, and the only files or folders (below `host/src`) that may hold them.
const HOMES: &[(&str, &[&str])] = &[
    ("wasmtime::", &["plugin"]),
    ("wasmtime_wasi::", &["plugin"]),
    (
        "reqwest::",
        &[
            "provider/remote.rs",
            "provider/remote",
            "package/download.rs",
            "package/oci",
            "mcp/client/http.rs",
        ],
    ),
    ("wasmtime_wasi_http::", &["plugin"]),
    ("hyper::", &["plugin/http.rs", "plugin/http", "mcp/server"]),
    ("hyper_util::", &["mcp/server"]),
    ("tokio_rustls::", &["plugin/http"]),
    ("to_socket_addrs", &["plugin/http/client.rs"]),
    ("ring::", &["package/signature", "mcp/server/random.rs", "mcp/server/questions"]),
    ("minisign_verify::", &["package/signature"]),
    ("tar::", &["package/archive", "package/archive.rs", "author/archive.rs"]),
    ("flate2::", &["package/archive", "package/archive.rs", "author/archive.rs"]),
    ("indicatif::", &["cli/terminal", "cli/terminal.rs"]),
    ("anstream::", &["cli/terminal"]),
    ("anstyle::", &["cli/terminal", "report.rs"]),
    (
        "io::stdout()",
        &[
            "cli/terminal",
            "cli/terminal.rs",
            "cli/serve.rs",
            "backend/attached.rs",
            "backend/confine/selftest/escape.rs",
            "author/watch.rs",
        ],
    ),
    ("notify::", &["author", "program/watch.rs"]),
    ("wit_component::", &["plugin", "author"]),
    ("wit_parser::", &["plugin", "author"]),
    ("wit_bindgen_", &["author"]),
    ("ciborium::", &["plugin/act", "plugin/act.rs"]),
    ("rmcp::", &["mcp"]),
    ("similar::", &["package/disclosure"]),
    ("zbus::", &["secret/keyring"]),
    ("linux_keyutils::", &["secret/keyring"]),
    ("jiff::", &["journal", "agent/session", "cli/log", "cli/sessions.rs"]),
    ("rustyline::", &["cli/chat"]),
    ("process::Command", &["backend/confine/helper.rs", "backend/confine/session.rs", "backend/detached.rs"]),
    (
        "unsafe {",
        &[
            "plugin/cache.rs",
            "plugin/heap.rs",
            "backend/confine/sys.rs",
            "backend/confine/selftest/raw.rs",
            "mcp/server/lines/code.rs",
        ],
    ),
    ("println!", &["cli/terminal.rs"]),
];

/// Words that mark work not done.
const UNFINISHED: &[&str] = &["todo!(", "unimplemented!(", "FIXME", "XXX", "dbg!("];

/// The Rust files of haft, by their path below `host/src`.
fn sources() -> BTreeMap<PathBuf, String> {
    let root = repository().join("host/src");
    let mut sources = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                sources.insert(path.strip_prefix(&root).unwrap().to_owned(), text);
            }
        }
    }
    assert!(sources.len() > 40, "found only {} files", sources.len());
    sources
}

/// The lines that are code, numbered from 1.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// The modules of `lib.rs`, in order.
fn modules() -> Vec<String> {
    let map = fs::read_to_string(repository().join("host/src/lib.rs")).unwrap();
    let name = |line: &str| Some(line.strip_prefix("pub mod ")?.strip_suffix(';')?.to_owned());
    map.lines().filter_map(name).collect()
}

/// The module a file belongs to: `grant/root.rs` and `grant.rs` to `grant`.
fn module_of(file: &Path) -> String {
    let first = file.components().next().unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

/// The modules that a line names as `crate::NAME`.
fn used(line: &str) -> impl Iterator<Item = &str> {
    let names = line.match_indices("crate::").map(|(at, found)| &line[at + found.len()..]);
    names.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap())
}

#[test]
fn a_module_uses_only_modules_above_it() {
    let modules = modules();
    let place = |name: &str| modules.iter().position(|module| module == name);
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let Some(own) = place(&module_of(&file)) else { continue };
        for (line, name) in code(&text).flat_map(|(number, line)| used(line).map(move |name| (number, name)))
        {
            if place(name).is_some_and(|other| other > own) {
                wrong.push(format!(
                    "{}:{line}: uses `{name}`, which stands below it in lib.rs",
                    file.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a line has `name`; that of a crate only by itself: neither `String::` nor `crypto::ring::` is `ring::`.
fn has_name(line: &str, name: &str) -> bool {
    let is_crate = name.ends_with("::");
    let is_word = |(at, _): (usize, &str)| {
        let before = line[..at].chars().next_back();
        !is_crate || !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':'))
    };
    line.match_indices(name).any(is_word)
}

#[test]
fn every_dependency_stays_at_home() {
    let mut wrong = Vec::new();
    // A test says on standard error what this machine has not got to test it with.
    for (file, text) in sources().into_iter().filter(|(file, _)| !file.ends_with("tests.rs")) {
        for (name, homes) in
            HOMES.iter().filter(|(_, homes)| !homes.iter().any(|home| file.starts_with(home)))
        {
            let strays = code(&text).filter(|(_, line)| has_name(line, name));
            wrong.extend(
                strays.map(|(line, _)| format!("{}:{line}: `{name}` belongs to {homes:?}", file.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for_and_holds_one_thing() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let (shown, lines) = (file.display(), text.lines().count());
        if !text.starts_with("//!") && file.file_name().unwrap() != "tests.rs" {
            wrong.push(format!("{shown}: opens without `//!`"));
        }
        if lines > MAX_LINES && !CATALOGUES.iter().any(|list| file == Path::new(list)) {
            wrong.push(format!("{shown}: {lines} lines, and at most {MAX_LINES} are one thing"));
        }
        let unfinished = code(&text).filter(|(_, line)| UNFINISHED.iter().any(|word| line.contains(word)));
        wrong.extend(unfinished.map(|(line, _)| format!("{shown}:{line}: unfinished")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn functions_are_short() {
    let mut wrong = Vec::new();
    let mut lengths = Vec::new();
    for (file, text) in sources() {
        for (line, length) in functions(&text) {
            lengths.push(length);
            if length > MAX_FUNCTION {
                wrong.push(format!(
                    "{}:{line}: {length} lines, and at most {MAX_FUNCTION} can be read",
                    file.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    assert!(median <= 10, "the median function has {median} lines, and 8 is the aim");
}

/// Where functions begin and how long their bodies are. rustfmt puts the brace that closes one
/// under its first letter, and nothing but its signature stands there in between.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let heads = lines.iter().enumerate().filter(|(_, line)| is_head(line) && !line.ends_with([';', '}']));
    let length = |(start, head): (usize, &&str)| {
        let below = lines.iter().skip(start + 1);
        let same_depth = |line: &&str| !line.is_empty() && indent(line) == indent(head);
        let (end, last) =
            below.enumerate().find(|(_, line)| same_depth(line) && line.ends_with(['}', ';']))?;
        (last.trim() == "}").then_some((start + 1, end))
    };
    heads.filter_map(length).collect()
}

fn is_head(line: &str) -> bool {
    const BEFORE: [&str; 6] = ["pub ", "pub(super) ", "pub(crate) ", "const ", "async ", "unsafe "];
    let strip = |line: &'_ str| BEFORE.iter().find_map(|word| line.strip_prefix(word).map(str::to_owned));
    let mut head = line.trim_start().to_owned();
    while let Some(rest) = strip(&head) {
        head = rest;
    }
    head.starts_with("fn ")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The guests know nothing of the host: that is what makes `wit/` the contract.
#[test]
fn no_plugin_depends_on_the_host() {
    let mut checked = 0;
    for folder in ["plugins", "tests/guests"] {
        for entry in fs::read_dir(repository().join(folder)).unwrap() {
            let Ok(manifest) = fs::read_to_string(entry.unwrap().path().join("Cargo.toml")) else { continue };
            checked += 1;
            let named = manifest
                .lines()
                .any(|line| line.trim_start().starts_with("haft ") || line.contains("../host"));
            assert!(!named, "a plugin names the host crate:\n{manifest}");
        }
    }
    assert!(checked >= 5, "found only {checked} plugins");
}
