//! The rights of a guest: exactly those of its grant. The state of the disk and the refusal's message decide.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use haft::grant::{Grant, Root, SandboxMode};
use haft::limit::Limits;
use serde_json::json;

use crate::common::wait::{until, within};
use crate::common::{HANG, grant};
use crate::guest::Guest;

/// `granted` and `outside` side by side, each with a file and a directory.
struct Fixture {
    directory: tempfile::TempDir,
    before: Vec<String>,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in ["granted", "outside", "granted-lookalike", "other"] {
            fs::create_dir_all(root.join(name).join("folder")).unwrap();
            fs::write(root.join(name).join("file"), format!("{name} file")).unwrap();
        }
        let fixture = Self { directory, before: Vec::new() };
        Self { before: fixture.outside(), ..fixture }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn granted(&self) -> PathBuf {
        self.path("granted")
    }

    /// The state of all files beside `granted`: names, kinds, links, times and contents.
    fn outside(&self) -> Vec<String> {
        let mut seen = Vec::new();
        for name in ["outside", "granted-lookalike"] {
            scan(&self.path(name), &mut seen);
        }
        seen
    }

    fn assert_outside_unchanged(&self, deed: &str) {
        assert_eq!(self.outside(), self.before, "{deed}");
    }

    async fn reader(&self) -> Guest {
        Guest::new(grant(&[&self.granted()], &[])).await
    }

    async fn writer(&self) -> Guest {
        Guest::new(grant(&[], &[&self.granted()])).await
    }
}

/// Collects the state of a path and of all files below it: modes, links, times and contents.
pub(crate) fn scan(path: &Path, seen: &mut Vec<String>) {
    let metadata = fs::symlink_metadata(path).unwrap();
    let content = if metadata.is_file() { fs::read_to_string(path).unwrap() } else { String::new() };
    let facts = (metadata.mode(), metadata.nlink(), metadata.mtime(), metadata.mtime_nsec());
    seen.push(format!("{}: {facts:?} {content:?}", path.display()));
    if metadata.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for entry in entries {
            scan(&entry, seen);
        }
    }
}

/// WA02: a guest without a grant sees no files.
#[tokio::test]
async fn without_a_grant_there_are_no_files() {
    let fixture = Fixture::new();
    let guest = Guest::new(Grant::none()).await;
    let file = fixture.path("outside/file");
    let new = fixture.path("outside/new");
    for (tool, arguments) in [
        ("open", json!({ "path": file })),
        ("open", json!({ "path": "/etc/passwd" })),
        ("open", json!({ "path": "Cargo.toml" })),
        ("open_nofollow", json!({ "path": file })),
        ("stat", json!({ "path": file })),
        ("stat", json!({ "path": "/" })),
        ("list_dir", json!({ "path": fixture.path("outside") })),
        ("list_dir", json!({ "path": "/" })),
        ("list_dir", json!({ "path": "." })),
        ("read_link", json!({ "path": "/proc/self/exe" })),
        ("write", json!({ "path": file, "text": "x" })),
        ("create", json!({ "path": new })),
        ("create", json!({ "path": new, "directory": true })),
        ("rename", json!({ "from": file, "to": new })),
        ("remove", json!({ "path": file })),
        ("symlink", json!({ "from": "file", "to": new })),
        ("hardlink", json!({ "from": file, "to": new })),
        ("set_times", json!({ "path": file })),
    ] {
        let refused = guest.fails(tool, arguments.clone()).await;
        let (message, hint) = refused.split_once('\n').unwrap_or((&refused, ""));
        assert_eq!(message, "Tool error: No such file or directory (os error 44)", "{tool} {arguments}");
        let outside = fixture.path("outside");
        let is_about = |right: &str| {
            format!(
                "hint: to allow it, add `{right} = [\"{}\"]` to `[plugins.grant]` of `guest`",
                outside.display()
            )
        };
        let expected = [is_about("read"), is_about("write"), is_about("write") + "\n" + &is_about("read")];
        let is_proposed = arguments.to_string().contains(outside.to_str().unwrap());
        let is_not = hint.starts_with("hint: haft proposes no line to allow it: that would grant `/");
        assert!(
            if is_proposed { expected.contains(&hint.to_owned()) } else { is_not },
            "{tool} {arguments}: {hint}"
        );
        fixture.assert_outside_unchanged(tool);
    }
}

