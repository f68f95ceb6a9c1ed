//! The connection of ssh: opened once, shared, closed.

use std::fs;
use std::path::Path;

use haft::backend::CommandEnd;
use serde_json::json;

use super::host_context::{Bed, Kind, session, ssh, ssh_to, variable};
use crate::common::wait::{eventually, within};

/// The command lines of connections with their socket in `state`.
fn masters(state: &Path) -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        Some((process, String::from_utf8_lossy(&line).replace('\0', " ")))
    });
    // A connection in the background has its socket in its name; the process has its original arguments before.
    lines
        .filter(|(_, line)| {
            line.contains(state.to_str().unwrap()) && line.contains("ssh") && line.contains(" -M ")
        })
        .collect()
}

/// Ends the server's side of the connection with its socket in `state`, like a network failure.
pub(crate) fn drop_connection(state: &Path) {
    let (master, _) = masters(state).into_iter().next().expect("no connection");
    // The client's port identifies the process that serves it.
    let port = local_port(master).expect("the connection has no port");
    let server = serving(port).expect("nobody serves the connection");
    let process = rustix::process::Pid::from_raw(server).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

fn sockets(process: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok()?.to_str().map(str::to_owned));
    links.filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect()
}

/// The rows of established connections: local port, remote port, inode.
fn connections() -> Vec<(u16, u16, String)> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let port = |address: &str| u16::from_str_radix(address.split(':').nth(1).unwrap(), 16).unwrap();
    rows.filter(|row| row[3] == "01").map(|row| (port(row[1]), port(row[2]), row[9].to_owned())).collect()
}

fn local_port(process: u32) -> Option<u16> {
    let own = sockets(process);
    connections().into_iter().find(|(_, _, inode)| own.contains(inode)).map(|(local, _, _)| local)
}

/// The server's process at the other end of the connection from `port`: not the listener, which has handed the
/// connection on.
fn serving(port: u16) -> Option<i32> {
    let inode = connections().into_iter().find(|(_, remote, _)| *remote == port)?.2;
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut processes: Vec<u32> = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    processes.sort_unstable();
    let found = processes.into_iter().find(|process| sockets(*process).contains(&inode))?;
    i32::try_from(found).ok()
}

/// BE04: all commands share one connection, which closes at the end.
#[tokio::test(flavor = "multi_thread")]
async fn one_connection_is_opened_shared_and_closed() {
    let Some(kind) = ssh() else { return };
    let bed = Bed::new(&kind).await;
    assert_eq!(masters(&bed.host_context.state).len(), 1);
    let first = masters(&bed.host_context.state);
    for _ in 0..3 {
        bed.run("true").await;
    }
    let (one, two, three) = tokio::join!(bed.run("echo 1"), bed.run("echo 2"), bed.run("echo 3"));
    assert_eq!([one.output, two.output, three.output].concat(), b"1\n2\n3\n");
    assert_eq!(masters(&bed.host_context.state), first);
    bed.backend.close().await;
    assert!(masters(&bed.host_context.state).is_empty());
    let again = bed.run("echo again").await;
    assert_eq!(again.output, b"again\n");
    // Dropping also closes the connection, and removes its folder.
    let (state, directory) = (bed.host_context.state.clone(), bed.work());
    drop(bed);
    eventually("the connection is closed", || masters(&state).is_empty()).await;
    assert!(!directory.exists());
}

/// BE04: a failed setup leaves no connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_setup_leaves_no_connection() {
    let Some(choice) = ssh_to("box") else { return };
    let choice = haft::backend::BackendConfig { tmux: Some(true), session: Some("a:b".into()), ..choice };
    let before = all_masters();
    let error = Bed::tried(&Kind { name: "ssh, bad session", choice }).await.err().unwrap().to_string();
    assert!(error.starts_with("invalid tmux session `a:b`"), "{error}");
    eventually("no connection is left", || all_masters() <= before).await;
}

