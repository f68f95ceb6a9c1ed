//! The rights of tools. A [`Grant`] is a value: it is passed to the code that acts and can only be narrowed
//! ([`Grant::intersect`], [`Grant::read_only`]), never widened. It does not check the paths of individual files:
//! the kernel resolves them, below a directory opened from a grant.

mod address;
mod closed;
mod credentials;
mod destination;
mod folder;
mod host;
mod place;
mod process;
mod proposal;
mod request;
mod right;
mod root;
mod service;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use self::address::{AddressError, local};
use self::closed::Sealed;
pub use self::closed::{Closed, Why};
pub use self::credentials::{CredentialStore, CredentialStoreError, in_home};
pub use self::destination::{Destination, Scheme};
pub use self::folder::{Content, Folder, Kind, Listed};
pub use self::host::{HostName, HostNameError, HostPattern, HostPatternError};
pub use self::place::{RightsTable, UsualRights};
use self::process::Children;
pub use self::process::{HostSecret, Outgoing};
pub use self::proposal::{Proposal, TooWide};
pub use self::request::{RequestPattern, RequestPatternError};
pub use self::right::{Right, RightError};
pub(crate) use self::root::open_without_links;
pub use self::root::{Root, may_be, normalise};
pub use self::service::{Service, ServiceError};
use crate::words;

words! {
    /// The default rights of tools (`[sandbox] mode`).
    #[derive(Default, serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum SandboxMode {
        /// Reads anywhere; writes to the workspace, the data directory and the temp directory only.
        #[default]
        Sandbox = "sandbox",
        /// The rights of `Sandbox`, under the name that the reference documents use for "read and execute".
        Rx = "rx",
        /// Writes anywhere. Only on explicit request.
        Rwx = "rwx",
    }
}

/// The directories that a right covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// These directories and everything below them; none if empty.
    Roots(Vec<Root>),
    /// The complete file system.
    Anywhere,
}

impl Default for Reach {
    fn default() -> Self {
        Self::Roots(Vec::new())
    }
}

/// All rights of a tool. Starts at [`Grant::none`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    read: Reach,
    write: Reach,
    workspace: Option<Root>,
    env: BTreeSet<String>,
    values: BTreeMap<String, String>,
    hosts: Vec<HostPattern>,
    /// The limit of each kind of state that a component stores between its calls, in bytes; `None`: nothing.
    state: Option<u64>,
    /// The limit of its cache files.
    cache: Option<u64>,
    children: Children,
    /// The directory where child processes store the downloads of package managers and compilers.
    caches: Option<Root>,
    /// The directory of a child process for its home and temporary files, which no other process opens.
    private: Option<Root>,
    /// The programs and libraries that a child process reads to run.
    needs: Vec<Root>,
    /// The credential stores that are open.
    credentials: BTreeSet<CredentialStore>,
    /// The files, directories and hosts that stay closed; shared by all tools of a program.
    sealed: Arc<Sealed>,
    /// Whether the grant is for plan mode, which the user ends and no line of program.toml does.
    is_planning: bool,
}

/// A directory for a guest, under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preopen {
    /// The directory.
    pub root: Root,
    /// The name inside the guest.
    pub name: String,
    /// Whether the guest may write to it.
    pub writable: bool,
}

impl Grant {
    /// Returns a grant of nothing: no files, no environment, no network.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the grant of `mode`: `workspace` and `writable` (data and temp directories) may be written, or
    /// everything in [`SandboxMode::Rwx`]; everything may be read.
    pub fn sandbox(mode: SandboxMode, workspace: Root, writable: impl IntoIterator<Item = Root>) -> Self {
        let write = match mode {
            SandboxMode::Rwx => Reach::Anywhere,
            SandboxMode::Sandbox | SandboxMode::Rx => {
                Reach::Roots(std::iter::once(workspace.clone()).chain(writable).collect())
            }
        };
        // A process that may write anywhere may also talk to any service of this machine.
        let children =
            Children { network: true, unix_sockets: mode == SandboxMode::Rwx, ..Children::default() };
        Self { read: Reach::Anywhere, write, workspace: Some(workspace), children, ..Self::none() }
    }

    /// Adds a directory for reading. Only for building a grant; see the rule of the module.
    #[must_use]
    pub fn with_read(mut self, root: Root) -> Self {
        self.read.add(root);
        self
    }

