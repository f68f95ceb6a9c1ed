//! The rights of a wrapped server in the syntax of `haft grant`, with absolute paths, and the rights that haft proposes at
//! its first start: for its configuration, and for what it was refused.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use super::command::Wrapping;
use haft_core::grant::{Grant, HostPattern, Proposal, Right, RightError, in_home, normalise};
use haft_manifest::is_credential;
use haft_sandbox::confine::Refusal;
use haft_sandbox::start::ENVIRONMENT;

/// Maximum number of proposed directories with the same parent. With more, the parent is proposed.
const MAX_SIBLINGS: usize = 3;

/// The port of name servers.
const DNS: u16 = 53;

/// Directories of packages. A package usually needs packages beside it.
const PACKAGES: &[&str] = &["node_modules", "site-packages"];

/// Variables of shells and clients, which are not settings of a server.
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

/// Words of commands that do not identify a server.
const COMMON_WORDS: &[&str] =
    &["mcp", "server", "node", "python", "run", "latest", "dist", "index", "main", "api", "key"];

/// Minimum letters of a significant word.
const MIN_WORD: usize = 3;

/// Returns the rights for the client's configuration: files and directories among the arguments, and the variables
/// that it sets.
pub(super) fn configured(command: &Wrapping) -> Vec<Right> {
    let read = |place: &PathBuf| {
        let file = || place.to_str().map(|file| Right::Read(file.to_owned()));
        if place.is_file() { file() } else { Proposal::for_path(place).right(Right::Read) }
    };
    let reads = command.named.iter().filter_map(read);
    distinct(reads.chain(variables(command).into_iter().map(Right::Env)).collect())
}

/// Returns the variables that the client probably set for this server: variables that the client itself was not
/// started with, and keys with a part of the server's name. At a terminal haft's parent is a shell, whose own exports
/// are not settings of a server: only such keys count.
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

/// Returns the environment of the parent process at its start. `None` if the system does not provide it.
fn environment_of_client() -> Option<BTreeSet<String>> {
    let parent = rustix::process::getppid()?;
    let text = std::fs::read(format!("/proc/{}/environ", parent.as_raw_nonzero())).ok()?;
    Some(text.split(|byte| *byte == 0).map(|entry| String::from_utf8_lossy(entry).into_owned()).collect())
}

/// Returns the significant words of a text, in lower case.
fn significant(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase);
    parts.filter(|part| part.len() >= MIN_WORD && !COMMON_WORDS.contains(&part.as_str())).collect()
}

