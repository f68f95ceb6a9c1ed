//! Services of this machine: a process uses those that its grant names, by port or by unix socket, and no others. The
//! services are real ones on this machine.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

use std::fs;
use std::io::Write;
use std::net::{Ipv6Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use haft::call::ToolResult;
use haft::grant::{Grant, Root, SandboxMode};
use haft::native::bash::Bash;
use serde_json::json;

use crate::cli::Home;
use crate::common::wait::until;
use crate::workspace::{Workspace, confiner};

/// Connects to each of its arguments, and prints the first bytes of the service or the error.
const CLIENT: &str = r#"
import errno, os, socket, sys
for where in sys.argv[1:]:
    kind = socket.SOCK_DGRAM if where.startswith("dgram:") else socket.SOCK_STREAM
    where = where.removeprefix("dgram:")
    try:
        host, _, port = where.rpartition("=")
        if port.isdigit():
            client = socket.create_connection((host or "localhost", int(port)), 20)
        else:
            client = socket.socket(socket.AF_UNIX, kind)
            client.settimeout(20)
            client.connect("\0" + where[1:] if where.startswith("@") else where)
        print(where, client.recv(9).decode() or "silent")
    except OSError as error:
        print(where, errno.errorcode[error.errno])
"#;

/// Sends its name to each client.
fn says(listener: UnixListener, name: &'static str) {
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // Some clients disconnect at once.
            let _ = { stream }.write_all(name.as_bytes());
        }
    });
}

fn service(path: &Path, name: &'static str) {
    says(UnixListener::bind(path).unwrap(), name);
}

fn workspace(change: impl FnOnce(Grant) -> Grant) -> Workspace {
    let mut workspace = Workspace::unheard();
    let own = Root::resolve(Path::new("/"), &workspace.path("")).unwrap();
    fs::write(workspace.path("client.py"), CLIENT).unwrap();
    workspace.grant = change(Grant::sandbox(SandboxMode::Sandbox, own, []));
    workspace
}

async fn bash(workspace: &Workspace, command: &str) -> ToolResult {
    let bash = Bash::new(confiner(), Duration::from_mins(4));
    workspace.call(&bash, json!({ "command": command })).await.unwrap()
}

/// A process reaches a granted socket and no other, with all of the network, without network and with single hosts.
#[tokio::test]
async fn a_granted_socket_is_reached_and_no_other() {
    let place = tempfile::tempdir().unwrap();
    let (granted, other) = (place.path().join("a.sock"), place.path().join("b.sock"));
    service(&granted, "granted");
    service(&other, "other");
    let name = place.path().join("abstract").display().to_string();
    says(UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(), "abstract");
    std::os::unix::fs::symlink(&granted, place.path().join("link")).unwrap();
    for network in ["open", "closed", "single"] {
        let workspace = workspace(|grant| {
            let grant = grant.with_service(granted.to_str().unwrap().parse().unwrap());
            match network {
                "open" => grant,
                "closed" => grant.with_network(false),
                _ => grant.with_network(false).with_child_host("127.0.0.1:9".parse().unwrap()),
            }
        });
        let place = place.path().display();
        let line = format!(
            "python3 client.py {place}/a.sock {place}/link {place}/b.sock @{name} dgram:{place}/a.sock {place}/none; \
             cd {place} && python3 $OLDPWD/client.py a.sock ./b.sock; exit 1"
        );
        let said = bash(&workspace, &line).await.content;
        for line in [
            format!("{place}/a.sock granted"),
            format!("{place}/link granted"),
            format!("{place}/b.sock EACCES"),
            format!("@{name} EACCES"),
            format!("{place}/a.sock EPERM"),
            format!("{place}/none ENOENT"),
            "\na.sock granted\n./b.sock EACCES".to_owned(),
            format!(
                "refused to connect to the service at `{place}/b.sock`; to allow it, add `services = [\"{place}/b.sock\"]` to `[sandbox]`"
            ),
        ] {
            assert!(said.contains(&line), "{network}: {line} is not in\n{said}");
        }
    }
}

