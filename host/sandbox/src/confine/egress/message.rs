//! The messages between the watcher and the host about connections.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// The error number of a refused connection; 0 is success.
pub(in crate::confine) fn refused(address: IpAddr) -> i32 {
    // What a program expects of a port of its own machine that nothing listens on.
    if address.is_loopback() { libc::ECONNREFUSED } else { libc::EACCES }
}

/// A connection that a child tries to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::confine) struct Reply {
    pub(in crate::confine) id: u64,
    /// The error number of the call; 0 is success.
    pub(in crate::confine) error: i32,
}

impl Request {
    pub(in crate::confine) fn encode(&self) -> Vec<u8> {
        // Numbers and addresses can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }
}

impl Reply {
    pub(super) fn encode(self) -> Vec<u8> {
        serde_json::to_vec(&self).unwrap_or_default()
    }

    pub(in crate::confine) fn decode(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
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
