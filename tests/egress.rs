//! Single hosts of child processes: unmodified programs reach the granted hosts and no other host. All hosts are
//! addresses of this machine, each granted separately.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

mod sockets;
mod ways;

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haft::call::ToolResult;
use haft::grant::{Grant, Root, SandboxMode};
use haft::native::bash::Bash;
use serde_json::{Value, json};

use crate::cli::Home;
use crate::workspace::{Workspace, confiner};

const PROGRAMS: &str = include_str!("egress/programs.py");

/// A workspace whose commands reach these hosts.
fn workspace(hosts: &[String]) -> Workspace {
    let mut workspace = Workspace::unheard();
    let own = Root::resolve(Path::new("/"), &workspace.path("")).unwrap();
    let grant = Grant::sandbox(SandboxMode::Sandbox, own, []).with_network(false);
    workspace.grant = hosts.iter().fold(grant, |grant, host| grant.with_child_host(host.parse().unwrap()));
    workspace
}

async fn bash(workspace: &Workspace, command: &str) -> ToolResult {
    let bash = Bash::new(confiner(), Duration::from_mins(4));
    workspace.call(&bash, json!({ "command": command })).await.unwrap()
}

/// Sends `hello` on every connection, and counts the connections.
fn server(listener: TcpListener) -> (u16, Arc<AtomicUsize>) {
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counting = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            counting.fetch_add(1, Ordering::Relaxed);
            // Some clients disconnect at once.
            let _ = { stream }.write_all(b"hello");
        }
    });
    (port, count)
}

/// A server on a port whose next port is free.
fn granted() -> (u16, Arc<AtomicUsize>) {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return server(listener);
        }
    }
}

fn host(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// This machine's address in its network, determined without sending a packet.
fn own_address() -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    match socket.connect("192.0.2.1:9") {
        Ok(()) => socket.local_addr().unwrap().ip().to_string(),
        Err(_) => "127.0.0.2".to_owned(),
    }
}

#[tokio::test]
async fn programs_reach_a_granted_host_unmodified() {
    let (open, arrived) = granted();
    let workspace = workspace(&[host(open)]);
    std::fs::write(workspace.path("programs.py"), PROGRAMS).unwrap();
    let said = bash(&workspace, &format!("python3 programs.py {open}")).await.content;
    assert!(
        !said.contains("WRONG") && said.lines().filter(|line| line.starts_with("ok ")).count() == 12,
        "{said}"
    );
    assert!(arrived.load(Ordering::Relaxed) >= 320);
    for (program, line) in [
        ("bash", format!("exec 3<>/dev/tcp/127.0.0.1/{open} && head -c 5 <&3")),
        ("curl", format!("curl -s --http0.9 http://127.0.0.1:{open}/")),
        (
            "node",
            format!(
                "node -e \"require('net').connect({open}, '127.0.0.1').on('data', (d) => console.log('' + d)).on('error', console.log)\""
            ),
        ),
        (
            "perl",
            format!(
                "perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(\"127.0.0.1:{open}\")->getline'"
            ),
        ),
        (
            "java",
            format!(
                "echo 'class R {{ public static void main(String[] words) throws Exception {{ System.out.println(new \
                 String(new java.net.Socket(\"127.0.0.1\", {open}).getInputStream().readAllBytes())); }} }}' >R.java && java R.java"
            ),
        ),
    ] {
        if Command::new("which").arg(program).output().is_ok_and(|found| found.status.success()) {
            let said = bash(&workspace, &line).await.content;
            assert!(said.contains("hello"), "{program}: {said}");
        } else {
            eprintln!("SKIPPED: there is no {program}");
        }
    }
}

/// A refusal names the line that allows the connection, with the host's name if known.
#[tokio::test]
async fn a_refusal_names_the_narrowest_line() {
    let (open, _) = granted();
    let (closed, _) = server(TcpListener::bind("127.0.0.1:0").unwrap());
    let workspace = workspace(&[host(open), "localhost:9".into()]);
    let said = bash(&workspace, &format!("exec 3<>/dev/tcp/127.0.0.1/{closed}")).await;
    let line = format!(
        "refused to connect to 127.0.0.1:{closed}; to allow it, add `hosts = [\"127.0.0.1:{closed}\"]` to `[sandbox]`"
    );
    assert!(said.is_error && said.content.contains(&line), "{}", said.content);
    let said =
        bash(&workspace, "python3 -c 'import socket; socket.getaddrinfo(\"not.granted.test\", 80)'").await;
    let line = "refused to look up `not.granted.test`; to allow it, add `hosts = [\"not.granted.test\"]` to `[sandbox]`";
    assert!(said.is_error && said.content.contains(line), "{}", said.content);
}