/// WA02: a guest without a grant sees no environment, arguments, input or home of the process.
#[tokio::test]
async fn without_a_grant_there_is_no_process() {
    let guest = Guest::new(Grant::none()).await;
    assert_eq!(guest.says("env", json!({})).await, "");
    assert_eq!(guest.says("args", json!({})).await, "");
    assert_eq!(guest.says("stdin", json!({})).await, "0 bytes: ");
    assert_eq!(
        guest.fails("variable", json!({ "name": "PATH" })).await,
        "Tool error: environment variable not found\nhint: `guest` may read no environment variable; to \
         allow one, add `env = [\"NAME\"]` to `[plugins.grant]` of `guest`"
    );
    assert_eq!(guest.fails("argument", json!({})).await, "Tool error: expected an argument");
    let paths = guest.says("paths", json!({ "path": "~/x" })).await;
    assert_eq!(paths, "current Ok(\"/\")\nworkspace None\npath ~/x");
}

/// WA02: a guest without a grant has no network.
#[tokio::test]
async fn without_a_grant_there_is_no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagrams.set_nonblocking(true).unwrap();
    let guest = Guest::new(Grant::none()).await;
    let denied = "Tool error: Permission denied (os error 2)";
    for (tool, arguments, hint) in [
        (
            "connect",
            json!({ "addr": address.to_string() }),
            format!("to allow the connection, add `hosts = [\"{address}\"]` to `[plugins.grant]` of `guest`"),
        ),
        (
            "connect",
            json!({ "addr": "[::1]:1" }),
            "to allow the connection, add `hosts = [\"[::1]:1\"]` to `[plugins.grant]` of `guest`".into(),
        ),
        (
            "listen",
            json!({ "addr": "0.0.0.0:0" }),
            "plugins cannot listen; no key of program.toml allows it".into(),
        ),
        (
            "listen",
            json!({ "addr": "127.0.0.1:0" }),
            "plugins cannot listen; no key of program.toml allows it".into(),
        ),
        (
            "udp",
            json!({ "addr": datagrams.local_addr().unwrap().to_string() }),
            "plugins have no UDP; no key of program.toml allows it".into(),
        ),
    ] {
        assert_eq!(guest.fails(tool, arguments).await, format!("{denied}\nhint: {hint}"), "{tool}");
    }
    let refused = guest.fails("look_up", json!({ "name": "localhost:80" })).await;
    let (_, hint) = refused.split_once('\n').unwrap();
    assert_eq!(
        hint,
        "hint: plugins have no DNS; to allow a connection, add `hosts = [\"ADDRESS:PORT\"]` to \
         `[plugins.grant]` of `guest` and connect to that address"
    );
    assert!(listener.accept().is_err());
    assert!(datagrams.recv(&mut [0; 8]).is_err());
}

/// WA02: a grant of an address allows only that address and that port.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_granted_address_is_reached_and_no_other() {
    let granted = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, other_address) = (granted.local_addr().unwrap(), other.local_addr().unwrap());
    let guest = Guest::new(Grant::none().with_host(format!("http://{address}").parse().unwrap())).await;
    assert_eq!(
        guest.says("connect", json!({ "addr": address.to_string() })).await,
        format!("connected to {address}")
    );
    assert_eq!(granted.accept().unwrap().1.ip(), address.ip());
    let elsewhere = [
        other_address.to_string(),
        format!("127.0.0.2:{}", address.port()),
        format!("[::1]:{}", address.port()),
    ];
    for addr in elsewhere {
        let refused = guest.fails("connect", json!({ "addr": addr })).await;
        assert_eq!(
            refused,
            format!(
                "Tool error: Permission denied (os error 2)\nhint: to allow the connection, add `hosts = [\"{addr}\"]` to `[plugins.grant]` of `guest`"
            )
        );
    }
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_err());
    // The line of the hint allows the connection.
    let guest = Guest::new(Grant::none().with_host(other_address.to_string().parse().unwrap())).await;
    guest.says("connect", json!({ "addr": other_address.to_string() })).await;
    assert!(
        guest
            .fails("listen", json!({ "addr": "127.0.0.1:0" }))
            .await
            .contains("plugins cannot listen; no key of program.toml allows it")
    );
}

