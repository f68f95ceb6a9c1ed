//! The fixture of a case: a workspace, files outside that must not change, and target processes and services. Two
//! cases share nothing.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use haft::grant::{Grant, Root, SandboxMode};
use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat};
use rustix::io::{FdFlags, fcntl_setfd};
use serde_json::{Map, Value, json};

use super::cases::{ALONE, CUT_OFF, Case, Off, SANDBOX, SEALED, UNREADABLE};
use super::host::{Host, command};
use super::traces::{Snapshot, Victim};

/// The hostile program, in parts.
const HOSTILE: &str = concat!(
    include_str!("hostile/base.py"),
    include_str!("hostile/files.py"),
    include_str!("hostile/system.py"),
    include_str!("hostile/closed.py"),
    include_str!("hostile/run.py"),
);

/// Cases with one grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    Sandbox,
    Alone,
    Sealed(SandboxMode),
    Unreadable,
    CutOff,
}

impl Scene {
    pub(super) const ALL: &[Self] = &[
        Self::Alone,
        Self::Sandbox,
        Self::Sealed(SandboxMode::Sandbox),
        Self::Sealed(SandboxMode::Rwx),
        Self::Unreadable,
        Self::CutOff,
    ];

    pub(super) fn cases(self) -> &'static [Case] {
        match self {
            Self::Sandbox => SANDBOX,
            Self::Alone => ALONE,
            Self::Sealed(_) => SEALED,
            Self::Unreadable => UNREADABLE,
            Self::CutOff => CUT_OFF,
        }
    }

    pub(super) fn is_sealed(self) -> bool {
        matches!(self, Self::Sealed(_))
    }

    fn grant(self, workspace: &Path, python: &Path) -> Grant {
        let root = |path: &Path| Root::resolve(Path::new("/"), path).unwrap();
        let own = root(workspace);
        let mode = if let Self::Sealed(mode) = self { mode } else { SandboxMode::Sandbox };
        let mut grant = Grant::sandbox(mode, own.clone(), []).with_network(self != Self::CutOff);
        if self == Self::Unreadable {
            let system = ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(Path::new);
            // The interpreter's library is beside it.
            let installed = python.ancestors().nth(2).unwrap();
            let there = system.into_iter().chain([installed]).filter(|path| path.exists());
            let none = Grant::none().with_write(own.clone()).with_workspace(own);
            grant = there.fold(none, |grant, path| grant.with_read(root(path)));
        }
        for case in self.cases().iter().filter(|_| self.is_sealed()) {
            let place = |name: &str| root(&workspace.join(case.name).join(name));
            grant = grant.with_hidden(place("state")).with_hidden(place("secret.txt"));
            grant = grant.with_fixed(place("fixed")).with_fixed(place("fixed.toml"));
        }
        grant
    }
}

impl fmt::Display for Scene {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Sandbox => "sandbox:",
            Self::Alone => "alone:",
            Self::Sealed(SandboxMode::Rwx) => "sealed rwx:",
            Self::Sealed(_) => "sealed:",
            Self::Unreadable => "unreadable:",
            Self::CutOff => "cut off:",
        })
    }
}

/// The fixture of a scene.
pub(super) struct Stage {
    pub(super) grant: Grant,
    pub(super) props: Vec<Props>,
    pub(super) stand: Stand,
    _base: tempfile::TempDir,
}

/// The targets of one case.
pub(super) struct Props {
    pub(super) case: &'static Case,
    /// Its folder in the workspace.
    pub(super) inside: PathBuf,
    /// Its folder elsewhere.
    pub(super) outside: PathBuf,
    /// The state of everything that must not change.
    pub(super) before: Snapshot,
    pub(super) victim: Option<Victim>,
    pub(super) services: Vec<Service>,
    /// A file that the host has open.
    held: Option<File>,
}

