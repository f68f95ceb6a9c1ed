//! Health reports of gates and workers: missing parts in `/readyz` and `haft doctor`.

use std::io::{Read, Write};
use std::process::Stdio;

use super::setup::Setup;
use super::world::World;
use crate::common::wait::until;
use crate::serve::http::Site;

fn site(world: &World) -> Site {
    let mut command = world.command(&["serve", "--http", "127.0.0.1:0", "--no-token"]);
    Site::begin(command.stderr(Stdio::piped()).stdout(Stdio::null()))
}

/// The answer of `/readyz` to a client that uses the name `host`.
fn ready(site: &Site, host: &str) -> String {
    let mut stream = site.connect();
    write!(stream, "GET /readyz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// N22: a gate is ready while it has a server and workers; `/readyz` names missing parts to clients that use a name
/// of this machine (N6).
#[test]
fn a_gate_without_server_or_workers_is_not_ready() {
    let Some(mut world) = World::start() else { return };
    world.server.kill();
    let site = site(&world);
    until("no server is told", || {
        let told = ready(&site, "localhost");
        assert!(told.contains(" 503 "), "{told}");
        told.contains("NATS")
    });
    let foreign = ready(&site, "balancer.example");
    assert!(foreign.contains(" 503 ") && !foreign.contains("NATS"), "{foreign}");
    world.server.start();
    until("no worker is told", || {
        let told = ready(&site, "localhost");
        assert!(told.contains(" 503 "), "{told}");
        told.contains("no worker labelled `eu` has `program__far__mark`")
    });
    let worker = world.worker("eu-1", &["--label", "eu"]);
    until("it is ready, and says what else is missing", || {
        let told = ready(&site, "localhost");
        told.contains(" 200 ") && told.contains("no worker labelled `us` has `program__far__mark_us`")
    });
    drop(worker);
    until("its worker is missed", || ready(&site, "localhost").contains(" 503 "));
    let _worker = world.worker("eu-1", &["--label", "eu"]);
    until("it is ready again", || ready(&site, "localhost").contains(" 200 "));
    world.server.kill();
    until("its server is missed", || ready(&site, "localhost").contains(" 503 "));
}

/// N22: `/readyz` and `haft doctor` name the storage that does not fit at the server; a smaller reservation fits
/// (N3).
#[test]
fn what_cannot_be_kept_is_told() {
    let less = "[nats.storage]\nclaims = \"64MiB\"\npayloads = \"64MiB\"\njournal = \"64MiB\"\napprovals = \"64MiB\"\n\
                tasks = \"64MiB\"\nanswers = \"64MiB\"\n";
    for (more, enough) in [("", false), (less, true)] {
        let Some(world) = World::with(Setup::Small, more) else { return };
        let _worker = world.worker("eu-1", &["--label", "eu"]);
        let site = site(&world);
        until("it is ready", || ready(&site, "localhost").contains(" 200 "));
        let output = world.command(&["doctor"]).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let line = told.lines().find(|line| line.contains("storage ")).unwrap();
        assert_eq!(line.contains('✓'), enough, "{told}");
        assert_eq!(told.contains("lower `[nats.storage] journal`"), !enough, "{told}");
        if !enough {
            until("the journal is told", || {
                ready(&site, "localhost").contains("NATS cannot store `journal`")
            });
        }
    }
}
