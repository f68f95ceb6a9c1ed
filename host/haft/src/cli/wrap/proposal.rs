//! The rights that are proposed for a server at its first start: those that its configuration names, and those that
//! it was refused.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use super::command::Wrapping;
use super::given::{distinct, network};
use haft_core::grant::{Grant, Proposal, Right};
use haft_manifest::is_credential;
use haft_sandbox::confine::Refusal;
use haft_sandbox::start::ENVIRONMENT;

/// Directories below one that are proposed each for itself; more are that one.
const MAX_SIBLINGS: usize = 3;

/// Where packages lie next to each other: one that is needed needs others.
const PACKAGES: &[&str] = &["node_modules", "site-packages"];

/// Variables of shells and of clients themselves, which are no setting of a server.
const OF_CLIENTS: &[&str] = &[
    "PATH",
    "PWD",
    "OLDPWD",
    "SHELL",
    "SHLVL",
    "TERM",
    "_",
    "INIT_CWD",
    "CLAUDECODE",
    "CLAUDE_CODE_",
    "CODEX_",
    "CURSOR_",
    "ELECTRON_",
    "GEMINI_CLI",
    "HAFT_",
    "OPENCODE",
    "VSCODE_",
    "XDG_",
    "LC_",
    "npm_lifecycle_",
    "npm_package_",
];

/// Words of commands that say nothing of what a server is for.
const COMMON_WORDS: &[&str] =
    &["mcp", "server", "node", "python", "run", "latest", "dist", "index", "main", "api", "key"];

/// Letters of a word that says something.
const MIN_WORD: usize = 3;

/// What the configuration of the client names: files and directories among the arguments, and the variables that it sets.
pub(super) fn configured(command: &Wrapping) -> Vec<Right> {
    let read = |place: &PathBuf| {
        let file = || place.to_str().map(|file| Right::Read(file.to_owned()));
        if place.is_file() { file() } else { Proposal::for_path(place).right(Right::Read) }
    };
    let reads = command.named.iter().filter_map(read);
    distinct(reads.chain(variables(command).into_iter().map(Right::Env)).collect())
}

/// The variables that the client set for this server, as far as that can be told: those that the client itself was not
/// started with, and keys that are called after the server. At a terminal haft's parent is a shell, whose own exports are no
/// settings of a server: only such keys count.
fn variables(command: &Wrapping) -> BTreeSet<String> {
    let client = if io::stdin().is_terminal() { None } else { environment_of_client() };
    let words: Vec<String> =
        [&command.name].into_iter().chain(&command.words).flat_map(|word| significant(word)).collect();
    let is_meant = |(name, value): &(String, String)| {
        let is_set = client.as_ref().is_some_and(|client| !client.contains(&format!("{name}={value}")));
        let is_called_so = || significant(name).iter().any(|part| words.contains(part));
        is_set || (is_credential(name) && is_called_so())
    };
    let is_own =
        |name: &str| !ENVIRONMENT.contains(&name) && !OF_CLIENTS.iter().any(|other| name.starts_with(other));
    let all = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    all.filter(|(name, _)| is_own(name)).filter(is_meant).map(|(name, _)| name).collect()
}

/// What the process that started this one was itself started with; `None` where the system does not tell.
fn environment_of_client() -> Option<BTreeSet<String>> {
    let parent = rustix::process::getppid()?;
    let text = std::fs::read(format!("/proc/{}/environ", parent.as_raw_nonzero())).ok()?;
    Some(text.split(|byte| *byte == 0).map(|entry| String::from_utf8_lossy(entry).into_owned()).collect())
}

/// The parts of a text that say something, in small letters.
fn significant(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase);
    parts.filter(|part| part.len() >= MIN_WORD && !COMMON_WORDS.contains(&part.as_str())).collect()
}

/// The fewest rights that let a server with `grant` do what it was `refused`. Where it failed, what its `words` on standard
/// error name is what it needs, if they name anything.
pub(super) fn of_refusals(refused: &[Refusal], grant: &Grant, words: Option<&str>) -> Vec<Right> {
    let mut refused: Vec<&Refusal> = refused.iter().filter(|refusal| !refusal.is_incidental()).collect();
    match words {
        Some(words) if refused.iter().any(|refusal| is_needed(refusal, words)) => {
            refused.retain(|refusal| is_needed(refusal, words));
        }
        Some(_) => {}
        // The server works without these rights: files in its starting folder may belong to another program.
        None => refused.retain(|refusal| !is_read_here(refusal, grant)),
    }
    let rights = refused.into_iter().filter_map(|refusal| right(refusal, grant));
    gathered(distinct(rights.map(of_packages).collect()))
}

/// The right that would let a server with `grant` do what it was refused.
pub(super) fn right(refusal: &Refusal, grant: &Grant) -> Option<Right> {
    match refusal {
        Refusal::Connect(_) | Refusal::Host(..) => network(),
        refusal => Refusal::rights([refusal], grant).pop(),
    }
}

/// Whether a program that failed with these `words` did so for what it was refused: a path that they name, or the network,
/// which they call by another name.
fn is_needed(refusal: &Refusal, words: &str) -> bool {
    match refusal {
        Refusal::Read(path) | Refusal::Write(path) | Refusal::Remove(path) => {
            path.to_str().is_some_and(|path| words.contains(path))
        }
        Refusal::Connect(_) | Refusal::Host(..) | Refusal::Request { .. } => true,
    }
}

fn is_read_here(refusal: &Refusal, grant: &Grant) -> bool {
    let here = grant.base().map(haft_core::grant::Root::real);
    matches!((refusal, here), (Refusal::Read(path), Some(here)) if path.starts_with(here))
}

/// A directory of a package, or all packages there.
fn of_packages(right: Right) -> Right {
    let Right::Read(path) = &right else { return right };
    let mut place = PathBuf::new();
    for part in Path::new(path).components() {
        place.push(part);
        if PACKAGES.iter().any(|packages| place.ends_with(packages)) {
            break;
        }
    }
    Proposal::for_path(&place).right(Right::Read).unwrap_or(right)
}

/// `rights` with one directory instead of many below it.
fn gathered(mut rights: Vec<Right>) -> Vec<Right> {
    let parent = |right: &Right| match right {
        Right::Read(path) => Path::new(path).parent().map(Path::to_owned),
        _ => None,
    };
    loop {
        let parents: Vec<PathBuf> = rights.iter().filter_map(parent).collect();
        let is_shared =
            |place: &&PathBuf| parents.iter().filter(|other| other == place).count() > MAX_SIBLINGS;
        let shared = parents.iter().filter(is_shared);
        let Some(wider) = shared
            .filter_map(|place| Proposal::for_path(place).right(Right::Read))
            .find(|wider| !rights.contains(wider))
        else {
            return rights;
        };
        rights = distinct([vec![wider], rights].concat());
    }
}
