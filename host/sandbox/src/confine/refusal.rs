//! The sandbox's refusals, as the helper observed them, and the line of program.toml that would permit the
//! access. The observation decides nothing: the kernel has refused already.

use std::ffi::OsStr;
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haft_core::grant::{Grant, HostPattern, Proposal, Right, RightsTable, Service};
use haft_core::tool::PLAN_HINT;

/// Limit on the reported refusals of one process and its descendants; each is reported once.
pub(super) const MAX_REFUSALS: usize = 32;

/// Limit on the hints of one result.
const MAX_HINTS: usize = 4;

/// Limit on the refusals that one hint names.
const MAX_LISTED: usize = 2;

/// The port of a host that is written without one.
const HTTPS: u16 = 443;

/// The places of services that C libraries ask for names.
const NAME_SERVICES: &[&str] = &["/run/avahi-daemon", "/run/nscd", "/run/systemd", "/var/lib/sss"];

/// An access that was refused to a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// Write or create the file or directory at this absolute path.
    Write(PathBuf),
    /// Remove, rename or replace it.
    Remove(PathBuf),
    /// Read the file or directory at this absolute path.
    Read(PathBuf),
    /// Connect to this address.
    Connect(SocketAddr),
    /// Connect to the unix socket at this absolute path.
    Socket(PathBuf),
    /// Look up this name; with a port: connect to an address that it was answered with.
    Host(String, Option<u16>),
    /// Send a request that is not one of those of a secret.
    Request {
        /// The name of the secret.
        secret: String,
        /// The method and the URL without its query.
        request: String,
    },
}

