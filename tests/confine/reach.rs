//! The effect of `[sandbox]` on reading, the network and sockets of children.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use haft::grant::{Grant, Root, SandboxMode};
use haft::native::bash::Bash;
use haft::tool::ToolError;
use serde_json::json;

use crate::workspace::{Workspace, confiner};

fn root(path: &Path) -> Root {
    Root::resolve(Path::new("/"), path).unwrap()
}

/// A workspace with another grant.
fn workspace(grant: impl Fn(Root) -> Grant) -> Workspace {
    let mut workspace = Workspace::unheard();
    workspace.grant = grant(root(&workspace.path("")));
    workspace
}

fn sandbox(own: Root) -> Grant {
    Grant::sandbox(SandboxMode::Sandbox, own, [])
}

async fn bash(workspace: &Workspace, command: &str) -> Result<String, ToolError> {
    let bash = Bash::new(confiner(), Duration::from_mins(1));
    Ok(workspace.call(&bash, json!({"command": command})).await?.content)
}

/// A server that answers each connection with one word while the test runs.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        listener.incoming().for_each(|stream| drop(stream.unwrap().write_all(b"hello")));
    });
    port
}

/// Connects to the command's own server, to a server of this machine, and to a foreign address.
fn questions(port: u16) -> String {
    format!(
        "python3 - <<'END'
import socket, threading
def ask(address):
    try:
        print(socket.create_connection(address, 5).recv(9).decode())
    except OSError as error:
        print(error.strerror)
own = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=lambda: own.accept()[0].sendall(b'own'), daemon=True).start()
ask(own.getsockname())
ask(('127.0.0.1', {port}))
ask(('192.0.2.1', 9))
END"
    )
}

/// With `network = false` a command reaches its own servers alone.
#[tokio::test]
async fn network_false_leaves_a_command_to_itself() {
    let port = server();
    let cut = workspace(|own| sandbox(own).with_network(false));
    let said = bash(&cut, &questions(port)).await.unwrap();
    assert_eq!(said, "own\nConnection refused\nNetwork is unreachable\n");
}

/// By default a command has the network.
#[tokio::test]
async fn by_default_the_network_is_there() {
    let port = server();
    let open = workspace(sandbox);
    let said = bash(&open, &questions(port)).await.unwrap();
    assert!(said.starts_with("own\nhello\n"), "{said}");
}

/// A command reads the directories of `[sandbox] read` and the workspace, and nothing else.
#[tokio::test]
async fn read_names_all_that_can_be_read() {
    let other = tempfile::tempdir().unwrap();
    let (named, unnamed) = (other.path().join("named"), other.path().join("unnamed"));
    for folder in [&named, &unnamed] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("file"), "content\n").unwrap();
    }
    let limited = workspace(|own| {
        let system = ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(Path::new);
        let none = Grant::none().with_write(own.clone()).with_workspace(own).with_read(root(&named));
        system.into_iter().filter(|path| path.exists()).fold(none, |grant, path| grant.with_read(root(path)))
    });
    let (named, unnamed) = (named.display(), unnamed.display());
    let script = format!(
        "cat {named}/file; echo x > f; cat f; cat {unnamed}/file; ls {unnamed}; ls {named}; echo x > {named}/file"
    );
    let said = bash(&limited, &script).await.unwrap();
    let refused = said.matches("Permission denied").count();
    assert!(said.starts_with("content\nx\n") && said.contains("\nfile\n"), "{said}");
    // The kernel checks read-only before forbidden.
    assert_eq!((refused, said.matches("Read-only").count()), (2, 1), "{said}");
}

/// An unreadable shell cannot run, and the error says so.
#[tokio::test]
async fn a_shell_that_may_not_be_read_is_named() {
    let blind = workspace(|own| Grant::none().with_write(own.clone()).with_workspace(own));
    let error = bash(&blind, "true").await.unwrap_err().to_string();
    assert!(error.contains("cannot start `") && error.contains("Permission denied"), "{error}");
    assert!(error.contains("bash` (the readable directories must include the program"), "{error}");
}

/// The right to all services (`[sandbox] services = ["*"]`) permits the sockets of this machine's services.
#[tokio::test]
async fn unix_sockets_are_opened_on_request() {
    const CONNECT: &str =
        "python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' ";
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let command = format!("{CONNECT} {}", path.display());
    let closed = bash(&workspace(sandbox), &command).await.unwrap();
    assert!(closed.contains("Operation not permitted") && listener.accept().is_err(), "{closed}");
    let open = bash(&workspace(|own| sandbox(own).with_unix_sockets(true)), &command).await.unwrap();
    assert!(open == "(exit code: 0)" && listener.accept().is_ok(), "{open}");
}