/// Returns the fewest rights that allow the accesses that a server with `grant` was `refused`. If the server failed,
/// and its `words` on standard error name such accesses, only these count.
pub(super) fn of_refusals(refused: &[Refusal], grant: &Grant, words: Option<&str>) -> Vec<Right> {
    // A socket may give all rights of its user: the person asks for it.
    let is_proposed = |refusal: &&Refusal| !refusal.is_incidental() && !matches!(refusal, Refusal::Socket(_));
    let mut refused: Vec<&Refusal> = refused.iter().filter(is_proposed).collect();
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

/// Replaces rights to ports of this machine by the network.
pub(super) fn widen_services(rights: &mut [Right]) {
    for right in rights.iter_mut().filter(|right| matches!(right, Right::Service(_))) {
        *right = network();
    }
}

/// Returns the right that allows a refused access of a server with `grant`.
pub(in crate::cli) fn right(refusal: &Refusal, grant: &Grant) -> Option<Right> {
    match refusal {
        Refusal::Connect(address) if address.ip().is_loopback() => {
            address.port().to_string().parse().ok().map(Right::Service)
        }
        // It looks up names that are unknown here.
        Refusal::Connect(address) if address.port() == DNS => Some(network()),
        Refusal::Connect(_) | Refusal::Host(..) if grant.child_hosts().is_empty() => Some(network()),
        refusal => Refusal::rights([refusal], grant).pop(),
    }
}

/// Returns whether a refusal explains the failure of a program with these `words`: they name the path, or the refusal
/// concerns the network, which error messages name differently.
fn is_needed(refusal: &Refusal, words: &str) -> bool {
    match refusal {
        Refusal::Read(path) | Refusal::Write(path) | Refusal::Remove(path) | Refusal::Socket(path) => {
            path.to_str().is_some_and(|path| words.contains(path))
        }
        Refusal::Connect(_) | Refusal::Host(..) | Refusal::Request { .. } => true,
    }
}

fn is_read_here(refusal: &Refusal, grant: &Grant) -> bool {
    let here = grant.base().map(haft_core::grant::Root::real);
    matches!((refusal, here), (Refusal::Read(path), Some(here)) if path.starts_with(here))
}

/// Replaces a right to read a path by the right to its directory, or to all packages if the path is in a directory of
/// packages.
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

/// Replaces rights to many directories by a right to their parent.
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

/// The rights of a wrapped server.
const EXPECTED: &str = "expected `read=DIR`, `write=DIR`, `host=HOST`, `network`, `service=SERVICE`, `env=NAME` or \
                        `credentials=STORE`";

/// Reads a right of a wrapped server. Its paths become absolute.
pub(super) fn given(text: &str) -> Result<Right, String> {
    if text == "network" {
        return Ok(network());
    }
    match text.parse() {
        Ok(Right::Read(path)) => Ok(Right::Read(whole(&path)?)),
        Ok(Right::Write(path)) => Ok(Right::Write(whole(&path)?)),
        Ok(Right::Service(service)) => {
            let whole =
                |path: &Path| whole(&path.to_string_lossy()).map_or_else(|_| path.to_owned(), Into::into);
            Ok(Right::Service(service.resolved(whole)))
        }
        Ok(Right::State(_) | Right::Cache(_)) => {
            Err("a wrapped server has its own home directory, which needs no right".to_owned())
        }
        Ok(right) => Ok(right),
        Err(RightError::Form) => Err(EXPECTED.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the right to every host.
pub(super) fn network() -> Right {
    Right::Host(HostPattern::any())
}

/// Returns a path from the current directory or the home directory as an absolute path.
fn whole(path: &str) -> Result<String, String> {
    let home = etcetera::home_dir().map_err(|error| error.to_string())?;
    let whole: PathBuf =
        std::path::absolute(in_home(Path::new(path), &home)).map_err(|error| error.to_string())?;
    normalise(&whole).into_os_string().into_string().map_err(|_| format!("`{path}` is not UTF-8"))
}

pub(super) fn shown(right: &Right) -> String {
    match right {
        Right::Host(host) if host.is_any() => "network".to_owned(),
        right => right.to_string(),
    }
}

/// Returns a right as it is granted, with the meaning of a service.
pub(super) fn explained(right: &Right) -> String {
    match right {
        Right::Service(service) => format!("{right} ({})", service.meaning()),
        right => shown(right),
    }
}

/// Returns the command that grants `rights` to the server `name` with the words `command`. `command` is empty if the
/// server has a record.
pub(super) fn line(rights: &[Right], name: &str, command: &[String]) -> String {
    let mut line = "haft wrap".to_owned();
    for right in rights {
        // Writing to a `String` cannot fail.
        let _ = match shown(right).split_once('=') {
            Some((what, value)) => write!(line, " --grant {what}={}", shell_words::quote(value)),
            None => write!(line, " --grant network"),
        };
    }
    let _ = write!(line, " {}", shell_words::quote(name));
    if !command.is_empty() {
        let _ = write!(line, " -- {}", shell_words::join(command));
    }
    line
}

/// Returns `rights` without rights that others include.
pub(in crate::cli) fn distinct(rights: Vec<Right>) -> Vec<Right> {
    let mut kept: Vec<Right> = Vec::new();
    for right in rights {
        if !kept.iter().any(|other| other.covers(&right)) {
            kept.retain(|other| !right.covers(other));
            kept.push(right);
        }
    }
    kept
}

/// Returns the rights in `wanted` that no right in `had` includes.
pub(super) fn missing(wanted: &[Right], had: &[Right]) -> Vec<Right> {
    wanted.iter().filter(|right| !had.iter().any(|other| other.covers(right))).cloned().collect()
}
