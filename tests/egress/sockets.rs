//! The behaviour of sockets for C programs: registrations and options from before the connection, threads, signals,
//! errors.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::net::{AddressFamily, SocketType, bind, connect, listen, socket};

use super::{bash, granted, host, workspace};

const SOURCE: &str = include_str!("connect.c");

/// A port whose connections never complete, because the queue of its listener is full.
pub(super) fn silent() -> (u16, Vec<OwnedFd>) {
    let made = || socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let mut all = vec![made()];
    bind(&all[0], &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&all[0], 0).unwrap();
    let own: SocketAddr = rustix::net::getsockname(&all[0]).unwrap().try_into().unwrap();
    for _ in 0..3 {
        let one = made();
        rustix::io::ioctl_fionbio(&one, true).unwrap();
        let _ = connect(&one, &own);
        all.push(one);
    }
    (own.port(), all)
}

#[tokio::test]
async fn sockets_in_c_are_as_without_haft() {
    let (open, _) = granted();
    let (silent, _kept) = silent();
    let workspace = workspace(&[host(open), host(open + 1), host(silent)]);
    let (source, program) = (workspace.path("connect.c"), workspace.path("connect"));
    std::fs::write(&source, SOURCE).unwrap();
    let compiled = Command::new("cc").args(["-pthread", "-o"]).arg(&program).arg(&source).output();
    let Ok(compiled) = compiled else { return eprintln!("SKIPPED: there is no C compiler") };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let line = format!("./connect {open} {} {silent}", open + 1);
    let plain = Command::new("sh").args(["-c", &line]).current_dir(workspace.path("")).output().unwrap();
    let plain = String::from_utf8_lossy(&plain.stdout);
    let said = bash(&workspace, &line).await.content;
    for (way, said) in [("plain", plain.as_ref()), ("handed over", &said)] {
        let right = said.lines().filter(|line| line.starts_with("ok ")).count();
        assert!(!said.contains("WRONG") && right == 25, "{way}: {said}");
    }
}
