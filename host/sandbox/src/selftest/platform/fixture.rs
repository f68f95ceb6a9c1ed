//! The fixture that the self-test attacks. Every file, socket and terminal in it is made for the test alone.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, OFlags, flock, getxattr};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use tempfile::{Builder, TempDir};
use tokio::io::AsyncWriteExt as _;
use tokio_util::task::AbortOnDropHandle;

use super::raw;
use super::tried::Brief;
use haft_core::grant::{Grant, Root, SandboxMode};

/// A file in the workspace that is created first, to show that writes work.
pub(super) const ENTERED: &str = "entered";
/// A file in the workspace that is locked by a process that outlives the call.
pub(super) const LOCK: &str = "lock";
/// Two files in the workspace that must not become set-user-ID.
pub(super) const SET_USER_ID: [&str; 2] = ["changed", "made"];

/// Files outside the workspace, one for each attempt.
pub(super) const MADE: &str = "made";
pub(super) const CHANGED: &str = "changed";
pub(super) const EMPTIED: &str = "emptied";
pub(super) const REMOVED: &str = "removed";
pub(super) const LINKED: &str = "linked";
pub(super) const MODE: &str = "mode";
pub(super) const TIME: &str = "time";
pub(super) const LABEL: &str = "label";
/// The files that exist before the attempts.
const FILES: [&str; 7] = [CHANGED, EMPTIED, REMOVED, LINKED, MODE, TIME, LABEL];

/// The attribute that must not be set.
pub(super) const ATTRIBUTE: &str = "user.haft.self-test";
/// Characters that must not appear on the terminal: one written to it, one typed into it.
pub(super) const WRITTEN: u8 = b'w';
pub(super) const TYPED: u8 = b't';

const CONTENT: &str = "untouched\n";
/// The mode of every file, and its age.
const PLAIN: u32 = 0o600;
const AGE: Duration = Duration::from_hours(1);
/// A value in the memory of the host process that an attempt tries to read.
const SECRET: [u8; 16] = *b"host memory only";
/// Limit on the bytes that are read from a terminal.
const MAX_TYPED: usize = 1024;

/// Everything that is attacked. Removed when dropped.
pub(super) struct Fixture {
    directory: TempDir,
    hidden: TempDir,
    pub(super) grant: Grant,
    by_path: Option<UnixListener>,
    by_name: (UnixListener, String),
    terminal: Option<Terminal>,
    /// A port that is granted, and one that is not.
    ports: [TcpListener; 2],
    secret: Box<[u8; 16]>,
    /// Open for writing, and inherited on `exec`.
    _descriptor: File,
}

struct Terminal {
    master: File,
    path: PathBuf,
    /// Keeps the terminal open, so that its output stays readable.
    _slave: File,
    arrived: OnceLock<Vec<u8>>,
}

impl Fixture {
    pub(super) fn prepare(data: &Path, state: &Path) -> io::Result<Self> {
        let within = |place: &Path| Builder::new().prefix("self-test-").tempdir_in(place.canonicalize()?);
        let (directory, hidden) = (within(data)?, within(state)?);
        let workspace = directory.path().join("workspace");
        fs::create_dir_all(workspace.join("kept"))?;
        fs::create_dir(directory.path().join("outside"))?;
        let grant = grant(&workspace, hidden.path())?;
        let name = format!("haft-{}", directory.path().file_name().unwrap_or_default().display());
        let by_name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        by_name.set_nonblocking(true)?;
        let fixture = Self {
            by_path: listener(&directory.path().join("outside/socket")),
            by_name: (by_name, name),
            terminal: Terminal::new().ok(),
            ports: [port()?, port()?],
            secret: Box::new(SECRET),
            _descriptor: inherited(&directory.path().join("descriptor"))?,
            directory,
            hidden,
            grant,
        };
        let outside = FILES.map(|name| fixture.outside(name));
        outside.iter().chain([&fixture.secret_file(), &fixture.fixed()]).try_for_each(|path| plain(path))?;
        Ok(fixture)
    }

