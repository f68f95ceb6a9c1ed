//! The boundaries inside haft, checked in its source: the modules that may use each other, and the only files that
//! may use a dependency or start a process.

mod circles;
mod clock;
mod platforms;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::repository;

/// Limit on the lines of a file, tests included. A longer file has more than one topic.
const MAX_LINES: usize = 450;

/// Limit on the lines of a function's body.
const MAX_FUNCTION: usize = 60;

/// Names in the code, and the only files or folders (below `host`) that may contain them.
const HOMES: &[(&str, &[&str])] = &[
    ("wasmtime::", &["plugin/src"]),
    ("wasmtime_wasi::", &["plugin/src"]),
    (
        "reqwest::",
        &[
            "core/src/net/tls.rs",
            "agent/src/provider/remote.rs",
            "agent/src/provider/remote",
            "package/src/download.rs",
            "package/src/oci",
            "mcp/src/client/address.rs",
            "mcp/src/client/http",
            "mcp/src/client/http.rs",
            "mcp/src/client/oauth",
            "callers/src/keys.rs",
            "telemetry/src/sender.rs",
        ],
    ),
    ("jsonwebtoken::", &["callers/src/jwt.rs", "callers/src/keys.rs"]),
    ("wasmtime_wasi_http::", &["plugin/src"]),
    (
        "hyper::",
        &[
            "plugin/src/wasi/http.rs",
            "plugin/src/wasi/http",
            "plugin/src/contract/mcp/exchange.rs",
            "mcp/src/server",
            "page/src/server",
            "page/src/server.rs",
            "telemetry/src/scrapes.rs",
            "sandbox/src/confine/egress/secrets",
        ],
    ),
    (
        "hyper_util::",
        &[
            "mcp/src/server",
            "page/src/server.rs",
            "telemetry/src/scrapes.rs",
            "sandbox/src/confine/egress/secrets",
        ],
    ),
    ("hyper_rustls::", &["sandbox/src/confine/egress/secrets"]),
    ("rcgen::", &["sandbox/src/confine/egress/secrets"]),
    ("tokio_rustls::", &["plugin/src/wasi/http", "sandbox/src/confine/egress/secrets"]),
    ("to_socket_addrs", &["plugin/src/wasi/http/client.rs"]),
    (
        "ring::",
        &[
            "package/src/signature",
            "callers/src/jwt.rs",
            "mcp/src/client/oauth/service.rs",
            "mcp/src/server/questions.rs",
            "nats/src/payload.rs",
            "sandbox/src/confine/egress/secrets/sigv4.rs",
        ],
    ),
    ("minisign_verify::", &["package/src/signature"]),
    ("sigstore_verify::", &["package/src/signature"]),
    ("opentelemetry::", &["telemetry/src"]),
    ("opentelemetry_sdk::", &["telemetry/src"]),
    ("opentelemetry_otlp::", &["telemetry/src"]),
    ("opentelemetry_http::", &["telemetry/src"]),
    ("opentelemetry_prometheus::", &["telemetry/src"]),
    ("prometheus::", &["telemetry/src"]),
    ("tar::", &["package/src/archive", "package/src/archive.rs", "author/src/archive.rs"]),
    (
        "flate2::",
        &[
            "plugin/src/debug/lines.rs",
            "package/src/archive",
            "package/src/archive.rs",
            "author/src/archive.rs",
            // Some model servers compress answers without a request for it.
            "agent/src/provider/reading.rs",
            // `build.rs` compressed this data.
            "plugin/src/component/source.rs",
        ],
    ),
    ("indicatif::", &["haft/src/cli/terminal", "haft/src/cli/terminal.rs"]),
    ("anstream::", &["haft/src/cli/terminal"]),
    ("anstyle::", &["haft/src/cli/terminal", "core/src/report.rs"]),
    (
        "io::stdout()",
        &[
            "haft/src/cli/terminal",
            "haft/src/cli/terminal.rs",
            "haft/src/cli/pipes.rs",
            "haft/src/cli/wrap/relay.rs",
            "sandbox/src/process/attached.rs",
            "sandbox/src/selftest/platform/attempt.rs",
        ],
    ),
    ("notify::", &["author/src/watch.rs", "author/src/watch"]),
    ("wit_component::", &["plugin/src", "author/src"]),
    ("wit_parser::", &["plugin/src", "author/src"]),
    ("wit_bindgen_", &["author/src"]),
    ("ciborium::", &["plugin/src/contract/act", "plugin/src/contract/act.rs", "plugin/src/debug/lines.rs"]),
    ("addr2line::", &["plugin/src/debug"]),
    ("rmcp::", &["mcp/src"]),
    ("oauth2::", &["mcp/src/client/oauth"]),
    ("async_nats::", &["nats/src"]),
    ("agent_client_protocol_schema::", &["acp/src"]),
    ("jsonc_parser::", &["import/src/syntax.rs"]),
    ("similar::", &["package/src/disclosure", "author/src/suite", "core/src/tool/difference.rs"]),
    ("linux_keyutils::", &["manifest/src/secrets/keyring"]),
    (
        "jiff::",
        &[
            "core/src/journal/record.rs",
            "journal/src",
            "core/src/net.rs",
            "agent/src/session",
            "mcp/src/server/tasks",
            "haft/src/cli/log",
            "haft/src/cli/log.rs",
            "haft/src/cli/sessions.rs",
            "page/src",
            "package/src/foreign.rs",
        ],
    ),
    ("rawzip::", &["package/src/archive"]),
    ("redb::", &["state/src/store.rs", "state/src/store"]),
    ("rustyline::", &["haft/src/cli/chat"]),
    (
        "process::Command",
        &[
            "manifest/src/secrets/keyring/linux.rs",
            "haft/src/cli/mcp/browser.rs",
            "sandbox/src/confine/helper.rs",
            "sandbox/src/confine/session.rs",
            "sandbox/src/process/detached.rs",
        ],
    ),
    (
        "unsafe {",
        &[
            "plugin/src/component/cache.rs",
            "core/src/heap.rs",
            "sandbox/src/confine/helper/platform/descent.rs",
            "sandbox/src/confine/sys",
            "sandbox/src/confine/sys.rs",
            "sandbox/src/selftest/platform/raw.rs",
        ],
    ),
    // `state` depends on no other crate.
    ("PoisonError", &["core/src/sync.rs", "state/src"]),
    ("getrandom::", &["core/src/random.rs"]),
    ("println!", &["haft/src/cli/terminal.rs"]),
];