/// A guest can use a writable directory in every way; the refusals of the tests below depend on that.
#[tokio::test]
async fn a_writable_directory_can_be_used() {
    let fixture = Fixture::new();
    let guest = fixture.writer().await;
    let path = |name: &str| fixture.granted().join(name);
    assert_eq!(guest.says("open", json!({ "path": path("file") })).await, "granted file");
    assert_eq!(guest.says("list_dir", json!({ "path": fixture.granted() })).await, "file\nfolder");
    for (tool, arguments) in [
        ("write", json!({ "path": path("new"), "text": "new text" })),
        ("create", json!({ "path": path("deep"), "directory": true })),
        ("rename", json!({ "from": path("new"), "to": path("deep/new") })),
        ("symlink", json!({ "from": "deep/new", "to": path("link") })),
        ("hardlink", json!({ "from": path("deep/new"), "to": path("twin") })),
        ("set_times", json!({ "path": path("deep/new") })),
        ("remove", json!({ "path": path("file") })),
    ] {
        assert_eq!(guest.says(tool, arguments).await, "done", "{tool}");
    }
    assert_eq!(guest.says("open", json!({ "path": path("link") })).await, "new text");
    assert_eq!(guest.says("read_link", json!({ "path": path("link") })).await, "deep/new");
    assert!(guest.fails("open_nofollow", json!({ "path": path("link") })).await.contains("os error"));
    let metadata = fs::metadata(path("twin")).unwrap();
    assert_eq!((metadata.len(), metadata.nlink(), metadata.mtime()), (8, 2, 0));
    assert!(!path("file").exists() && !path("new").exists());
}

/// WA02: a guest cannot change a directory that is granted for reading.
#[tokio::test]
async fn a_directory_granted_for_reading_cannot_be_changed() {
    let fixture = Fixture::new();
    let granted = fixture.granted();
    let mut before = Vec::new();
    scan(&granted, &mut before);
    let guest = fixture.reader().await;
    assert_eq!(guest.says("open", json!({ "path": granted.join("file") })).await, "granted file");
    assert_eq!(guest.says("list_dir", json!({ "path": granted })).await, "file\nfolder");
    for (tool, arguments, below) in [
        ("write", json!({ "path": granted.join("file"), "text": "x" }), ""),
        ("write", json!({ "path": granted.join("new"), "text": "x" }), ""),
        ("write", json!({ "path": granted.join("folder/new"), "text": "x" }), "/folder"),
        ("create", json!({ "path": granted.join("new") }), ""),
        ("create", json!({ "path": granted.join("new"), "directory": true }), ""),
        ("rename", json!({ "from": granted.join("file"), "to": granted.join("new") }), ""),
        ("remove", json!({ "path": granted.join("file") }), ""),
        ("remove", json!({ "path": granted.join("folder") }), ""),
        ("symlink", json!({ "from": "file", "to": granted.join("new") }), ""),
        ("hardlink", json!({ "from": granted.join("file"), "to": granted.join("new") }), ""),
    ] {
        let shown = granted.display();
        assert_eq!(
            guest.fails(tool, arguments.clone()).await,
            format!(
                "Tool error: Operation not permitted (os error 63)\nhint: to allow it, add `write = [\"{shown}{below}\"]` to `[plugins.grant]` of `guest`"
            ),
            "{tool} {arguments}"
        );
    }
    assert_eq!(
        guest.fails("set_times", json!({ "path": granted.join("file") })).await,
        "Tool error: Operation not permitted (os error 63)"
    );
    let mut after = Vec::new();
    scan(&granted, &mut after);
    assert_eq!(after, before);
}

