//! The rights of one child, as they are sent to the helper: a [`Grant`] with resolved paths, and the layers
//! that enforce it. Refuses a policy that the layers cannot enforce.

#[cfg(target_os = "linux")]
mod aliases;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
use self::aliases::with_aliases;
use super::egress::secrets::GIVEN;
use super::layers::Layers;
use super::living::meant;
use haft_core::grant::{Grant, HostPattern, HostSecret, Reach, Root, Service, Why};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings of one child")]
pub(super) struct Policy {
    pub(super) layers: Layers,
    /// Writable directories; `None` for everything.
    pub(super) write: Option<Vec<PathBuf>>,
    /// Readable directories; `None` for everything.
    pub(super) read: Option<Vec<PathBuf>>,
    /// Paths that can neither be read nor written.
    pub(super) hidden: Vec<PathBuf>,
    pub(super) fixed: Vec<PathBuf>,
    /// The directory of this child alone, which is open also in a hidden one.
    pub(super) private: Option<PathBuf>,
    pub(super) network: bool,
    /// The only destinations in the network; none if it is open or closed.
    pub(super) hosts: Vec<String>,
    /// The hosts that are closed, if there are destinations.
    pub(super) blocked: Vec<String>,
    /// The secrets for destinations, which never leave haft.
    #[serde(skip)]
    pub(super) secrets: Vec<HostSecret>,
    /// The files for the child in [`GIVEN`], by their names.
    pub(super) files: Vec<(String, String)>,
    pub(super) unix_sockets: bool,
    /// The only unix sockets of this machine, without links; none if all are open or closed.
    pub(super) sockets: Vec<PathBuf>,
    /// Whether the child stays in the session of its terminal.
    pub(super) terminal: bool,
    /// The child's soft limit on open files.
    pub(super) open_files: Option<u64>,
    /// Whether all that it is refused to read is reported.
    pub(super) learns: bool,
}

impl Policy {
    /// Returns the policy of `grant`, enforced by `layers`.
    pub(super) fn new(grant: &Grant, layers: Layers) -> Self {
        let hosts: Vec<String> = grant.child_hosts().iter().map(ToString::to_string).collect();
        let blocked = grant.blocked_hosts().iter().filter(|_| !hosts.is_empty()).map(ToString::to_string);
        Self {
            layers,
            blocked: blocked.collect(),
            hosts,
            write: with_own(grant, outermost(grant.writable())),
            read: with_own(grant, outermost(&grant.readable())).map(|read| with_needs(grant, read)),
            hidden: with_aliases(unique(grant.hidden().flat_map(meant))),
            fixed: with_aliases(unique(grant.fixed().flat_map(meant))),
            private: grant.private().map(|own| own.real().to_owned()),
            network: grant.network(),
            secrets: grant.secrets().to_vec(),
            files: Vec::new(),
            unix_sockets: grant.unix_sockets(),
            sockets: grant.services().iter().flat_map(Service::real_sockets).collect(),
            terminal: false,
            open_files: haft_core::limit::original_open_files(),
            learns: false,
        }
    }

    /// Returns this policy for a child that gets these files.
    pub(super) fn given(&self, files: Vec<(String, String)>) -> Self {
        let mut policy = Self { files, ..self.clone() };
        let is_given = !policy.files.is_empty();
        policy.read.iter_mut().filter(|_| is_given).for_each(|read| read.push(GIVEN.into()));
        policy
    }

    /// Returns the policy of a child with `grant` whose needs are observed. If `is_public`, every public host is open to
    /// it, on record, in place of all of the network or none.
    pub(super) fn learning(mut self, grant: &Grant, is_public: bool) -> Self {
        self.learns = true;
        if is_public {
            self.network = false;
            self.hosts.push(HostPattern::any().to_string());
            self.blocked = grant.blocked_hosts().iter().map(ToString::to_string).collect();
        }
        self
    }

    /// Returns the reason why the layers cannot enforce this policy; `None` if they can.
    pub(super) fn unenforceable(&self) -> Option<String> {
        let Layers { namespaces, landlock, seatbelt, .. } = self.layers;
        // Seatbelt denies paths inside a writable directory.
        if self.layers == Layers::NONE || (seatbelt && !self.supervises_sockets()) {
            return None;
        }
        if let Some(why) = self.unheld_hosts() {
            return Some(why.to_owned());
        }
        if self.read.is_some() && landlock.is_none() {
            return Some("`read` needs Landlock, which this kernel does not have".to_owned());
        }
        let hidden = self.hidden.iter().find(|hidden| self.may_write(hidden)).filter(|_| !namespaces);
        hidden.map(|hidden| {
            format!(
                "no tool may read or write `{}`, but it is in a directory that tools may write; only a mount \
                 namespace can hide it",
                hidden.display()
            )
        })
    }

    /// Returns whether the watcher opens the child's connections: to single hosts and services.
    pub(super) fn supervises_sockets(&self) -> bool {
        !self.hosts.is_empty() || !self.sockets.is_empty()
    }

