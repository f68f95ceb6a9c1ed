//! What the sandbox refused a process, as its helper observed it, and the line of program.toml that would allow it.
//! Observing decides nothing: the kernel has refused already.

use std::ffi::OsStr;
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haft_core::grant::{Grant, Proposal, Right};
use haft_core::tool::PLAN_HINT;

/// Refusals that are told of one process and what it started; each is told once.
pub(super) const MAX_REFUSALS: usize = 32;

/// Hints of one answer; more would bury it.
const MAX_HINTS: usize = 4;

/// Refusals that one hint names.
const MAX_LISTED: usize = 2;

/// An access that a process tried and was not granted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// To write or make the file or directory at this path, absolute.
    Write(PathBuf),
    /// To remove, rename or replace it.
    Remove(PathBuf),
    /// To read the file or directory at this path, absolute.
    Read(PathBuf),
    /// To connect to this address.
    Connect(SocketAddr),
}

impl Refusal {
    pub(super) fn encode(&self) -> Vec<u8> {
        let part = |kind: u8, what: &[u8]| [&[kind], what].concat();
        match self {
            Self::Write(path) => part(b'w', path.as_os_str().as_bytes()),
            Self::Remove(path) => part(b'd', path.as_os_str().as_bytes()),
            Self::Read(path) => part(b'r', path.as_os_str().as_bytes()),
            Self::Connect(address) => part(b'c', address.to_string().as_bytes()),
        }
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let (kind, what) = body.split_first()?;
        let path = || PathBuf::from(OsStr::from_bytes(what));
        match kind {
            b'w' => Some(Self::Write(path())),
            b'd' => Some(Self::Remove(path())),
            b'r' => Some(Self::Read(path())),
            b'c' => Some(Self::Connect(std::str::from_utf8(what).ok()?.parse().ok()?)),
            _ => None,
        }
    }

    /// What would allow what a process with `grant` was refused, each once and not too many: first what its `output` names.
    /// Programs try out what they do not need, such as a file in `/`: what no line opens is told only if `output` names it,
    /// where there is one. `table` of program.toml says what it may do.
    pub fn hints<'r>(
        refused: impl IntoIterator<Item = &'r Self>,
        (grant, table): (&Grant, &str),
        output: &str,
    ) -> Vec<String> {
        let mut refused: Vec<&Self> =
            refused.into_iter().filter(|refusal| !refusal.is_incidental()).collect();
        if grant.is_planning() && !refused.is_empty() {
            return vec![PLAN_HINT.to_owned()];
        }
        let is_meant = |refusal: &&Self| {
            output.is_empty()
                || refusal.is_named_in(output)
                || refusal.is_closed(grant)
                || refusal.right(grant).is_some()
        };
        refused.retain(is_meant);
        refused.sort_by_key(|refusal| !refusal.is_named_in(output));
        let mut hints: Vec<(String, Vec<&Self>)> = Vec::new();
        for refusal in refused {
            let way_out = refusal.way_out(grant, table);
            match hints.iter_mut().find(|(known, _)| *known == way_out) {
                Some((_, refused)) => refused.push(refusal),
                None => hints.push((way_out, vec![refusal])),
            }
        }
        let told = |(way_out, refused): (String, Vec<&Self>)| format!("{}; {way_out}", listed(&refused));
        hints.into_iter().take(MAX_HINTS).map(told).collect()
    }

    /// The rights that would allow what a process with `grant` was refused, each once; none where one of them is not proposed:
    /// with some of them it would fail again.
    pub fn rights<'r>(refused: impl IntoIterator<Item = &'r Self>, grant: &Grant) -> Vec<Right> {
        let mut rights = Vec::new();
        for refusal in refused.into_iter().filter(|refusal| !refusal.is_incidental()) {
            match refusal.right(grant) {
                Some(right) if rights.contains(&right) => {}
                Some(right) => rights.push(right),
                None => return Vec::new(),
            }
        }
        rights
    }

    /// Whether it is one that a line opens which is no right: the network, and what is closed by name.
    fn is_closed(&self, grant: &Grant) -> bool {
        match self {
            Self::Write(path) | Self::Remove(path) | Self::Read(path) => grant.closed_at(path).is_some(),
            Self::Connect(_) => true,
        }
    }

    fn right(&self, grant: &Grant) -> Option<Right> {
        let (path, right): (&Path, fn(String) -> Right) = match self {
            Self::Write(path) => (path, Right::Write),
            Self::Remove(path) => (path.parent().unwrap_or(path), Right::Write),
            Self::Read(path) => (path, Right::Read),
            Self::Connect(_) => return None,
        };
        if grant.closed_at(path).is_some() { None } else { Proposal::for_path(path).right(right) }
    }

    /// What would allow a process with `grant` this access, where `table` of program.toml says what it may do; or why
    /// nothing does.
    fn way_out(&self, grant: &Grant, table: &str) -> String {
        match self {
            Self::Write(path) => for_path(grant, ("write", path), table),
            // The directory that has it is what changes.
            Self::Remove(path) => for_path(grant, ("write", path.parent().unwrap_or(path)), table),
            Self::Read(path) => for_path(grant, ("read", path), table),
            Self::Connect(_) => format!("to allow it, set `network = true` in {table}"),
        }
    }

    /// Whether `output` names the file or address, or the last part of its path.
    pub fn is_named_in(&self, output: &str) -> bool {
        match self {
            Self::Write(path) | Self::Remove(path) | Self::Read(path) => {
                path.file_name().and_then(OsStr::to_str).is_some_and(|name| output.contains(name))
            }
            Self::Connect(address) => output.contains(&address.ip().to_string()),
        }
    }

    /// Whether programs try it on the way and go on without: interpreters keep compiled modules where they can.
    fn is_incidental(&self) -> bool {
        matches!(self, Self::Write(path) if path.components().any(|part| part.as_os_str() == "__pycache__"))
    }
}

fn for_path(grant: &Grant, (right, path): (&str, &Path), table: &str) -> String {
    match grant.closed_at(path) {
        Some(closed) => closed.hint(table).unwrap_or_else(|| {
            format!("it is haft's own, or says what tools may do, and no tool may {right} it")
        }),
        None => Proposal::for_path(path).hint(right, table),
    }
}

/// The first of `refused`, and how many more.
fn listed(refused: &[&Refusal]) -> String {
    let first: Vec<String> = refused.iter().take(MAX_LISTED).map(ToString::to_string).collect();
    let more = refused.len() - first.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("the sandbox refused to {}{more}", first.join(", "))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(path) => write!(f, "write `{}`", path.display()),
            Self::Remove(path) => write!(f, "remove or replace `{}`", path.display()),
            Self::Read(path) => write!(f, "read `{}`", path.display()),
            Self::Connect(address) => write!(f, "connect to {address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_arrives_as_it_was_sent() {
        let path = PathBuf::from(OsStr::from_bytes(b"/a \xff"));
        for refusal in [
            Refusal::Write(path.clone()),
            Refusal::Remove(path.clone()),
            Refusal::Read(path),
            Refusal::Connect("[::1]:443".parse().unwrap()),
        ] {
            assert_eq!(Refusal::decode(&refusal.encode()), Some(refusal));
        }
        assert_eq!(Refusal::decode(b"c127.0.0.1"), None);
        assert_eq!(Refusal::decode(b""), None);
    }
}