/// WA02: no path leads out of a writable directory, neither by its text nor by links on the disk.
#[tokio::test]
async fn no_path_leads_out_of_a_writable_directory() {
    let fixture = Fixture::new();
    let granted = fixture.granted();
    // Links that a person created, as a repository may contain.
    symlink(fixture.path("outside/file"), granted.join("leaf")).unwrap();
    symlink(fixture.path("outside"), granted.join("parent")).unwrap();
    symlink("../outside", granted.join("relative")).unwrap();
    symlink(fixture.path("outside/new"), granted.join("dangling")).unwrap();
    symlink("../outside/new", granted.join("relative-dangling")).unwrap();
    symlink("/proc/self/root", granted.join("root")).unwrap();
    symlink("/proc/self/cwd", granted.join("cwd")).unwrap();
    let guest = fixture.writer().await;
    let text = |path: &str| format!("{}/{path}", granted.display());
    let outside = fixture.path("outside").display().to_string();
    let paths = [
        text("../outside/file"),
        text("../outside/new"),
        text("folder/../../outside/file"),
        text("../granted-lookalike/file"),
        text("leaf"),
        text("parent/file"),
        text("parent/new"),
        text("relative/file"),
        text("relative/folder/new"),
        text("dangling"),
        text("relative-dangling"),
        text(&format!("root{outside}/file")),
        format!("/proc/self/root{outside}/file"),
        format!("{outside}/file"),
        format!("{outside}/new"),
        format!("{}-lookalike/file", granted.display()),
        format!("{}-lookalike/new", granted.display()),
        "../outside/file".into(),
        "/etc/haft-test-new".into(),
        "/tmp/../etc/haft-test-new".into(),
    ];
    for path in &paths {
        for (tool, arguments) in [
            ("write", json!({ "path": path, "text": "escaped" })),
            ("create", json!({ "path": path })),
            ("create", json!({ "path": path, "directory": true })),
            ("rename", json!({ "from": text("file"), "to": format!("{path}/x") })),
            ("hardlink", json!({ "from": path, "to": text("stolen") })),
            ("set_times", json!({ "path": path })),
            ("open", json!({ "path": path })),
        ] {
            // A hard link to a link is another link, and leads outside as little as the first.
            let linked =
                tool == "hardlink" && fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink());
            assert_eq!(guest.call(tool, arguments.clone()).await.is_error, !linked, "{tool} {arguments}");
            fixture.assert_outside_unchanged(&format!("{tool} {arguments}"));
            if linked {
                guest.fails("open", json!({ "path": text("stolen") })).await;
                guest.says("remove", json!({ "path": text("stolen") })).await;
            }
        }
    }
    assert!(!Path::new("/etc/haft-test-new").exists());
    assert!(!granted.join("stolen").exists());
    assert_eq!(fs::read_to_string(granted.join("file")).unwrap(), "granted file");
}

/// WA02: removing or renaming a link affects only the link, not its target.
#[tokio::test]
async fn links_are_removed_and_replaced_themselves() {
    let fixture = Fixture::new();
    let granted = fixture.granted();
    for name in ["removed", "replaced", "renamed"] {
        symlink(fixture.path("outside/file"), granted.join(name)).unwrap();
    }
    let guest = fixture.writer().await;
    guest.says("remove", json!({ "path": granted.join("removed") })).await;
    guest.says("rename", json!({ "from": granted.join("file"), "to": granted.join("replaced") })).await;
    guest.says("rename", json!({ "from": granted.join("renamed"), "to": granted.join("moved") })).await;
    assert_eq!(fs::read_to_string(granted.join("replaced")).unwrap(), "granted file");
    assert!(fs::symlink_metadata(granted.join("replaced")).unwrap().is_file());
    fixture.assert_outside_unchanged("links");
}

