//! The rights that only child processes have: the network, sockets of services, private directories and secrets; and the
//! check of their connections.

use std::net::{IpAddr, SocketAddr};

use secrecy::{ExposeSecret, SecretString};

use super::{
    AddressError, Destination, Grant, HostName, HostPattern, RequestPattern, Root, Service, local, narrower,
};

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
                narrower(&self.hosts, &other.hosts, HostPattern::contains),
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

// Secrets that child processes use and never have: a process gets a placeholder, which haft replaces in its requests to the
// secret's hosts. A grant has them only with single hosts.

/// A secret for requests to its hosts.
#[derive(Clone, Debug)]
pub struct HostSecret {
    /// The name in messages.
    pub name: String,
    /// The only destinations.
    pub hosts: Vec<HostPattern>,
    /// The only requests to the hosts; all if empty.
    pub allow: Vec<RequestPattern>,
    /// The variable of the process that has the placeholder.
    pub variable: Option<String>,
    /// The variable of the process with the path of a file, and the text of the file. `{}` stands for the placeholder.
    pub file: Option<(String, String)>,
    /// The access key, if the value is the secret access key of AWS, with which requests are signed (Signature Version 4).
    pub access_key: Option<String>,
    /// The secret.
    pub value: SecretString,
}

impl HostSecret {
    /// Returns whether requests to `destination` are requests to one of the secret's hosts.
    pub fn is_for(&self, destination: &Destination) -> bool {
        self.hosts.iter().any(|host| host.matches(destination))
    }

    /// Returns whether a request to one of the secret's hosts is one of those that it is for. `path` is as in the
    /// request, without the query.
    pub fn allows(&self, method: &str, destination: &Destination, path: &str) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|rule| rule.matches(method, destination, path))
    }
}

impl PartialEq for HostSecret {
    fn eq(&self, other: &Self) -> bool {
        let parts = |one: &Self| {
            let Self { name, hosts, allow, variable, file, access_key, value: _ } = one.clone();
            (name, hosts, allow, variable, file, access_key)
        };
        parts(self) == parts(other) && self.value.expose_secret() == other.value.expose_secret()
    }
}

impl Eq for HostSecret {}

impl Grant {
    /// Adds a secret for hosts of child processes.
    #[must_use]
    pub fn with_secret(mut self, secret: HostSecret) -> Self {
        self.children.secrets.push(secret);
        self
    }

    /// Returns the secrets for the hosts of child processes; none if they have all of the network.
    pub fn secrets(&self) -> &[HostSecret] {
        if self.child_hosts().is_empty() { &[] } else { &self.children.secrets }
    }
}

// Checks the connections of child processes that are granted single hosts, by the rules of plugins' requests
// ([`Grant::may_ask`], [`Grant::may_connect`]). The scheme of a pattern only sets its port, because a process encrypts by itself.

/// The port of [`Outgoing::public`] that a name is looked up for.
const HTTPS: u16 = 443;

/// The granted and the blocked destinations of a process. The pattern `*` is every public host, on every port.
#[derive(Clone, Debug)]
pub struct Outgoing(Grant);

impl Outgoing {
    /// Returns the rules of a process with these destinations and blocked hosts.
    pub fn new(hosts: Vec<HostPattern>, blocked: Vec<HostName>) -> Self {
        let grant = Grant { hosts, ..Grant::none() };
        Self(blocked.into_iter().fold(grant, Grant::with_blocked_host))
    }

    /// Returns whether the name may be looked up. `name` is in lower case.
    pub fn may_look_up(&self, name: &str) -> bool {
        self.destinations(name).next().is_some()
    }

    /// Returns whether the name is granted with this port.
    pub fn may_ask(&self, name: &str, port: u16) -> bool {
        let has_port = |destination: Destination| destination.port() == port;
        self.destinations(name).any(has_port) || self.public(name, port).is_some()
    }

    /// Returns the first port with which the name is granted, unless every port is.
    pub fn port(&self, name: &str) -> Option<u16> {
        let first = self.destinations(name).next().filter(|_| !self.is_public());
        first.map(|destination| destination.port())
    }

    /// Checks whether `name` may resolve to `address`, for any port.
    ///
    /// # Errors
    /// Gives the reason for refusing the address; `None` if the name is not granted.
    pub fn may_lead(&self, name: &str, address: IpAddr) -> Result<(), Option<AddressError>> {
        self.judged(self.destinations(name), address)
    }

    /// Checks a connection to `address`, to which `name` was resolved.
    ///
    /// # Errors
    /// Gives the reason for refusing the address; `None` if the name is not granted with this port.
    pub fn may_connect(&self, name: &str, address: SocketAddr) -> Result<(), Option<AddressError>> {
        let with_port = self.destinations(name).filter(|destination| destination.port() == address.port());
        self.judged(with_port.chain(self.public(name, address.port())), address.ip())
    }

