//! The messages between the watcher and the host about connections.

use std::net::{IpAddr, SocketAddr};

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
    /// Whether the call waits until it is connected.
    pub(in crate::confine) waits: bool,
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
        let flags = [u8::from(self.is_v6), u8::from(self.waits)];
        [&self.id.to_le_bytes()[..], &flags, self.address.to_string().as_bytes()].concat()
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let (id, rest) = body.split_first_chunk()?;
        let ([is_v6, waits], address) = rest.split_first_chunk()?;
        let address = std::str::from_utf8(address).ok()?.parse().ok()?;
        Some(Self { id: u64::from_le_bytes(*id), is_v6: *is_v6 != 0, waits: *waits != 0, address })
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
        for address in ["1.1.1.1:443", "[2606:4700::1111]:22"] {
            let request =
                Request { id: 1 << 40, is_v6: true, waits: false, address: address.parse().unwrap() };
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        let reply = Reply { id: 7, error: libc::EACCES };
        assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        assert_eq!((Request::decode(b"x"), Reply::decode(b"x")), (None, None));
    }
}