    pub(super) fn brief(&self, variables: &[String]) -> Brief {
        Brief {
            workspace: self.inside(""),
            fixed: self.fixed(),
            outside: self.outside(""),
            hidden: self.secret_file(),
            host: rustix::process::getpid().as_raw_nonzero().get(),
            memory: (self.secret.as_ptr().addr() as u64, self.secret.len()),
            socket: self.by_path.as_ref().map(|_| self.outside("socket")),
            name: self.by_name.1.clone(),
            terminal: self.terminal.as_ref().map(|terminal| terminal.path.clone()),
            has_hosts: false,
            granted: number(&self.ports[0]),
            closed: number(&self.ports[1]),
            variables: variables.to_vec(),
        }
    }

    pub(super) fn grant_of_hosts(&self) -> Option<Grant> {
        let host = format!("127.0.0.1:{}", number(&self.ports[0])).parse().ok()?;
        Some(self.grant.clone().with_network(false).with_child_host(host))
    }

    /// Sends a byte on each connection to the granted port, as long as the returned value lives.
    pub(super) fn answer(&self) -> io::Result<AbortOnDropHandle<()>> {
        let listener = tokio::net::TcpListener::from_std(self.ports[0].try_clone()?)?;
        Ok(AbortOnDropHandle::new(tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                // The attempt that opened the connection may have ended.
                let _ = stream.write_all(b"x").await;
                open.push(stream);
            }
        })))
    }

    pub(super) fn was_entered(&self) -> bool {
        self.inside(ENTERED).exists()
    }

    fn inside(&self, name: &str) -> PathBuf {
        self.directory.path().join("workspace").join(name)
    }

    fn outside(&self, name: &str) -> PathBuf {
        self.directory.path().join("outside").join(name)
    }

    fn fixed(&self) -> PathBuf {
        self.inside("kept/program.toml")
    }

    fn secret_file(&self) -> PathBuf {
        self.hidden.path().join("secret")
    }
}

/// Returns the rights of the attempts: those of any command, in the fixture's workspace.
fn grant(workspace: &Path, hidden: &Path) -> io::Result<Grant> {
    let root = |path: &Path| Root::resolve(Path::new("/"), path);
    let grant = Grant::sandbox(SandboxMode::Sandbox, root(workspace)?, []);
    Ok(grant.with_hidden(root(hidden)?).with_fixed(root(&workspace.join("kept/program.toml"))?))
}

/// Listens at `path`; returns `None` if the path is too long for a socket's address.
fn listener(path: &Path) -> Option<UnixListener> {
    let listener = UnixListener::bind(path).ok()?;
    listener.set_nonblocking(true).ok()?;
    Some(listener)
}

fn port() -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn number(listener: &TcpListener) -> u16 {
    listener.local_addr().map_or(0, |address| address.port())
}

fn inherited(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    fcntl_setfd(&file, FdFlags::empty())?;
    Ok(file)
}

fn plain(path: &Path) -> io::Result<()> {
    fs::write(path, CONTENT)?;
    fs::set_permissions(path, Permissions::from_mode(PLAIN))?;
    let then = SystemTime::now().checked_sub(AGE).unwrap_or(SystemTime::UNIX_EPOCH);
    File::options().write(true).open(path)?.set_modified(then)
}

impl Terminal {
    fn new() -> io::Result<Self> {
        let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits().cast_signed();
        let open = |path: &Path| File::options().read(true).write(true).custom_flags(flags).open(path);
        let master = open("/dev/ptmx".as_ref())?;
        let path = Path::new("/dev/pts").join(raw::other_side(&master)?.to_string());
        let slave = open(&path)?;
        Ok(Self { master, path, _slave: slave, arrived: OnceLock::new() })
    }

    /// Reports whether the terminal shows `character`, which was written, or typed and echoed.
    fn shows(&self, character: u8) -> bool {
        let arrived = self.arrived.get_or_init(|| {
            let mut bytes = vec![0; MAX_TYPED];
            // Without output there is nothing to read.
            let count = (&self.master).read(&mut bytes).unwrap_or_default();
            bytes.truncate(count);
            bytes
        });
        arrived.contains(&character)
    }
}