/// SB01: in `rwx` a command writes anywhere except hidden and fixed files.
#[tokio::test]
async fn rwx_writes_anywhere_but_what_is_sealed() {
    let outside = tempfile::tempdir().unwrap();
    for name in ["hidden", "fixed"] {
        std::fs::write(outside.path().join(name), "kept").unwrap();
    }
    let free = workspace(|own| {
        let sealed = |name: &str| root(&outside.path().join(name));
        Grant::sandbox(SandboxMode::Rwx, own, []).with_hidden(sealed("hidden")).with_fixed(sealed("fixed"))
    });
    let place = outside.path().display();
    let script =
        format!("cd {place}; echo x > new; echo x > fixed; echo x > hidden; cat fixed hidden new; true");
    let said = bash(&free, &script).await.unwrap();
    assert!(said.ends_with("x\n") && said.contains("kept"), "{said}");
    let read = |name: &str| std::fs::read_to_string(outside.path().join(name)).unwrap();
    assert_eq!([read("new"), read("fixed"), read("hidden")], ["x\n", "kept", "kept"]);
    assert_eq!(said.matches("kept").count(), 1, "{said}");
}

/// SB12: writable, hidden, fixed and readable paths may be missing.
#[tokio::test]
async fn missing_directories_do_not_matter() {
    let missing = tempfile::tempdir().unwrap();
    let missing = |name: &str| root(&missing.path().join(name));
    let grant = |own| {
        let grant = Grant::sandbox(SandboxMode::Sandbox, own, [missing("written"), missing("a/b")]);
        grant
            .with_hidden(missing("hidden/deep"))
            .with_fixed(missing("written/program.toml"))
            .with_read(missing("read"))
    };
    assert_eq!(bash(&workspace(grant), "echo ok").await.unwrap(), "ok\n");
    let rwx = |own| Grant::sandbox(SandboxMode::Rwx, own, []).with_hidden(missing("hidden/deep"));
    assert_eq!(bash(&workspace(rwx), "echo ok").await.unwrap(), "ok\n");
}

/// A crashed command leaves no core file.
#[tokio::test]
async fn a_crash_leaves_no_core_file() {
    let own = workspace(sandbox);
    let said = bash(&own, "ulimit -c unlimited 2>/dev/null; sh -c 'kill -SEGV $$'; ls -A").await.unwrap();
    assert!(!said.contains("core\n") && !said.contains("dumped"), "{said}");
}

/// SB07: a command writes in no directory of the system, `/usr/local` included, nor in the home directory, not even
/// as root.
#[tokio::test]
async fn nothing_of_the_system_can_be_written() {
    const PLACES: &str = "/ /bin /boot /dev /etc /home /lib /opt /proc /root /run /srv /sys /usr /usr/bin \
                          /usr/local /usr/local/bin /var /var/lib /var/tmp";
    let own = workspace(sandbox);
    let name = format!("haft-suite-{}", std::process::id());
    let script =
        format!("for place in {PLACES} $HOME; do echo x > $place/{name}; mkdir $place/{name}-d; done");
    bash(&own, &script).await.unwrap();
    let home = std::env::var("HOME").unwrap();
    let made = PLACES.split_whitespace().chain([home.as_str()]).filter(|place| {
        let place = Path::new(place);
        let file = std::fs::remove_file(place.join(&name)).is_ok();
        std::fs::remove_dir(place.join(format!("{name}-d"))).is_ok() || file
    });
    assert_eq!(made.collect::<Vec<_>>(), [""; 0]);
}

/// SB03: relative paths start in the workspace for the check and for the use, because the kernel does both.
#[tokio::test]
async fn relative_paths_start_in_the_workspace() {
    let own = workspace(sandbox);
    let said = bash(&own, "mkdir a; echo x > a/../file; cd /; echo y > file").await.unwrap();
    assert!(said.contains("file: Read-only file system"), "{said}");
    assert_eq!(std::fs::read_to_string(own.path("file")).unwrap(), "x\n");
    assert!(!Path::new("/file").exists());
}

/// SB08: after a command prevents the sandbox of the next command, the next one fails and does not run with fewer
/// layers: neither with the same confiner nor with another one.
#[tokio::test]
async fn what_a_command_breaks_is_not_done_without() {
    let own = Workspace::unheard();
    let fixed = root(&own.path("program.toml"));
    let mut workspace = Workspace::unheard();
    workspace.grant = sandbox(root(&own.path(""))).with_fixed(fixed);
    let used = confiner();
    // The link is at the place of a fixed file, and haft may end the command for it.
    let breaks = json!({"command": "ln -s /etc/passwd program.toml"});
    let _ = workspace.call(&Bash::new(used.clone(), Duration::from_mins(1)), breaks).await;
    assert!(own.path("program.toml").is_symlink());
    for confiner in [&used, &confiner()] {
        let bash = Bash::new(confiner.clone(), Duration::from_mins(1));
        let result = workspace.call(&bash, json!({"command": "true"})).await;
        assert!(!result.as_ref().is_ok_and(|result| !result.is_error), "{result:?}");
        assert!(confiner.layers().namespaces, "{:?}", confiner.missing());
    }
}
