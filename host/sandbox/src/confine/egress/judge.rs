//! Checks addresses by the names that resolved to them.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

use haft_core::grant::Outgoing;
use haft_core::sync::Lock;

use crate::confine::refusal::Refusal;

/// Limit on the remembered pairs of an address and a name; the oldest are forgotten. A build asks for some hundred.
const MAX_KNOWN: usize = 4096;

/// The name that leads to loopback without being looked up.
const LOCALHOST: &str = "localhost";

#[derive(Debug)]
pub(super) struct Judge {
    rules: Outgoing,
    /// The addresses that names were resolved to.
    known: Lock<VecDeque<(IpAddr, String)>>,
}

impl Judge {
    /// Returns the judge of these patterns and blocked hosts.
    ///
    /// # Errors
    /// A pattern or a host is invalid.
    pub(super) fn new(hosts: &[String], blocked: &[String]) -> io::Result<Self> {
        let rules = Outgoing::new(parsed(hosts)?, parsed(blocked)?);
        Ok(Self { rules, known: Lock::default() })
    }

    pub(super) fn may_look_up(&self, name: &str) -> bool {
        self.rules.may_look_up(name)
    }

    /// Records that `name` resolves to `address`.
    ///
    /// # Errors
    /// The name may not resolve to this address.
    pub(super) fn learn(&self, name: &str, address: IpAddr) -> Result<(), Refusal> {
        let is_closed = self.rules.may_lead(name, address).is_err() || is_own(name, address);
        let port = self.rules.port(name).unwrap_or_default();
        let address = address.to_canonical();
        if is_closed && !self.rules.may_open(SocketAddr::new(address, port)) {
            return Err(Refusal::Connect(SocketAddr::new(address, port)));
        }
        let mut known = self.known.lock();
        if !known.iter().any(|(other, of)| *other == address && of == name) {
            known.push_back((address, name.to_owned()));
        }
        if known.len() > MAX_KNOWN {
            known.pop_front();
        }
        Ok(())
    }

    /// Returns the granted name of a permitted connection; none if its address itself is granted.
    ///
    /// # Errors
    /// The connection is refused.
    pub(super) fn judge(&self, address: SocketAddr) -> Result<Option<String>, Refusal> {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let names = self.names(address.ip());
        if self.rules.may_open(address) {
            return Ok(names.into_iter().find(|name| name != LOCALHOST));
        }
        if names.is_empty() && self.rules.opens_public(address.ip()) && !is_own("", address.ip()) {
            return Ok(None);
        }
        let mut refusal = Refusal::Connect(address);
        for name in names {
            match self.rules.may_connect(&name, address) {
                Ok(()) if !is_own(&name, address.ip()) => return Ok(Some(name)),
                Err(None) if name != LOCALHOST => refusal = Refusal::Host(name, Some(address.port())),
                _ => {}
            }
        }
        Err(refusal)
    }

    /// Returns the granted hosts at an address, as in URLs.
    pub(super) fn hosts(&self, address: SocketAddr) -> Vec<String> {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let is_granted =
            |name: &String| self.rules.may_connect(name, address).is_ok() && !is_own(name, address.ip());
        let names = self.names(address.ip()).into_iter().filter(is_granted);
        let own = match address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        names.chain(self.rules.may_open(address).then_some(own)).collect()
    }

    /// Returns the names that `address` was the answer to.
    pub(super) fn names(&self, address: IpAddr) -> Vec<String> {
        let (known, address) = (self.known.lock(), address.to_canonical());
        let looked_up = known.iter().filter(|(other, _)| *other == address).map(|(_, name)| name.clone());
        looked_up.chain(address.is_loopback().then(|| LOCALHOST.to_owned())).collect()
    }
}

fn parsed<T: FromStr>(texts: &[String]) -> io::Result<Vec<T>> {
    let read = |text: &String| text.parse().map_err(|_| io::Error::other(format!("`{text}` is not a host")));
    texts.iter().map(read).collect()
}

/// Returns whether `address` is a public address of this machine, to which no name may resolve: services of this
/// machine may listen there too.
fn is_own(name: &str, address: IpAddr) -> bool {
    name != LOCALHOST && UdpSocket::bind((address, 0)).is_ok()
}

/// Returns whether this machine has a route to `address`. Sends nothing.
pub(super) fn is_routed(address: IpAddr) -> bool {
    let any = if address.is_ipv4() { IpAddr::from([0; 4]) } else { Ipv6Addr::UNSPECIFIED.into() };
    // Any port will do.
    UdpSocket::bind((any, 0)).and_then(|socket| socket.connect((address, 9))).is_ok()
}