    /// Returns the reason why a child cannot be held to its hosts; `None` if it can, or has none.
    fn unheld_hosts(&self) -> Option<&'static str> {
        if !self.supervises_sockets() {
            None
        } else if self.write.is_none() && self.hosts.is_empty() {
            // Everything is open.
            None
        } else if !self.layers.namespaces || !self.layers.seccomp {
            Some(
                "single hosts (`hosts`) and services (`services`) need a network namespace and a seccomp filter, which are not available here; \
                 `hosts = [\"*\"]` opens all of the network, `network = false` (in a grant `hosts = []`) turns it off",
            )
        } else if self.unix_sockets {
            Some(
                "single hosts (`hosts`) cannot be enforced for a process with all unix sockets (`services = [\"*\"]`): services behind these sockets have \
                 the network",
            )
        } else if self.write.is_none() {
            Some("single hosts (`hosts`) cannot be enforced in mode `rwx`")
        } else {
            None
        }
    }

    /// Returns the sealed paths of a child: hidden paths, and fixed paths in writable directories. Credential
    /// stores and start-up files are not sealed: other programs replace these files every day, and no right
    /// depends on them.
    pub(super) fn sealed(&self, grant: &Grant) -> Vec<Root> {
        let protected = grant.closed().filter(|closed| matches!(closed.why, Why::Own | Why::Denied));
        let covered = protected
            .map(|closed| &closed.root)
            .filter(|root| grant.hidden().any(|hidden| hidden == *root) || self.may_write(root.real()));
        covered.cloned().collect()
    }

    pub(super) fn may_write(&self, path: &Path) -> bool {
        self.write_root(path).is_some()
    }

    pub(super) fn write_root(&self, path: &Path) -> Option<&Path> {
        match &self.write {
            None => Some(Path::new("/")),
            Some(roots) => roots.iter().find(|root| path.starts_with(root)).map(PathBuf::as_path),
        }
    }
}

/// Returns each of `paths` once: several reasons may close one path, and a cover cannot be covered.
fn unique(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    paths.filter(|path| seen.insert(path.clone())).collect()
}

fn with_own(grant: &Grant, roots: Option<Vec<PathBuf>>) -> Option<Vec<PathBuf>> {
    // The caches of a child with a private directory are in it.
    let own = || grant.private().or(grant.caches()).map(|own| own.real().to_owned());
    roots.map(|roots| roots.into_iter().chain(own()).collect())
}

/// Adds the paths that the child reads in order to run.
fn with_needs(grant: &Grant, roots: Vec<PathBuf>) -> Vec<PathBuf> {
    roots.into_iter().chain(grant.needs().iter().map(|root| root.real().to_owned())).collect()
}

/// Returns the directories of `reach` that are not inside another one.
fn outermost(reach: &Reach) -> Option<Vec<PathBuf>> {
    let Reach::Roots(roots) = reach else { return None };
    let inner = |root: &Root| roots.iter().any(|other| other != root && other.contains(root));
    if roots.iter().any(|root| root.real() == Path::new("/")) {
        return None;
    }
    let outer = roots.iter().filter(|root| !inner(root)).map(|root| root.real().to_owned());
    Some(outer.collect())
}

/// Returns `paths`: macOS mounts a file system only once.
#[cfg(target_os = "macos")]
fn with_aliases(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F1: a path that is closed for two reasons is covered once.
    #[test]
    fn a_path_is_closed_once() {
        let root = Root::resolve(Path::new("/"), Path::new("/nowhere")).unwrap();
        let grant = Grant::none().with_hidden(root.clone()).with_hidden_because(Why::Denied, root);
        assert_eq!(grant.hidden().count(), 2);
        assert_eq!(Policy::new(&grant, Layers::NONE).hidden, [Path::new("/nowhere")]);
    }

    /// A process with single hosts does not run if the kernel cannot confine it to them.
    #[test]
    fn single_hosts_are_held_or_refused() {
        let layers = Layers {
            namespaces: true,
            landlock: Some(7),
            seccomp: true,
            capabilities: true,
            seatbelt: false,
        };
        let workspace = Root::resolve(Path::new("/"), Path::new("/nowhere")).unwrap();
        let grant = Grant::none().with_write(workspace).with_child_host("a.test".parse().unwrap());
        let why = |grant: &Grant, layers| Policy::new(grant, layers).unenforceable();
        assert_eq!(why(&grant, layers), None);
        for lesser in [
            Layers { namespaces: false, ..layers },
            Layers { seccomp: false, ..layers },
            Layers { seatbelt: true, ..Layers::NONE },
        ] {
            assert!(why(&grant, lesser).unwrap().contains("single hosts"), "{lesser:?}");
            assert_eq!(why(&grant.clone().with_network(true), lesser), None);
        }
        assert!(why(&grant.clone().with_unix_sockets(true), layers).unwrap().contains("unix sockets"));
        let service = Grant::none().with_network(true).with_service("/x.sock".parse().unwrap());
        assert!(why(&service, Layers { namespaces: false, ..layers }).unwrap().contains("services"));
        let everything = Grant::sandbox(haft_core::grant::SandboxMode::Rwx, Root::everything(), []);
        let everything = everything.with_unix_sockets(false).with_network(false);
        assert!(why(&everything.with_child_host("a.test".parse().unwrap()), layers).unwrap().contains("rwx"));
    }
}