    /// Adds a directory for reading and writing.
    #[must_use]
    pub fn with_write(mut self, root: Root) -> Self {
        self.write.add(root);
        self
    }

    /// Allows reading everywhere.
    #[must_use]
    pub fn with_read_anywhere(mut self) -> Self {
        self.read = Reach::Anywhere;
        self
    }

    /// Sets the base directory of relative paths. Gives no right by itself.
    #[must_use]
    pub fn with_workspace(mut self, root: Root) -> Self {
        self.workspace = Some(root);
        self
    }

    /// Adds a visible environment variable.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<String>) -> Self {
        self.env.insert(name.into());
        self
    }

    /// Adds an environment variable for components, with `value` in place of the value in haft's environment.
    #[must_use]
    pub fn with_value(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.values.insert(name.into(), value.into());
        self
    }

    /// Adds a network destination.
    #[must_use]
    pub fn with_host(mut self, host: HostPattern) -> Self {
        self.hosts.push(host);
        self
    }

    /// Returns the rights that both grants contain: never wider than either.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        // Writing implies reading: one grant may allow to write where the other allows to read.
        let write = self.write.intersect(&other.write);
        let read = self.readable().intersect(&other.readable());
        let env = self.env.intersection(&other.env).cloned().collect();
        let is_shared = |(name, value): &(&String, &String)| other.values.get(*name) == Some(*value);
        let values = self.values.iter().filter(is_shared);
        let hosts = narrower(&self.hosts, &other.hosts, HostPattern::contains);
        let least = |ours: Option<u64>, theirs: Option<u64>| Some(ours?.min(theirs?));
        Self {
            read,
            write,
            workspace: self.workspace.clone().or_else(|| other.workspace.clone()),
            env,
            values: values.map(|(name, value)| (name.clone(), value.clone())).collect(),
            hosts,
            state: least(self.state, other.state),
            cache: least(self.cache, other.cache),
            children: self.children.intersect(&other.children),
            caches: self.caches.clone().filter(|caches| other.caches.as_ref() == Some(caches)),
            needs: self.needs.iter().filter(|root| other.needs.contains(root)).cloned().collect(),
            private: self.private.clone().filter(|own| other.private.as_ref() == Some(own)),
            credentials: self.credentials.intersection(&other.credentials).copied().collect(),
            sealed: self.sealed.join(&other.sealed),
            is_planning: self.is_planning || other.is_planning,
        }
    }

    /// Returns this grant without the right to write.
    #[must_use]
    pub fn read_only(&self) -> Self {
        Self { read: self.readable(), write: Reach::default(), caches: None, private: None, ..self.clone() }
    }

    /// Returns this grant for plan mode: without the right to write, store or send anything.
    #[must_use]
    pub fn planning(&self) -> Self {
        let (hosts, children) = (Vec::new(), Children::default());
        Self { hosts, state: None, cache: None, children, is_planning: true, ..self.read_only() }
    }

    /// Returns whether this grant is for plan mode.
    pub fn is_planning(&self) -> bool {
        self.is_planning
    }

    /// Returns the directories that may be written.
    pub fn writable(&self) -> &Reach {
        &self.write
    }

    /// Returns the directories that may be read: those granted for reading and those granted for writing.
    pub fn readable(&self) -> Reach {
        match (&self.read, &self.write) {
            (Reach::Anywhere, _) | (_, Reach::Anywhere) => Reach::Anywhere,
            (Reach::Roots(read), Reach::Roots(write)) => {
                let mut all = Reach::default();
                write.iter().chain(read).for_each(|root| all.add(root.clone()));
                all
            }
        }
    }

    /// Returns the base directory of relative paths, if it is readable or writable.
    pub fn workspace(&self) -> Option<&Root> {
        self.workspace.as_ref().filter(|root| self.readable().covers(root))
    }

    /// Returns the visible environment variables.
    pub fn env(&self) -> &BTreeSet<String> {
        &self.env
    }

    /// Returns the environment variables with explicit values.
    pub fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }

    /// Returns the allowed network destinations.
    pub fn hosts(&self) -> &[HostPattern] {
        &self.hosts
    }

    /// Returns whether a request to `destination` may be made; [`Self::may_connect`] checks its address.
    pub fn may_ask(&self, destination: &Destination) -> bool {
        self.blocks(destination).is_none() && self.hosts.iter().any(|host| host.matches(destination))
    }

    /// Returns whether plain TCP to `address` is allowed: only if the address itself is granted.
    pub fn may_open(&self, address: SocketAddr) -> bool {
        !self.blocks_address(address.ip()) && self.hosts.iter().any(|host| host.is_address(address))
    }

    /// Checks a connection to `address`, a resolved address of the host of `destination`.
    ///
    /// A name may resolve to public addresses only: its owner controls the resolution, which must not lead to this
    /// machine or its neighbours. An address that is itself granted, with its port, is allowed too. `localhost` is
    /// loopback or nothing, and only if it is granted by that name.
    ///
    /// # Errors
    /// Gives the reason for refusing the address.
    pub fn may_connect(&self, destination: &Destination, address: IpAddr) -> Result<(), AddressError> {
        if self.blocks_address(address) {
            return Err(AddressError::Blocked);
        }
        if self.may_open(SocketAddr::new(address, destination.port())) {
            return Ok(());
        }
        let names_it = |host: &HostPattern| host.is_localhost() && host.matches(destination);
        match (local(address), destination.is_localhost()) {
            (Some(AddressError::Loopback), true) if self.hosts.iter().any(names_it) => Ok(()),
            (Some(why), _) => Err(why),
            (None, true) => Err(AddressError::NotLoopback),
            (None, false) => Ok(()),
        }
    }

    /// Returns the base directory of relative paths, whether it may be read or not. Its name is no right: with it,
    /// a guest can report its grants by the paths that people use.
    pub fn base(&self) -> Option<&Root> {
        self.workspace.as_ref()
    }

    /// Returns exactly the directories of a guest, each under its absolute path. The workspace is not also
    /// preopened as `.`: a guest's C library would use such a name as the root of every path, and `/etc/x` would
    /// silently become `x` in the workspace. A guest requests its working directory.
    pub fn preopens(&self) -> Vec<Preopen> {
        let mut preopens = Vec::new();
        for root in self.write.roots() {
            push_named(&mut preopens, &root, true);
        }
        for root in self.read.roots().iter().filter(|root| !self.write.covers(root)) {
            push_named(&mut preopens, root, false);
        }
        preopens
    }
}

