//! The addresses of the public internet. A name may resolve to these alone. This file is independent of grants, and
//! an address is public only if no table lists it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The reason for refusing an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// An address of this machine.
    #[error("loopback address")]
    Loopback,
    /// A private network: a home, an office, a container host.
    #[error("private address")]
    Private,
    /// The network between a provider and its customers.
    #[error("address of a provider's internal network")]
    Shared,
    /// The local link.
    #[error("link-local address")]
    LinkLocal,
    /// A service that gives the credentials of a cloud's virtual machine to any process on it.
    #[error("address of a cloud's metadata service")]
    Metadata,
    /// No address: "this host", "any address".
    #[error("unspecified address")]
    Unspecified,
    /// Multicast or broadcast.
    #[error("multicast or broadcast address")]
    Multicast,
    /// Examples in documents.
    #[error("documentation address")]
    Documentation,
    /// Benchmarking of devices.
    #[error("benchmarking address")]
    Benchmarking,
    /// IPv6 that tunnels IPv4 to another network.
    #[error("tunnel address")]
    Tunnel,
    /// An address that is not allocated.
    #[error("reserved address")]
    Reserved,
    /// An address that the grant closes.
    #[error("blocked address")]
    Blocked,
    /// `localhost` resolved to another address than loopback.
    #[error("not a loopback address, as `localhost` has to be")]
    NotLoopback,
}

/// A network, its prefix length, and the reason for refusing it.
type Row<A> = (A, u32, AddressError);

/// The first matching row counts. Source: IANA's IPv4 Special-Purpose Address Registry, and services of clouds
/// outside of it.
const V4: &[Row<Ipv4Addr>] = &[
    (Ipv4Addr::UNSPECIFIED, 8, AddressError::Unspecified),
    (Ipv4Addr::new(10, 0, 0, 0), 8, AddressError::Private),
    // Alibaba Cloud.
    (Ipv4Addr::new(100, 100, 100, 200), 32, AddressError::Metadata),
    (Ipv4Addr::new(100, 64, 0, 0), 10, AddressError::Shared),
    (Ipv4Addr::new(127, 0, 0, 0), 8, AddressError::Loopback),
    // Azure, within public addresses.
    (Ipv4Addr::new(168, 63, 129, 16), 32, AddressError::Metadata),
    (Ipv4Addr::new(169, 254, 169, 254), 32, AddressError::Metadata),
    // Amazon, for containers.
    (Ipv4Addr::new(169, 254, 170, 0), 24, AddressError::Metadata),
    (Ipv4Addr::new(169, 254, 0, 0), 16, AddressError::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, AddressError::Private),
    // Oracle.
    (Ipv4Addr::new(192, 0, 0, 192), 32, AddressError::Metadata),
    (Ipv4Addr::new(192, 0, 0, 0), 24, AddressError::Reserved),
    (Ipv4Addr::new(192, 0, 2, 0), 24, AddressError::Documentation),
    (Ipv4Addr::new(192, 88, 99, 0), 24, AddressError::Tunnel),
    (Ipv4Addr::new(192, 168, 0, 0), 16, AddressError::Private),
    (Ipv4Addr::new(198, 18, 0, 0), 15, AddressError::Benchmarking),
    (Ipv4Addr::new(198, 51, 100, 0), 24, AddressError::Documentation),
    (Ipv4Addr::new(203, 0, 113, 0), 24, AddressError::Documentation),
    (Ipv4Addr::new(224, 0, 0, 0), 4, AddressError::Multicast),
    (Ipv4Addr::BROADCAST, 32, AddressError::Multicast),
    (Ipv4Addr::new(240, 0, 0, 0), 4, AddressError::Reserved),
];

/// The table for IPv6, after [`embedded`]. Addresses are allocated from `2000::/3` alone.
const V6: &[Row<Ipv6Addr>] = &[
    (Ipv6Addr::UNSPECIFIED, 128, AddressError::Unspecified),
    (Ipv6Addr::LOCALHOST, 128, AddressError::Loopback),
    // IPv4-compatible addresses (RFC 4291, section 2.5.5.1), which are deprecated.
    (Ipv6Addr::UNSPECIFIED, 96, AddressError::Tunnel),
    // Local NAT64 (RFC 8215): the destination depends on the site.
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, AddressError::Tunnel),
    // Teredo.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, AddressError::Tunnel),
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, AddressError::Benchmarking),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, AddressError::Reserved),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, AddressError::Documentation),
    // 6to4.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, AddressError::Tunnel),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, AddressError::Documentation),
    // Amazon and Google.
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128, AddressError::Metadata),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128, AddressError::Metadata),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, AddressError::Private),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, AddressError::LinkLocal),
    // Site-local addresses (RFC 3879).
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, AddressError::Private),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, AddressError::Multicast),
];

