//! The messages between the watcher and the host about connections.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;

/// The error number of a refused connection; 0 is success.
pub(in crate::confine) fn refused(address: IpAddr) -> i32 {
    // What a program expects of a port of its own machine that nothing listens on.
    if address.is_loopback() { libc::ECONNREFUSED } else { libc::EACCES }
}

/// A connection that a child tries to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::confine) struct Request {
    /// The watcher's number of the call.
    pub(in crate::confine) id: u64,
    /// Whether the child's socket is of IPv6, also where it leads to an IPv4 address.
    pub(in crate::confine) is_v6: bool,
    /// How long the call waits until it is connected, in milliseconds; none if it does not wait.
    pub(in crate::confine) wait: Option<NonZeroU64>,
    /// Without an IPv4 address in the form of IPv6.
    pub(in crate::confine) address: SocketAddr,
}

/// The end of a request. The socket, if there is one, comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::confine) struct Reply {
    pub(in crate::confine) id: u64,
    /// The error number of the call; 0 is success.
    pub(in crate::confine) error: i32,
}

impl Request {
    pub(in crate::confine) fn encode(&self) -> Vec<u8> {
        let wait = self.wait.map_or(0, NonZeroU64::get).to_le_bytes();
        let is_v6 = [u8::from(self.is_v6)];
        [&self.id.to_le_bytes()[..], &wait, &is_v6, self.address.to_string().as_bytes()].concat()
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let (id, rest) = body.split_first_chunk()?;
        let (wait, rest) = rest.split_first_chunk()?;
        let ([is_v6], address) = rest.split_first_chunk()?;
        let address = std::str::from_utf8(address).ok()?.parse().ok()?;
        let wait = NonZeroU64::new(u64::from_le_bytes(*wait));
        Some(Self { id: u64::from_le_bytes(*id), is_v6: *is_v6 != 0, wait, address })
    }
}

impl Reply {
    pub(super) fn encode(self) -> Vec<u8> {
        [&self.id.to_le_bytes()[..], &self.error.to_le_bytes()].concat()
    }

    pub(in crate::confine) fn decode(body: &[u8]) -> Option<Self> {
        let (id, rest) = body.split_first_chunk()?;
        let error = i32::from_le_bytes(*rest.first_chunk()?);
        Some(Self { id: u64::from_le_bytes(*id), error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_arrive_as_they_were_sent() {
        for (address, wait) in [("1.1.1.1:443", 0), ("[2606:4700::1111]:22", 1 << 40)] {
            let (address, wait) = (address.parse().unwrap(), NonZeroU64::new(wait));
            let request = Request { id: 1 << 40, is_v6: true, wait, address };
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        let reply = Reply { id: 7, error: libc::EACCES };
        assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        assert_eq!((Request::decode(b"x"), Reply::decode(b"x")), (None, None));
    }
}
