//! Single hosts of child processes: unmodified programs reach the granted hosts and no other host. All hosts are
//! addresses of this machine, each granted separately.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

mod sockets;
mod ways;

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haft::call::ToolResult;
use haft::grant::{Grant, Root, SandboxMode};
use haft::native::bash::Bash;
use serde_json::{Value, json};

use crate::cli::{Answer, Home};
use crate::common::same_environment;
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

/// The output of haft where a file of `/proc` is covered, as in many containers. The kernel then refuses a new process
/// table. `None` if namespaces are not available.
fn with_covered_processes(home: &Home, arguments: &[&str]) -> Option<Answer> {
    let own = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"];
    let covered = |program: &str| {
        let mut command = Command::new("unshare");
        let script = format!("mount --bind /dev/null /proc/version && {program}");
        command.args(own).args(["sh", "-c", &script]).current_dir(home.work()).stdin(Stdio::null());
        command
    };
    if !covered("true").status().is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: there are no namespaces of mounts and processes");
        return None;
    }
    let haft = home.command(arguments);
    let mut command = covered("\"$0\" \"$@\"");
    same_environment(&haft, command.arg(haft.get_program()).args(haft.get_args()));
    Some(Answer::from(command.output().unwrap()))
}

/// A connection that cannot be handed over is refused with the reason, and is never taken for one.
#[test]
fn where_processes_are_covered_a_host_is_refused() {
    let (open, _) = granted();
    let home = Home::new();
    let why = "single hosts (`hosts`) need a process table of their own; parts of `/proc` are covered here";
    home.write(
        "program.toml",
        &format!("[program]\nname = \"p\"\nversion = \"0.1.0\"\n[sandbox]\nhosts = [\"{}\"]\n", host(open)),
    );
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{open} && head -c 5 <&3");
    let line = json!({ "command": line }).to_string();
    assert_eq!(home.haft(&["call", "bash", &line]).stdout.trim_end(), "hello");
    let Some(refused) = with_covered_processes(&home, &["call", "bash", &line]) else { return };
    assert!(refused.code != 0 && refused.stderr.contains(why), "{} {}", refused.stdout, refused.stderr);
    let doctor = with_covered_processes(&home, &["--json", "doctor"]).unwrap();
    let doctor: Value = serde_json::from_str(&doctor.stdout).unwrap();
    let told = doctor["sandbox"]["self_test"]["done"]["unheld_hosts"].as_str().unwrap_or_default();
    assert!(told.ends_with(why), "{doctor:#}");
    home.write("program.toml", "[program]\nname = \"p\"\nversion = \"0.1.0\"\n");
    let other = json!({ "command": "echo done" }).to_string();
    assert_eq!(with_covered_processes(&home, &["call", "bash", &other]).unwrap().stdout.trim_end(), "done");
}