/// In a directory that the process can write, the grant applies to the socket's inode, so that renames and links lead
/// to no other service. Elsewhere the grant applies to the path, so that a service can restart.
#[tokio::test]
async fn no_rename_and_no_link_leads_to_another_service() {
    let mut workspace = workspace(|grant| grant);
    let place = tempfile::tempdir().unwrap();
    let socket = |name: &str| workspace.path(name);
    for (name, says) in
        [("a.sock", "granted"), ("b.sock", "other"), ("c.sock", "granted"), ("d.sock", "granted")]
    {
        service(&socket(name), says);
    }
    let elsewhere = place.path().join("e.sock");
    service(&elsewhere, "first");
    for path in [socket("a.sock"), socket("c.sock"), socket("d.sock"), elsewhere.clone()] {
        workspace.grant = workspace.grant.clone().with_service(path.to_str().unwrap().parse().unwrap());
    }
    let again = elsewhere.display().to_string();
    let line = format!(
        "ln -f b.sock a.sock; mv -f c.sock c2.sock; mv -f b.sock d.sock; ln -s d.sock c.sock; \
         python3 client.py a.sock c.sock c2.sock d.sock {again}; mkfifo go; touch ready; cat go; \
         python3 client.py {again}"
    );
    let ready = workspace.path("ready");
    let go = workspace.path("go");
    let restarted = std::thread::spawn(move || {
        until("the first clients", || ready.exists());
        fs::remove_file(&elsewhere).unwrap();
        service(&elsewhere, "second");
        fs::write(go, "").unwrap();
    });
    let said = bash(&workspace, &line).await.content;
    restarted.join().unwrap();
    for line in ["a.sock EACCES", "\nc.sock EACCES", "c2.sock granted", "d.sock EACCES"] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    assert!(said.contains(&format!("{again} first")) && said.contains(&format!("{again} second")), "{said}");
}

/// A granted port is a port of this machine, over IPv4 and IPv6.
#[tokio::test]
async fn a_granted_port_is_reached_and_no_other() {
    let port = |listener: TcpListener| {
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let _ = { stream }.write_all(b"hello");
            }
        });
        port
    };
    let four = port(TcpListener::bind("127.0.0.1:0").unwrap());
    let other = port(TcpListener::bind("127.0.0.1:0").unwrap());
    let six = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).map(port);
    let mut workspace = workspace(|grant| grant.with_network(false));
    for port in std::iter::once(four).chain(six.iter().copied()) {
        workspace.grant = workspace.grant.clone().with_service(port.to_string().parse().unwrap());
    }
    let six = six.map(|six| format!("::1={six}")).unwrap_or_default();
    let said = bash(&workspace, &format!("python3 client.py {four} {other} {six}")).await.content;
    assert!(
        said.contains(&format!("{four} hello")) && said.contains(&format!("{other} ECONNREFUSED")),
        "{said}"
    );
    assert!(six.is_empty() || said.contains(&format!("{six} hello")), "{said}");
}

/// A service can be granted in program.toml, by the line of a refusal, and by `haft grant`; a client finds its
/// service by its variable.
#[test]
fn a_service_is_granted_by_its_line() {
    let home = Home::new();
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("agent");
    let head = "[program]\nname = \"p\"\nversion = \"0.1.0\"\n[sandbox]\nhosts = [\"@npm\"]\n";
    home.write("program.toml", head);
    let started = Command::new("ssh-agent").args(["-D", "-a"]).arg(&socket).stdout(Stdio::null()).spawn();
    let Ok(mut agent) = started else { return eprintln!("SKIPPED: there is no ssh-agent") };
    until("the agent", || socket.exists());
    let call = |variable: bool| {
        let mut call = home.command(&["call", "bash", r#"{"command": "ssh-add -l; exit 1"}"#]);
        if variable {
            call.env("SSH_AUTH_SOCK", &socket);
        } else {
            call.env_remove("SSH_AUTH_SOCK");
        }
        let output = call.output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let asked = format!("{{\"command\": \"SSH_AUTH_SOCK={} ssh-add -l; exit 1\"}}", socket.display());
    let mut refused = home.command(&["call", "bash", &asked]);
    let refused = refused.env("SSH_AUTH_SOCK", &socket).output().unwrap();
    let refused = String::from_utf8_lossy(&[refused.stdout, refused.stderr].concat()).into_owned();
    assert!(refused.contains("add `services = [\"ssh-agent\"]` to `[sandbox]`"), "{refused}");
    let granted = home.haft(&["grant", "bash", "service=ssh-agent", "service=5432"]);
    let written = fs::read_to_string(home.work().join("program.toml")).unwrap();
    assert!(
        granted.code == 0 && written.contains("services = [\"ssh-agent\", \"5432\"]"),
        "{}",
        granted.stderr
    );
    let said = call(true);
    assert!(said.contains("The agent has no identities"), "{said}");
    assert!(!call(false).contains("no identities"));
    let trusted = home.haft(&["trust"]);
    let told = format!("{}{}", trusted.stdout, trusted.stderr);
    assert!(told.contains("ssh-agent, with which it logs in as you"), "{told}");
    agent.kill().unwrap();
    agent.wait().unwrap();
}