pub(super) fn made(fixture: &Fixture) -> Option<String> {
    fixture.outside(MADE).exists().then(|| "the file is there".to_owned())
}

pub(super) fn changed_through_a_link(fixture: &Fixture) -> Option<String> {
    let path = fixture.outside(LINKED);
    let links = fs::metadata(&path).map_or(0, |found| found.nlink());
    differs(&path).or_else(|| (links != 1).then(|| format!("it has {links} names")))
}

pub(super) fn hidden_changed(fixture: &Fixture) -> Option<String> {
    let beside = fixture.hidden.path().join(MADE).exists();
    differs(&fixture.secret_file()).or_else(|| beside.then(|| "there is a file beside it".to_owned()))
}

pub(super) fn fixed_changed(fixture: &Fixture) -> Option<String> {
    differs(&fixture.fixed())
}

/// Describes the content of an outside file that differs from its original content.
pub(super) fn changed(fixture: &Fixture, name: &str) -> Option<String> {
    differs(&fixture.outside(name))
}

/// Describes the content of a file that differs from its original content.
fn differs(path: &Path) -> Option<String> {
    match fs::read_to_string(path) {
        Ok(text) if text == CONTENT => None,
        Ok(text) => Some(format!("it holds {} bytes in place of {}", text.len(), CONTENT.len())),
        Err(error) => Some(format!("it is no longer readable: {error}")),
    }
}

pub(super) fn mode_changed(fixture: &Fixture) -> Option<String> {
    let mode = fs::metadata(fixture.outside(MODE)).ok()?.mode() & 0o7777;
    (mode != PLAIN).then(|| format!("its mode is {mode:o} in place of {PLAIN:o}"))
}

pub(super) fn time_changed(fixture: &Fixture) -> Option<String> {
    let age = fs::metadata(fixture.outside(TIME)).ok()?.modified().ok()?.elapsed().unwrap_or_default();
    (age < AGE / 2).then(|| "its time is new".to_owned())
}

pub(super) fn labelled(fixture: &Fixture) -> Option<String> {
    let found = getxattr(fixture.outside(LABEL), ATTRIBUTE, &mut [0; 64]);
    found.is_ok().then(|| "it has an attribute".to_owned())
}

pub(super) fn set_user_id(fixture: &Fixture) -> Option<String> {
    let modes = SET_USER_ID.iter().filter_map(|name| fs::symlink_metadata(fixture.inside(name)).ok());
    let set = modes.map(|found| found.mode()).find(|mode| mode & 0o6000 != 0)?;
    Some(format!("there is a file of mode {:o}", set & 0o7777))
}

pub(super) fn connected_by_path(fixture: &Fixture) -> Option<String> {
    fixture.by_path.as_ref().and_then(connected)
}

pub(super) fn connected_by_name(fixture: &Fixture) -> Option<String> {
    connected(&fixture.by_name.0)
}

fn connected(listener: &UnixListener) -> Option<String> {
    listener.accept().is_ok().then(|| "somebody has connected".to_owned())
}

pub(super) fn reached(fixture: &Fixture) -> Option<String> {
    fixture.ports[1].accept().is_ok().then(|| "somebody has connected".to_owned())
}

pub(super) fn terminal_written(fixture: &Fixture) -> Option<String> {
    shown(fixture, WRITTEN)
}

pub(super) fn terminal_typed(fixture: &Fixture) -> Option<String> {
    shown(fixture, TYPED)
}

fn shown(fixture: &Fixture, character: u8) -> Option<String> {
    let is_shown = fixture.terminal.as_ref().is_some_and(|terminal| terminal.shows(character));
    is_shown.then(|| format!("it shows `{}`", char::from(character)))
}

pub(super) fn outlived(fixture: &Fixture) -> Option<String> {
    let lock = File::open(fixture.inside(LOCK)).ok()?;
    let is_locked = flock(lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
    is_locked.then(|| "a process of it still lives".to_owned())
}
