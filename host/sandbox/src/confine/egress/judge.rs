//! Checks addresses by the names that resolved to them.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

use haft_core::grant::Outgoing;
use haft_core::sync::Lock;

use crate::confine::refusal::Refusal;

/// Limit on the remembered pairs of an address and a name; the oldest are forgotten. A build asks for some hundred.
const MAX_KNOWN: usize = 4096;

/// The first of the addresses that stand for names: of a network for measurements (RFC 2544), which nobody has.
const STAND_INS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The name that leads to loopback without being looked up.
const LOCALHOST: &str = "localhost";

#[derive(Debug)]
pub(super) struct Judge {
    pub(super) rules: Outgoing,
    /// The addresses that names were resolved to.
    known: Lock<VecDeque<(IpAddr, String)>>,
    /// The names that only a proxy can resolve, in the order of their addresses from [`STAND_INS`].
    stood_for: Lock<Vec<String>>,
}

impl Judge {
    /// Returns the judge of these patterns and blocked hosts.
    ///
    /// # Errors
    /// A pattern or a host is invalid.
    pub(super) fn new(hosts: &[String], blocked: &[String]) -> io::Result<Self> {
        let rules = Outgoing::new(parsed(hosts)?, parsed(blocked)?);
        Ok(Self { rules, known: Lock::default(), stood_for: Lock::default() })
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

    /// Returns the address that stands for a granted name which only a proxy can resolve.
    pub(super) fn stand_in(&self, name: &str) -> IpAddr {
        let mut names = self.stood_for.lock();
        let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
            // Of more names the later ones share an address, and the last one counts.
            if names.len() == MAX_KNOWN {
                names.pop();
            }
            names.push(name.to_owned());
            names.len() - 1
        });
        let first = u32::from(STAND_INS);
        Ipv4Addr::from(first.saturating_add(u32::try_from(at).unwrap_or_default())).into()
    }

    fn stood_for(&self, address: IpAddr) -> Option<String> {
        let IpAddr::V4(address) = address.to_canonical() else { return None };
        let at = u32::from(address).checked_sub(u32::from(STAND_INS))?;
        self.stood_for.lock().get(usize::try_from(at).ok()?).cloned()
    }

    /// Returns the granted name of a permitted connection; none if its address itself is granted.
    ///
    /// # Errors
    /// The connection is refused.
    pub(super) fn judge(&self, address: SocketAddr) -> Result<Option<String>, Refusal> {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        if let Some(name) = self.stood_for(address.ip()) {
            let is_granted = self.rules.may_ask(&name, address.port());
            return if is_granted { Ok(Some(name)) } else { Err(Refusal::Host(name, Some(address.port()))) };
        }
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
        let is_asked = |name: &String| self.rules.may_ask(name, address.port());
        let stood_for = self.stood_for(address.ip()).filter(is_asked);
        names.chain(stood_for).chain(self.rules.may_open(address).then_some(own)).collect()
    }

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