fn all_masters() -> usize {
    masters(Path::new("/")).len()
}

/// BE04: haft asks no question, and the error says why the connection failed and how to log in.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_not_let_in_is_told_how_to_be() {
    let Some(choice) = ssh_to("stranger") else { return };
    let tried = within("an answer", Bed::tried(&Kind { name: "stranger", choice })).await;
    let error = tried.err().unwrap().to_string();
    assert!(
        error.starts_with("cannot connect to `stranger`: ") && error.contains("Permission denied"),
        "{error}"
    );
    assert!(error.contains("hint: haft cannot ask for a password"), "{error}");
    let nobody = ssh_to("no-such-host.invalid").unwrap();
    let error = Bed::tried(&Kind { name: "nobody", choice: nobody }).await.err().unwrap().to_string();
    assert!(error.contains("cannot connect to `no-such-host.invalid`: "), "{error}");
}

/// BE04: 200 commands share one connection.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_commands_share_one_connection() {
    let Some(kind) = ssh() else { return };
    let bed = Bed::new(&kind).await;
    let first = masters(&bed.host_context.state);
    for _ in 0..200 {
        assert_eq!(bed.run("true").await.how, CommandEnd::Exited(0));
    }
    assert_eq!(masters(&bed.host_context.state), first, "the connection was opened again");
    bed.backend.close().await;
}

/// BE05: a host with tmux gets a pane, unless `tmux = false`.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_tmux_gets_a_pane_unless_it_is_not_wanted() {
    let Some(choice) = ssh_to("box") else { return };
    let unsaid = haft::backend::BackendConfig { tmux: None, session: Some(session()), ..choice.clone() };
    let bed = Bed::new(&Kind { name: "ssh, nothing said", choice: unsaid }).await;
    assert!(bed.backend.has_pane() && bed.backend.summary().contains("(tmux:"));
    bed.backend.close().await;
    let bed = Bed::new(&Kind { name: "ssh, no tmux", choice }).await;
    assert!(!bed.backend.has_pane());
    assert_eq!(bed.backend.summary(), "ssh:box");
    bed.backend.close().await;
}

/// haft on the host confines commands and files there; without it haft reports that commands are not confined.
#[tokio::test(flavor = "multi_thread")]
async fn sb_on_a_host_with_a_haft_commands_are_confined_by_it() {
    let Some(kind) = ssh() else { return };
    let Some(bin) = variable("HAFT_TEST_SSH_BIN", "no directory to install haft in for the host") else {
        return;
    };
    let bed = Bed::new(&kind).await;
    let said = bed.backend.confinement();
    assert!(said.contains("not confined by haft") && said.contains("account on `box`"), "{said}");
    bed.backend.close().await;
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_haft"), Path::new(&bin).join("haft")).unwrap();
    // The state of the host's haft is closed to tools.
    let state = Path::new(&std::env::var_os("HOME").unwrap()).join(".local/state/haft");
    let path = state.join("written-by-a-test");
    fs::create_dir_all(&state).unwrap();
    fs::write(&path, "x").unwrap();
    let bed = Bed::tried(&kind).await;
    let done = match &bed {
        Ok(bed) => {
            let ran = bed.run("touch /etc/written-by-a-test; echo $?; pwd").await;
            let read = bed.call("read_file", json!({ "path": path })).await;
            Some((bed.backend.confinement(), ran, read))
        }
        Err(_) => None,
    };
    fs::remove_file(Path::new(&bin).join("haft")).unwrap();
    fs::remove_file(&path).unwrap();
    let (said, done, read) = done.expect("not connected");
    assert!(said.contains("confined on `box` by the installed haft"), "{said}");
    assert!(done.output.starts_with(b"1\n"), "{done:?}");
    assert!(!Path::new("/etc/written-by-a-test").exists());
    let refused = read.unwrap_err().to_string();
    assert!(refused.contains("its directory does not exist or cannot be entered"), "{refused}");
}
