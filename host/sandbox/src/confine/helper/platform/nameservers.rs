//! The sockets on which names are answered in a network namespace: at the addresses that the system's configuration
//! names, so that programs ask there by themselves.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};

use super::sockets::NAMES_PORT;
use crate::confine::sys::platform as sys;
use crate::confine::wire::{self, NAMES};

/// The name servers that C libraries ask at most.
const MAX_SERVERS: usize = 3;

/// Opens the sockets in the new network namespace of this process, sends them to the host, and returns the addresses.
pub(super) fn open(outside: &OwnedFd) -> Result<Vec<IpAddr>> {
    let servers = servers(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    let (mut opened, mut failed) = (Vec::new(), None);
    for (index, server) in servers.into_iter().enumerate() {
        match sockets(server, index) {
            Ok(sockets) => {
                wire::send(outside, NAMES, &[], &sockets)
                    .context("cannot hand over the sockets for names")?;
                opened.push(server);
            }
            // Without IPv6, for example: programs ask the next one.
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if opened.is_empty() => Err(error).context("cannot answer names"),
        _ => Ok(opened),
    }
}

/// Returns a socket for datagrams and one for connections.
fn sockets(server: IpAddr, index: usize) -> std::io::Result<[OwnedFd; 2]> {
    if !server.is_loopback() {
        sys::add_to_loopback(server, index)?;
    }
    let place = (server, NAMES_PORT);
    Ok([UdpSocket::bind(place)?.into(), TcpListener::bind(place)?.into()])
}

/// Returns the addresses in a `resolv.conf(5)`; without any, libraries ask this machine. An address with a zone is
/// that of an interface, of which there is none.
fn servers(text: &str) -> Vec<IpAddr> {
    let mut servers = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("nameserver")
            && let Some(Ok(server)) = words.next().map(str::parse::<IpAddr>)
            && !servers.contains(&server.to_canonical())
        {
            servers.push(server.to_canonical());
        }
    }
    servers.truncate(MAX_SERVERS);
    if servers.is_empty() {
        servers.push(Ipv4Addr::LOCALHOST.into());
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_those_of_the_configuration() {
        let text = "# nameserver 9.9.9.9\nsearch test\nnameserver 10.0.0.1\nnameserver fe80::1%eth0\n\
                    nameserver\t2001:db8::1\nnameserver 10.0.0.1\nnameserver 1.1.1.1\nnameserver 8.8.8.8\n";
        let expected: Vec<IpAddr> =
            ["10.0.0.1", "2001:db8::1", "1.1.1.1"].map(|server| server.parse().unwrap()).into();
        assert_eq!(servers(text), expected);
        assert_eq!(servers("options edns0"), [IpAddr::from([127, 0, 0, 1])]);
    }
}