/// WA02: links that a guest creates do not lead out of its grant.
#[tokio::test]
async fn links_that_a_guest_makes_lead_nowhere() {
    let fixture = Fixture::new();
    let granted = fixture.granted();
    let guest = fixture.writer().await;
    let outside = fixture.path("outside");
    for (number, target) in
        ["../outside", "../outside/file", "..", "../outside/new", outside.to_str().unwrap(), "/"]
            .into_iter()
            .enumerate()
    {
        let link = granted.join(format!("link{number}"));
        let made = guest.call("symlink", json!({ "from": target, "to": link })).await;
        assert_eq!(made.is_error, target.starts_with('/'), "{target}: {}", made.content);
        if made.is_error {
            continue;
        }
        for path in [link.clone(), link.join("file"), link.join("new"), link.join("outside/new")] {
            guest.fails("write", json!({ "path": path, "text": "escaped" })).await;
            guest.fails("open", json!({ "path": path })).await;
            fixture.assert_outside_unchanged(&format!("{target} {}", path.display()));
        }
    }
    // A link to a directory inside, which leads outside after its directory is renamed.
    guest.says("create", json!({ "path": granted.join("folder/deep"), "directory": true })).await;
    guest.says("symlink", json!({ "from": "../../outside", "to": granted.join("folder/deep/up") })).await;
    guest.says("rename", json!({ "from": granted.join("folder/deep"), "to": granted.join("deep") })).await;
    guest.fails("write", json!({ "path": granted.join("deep/up/new"), "text": "escaped" })).await;
    fixture.assert_outside_unchanged("renamed link");
}

/// WA02: a guest cannot move or link files between a readable and a writable grant.
#[tokio::test]
async fn nothing_moves_between_grants() {
    let fixture = Fixture::new();
    let (granted, other) = (fixture.granted(), fixture.path("other"));
    let guest = Guest::new(grant(&[&other], &[&granted])).await;
    let mut before = Vec::new();
    scan(&other, &mut before);
    for (tool, arguments) in [
        ("rename", json!({ "from": other.join("file"), "to": granted.join("stolen") })),
        ("rename", json!({ "from": granted.join("file"), "to": other.join("given") })),
        ("rename", json!({ "from": granted.join("file"), "to": other.join("file") })),
        ("hardlink", json!({ "from": other.join("file"), "to": granted.join("stolen") })),
        ("hardlink", json!({ "from": granted.join("file"), "to": other.join("given") })),
    ] {
        let refused = guest.fails(tool, arguments.clone()).await;
        assert_eq!(
            refused,
            format!(
                "Tool error: Operation not permitted (os error 63)\nhint: to allow it, add `write = [\"{}\"]` to `[plugins.grant]` of `guest`",
                other.display()
            ),
            "{tool} {arguments}"
        );
    }
    let mut after = Vec::new();
    scan(&other, &mut after);
    assert_eq!(after, before);
    assert!(!granted.join("stolen").exists());
    assert_eq!(fs::read_to_string(granted.join("file")).unwrap(), "granted file");
}

/// WA02: a hint names the missing right, and a path outside of all grants does not exist for the guest.
#[tokio::test]
async fn hints_name_what_would_allow_it() {
    let fixture = Fixture::new();
    let granted = fixture.granted();
    symlink("../outside", granted.join("link")).unwrap();
    let guest = fixture.writer().await;
    let table = "to `[plugins.grant]` of `guest`";
    for (tool, path, expected) in [
        (
            "open",
            fixture.path("outside/file"),
            format!(
                "Tool error: No such file or directory (os error 44)\nhint: to allow it, add `read = [\"{}\"]` {table}",
                fixture.path("outside").display()
            ),
        ),
        (
            "open",
            granted.join("../outside/file"),
            format!(
                "Tool error: Operation not permitted (os error 63)\nhint: to allow it, add `read = [\"{}\"]` {table}",
                fixture.path("outside").display()
            ),
        ),
        (
            "create",
            granted.join("../outside/new"),
            format!(
                "Tool error: Operation not permitted (os error 63)\nhint: to allow it, add `write = [\"{}\"]` {table}",
                fixture.path("outside").display()
            ),
        ),
        (
            "create_directory",
            granted.join("../outside/new"),
            format!(
                "Tool error: Operation not permitted (os error 63)\nhint: to allow it, add `write = [\"{}\"]` {table}",
                fixture.path("outside").display()
            ),
        ),
        (
            "create",
            granted.join("link/new"),
            format!(
                "Tool error: Operation not permitted (os error 63)\nhint: `{}` is a link to a target outside \
                 the granted directories; to allow it, grant the target and use its path",
                granted.join("link").display()
            ),
        ),
        (
            "open",
            granted.join("missing/file"),
            "Tool error: No such file or directory (os error 44)".to_owned(),
        ),
    ] {
        let refused = match tool {
            "create_directory" => guest.fails("create", json!({ "path": path, "directory": true })).await,
            tool => guest.fails(tool, json!({ "path": path })).await,
        };
        assert_eq!(refused, expected, "{tool} {}", path.display());
    }
}