    /// Returns whether the address itself is granted.
    pub fn may_open(&self, address: SocketAddr) -> bool {
        self.0.may_open(address)
    }

    /// Returns whether an address to which no name resolved is open, since every public host is granted.
    pub fn opens_public(&self, address: IpAddr) -> bool {
        self.is_public() && local(address).is_none() && !self.0.blocks_address(address)
    }

    fn is_public(&self) -> bool {
        self.0.hosts().iter().any(HostPattern::is_any)
    }

    /// Returns the destination of a name that is granted as every public host is.
    fn public(&self, name: &str, port: u16) -> Option<Destination> {
        let destination = Destination::new("https", &format!("{name}:{port}"));
        destination.filter(|destination| self.is_public() && self.0.may_ask(destination))
    }

    fn destinations(&self, name: &str) -> impl Iterator<Item = Destination> {
        let named = self.0.hosts().iter().filter_map(move |host| host.destination(name));
        named.filter(|destination| self.0.may_ask(destination)).chain(self.public(name, HTTPS))
    }

    fn judged(
        &self,
        mut destinations: impl Iterator<Item = Destination>,
        address: IpAddr,
    ) -> Result<(), Option<AddressError>> {
        let judged = |destination: Destination| self.0.may_connect(&destination, address);
        let Some(first) = destinations.next() else { return Err(None) };
        let first = judged(first);
        if first.is_ok() || destinations.any(|destination| judged(destination).is_ok()) {
            return Ok(());
        }
        first.map_err(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(hosts: &[&str], blocked: &[&str]) -> Outgoing {
        let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
        Outgoing::new(hosts, blocked.iter().map(|host| host.parse().unwrap()).collect())
    }

    fn is_open(judge: &Outgoing, name: &str, address: &str) -> bool {
        judge.may_connect(name, address.parse().unwrap()).is_ok()
    }

    #[test]
    fn a_name_leads_to_public_addresses_on_its_ports() {
        let judge = granted(&["api.test", "*.cdn.test:22", "http://plain.test"], &["bad.cdn.test"]);
        assert!(is_open(&judge, "api.test", "1.1.1.1:443") && !is_open(&judge, "api.test", "1.1.1.1:80"));
        assert!(is_open(&judge, "plain.test", "1.1.1.1:80") && !is_open(&judge, "plain.test", "1.1.1.1:443"));
        assert!(is_open(&judge, "a.cdn.test", "1.1.1.1:22") && !is_open(&judge, "cdn.test", "1.1.1.1:22"));
        assert!(!is_open(&judge, "bad.cdn.test", "1.1.1.1:22") && !judge.may_look_up("bad.cdn.test"));
        assert!(judge.may_look_up("api.test") && !judge.may_look_up("x.api.test"));
    }

    #[test]
    fn a_name_that_changes_to_a_closed_address_leads_nowhere() {
        let judge = granted(&["api.test"], &[]);
        for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe"] {
            let address: IpAddr = address.parse().unwrap();
            assert!(judge.may_lead("api.test", address).is_err(), "{address}");
            assert!(judge.may_connect("api.test", (address, 443).into()).is_err(), "{address}");
        }
    }

    #[test]
    fn a_closed_address_is_granted_by_itself() {
        let judge = granted(&["http://192.168.1.5:8080", "localhost:5432"], &[]);
        assert!(judge.may_open("192.168.1.5:8080".parse().unwrap()));
        assert!(!judge.may_open("192.168.1.5:80".parse().unwrap()));
        assert!(is_open(&judge, "localhost", "127.0.0.1:5432"));
        assert!(
            !is_open(&judge, "localhost", "1.1.1.1:5432") && !is_open(&judge, "localhost", "127.0.0.1:1")
        );
    }

    /// `*` permits every public host, and no private address.
    #[test]
    fn every_public_host_is_no_private_address() {
        let judge = granted(&["*"], &["bad.test"]);
        assert!(is_open(&judge, "api.test", "1.1.1.1:443") && is_open(&judge, "api.test", "1.1.1.1:22"));
        assert!(!is_open(&judge, "bad.test", "1.1.1.1:443") && !judge.may_look_up("bad.test"));
        assert!(judge.opens_public("1.1.1.1".parse().unwrap()));
        for address in ["127.0.0.1", "::1", "10.0.0.1", "169.254.169.254", "fe80::1", "64:ff9b::a9fe:a9fe"] {
            let address: IpAddr = address.parse().unwrap();
            assert!(judge.may_lead("api.test", address).is_err(), "{address}");
            assert!(judge.may_connect("localhost", (address, 443).into()).is_err(), "{address}");
            assert!(!judge.opens_public(address) && !judge.may_open((address, 443).into()), "{address}");
        }
        assert!(!granted(&["api.test"], &[]).opens_public("1.1.1.1".parse().unwrap()));
    }
}