/// The allocated range.
const GLOBAL: Row<Ipv6Addr> = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3, AddressError::Reserved);

/// Returns the reason why `address` is not public; `None` if it is.
pub fn local(address: IpAddr) -> Option<AddressError> {
    match address {
        IpAddr::V4(address) => {
            V4.iter().find(|(network, bits, _)| lies_in4(address, *network, *bits)).map(|(_, _, why)| *why)
        }
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => local(inner.into()),
            None => local6(address),
        },
    }
}

fn local6(address: Ipv6Addr) -> Option<AddressError> {
    let listed = V6.iter().find(|(network, bits, _)| lies_in6(address, *network, *bits));
    let (global, bits, otherwise) = GLOBAL;
    let other = (!lies_in6(address, global, bits)).then_some(otherwise);
    listed.map(|(_, _, why)| *why).or(other)
}

/// Returns the IPv4 address that an IPv6 address embeds: mapped, or below the well-known NAT64 prefix (RFC 6052),
/// which networks without IPv4 depend on.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [.., a, b, c, d] = address.octets();
    let nat64 = lies_in6(address, Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
    address.to_ipv4_mapped().or(nat64.then_some(Ipv4Addr::new(a, b, c, d)))
}

fn lies_in4(address: Ipv4Addr, network: Ipv4Addr, bits: u32) -> bool {
    (u32::from(address) ^ u32::from(network)).leading_zeros() >= bits
}

fn lies_in6(address: Ipv6Addr, network: Ipv6Addr, bits: u32) -> bool {
    (u128::from(address) ^ u128::from(network)).leading_zeros() >= bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(address: &str) -> Option<AddressError> {
        local(address.parse().unwrap())
    }

    /// FU02, FU03: the first and the last address of every network that is not public.
    #[test]
    fn addresses_that_are_not_public() {
        use AddressError::*;
        for (expected, addresses) in [
            (Unspecified, &["0.0.0.0", "0.255.255.255", "::", "::ffff:0.1.2.3", "64:ff9b::"][..]),
            (Loopback, &["127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1"]),
            (Private, &["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.1"]),
            (Private, &["192.168.255.255", "::ffff:10.0.0.1", "64:ff9b::192.168.1.1", "fc00::", "fec0::1"]),
            (Private, &["fd00::1", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "feff::1"]),
            (Shared, &["100.64.0.0", "100.127.255.255", "::ffff:100.64.0.1"]),
            (LinkLocal, &["169.254.0.0", "169.254.255.255", "fe80::", "febf::1", "::ffff:169.254.0.1"]),
            (Metadata, &["169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"]),
            (Metadata, &["fd00:ec2::254", "fd20:ce::254", "168.63.129.16", "100.100.100.200"]),
            (Metadata, &["169.254.170.2", "169.254.170.23", "192.0.0.192"]),
            (Reserved, &["192.0.0.0", "192.0.0.255", "240.0.0.0", "255.255.255.254", "2001:20::1"]),
            (Reserved, &["2001:1ff:ffff::", "1::1", "4000::", "5f00::1", "100::1", "64:ff9b:2::1"]),
            (Documentation, &["192.0.2.1", "198.51.100.255", "203.0.113.0", "2001:db8::1", "3fff::1"]),
            (Documentation, &["3fff:fff:ffff::1", "::ffff:192.0.2.1"]),
            (Benchmarking, &["198.18.0.0", "198.19.255.255", "2001:2::1"]),
            (Tunnel, &["192.88.99.1", "2002::", "2002:7f00:1::", "2002:5db8:d70e::1", "2001::1"]),
            (Tunnel, &["2001:0:5db8:d70e::1", "::7f00:1", "::93.184.215.14", "64:ff9b:1::1"]),
            (Multicast, &["224.0.0.0", "239.255.255.255", "255.255.255.255", "ff02::1", "ff0e::1"]),
        ] {
            for address in addresses {
                assert_eq!(why(address), Some(expected), "{address}");
            }
        }
    }

    /// The neighbours of those networks, and well-known addresses.
    #[test]
    fn addresses_that_are_public() {
        for address in [
            "1.0.0.0",
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "93.184.215.14",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "203.0.114.0",
            "223.255.255.255",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2003::1",
            "2606:4700::1111",
            "3ffe:ffff::1",
            "::ffff:93.184.215.14",
            "64:ff9b::93.184.215.14",
        ] {
            assert_eq!(why(address), None, "{address}");
        }
    }
}