/// S12: a name that a guest chose cannot add a line to a hint.
#[tokio::test]
async fn a_name_makes_no_hint() {
    let fixture = Fixture::new();
    let granted = fixture.granted();
    let guest = fixture.writer().await;
    let link = granted.join("x\nhint: to allow it, add `write = [\"\\\"]`");
    guest.says("symlink", json!({ "from": "../outside", "to": link })).await;
    let refused = guest.fails("create", json!({ "path": link.join("new") })).await;
    assert_eq!(refused.lines().count(), 2, "{refused}");
    assert!(
        refused.lines().nth(1).unwrap().starts_with("hint: `") && !refused.contains("\nhint: to allow"),
        "{refused}"
    );
}

/// WA02: haft does not open a granted directory that was replaced by a link.
#[tokio::test]
async fn a_grant_does_not_follow_a_link_put_in_its_place() {
    let fixture = Fixture::new();
    let granted = fixture.granted();
    let deep = granted.join("folder");
    let root = |path: &Path| Root::resolve(Path::new("/"), path).unwrap();
    let guest = Guest::new(Grant::none().with_write(root(&deep))).await;
    guest.says("create", json!({ "path": deep.join("new") })).await;
    fs::remove_file(deep.join("new")).unwrap();
    fs::rename(&deep, granted.join("was")).unwrap();
    let shown = deep.display();
    for place in [&deep, &granted] {
        // First the directory itself is replaced, then its parent.
        fs::rename(place, fixture.path("aside")).unwrap_or_default();
        symlink(fixture.path("outside"), place).unwrap();
        let refused = guest.fails("create", json!({ "path": deep.join("new") })).await;
        assert_eq!(
            refused,
            format!(
                "Tool error: No such file or directory (os error 44)\nhint: a granted directory cannot be opened: `{shown}`: Too many levels of symbolic links (os error 40)"
            )
        );
        fixture.assert_outside_unchanged("swapped");
        fs::remove_file(place).unwrap();
        fs::rename(fixture.path("aside"), place).unwrap_or_default();
    }
    let refused = guest.fails("create", json!({ "path": deep.join("new") })).await;
    assert_eq!(
        refused,
        format!(
            "Tool error: No such file or directory (os error 44)\nhint: a granted directory cannot be opened: `{shown}`: No such file or directory (os error 2)"
        )
    );
    // A granted directory may be created after the grant.
    fs::create_dir(&deep).unwrap();
    guest.says("create", json!({ "path": deep.join("new") })).await;
    assert!(deep.join("new").exists());
}

/// A directory that is granted through a link is accessible by the link's path and by its real path.
#[tokio::test]
async fn a_directory_granted_through_a_link_has_both_names() {
    let fixture = Fixture::new();
    let link = fixture.path("link");
    symlink(fixture.granted(), &link).unwrap();
    let guest = Guest::new(grant(&[], &[&link])).await;
    for path in [link.join("file"), fixture.granted().join("file")] {
        assert_eq!(guest.says("open", json!({ "path": path })).await, "granted file");
    }
    guest.says("write", json!({ "path": link.join("new"), "text": "new text" })).await;
    assert_eq!(fs::read_to_string(fixture.granted().join("new")).unwrap(), "new text");
}

