//! Checks the connections of child processes that are granted single hosts, by the rules of plugins' requests
//! ([`Grant::may_ask`], [`Grant::may_connect`]). The scheme of a pattern only sets its port, because a process encrypts
//! by itself.

use std::net::{IpAddr, SocketAddr};

use super::{AddressError, Destination, Grant, HostName, HostPattern, local};

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