/// A service that notices a connection.
pub(super) enum Service {
    Fifo(File),
    Stream(UnixListener),
    Datagram(UnixDatagram),
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Stage {
    pub(super) fn new(scene: Scene, off: Off, host: &Host) -> Self {
        let base = tempfile::Builder::new().prefix("haft-suite-").tempdir().unwrap();
        let workspace = base.path().canonicalize().unwrap().join("work");
        let mut props: Vec<_> =
            scene.cases().iter().map(|case| Props::new(case, scene, &workspace, host)).collect();
        let stand = Stand::new(&props, &workspace, host);
        let plan = json!({
            "cases": props.iter_mut().map(|props| props.plan(&stand)).collect::<Vec<_>>(),
            "workspace": workspace,
            "host": std::process::id(),
            "buffers": host.buffers(),
            "memory": stand.memory,
            "terminal": stand.about["terminal"],
            "mark": stand.mark,
            "number": stand.number,
            "namespace": fs::read_link("/proc/self/ns/mnt").unwrap(),
            "own_mounts": !off.has(Off::NAMESPACES),
        });
        fs::write(workspace.join("plan.json"), plan.to_string()).unwrap();
        fs::write(workspace.join("hostile.py"), HOSTILE).unwrap();
        let grant = scene.grant(&workspace, &host.python);
        Self { grant, props, stand, _base: base }
    }

    /// Tells the processes of the cases that the call is over.
    pub(super) fn tell_that_it_is_over(&self) {
        for props in &self.props {
            // A case may have moved the folder.
            let _ = fs::write(props.inside.join("over"), "");
        }
    }

    /// Whether a process of a case runs: each ends after the message that the call is over.
    pub(super) fn goes_on(&self) -> bool {
        let places = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path().join("cwd"));
        let mut places = places.filter_map(|place| place.read_link().ok());
        let insides: Vec<_> =
            self.props.iter().filter_map(|props| props.inside.canonicalize().ok()).collect();
        places.any(|place| insides.iter().any(|inside| place.starts_with(inside)))
    }
}

impl Props {
    fn new(case: &'static Case, scene: Scene, workspace: &Path, host: &Host) -> Self {
        let inside = workspace.join(case.name);
        let outside = workspace.with_file_name("work-outside").join(case.name);
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir_all(outside.join("empty")).unwrap();
        fill_outside(&outside, &host.secret);
        if host.is_root {
            // The null device under another name; not possible in every container.
            let _ = mknodat(
                CWD,
                outside.join("device"),
                FileType::CharacterDevice,
                Mode::from_raw_mode(0o666),
                makedev(1, 3),
            );
        }
        let mut kept = vec![outside.clone()];
        if scene.is_sealed() {
            if case.name == "hidden_by_another_name" && host.is_root {
                mount_again(&inside, &workspace.with_file_name("elsewhere"));
            }
            fill_sealed(&inside, &host.secret);
            kept.extend(["state", "secret.txt", "fixed", "fixed.toml"].map(|name| inside.join(name)));
        }
        let services = services(case.name, &outside);
        let victim = VICTIMS.contains(&case.name).then(Victim::new);
        let held = held(case.name, &outside);
        Self { case, inside, outside, before: Snapshot::of(&kept), victim, services, held }
    }

    /// The input of the case.
    fn plan(&mut self, stand: &Stand) -> Value {
        let mut plan = Map::new();
        plan.insert("name".into(), self.case.name.into());
        plan.insert("outside".into(), self.outside.to_str().unwrap().into());
        plan.insert("descriptor".into(), self.held.as_ref().map(AsRawFd::as_raw_fd).into());
        plan.insert("victim".into(), self.victim.as_ref().map(Victim::id).into());
        plan.insert("handle".into(), stand.about["handles"][self.case.name].clone());
        if let Some(script) = self.case.script {
            plan.insert("script".into(), script.into());
        }
        for service in &self.services {
            let (name, port) = match service {
                Service::Tcp(listener) => ("tcp", listener.local_addr().unwrap().port()),
                Service::Udp(socket) => ("udp", socket.local_addr().unwrap().port()),
                _ => continue,
            };
            plan.insert(name.into(), json!(["127.0.0.1", port]));
        }
        plan.into()
    }
}

/// Cases with their own target process.
const VICTIMS: &[&str] = &[
    "killed",
    "killed_by_handle",
    "traced",
    "changed_limits",
    "changed_priority",
    "changed_affinity",
    "changed_scheduler",
    "changed_input_priority",
];