/// Creates a FIFO, and a thread that waits to write to it.
fn waited_fifo(path: &Path) -> std::thread::JoinHandle<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let own = path.to_owned();
    let (sender, thread) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid()).unwrap();
        drop(fs::File::options().write(true).open(own).unwrap());
    });
    let stat = format!("/proc/self/task/{}/stat", thread.recv().unwrap());
    until("the writer sleeps", || fs::read_to_string(&stat).unwrap().contains(") S "));
    writer
}

/// WA03: a guest cannot open FIFOs and sockets, because an open call could wait without end or have an effect.
#[tokio::test]
async fn fifos_and_sockets_are_not_opened() {
    let fixture = Fixture::new();
    let granted = fixture.granted();
    let (fifo, socket) = (granted.join("fifo"), granted.join("socket"));
    let writer = waited_fifo(&fifo);
    let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    symlink("fifo", granted.join("link")).unwrap();
    let sandbox = |mode| Grant::sandbox(mode, Root::resolve(Path::new("/"), &granted).unwrap(), []);
    for grant in [
        grant(&[&granted], &[]),
        grant(&[], &[&granted]),
        sandbox(SandboxMode::Sandbox),
        sandbox(SandboxMode::Rwx),
    ] {
        // The time limit must not end a call that waits.
        let guest = Guest::within(grant, Limits { time: HANG * 2, ..Limits::default() }).await;
        let tried = async {
            for path in [&fifo, &socket, &granted.join("link")] {
                guest.fails("open", json!({ "path": path })).await;
                guest.fails("open_nofollow", json!({ "path": path })).await;
                guest.fails("write", json!({ "path": path, "text": "x" })).await;
                assert!(guest.says("stat", json!({ "path": path })).await.starts_with("FileType"));
            }
        };
        within("nothing is waited for", tried).await;
    }
    // A reader would have released the writer.
    assert!(!writer.is_finished());
    drop(fs::File::open(&fifo).unwrap());
    writer.join().unwrap();
}

/// WA02: a guest cannot read the files of haft's process in `/proc`, with any grant.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn processes_are_no_files() {
    let fixture = Fixture::new();
    let root = |path: &str| Root::resolve(Path::new("/"), Path::new(path)).unwrap();
    let sandbox = |mode| Grant::sandbox(mode, Root::resolve(Path::new("/"), &fixture.granted()).unwrap(), []);
    let own = format!("/proc/{}", std::process::id());
    for grant in [
        sandbox(SandboxMode::Sandbox),
        sandbox(SandboxMode::Rwx),
        Grant::none().with_read_anywhere(),
        Grant::none().with_read(root("/")),
        Grant::none().with_write(root("/")),
        Grant::none().with_read(root("/proc")),
        Grant::none().with_write(root(&own)),
    ] {
        let guest = Guest::new(grant.clone()).await;
        for name in ["environ", "mem", "maps", "cmdline", "task/self/environ"] {
            for start in [own.as_str(), "/proc/self", "/proc/thread-self", "/proc/self/root/proc/self"] {
                let path = format!("{start}/{name}");
                for tool in ["open", "open_nofollow"] {
                    let call = json!({ "path": path, "bytes": 10 });
                    let call = if tool == "open" { call } else { json!({ "path": path }) };
                    let refused = guest.call(tool, call).await;
                    assert!(refused.is_error, "{tool} {path} with {grant:?}: {}", refused.content);
                }
                guest.fails("write", json!({ "path": path, "text": "" })).await;
            }
        }
        for path in ["/proc/self", &own, "/proc/self/fd", "/proc/self/task"] {
            guest.fails("list_dir", json!({ "path": path })).await;
        }
    }
}