/// `haft grant` writes the line that a refusal names.
#[test]
fn a_host_is_granted_by_its_line() {
    let home = Home::new();
    let written = || std::fs::read_to_string(home.work().join("program.toml")).unwrap();
    home.write(
        "program.toml",
        "[program]\nname = \"p\"\nversion = \"0.1.0\"\n[sandbox]\nhosts = [\"@npm\"]\n",
    );
    let granted = home.haft(&["grant", "bash", "host=a.test:22"]);
    assert!(
        granted.code == 0 && written().contains("hosts = [\"@npm\", \"a.test:22\"]"),
        "{}",
        granted.stderr
    );
    let opened = home.haft(&["grant", "sandbox", "network"]);
    assert!(opened.code == 0 && written().contains("\"a.test:22\", \"*\"]"), "{}", opened.stderr);
    home.write("program.toml", "[program]\nname = \"p\"\nversion = \"0.1.0\"\n");
    let refused = home.haft(&["grant", "bash", "host=a.test"]);
    assert!(refused.code != 0 && refused.stderr.contains("has no `hosts`"), "{}", refused.stderr);
}

/// Each command reaches only the hosts of its own entry, and the journal records its connections and refusals.
#[test]
fn each_process_reaches_the_hosts_of_its_entry() {
    let ((one, _), (two, _)) = (granted(), granted());
    let home = Home::new();
    let tool = |name: &str, port: u16| {
        format!(
            "[[tools]]\nname = \"{name}\"\ndescription = \"d\"\ncommand = [\"bash\", \"-c\", \"for port in {one} {two}; do \
             (exec 3<>/dev/tcp/127.0.0.1/$port && head -c 5 <&3 && echo \\\" $port\\\") 2>/dev/null; done; exit 0\"]\n\
             [tools.grant]\nread = [\".\"]\nhosts = [\"127.0.0.1:{port}\"]\n"
        )
    };
    let head = "[program]\nname = \"p\"\nversion = \"0.1.0\"\n[sandbox]\nhosts = [\"@npm\"]\n";
    home.write("program.toml", &format!("{head}{}{}", tool("first", one), tool("second", two)));
    for (name, port, other) in [("first", one, two), ("second", two, one)] {
        let answer = home.haft(&["call", &format!("program__p__{name}"), "{}"]);
        let is_held =
            answer.stdout.contains(&format!("hello {port}")) && !answer.stdout.contains(&other.to_string());
        assert!(is_held, "{}{}", answer.stdout, answer.stderr);
    }
    let log = home.haft(&["log", "--json"]);
    let noted: Vec<Value> = log.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let decided = |record: &Value, text: String| record["decisions"].to_string().contains(&text);
    assert!(
        noted.iter().any(|record| decided(record, format!("connected: 127.0.0.1:{one}"))),
        "{}",
        log.stdout
    );
    assert!(noted.iter().any(|record| decided(record, format!("refused: connect to 127.0.0.1:{two}"))));
    let lines = home.haft(&["log", "--net"]).stdout;
    assert!(lines.contains(&format!("connected: 127.0.0.1:{two}")), "{lines}");
}

/// The journal has the kernel's byte counts of each connection, also of a connection that the process leaves open.
#[test]
fn the_bytes_of_each_connection_are_on_record() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                while stream.read_exact(&mut [0; 1000]).is_ok() {
                    stream.write_all(&vec![b'x'; 54_321]).unwrap();
                }
            });
        }
    });
    let home = Home::new();
    let head = "[program]\nname = \"p\"\nversion = \"0.1.0\"\n";
    home.write("program.toml", &format!("{head}[sandbox]\nhosts = [\"127.0.0.1:{port}\"]\n"));
    let client = "import os, socket, sys\n\
         def ask():\n  client = socket.create_connection((\"127.0.0.1\", int(sys.argv[1])))\n  \
         client.sendall(b\"a\" * 1000)\n  left = 54321\n  \
         while left: left -= len(client.recv(left))\n  return client\n\
         ask().close()\nfirst, second = ask(), ask()\nos._exit(0)\n";
    home.write("client.py", client);
    let call = home.call("bash", &json!({ "command": format!("python3 client.py {port}") }));
    assert_eq!(call.code, 0, "{}", call.stderr);
    let lines = home.haft(&["log", "--net"]).stdout;
    let line = |ends: u32| {
        let received = 3 * 54_321 + ends;
        format!("connected: 127.0.0.1:{port}, 3 times, sent 3000 bytes, received {received} bytes")
    };
    // TCP counts the end of the other side, which may arrive before the kernel's report.
    assert!((0..=3).any(|ends| lines.contains(&line(ends))), "{lines}");
}
