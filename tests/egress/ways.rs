//! The catalogue of escape attempts, as root and as an ordinary user. The test's own servers check the results too.

use std::io::ErrorKind;
use std::net::{Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::Ordering;
use std::time::Duration;

use haft::native::bash::Bash;
use rustix::io::{FdFlags, fcntl_setfd};
use serde_json::json;

use super::sockets::silent;
use super::{bash, granted, host, own_address, server, workspace};
use crate::confine::host::{User, alone, is_inner, python, whole};

const WAYS: &str = include_str!("ways.py");
const ATTACKS: &str = include_str!("attacks.py");

/// No attempt of the catalogue reaches a server, as root or as an ordinary user.
#[tokio::test]
async fn no_way_leads_out() {
    if is_inner() {
        return try_ways().await;
    }
    for user in User::all(20) {
        alone("egress::ways::no_way_leads_out", user, ("HAFT_TEST_WAYS", "all"));
    }
}

async fn try_ways() {
    let (open, _) = granted();
    let (closed, arrived) = server(TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap());
    let datagrams = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    // A connection of the process that starts haft, which haft inherits.
    let inherited = TcpStream::connect(("127.0.0.1", open)).unwrap();
    fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
    let (silent, _kept) = silent();
    let workspace = workspace(&[host(open), host(open + 1), host(silent)]);
    for (name, text) in [("ways.py", WAYS), ("attacks.py", ATTACKS)] {
        std::fs::write(workspace.path(name), text).unwrap();
    }
    let unix = workspace.path("socket").display().to_string();
    let by_path = UnixListener::bind(&unix).unwrap();
    let by_name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&unix).unwrap()).unwrap();
    let port = datagrams.local_addr().unwrap().port();
    let python = python().display().to_string();
    let line = format!("{python} attacks.py {open} {closed} {port} {} '{unix}' {silent}", own_address());
    let answer =
        workspace.call(&Bash::new(whole(), Duration::from_mins(8)), json!({ "command": line })).await;
    let said = answer.unwrap().content;
    let held = said.lines().filter(|line| line.starts_with("held ")).count();
    assert!(
        !said.contains("OUT ") && said.contains(&format!("{held} ways")) && held >= 190,
        "{held}: {said}"
    );
    assert_eq!(arrived.load(Ordering::Relaxed), 0, "{said}");
    assert_eq!(datagrams.recv_from(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock, "{said}");
    for listener in [by_path, by_name] {
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "{said}");
    }
}

/// Without the sandbox's network rules the attempts succeed, which proves that the catalogue works.
#[tokio::test]
async fn the_ways_lead_out_where_nothing_holds_them() {
    let (open, _) = granted();
    let (closed, arrived) = server(TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap());
    let mut workspace = workspace(&[]);
    workspace.grant = workspace.grant.with_network(true);
    std::fs::write(workspace.path("ways.py"), WAYS).unwrap();
    let said = bash(&workspace, &format!("python3 ways.py {open} {closed} 9 127.0.0.1 /none")).await.content;
    let out = said.lines().filter(|line| line.starts_with("OUT ")).count();
    assert!(out >= 15 && arrived.load(Ordering::Relaxed) >= 15, "{said}");
}