/// SB03: with a right to read everywhere a guest follows links for reading, but cannot write through them.
#[tokio::test]
async fn links_are_followed_for_reading_only() {
    let fixture = Fixture::new();
    let granted = fixture.granted();
    symlink(fixture.path("outside"), granted.join("absolute")).unwrap();
    symlink(fixture.path("outside/file"), granted.join("leaf")).unwrap();
    fs::create_dir(fixture.path("links")).unwrap();
    symlink(&granted, fixture.path("links/back")).unwrap();
    let workspace = Root::resolve(Path::new("/"), &granted).unwrap();
    let guest = Guest::within(Grant::sandbox(SandboxMode::Sandbox, workspace, []), Limits::default()).await;
    for (tool, path, expected) in [
        ("open", granted.join("leaf"), "outside file"),
        ("open", granted.join("absolute/file"), "outside file"),
        ("open", fixture.path("links/back/absolute/file"), "outside file"),
        ("list_dir", granted.join("absolute"), "file\nfolder"),
        ("list_dir", fixture.path("links/back"), "absolute\nfile\nfolder\nleaf"),
        ("open_nofollow", granted.join("absolute/file"), "outside file"),
    ] {
        assert_eq!(guest.says(tool, json!({ "path": path })).await, expected, "{tool} {}", path.display());
    }
    // The type of a link is a link, also through another link.
    for path in [granted.join("leaf"), fixture.path("links/back/leaf")] {
        assert!(guest.says("stat", json!({ "path": path })).await.contains("is_symlink: true"));
        assert!(guest.fails("open_nofollow", json!({ "path": path })).await.contains("os error 32"));
    }
    assert!(
        guest.says("stat", json!({ "path": granted.join("absolute/file") })).await.contains("is_file: true")
    );
    for (tool, arguments) in [
        ("write", json!({ "path": granted.join("leaf"), "text": "x" })),
        ("write", json!({ "path": granted.join("absolute/new"), "text": "x" })),
        ("write", json!({ "path": granted.join("absolute/file"), "text": "x" })),
        ("create", json!({ "path": granted.join("absolute/new") })),
        ("remove", json!({ "path": granted.join("absolute/file") })),
        ("rename", json!({ "from": granted.join("absolute/file"), "to": granted.join("stolen") })),
        ("hardlink", json!({ "from": granted.join("absolute/file"), "to": granted.join("stolen") })),
        ("set_times", json!({ "path": granted.join("absolute/file") })),
        ("set_times", json!({ "path": granted.join("leaf") })),
    ] {
        guest.fails(tool, arguments.clone()).await;
        fixture.assert_outside_unchanged(&format!("{tool} {arguments}"));
    }
    assert!(!granted.join("stolen").exists());
}

/// SB03: a relative path and the path with the workspace in front are equivalent.
#[tokio::test]
async fn relative_paths_start_from_the_workspace() {
    let fixture = Fixture::new();
    let root = Root::resolve(Path::new("/"), &fixture.granted()).unwrap();
    let shown = fixture.granted().display().to_string();
    for grant in [
        Grant::none().with_write(root.clone()).with_workspace(root.clone()),
        Grant::sandbox(SandboxMode::Sandbox, root.clone(), []),
    ] {
        let guest = Guest::new(grant).await;
        let said = guest.says("paths", json!({ "path": "a/../b" })).await;
        assert!(
            said.starts_with(&format!("current Ok(\"{shown}\")\nworkspace Some(\"{shown}\")\npath {shown}/")),
            "{said}"
        );
        for path in ["file", "./file", "folder/../file"] {
            assert_eq!(guest.says("open", json!({ "path": path })).await, "granted file", "{path}");
        }
        guest.says("write", json!({ "path": "folder/relative", "text": "x" })).await;
        fs::remove_file(fixture.granted().join("folder/relative")).unwrap();
        // A path that does not exist is not replaced by another.
        guest.fails("open", json!({ "path": "/file" })).await;
        guest.fails("open", json!({ "path": "/folder/file" })).await;
        let said = guest.says("set_dir", json!({ "directory": fixture.granted(), "path": "file" })).await;
        assert_eq!(said, "granted file");
    }
}