impl Refusal {
    /// Encodes a refusal of the kernel for the host; `None` for those that the host observes itself.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let (kind, what) = match self {
            Self::Write(path) => (b'w', path.as_os_str().as_bytes()),
            Self::Remove(path) => (b'd', path.as_os_str().as_bytes()),
            Self::Read(path) => (b'r', path.as_os_str().as_bytes()),
            Self::Socket(path) => (b's', path.as_os_str().as_bytes()),
            Self::Connect(address) => return Some([b"c", address.to_string().as_bytes()].concat()),
            Self::Host(..) | Self::Request { .. } => return None,
        };
        Some([&[kind], what].concat())
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let (kind, what) = body.split_first()?;
        let path = || PathBuf::from(OsStr::from_bytes(what));
        match kind {
            b'w' => Some(Self::Write(path())),
            b'd' => Some(Self::Remove(path())),
            b'r' => Some(Self::Read(path())),
            b's' => Some(Self::Socket(path())),
            b'c' => Some(Self::Connect(std::str::from_utf8(what).ok()?.parse().ok()?)),
            _ => None,
        }
    }

    /// Returns how to allow a request with a secret.
    pub(super) fn allowing(&self) -> Option<String> {
        let Self::Request { secret, request } = self else { return None };
        Some(format!("to allow it, add `\"{request}\"` to `allow` of the secret `{secret}`"))
    }

    /// Returns the refusal of a name, if it can be one of a host: others are not worth a word.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let is_host = name.contains('.') && name.parse::<HostPattern>().is_ok();
        is_host.then(|| Self::Host(name.to_owned(), None))
    }

    /// Returns the refused destination as a line of program.toml names it.
    pub fn host(&self) -> Option<String> {
        match self {
            Self::Host(name, None | Some(HTTPS)) => Some(name.clone()),
            Self::Host(name, Some(port)) => Some(format!("{name}:{port}")),
            Self::Connect(address) => Some(address.to_string()),
            _ => None,
        }
    }

    /// Returns hints to permit the refused accesses of a process with `grant`, each once and at most 4;
    /// accesses that its `output` names come first. Programs try accesses that they do not need, such as a file
    /// in `/`: a refusal that no line permits is reported only if `output` names it. `table` is the table of
    /// program.toml with the process's rights.
    pub fn hints<'r>(
        refused: impl IntoIterator<Item = &'r Self>,
        (grant, table): (&Grant, &RightsTable),
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
                || !matches!(refusal, Self::Socket(_)) && refusal.right(grant).is_some()
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
        let hint = |(way_out, refused): (String, Vec<&Self>)| format!("{}; {way_out}", listed(&refused));
        hints.into_iter().take(MAX_HINTS).map(hint).collect()
    }

    /// Returns the rights that would permit all refused accesses of a process with `grant`, each once; none if
    /// one access cannot be permitted by a right: the process would fail again.
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

    /// Reports whether a setting other than a right permits the access: the network, and paths closed by name.
    fn is_closed(&self, grant: &Grant) -> bool {
        match self {
            Self::Write(path) | Self::Remove(path) | Self::Read(path) => grant.closed_at(path).is_some(),
            Self::Socket(path) => Service::of_socket(path).is_known(),
            Self::Connect(_) | Self::Host(..) | Self::Request { .. } => true,
        }
    }

    fn right(&self, grant: &Grant) -> Option<Right> {
        let (path, right): (&Path, fn(String) -> Right) = match self {
            Self::Write(path) => (path, Right::Write),
            Self::Remove(path) => (path.parent().unwrap_or(path), Right::Write),
            Self::Read(path) => (path, Right::Read),
            Self::Request { .. } => return None,
            Self::Socket(path) => return Some(Right::Service(Service::of_socket(path))),
            // Without single hosts, the network is off as a whole.
            Self::Connect(_) | Self::Host(..) if grant.child_hosts().is_empty() => return None,
            Self::Connect(_) | Self::Host(..) => return self.host()?.parse().ok().map(Right::Host),
        };
        if grant.closed_at(path).is_some() { None } else { Proposal::for_path(path).right(right) }
    }

    /// Returns the hint that permits this access to a process with `grant`, with `table` as the table of
    /// program.toml; or the reason why nothing permits it.
    fn way_out(&self, grant: &Grant, table: &RightsTable) -> String {
        match self {
            Self::Write(path) => for_path(grant, ("write", path), table),
            // The change affects the parent directory.
            Self::Remove(path) => for_path(grant, ("write", path.parent().unwrap_or(path)), table),
            Self::Read(path) => for_path(grant, ("read", path), table),
            Self::Socket(path) => {
                let service = Service::of_socket(path);
                format!("to allow it, {}", table.line("services", &service.to_string()))
            }
            Self::Connect(_) if grant.child_hosts().is_empty() => format!("to allow it, {}", table.network()),
            Self::Request { .. } => self.allowing().unwrap_or_default(),
            Self::Connect(_) | Self::Host(..) => {
                format!("to allow it, {}", table.line("hosts", &self.host().unwrap_or_default()))
            }
        }
    }

    /// Reports whether `output` contains the address, or the last part of the path.
    pub fn is_named_in(&self, output: &str) -> bool {
        match self {
            Self::Write(path) | Self::Remove(path) | Self::Read(path) | Self::Socket(path) => {
                path.file_name().and_then(OsStr::to_str).is_some_and(|name| output.contains(name))
            }
            Self::Connect(address) => output.contains(&address.ip().to_string()),
            Self::Host(name, _) => output.contains(name),
            Self::Request { request, .. } => output.contains(request),
        }
    }

    /// Reports whether programs try the access and continue without it: interpreters cache compiled modules, and C
    /// libraries ask services for names of users and hosts.
    pub fn is_incidental(&self) -> bool {
        match self {
            Self::Write(path) => path.components().any(|part| part.as_os_str() == "__pycache__"),
            Self::Socket(path) => NAME_SERVICES.iter().any(|place| path.starts_with(place)),
            _ => false,
        }
    }

    /// Reports whether the access is only the opening of the directory of one of `files`: interpreters list the
    /// directory of their script when they start, and continue without it.
    pub fn is_folder_of<'f>(&self, files: impl IntoIterator<Item = &'f Path>) -> bool {
        let Self::Read(path) = self else { return false };
        files.into_iter().any(|file| file.parent() == Some(path))
    }
}

fn for_path(grant: &Grant, (right, path): (&str, &Path), table: &RightsTable) -> String {
    match grant.closed_at(path) {
        Some(closed) => closed.hint(table).unwrap_or_else(|| {
            format!("it belongs to haft or sets the tools' rights: no tool may {right} it")
        }),
        None => Proposal::for_path(path).hint(right, table),
    }
}

/// Lists the first of `refused` and the number of the others.
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
            Self::Socket(path) => write!(f, "connect to the service at `{}`", path.display()),
            Self::Host(name, None) => write!(f, "look up `{name}`"),
            Self::Host(name, Some(port)) => write!(f, "connect to `{name}` on port {port}"),
            Self::Request { secret, request } => write!(f, "send `{request}` with the secret `{secret}`"),
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
            Refusal::Read(path.clone()),
            Refusal::Socket(path),
            Refusal::Connect("[::1]:443".parse().unwrap()),
        ] {
            assert_eq!(Refusal::decode(&refusal.encode().unwrap()), Some(refusal));
        }
        assert_eq!(Refusal::decode(b"c127.0.0.1"), None);
        assert_eq!(Refusal::decode(b""), None);
    }
}
