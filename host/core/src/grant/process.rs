//! The rights that only child processes have: the network, sockets of services, and private directories.

use super::{Grant, HostPattern, HostSecret, Root, Service, host};

/// The rights of child processes beside files. A component never gets them: [`Grant::hosts`] limits its network
/// access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Children {
    /// Whether the child processes have the complete network.
    pub(super) network: bool,
    /// The only destinations, without all of the network.
    pub(super) hosts: Vec<HostPattern>,
    pub(super) unix_sockets: bool,
    /// The secrets for these destinations.
    pub(super) secrets: Vec<HostSecret>,
    /// The services with unix sockets.
    pub(super) services: Vec<Service>,
}

impl Grant {
    /// Sets whether child processes may use the network.
    #[must_use]
    pub fn with_network(mut self, allowed: bool) -> Self {
        self.children.network = allowed;
        self
    }

    /// Adds a destination of child processes that do not have all of the network.
    #[must_use]
    pub fn with_child_host(mut self, host: HostPattern) -> Self {
        self.children.hosts.push(host);
        self
    }

    /// Sets whether child processes may connect to the sockets of services on this machine, which act with their
    /// own rights (Docker, the session bus, an SSH agent).
    #[must_use]
    pub fn with_unix_sockets(mut self, allowed: bool) -> Self {
        self.children.unix_sockets = allowed;
        self
    }

    /// Adds a service that child processes may use.
    #[must_use]
    pub fn with_service(mut self, service: Service) -> Self {
        if service.is_every() {
            return self.with_unix_sockets(true);
        }
        match service.host() {
            Some(host) => self.children.hosts.push(host),
            None => self.children.services.push(service),
        }
        self
    }

    /// Sets the directory for the caches of package managers and compilers of child processes.
    #[must_use]
    pub fn with_caches(mut self, root: Root) -> Self {
        self.caches = Some(root);
        self
    }

    /// Sets the directory of a process's own: what hides the directory around it leaves it open.
    #[must_use]
    pub fn with_private(mut self, root: Root) -> Self {
        self.private = Some(root);
        self
    }

    /// Adds paths that a process reads in order to run: programs and libraries of the system, which are not a right
    /// of its grant.
    #[must_use]
    pub fn with_needs(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        self.needs.extend(roots);
        self
    }

    /// Returns the grant of a process, whose hosts are those of child processes: the host `*` is the network.
    #[must_use]
    pub fn of_process(mut self) -> Self {
        let hosts = std::mem::take(&mut self.hosts);
        self.children.network |= hosts.iter().any(HostPattern::is_any);
        self.children.hosts.extend(hosts.into_iter().filter(|host| !host.is_any()));
        self
    }

    /// Returns whether child processes may use all of the network.
    pub fn network(&self) -> bool {
        self.children.network
    }

    /// Returns the only destinations of child processes; none if they have all of the network.
    pub fn child_hosts(&self) -> &[HostPattern] {
        if self.children.network { &[] } else { &self.children.hosts }
    }

    /// Returns whether child processes may connect to the sockets of services on this machine.
    pub fn unix_sockets(&self) -> bool {
        self.children.unix_sockets
    }

    /// Returns the services with unix sockets that child processes may use, if they may not use all.
    pub fn services(&self) -> &[Service] {
        if self.children.unix_sockets { &[] } else { &self.children.services }
    }

    /// Returns the directory that child processes may write beside [`Self::writable`], for the caches of package
    /// managers and compilers.
    pub fn caches(&self) -> Option<&Root> {
        self.caches.as_ref()
    }

    /// Returns the paths that a child process reads in order to run, besides [`Self::readable`].
    pub fn needs(&self) -> &[Root] {
        &self.needs
    }

    /// Returns the directory of a child process's own, which it may write beside [`Self::writable`].
    pub fn private(&self) -> Option<&Root> {
        self.private.as_ref()
    }
}

impl Children {
    pub(super) fn intersect(&self, other: &Self) -> Self {
        let is_shared = |secret: &&HostSecret| other.secrets.contains(secret);
        let (hosts, secrets) = match (self.network, other.network) {
            (true, true) => (Vec::new(), Vec::new()),
            (true, false) => (other.hosts.clone(), other.secrets.clone()),
            (false, true) => (self.hosts.clone(), self.secrets.clone()),
            (false, false) => (
                host::intersect(&self.hosts, &other.hosts),
                self.secrets.iter().filter(is_shared).cloned().collect(),
            ),
        };
        let services = match (self.unix_sockets, other.unix_sockets) {
            (true, true) => Vec::new(),
            (true, false) => other.services.clone(),
            (false, true) => self.services.clone(),
            (false, false) => {
                self.services.iter().filter(|own| other.services.contains(own)).cloned().collect()
            }
        };
        let unix_sockets = self.unix_sockets && other.unix_sockets;
        Self { network: self.network && other.network, hosts, unix_sockets, secrets, services }
    }
}