fn fill_outside(outside: &Path, secret: &str) {
    fs::write(outside.join("kept"), "as it was").unwrap();
    fs::write(outside.join("secret"), secret).unwrap();
    fs::write(outside.join(format!("named-{secret}")), "").unwrap();
    fs::write(outside.join("tool"), format!("#!/bin/sh\necho {secret}\n")).unwrap();
    fs::set_permissions(outside.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    mknodat(CWD, outside.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// Some containers forbid the mount.
fn mount_again(place: &Path, elsewhere: &Path) {
    fs::create_dir(elsewhere).unwrap();
    let _ = rustix::mount::mount_bind(place, elsewhere);
}

fn fill_sealed(inside: &Path, secret: &str) {
    fs::create_dir(inside.join("state")).unwrap();
    fs::create_dir(inside.join("fixed")).unwrap();
    for name in ["state/secret", "secret.txt"] {
        fs::write(inside.join(name), secret).unwrap();
    }
    fs::write(inside.join(format!("state/named-{secret}")), "").unwrap();
    for name in ["fixed/file", "fixed.toml"] {
        fs::write(inside.join(name), "as it was").unwrap();
    }
}

fn services(case: &str, outside: &Path) -> Vec<Service> {
    let local = ("127.0.0.1", 0);
    let mut services = match case {
        "fifo" => {
            let mut options = File::options();
            options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
            vec![Service::Fifo(options.open(outside.join("fifo")).unwrap())]
        }
        "unix_socket" => vec![Service::Stream(UnixListener::bind(outside.join("socket")).unwrap())],
        "abstract_socket" => {
            let address = SocketAddr::from_abstract_name(outside.to_str().unwrap()).unwrap();
            vec![Service::Stream(UnixListener::bind_addr(&address).unwrap())]
        }
        "datagram_socket" | "datagram_pair" => {
            vec![Service::Datagram(UnixDatagram::bind(outside.join("datagram")).unwrap())]
        }
        "udp" => vec![Service::Udp(UdpSocket::bind(local).unwrap())],
        case if case.contains("tcp") => vec![Service::Tcp(TcpListener::bind(local).unwrap())],
        _ => Vec::new(),
    };
    services.iter_mut().for_each(Service::wait_for_nobody);
    services
}

impl Service {
    fn wait_for_nobody(&mut self) {
        match self {
            Self::Fifo(_) => {}
            Self::Stream(socket) => socket.set_nonblocking(true).unwrap(),
            Self::Datagram(socket) => socket.set_nonblocking(true).unwrap(),
            Self::Tcp(socket) => socket.set_nonblocking(true).unwrap(),
            Self::Udp(socket) => socket.set_nonblocking(true).unwrap(),
        }
    }

    /// Whether a connection or data arrived.
    pub(super) fn was_reached(&mut self) -> bool {
        match self {
            Self::Fifo(file) => file.read(&mut [0]).is_ok_and(|count| count > 0),
            Self::Stream(socket) => socket.accept().is_ok(),
            Self::Datagram(socket) => socket.recv(&mut [0]).is_ok(),
            Self::Tcp(socket) => socket.accept().is_ok(),
            Self::Udp(socket) => socket.recv(&mut [0]).is_ok(),
        }
    }
}

/// The file that the host has open during the case.
fn held(case: &str, outside: &Path) -> Option<File> {
    let mut options = File::options();
    let file = match case {
        "host_descriptor" | "inherited_descriptor" => {
            options.read(true).write(true).open(outside.join("kept"))
        }
        "read_host_descriptor" => options.read(true).open(outside.join("secret")),
        "host_directory" => options.read(true).open(outside),
        _ => return None,
    };
    let file = file.unwrap();
    if case == "inherited_descriptor" {
        // Every child inherits it unless haft closes it.
        fcntl_setfd(&file, FdFlags::empty()).unwrap();
    }
    Some(file)
}

/// The number of stages so far.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The part of the host that is written in Python.
pub(super) struct Stand {
    child: Child,
    output: BufReader<ChildStdout>,
    about: Value,
    mark: String,
    number: u32,
    memory: PathBuf,
}

impl Stand {
    fn new(props: &[Props], workspace: &Path, host: &Host) -> Self {
        let mark = workspace.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let number = std::process::id() << 8 | NUMBER.fetch_add(1, Ordering::SeqCst);
        let memory = Path::new("/dev/shm").join(&mark);
        let handles: Map<_, _> = props
            .iter()
            .map(|props| (props.case.name.to_owned(), json!(props.inside.join("secret.txt"))))
            .collect();
        let mut child = command(&host.python)
            .args(["-c", include_str!("stand.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let asked = json!({"handles": handles, "mark": mark, "number": number, "memory": memory});
        writeln!(child.stdin.as_ref().unwrap(), "{asked}").unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let about = line(&mut output);
        Self { child, output, about, mark, number, memory }
    }

    /// Ends the helper; the effects by case.
    pub(super) fn end(&mut self) -> Value {
        drop(self.child.stdin.take());
        let found = line(&mut self.output);
        self.child.wait().unwrap();
        found
    }
}

fn line(output: &mut impl BufRead) -> Value {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    serde_json::from_str(&line).expect("the stand answers")
}