/// Words that mark unfinished work.
const UNFINISHED: &[&str] = &["todo!(", "unimplemented!(", "FIXME", "XXX", "dbg!("];

/// Crates whose `lib.rs` is a map: a module uses only modules that are listed above it.
const MAPS: &[&str] = &["core", "haft"];

/// A module of a crate, and the only modules of its crate that it may use. Cargo enforces the dependencies between
/// crates.
const APART: &[(&str, &str, &[&str])] = &[("agent", "provider", &["provider"])];

/// Modules that no other module of their crate may use.
const TOPS: &[(&str, &str)] = &[("sandbox", "native")];

/// The Rust files of haft, by their path below `host`.
fn sources() -> BTreeMap<PathBuf, String> {
    let root = repository().join("host");
    let mut sources = BTreeMap::new();
    let mut folders = crates().iter().map(|name| root.join(name).join("src")).collect::<Vec<_>>();
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

/// The folders of the crates.
fn crates() -> Vec<String> {
    let entries = fs::read_dir(repository().join("host")).unwrap().map(Result::unwrap);
    let names = entries.filter(|entry| entry.path().join("Cargo.toml").exists());
    names.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// The lines of code, numbered from 1.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// The modules of a crate's `lib.rs`, in order.
fn modules(name: &str) -> Vec<String> {
    let map = fs::read_to_string(repository().join("host").join(name).join("src/lib.rs")).unwrap();
    let name = |line: &str| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        Some(line.strip_prefix("mod ")?.strip_suffix(';')?.to_owned())
    };
    map.lines().filter_map(name).collect()
}

/// The crate and the module of a file: `core/src/grant/root.rs` belongs to `grant` of `core`.
fn module_of(file: &Path) -> (&str, &str) {
    let mut parts = file.components().map(|part| part.as_os_str().to_str().unwrap());
    let (name, module) = (parts.next().unwrap(), parts.nth(1).unwrap());
    (name, module.trim_end_matches(".rs"))
}

/// The modules that a line names as `crate::NAME` or as one of `crate::{NAME, …}`.
fn used(line: &str) -> impl Iterator<Item = &str> {
    let rests = line.match_indices("crate::").map(|(at, found)| &line[at + found.len()..]);
    rests.flat_map(|rest| {
        let list = rest.strip_prefix('{').and_then(|list| list.split('}').next()).unwrap_or(rest);
        let names = list.split(", ").take(if rest.starts_with('{') { usize::MAX } else { 1 });
        names.map(|name| name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap())
    })
}

/// The reason why the module `own` of a crate may not use its module `other`.
fn refusal(name: &str, own: &str, other: &str) -> Option<&'static str> {
    let place = |modules: &[String], name: &str| modules.iter().position(|module| module == name);
    let modules = if MAPS.contains(&name) { modules(name) } else { Vec::new() };
    if place(&modules, own).zip(place(&modules, other)).is_some_and(|(own, other)| other > own) {
        return Some("which stands below it in lib.rs");
    }
    let apart = APART.iter().find(|(owner, module, _)| *owner == name && *module == own);
    if apart.is_some_and(|(_, _, allowed)| !allowed.contains(&other)) {
        return Some("and may use nothing of its crate but itself");
    }
    (own != other && own != "lib" && TOPS.contains(&(name, other)))
        .then_some("which stands above all of its crate")
}