fn push_new<T: PartialEq>(all: &mut Vec<T>, new: T) {
    if !all.contains(&new) {
        all.push(new);
    }
}

/// Returns the narrower one of every pair in which one contains the other, each once.
fn narrower<T: Clone + PartialEq>(ours: &[T], theirs: &[T], contains: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut met = Vec::new();
    for (a, b) in ours.iter().flat_map(|a| theirs.iter().map(move |b| (a, b))) {
        let narrower = if contains(a, b) { Some(b) } else { contains(b, a).then_some(a) };
        if let Some(narrower) = narrower {
            push_new(&mut met, narrower.clone());
        }
    }
    met
}

/// Adds a directory under its granted path and, if that contains symbolic links, under its real path.
fn push_named(preopens: &mut Vec<Preopen>, root: &Root, writable: bool) {
    let mut push = |name: &std::path::Path| {
        let name = name.to_string_lossy().into_owned();
        preopens.push(Preopen { root: root.clone(), name, writable });
    };
    push(root.path());
    if root.path() != root.real() {
        push(root.real());
    }
}

impl Reach {
    /// Returns whether `root` lies inside.
    pub fn covers(&self, root: &Root) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Roots(roots) => roots.iter().any(|outer| outer.contains(root)),
        }
    }

    /// Returns the directories; `/` for [`Reach::Anywhere`].
    pub fn roots(&self) -> Vec<Root> {
        match self {
            Self::Anywhere => vec![Root::everything()],
            Self::Roots(roots) => roots.clone(),
        }
    }

    fn add(&mut self, root: Root) {
        if let Self::Roots(roots) = self {
            push_new(roots, root);
        }
    }

    fn intersect(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Anywhere, reach) | (reach, Self::Anywhere) => reach.clone(),
            (Self::Roots(ours), Self::Roots(theirs)) => Self::Roots(narrower(ours, theirs, Root::contains)),
        }
    }
}

#[cfg(test)]
mod tests;