#[test]
fn a_module_uses_only_modules_above_it() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let (name, own) = module_of(&file);
        for (line, other) in code(&text).flat_map(|(line, text)| used(text).map(move |name| (line, name))) {
            if let Some(reason) = refusal(name, own, other) {
                wrong.push(format!("{}:{line}: uses `{other}`, {reason}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(used("use crate::{a, b::c}; crate::d::e").collect::<Vec<_>>(), ["a", "b", "d"]);
}

/// True if a line contains `name`. The name of a crate must be a whole path: neither `String::` nor `crypto::ring::`
/// is `ring::`.
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
    // A test prints on standard error which tools the machine lacks.
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
        if lines > MAX_LINES {
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

/// The start and the length of each function's body. rustfmt places the closing brace under the function's first
/// letter, and only the signature has that indentation before it.
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
    let inside = |line: &str| line.strip_prefix("pub(in ")?.split_once(") ").map(|(_, rest)| rest.to_owned());
    let strip = |line: &'_ str| {
        let word = BEFORE.iter().find_map(|word| line.strip_prefix(word).map(str::to_owned));
        word.or_else(|| inside(line))
    };
    let mut head = line.trim_start().to_owned();
    while let Some(rest) = strip(&head) {
        head = rest;
    }
    head.starts_with("fn ")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The guests do not depend on the host: `wit/` is their only contract.
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

/// The gate runs few of the scripts in `.ci`, so that a syntax error in the others would first show at night.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test starts what the scripts are for")]
fn every_script_parses() {
    let python = "import ast, sys; ast.parse(open(sys.argv[1], 'rb').read(), sys.argv[1])";
    let folders = [".ci", ".ci/steps", ".ci/packages"].map(|folder| repository().join(folder));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let files: Vec<_> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let (program, flags): (_, &[&str]) = match text.lines().next() {
            Some("#!/bin/sh") => ("sh", &["-n"]),
            Some("#!/usr/bin/env python3") => ("python3", &["-c", python]),
            _ if file.extension().is_some_and(|kind| kind == "py") => ("python3", &["-c", python]),
            _ => continue,
        };
        let parsed = Command::new(program).args(flags).arg(file).output().unwrap();
        assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    }
    assert!(files.len() > 50, "found only {} scripts", files.len());
}
