//! The target of hostile programs: the signals, memory and environment of the process that starts them. A separate,
//! expendable process plays the host.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use haft::backend::confine::{Confiner, Layers};
use tokio::signal::unix::{SignalKind, signal};

use super::cases::Off;

/// The variable with a secret, in the environment of the process that plays the host.
pub(super) const SECRET: &str = "HAFT_SUITE_SECRET";
/// The highest id of the ordinary users that root becomes.
const NOBODY: u32 = 65534;

/// Memory that only an escape writes.
static BUFFERS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Signals of the cases that send them.
const SIGNALS: [(&str, i32); 3] =
    [("signalled_host", 10), ("signalled_group", 12), ("signalled_everybody", 23)];

pub(super) struct Host {
    pub(super) python: PathBuf,
    pub(super) secret: String,
    pub(super) is_root: bool,
    received: [Arc<AtomicUsize>; 3],
}

impl Host {
    /// Creates the host, once, in a process of [`alone`].
    pub(super) fn new() -> Self {
        let received = SIGNALS.map(|(_, number)| {
            let count = Arc::new(AtomicUsize::new(0));
            let (counter, mut signals) = (count.clone(), signal(SignalKind::from_raw(number)).unwrap());
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    counter.fetch_add(1, Ordering::SeqCst);
                }
            });
            count
        });
        let is_root = rustix::process::geteuid().is_root();
        Self { python: python(), secret: std::env::var(SECRET).unwrap(), is_root, received }
    }

    /// Cases whose signals or writes have arrived since the last call.
    pub(super) fn struck(&self) -> Vec<&'static str> {
        let signalled = SIGNALS.iter().zip(&self.received);
        let signalled = signalled
            .filter(|(_, received)| received.swap(0, Ordering::SeqCst) > 0)
            .map(|((case, _), _)| *case);
        let written = ["written_memory", "written_memory_file"].into_iter().zip(&BUFFERS);
        let written =
            written.filter(|(_, buffer)| buffer.swap(0, Ordering::SeqCst) != 0).map(|(case, _)| case);
        signalled.chain(written).collect()
    }

    pub(super) fn buffers(&self) -> [usize; 2] {
        [0, 1].map(|index| (&raw const BUFFERS[index]).addr())
    }
}

/// The path of the interpreter: the file on `PATH` may be a script that starts it.
pub(crate) fn python() -> PathBuf {
    let output = command("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .expect("`python3` is needed");
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// A confiner with every layer except `off`.
pub(super) fn confiner(off: Off) -> Confiner {
    confiner_by(std::env::var_os(HELPER).unwrap(), off)
}

/// A confiner with every layer, in a process of [`alone`].
pub(crate) fn whole() -> Confiner {
    confiner(Off::NOTHING)
}

/// A confiner with every layer except `off`, with this helper.
pub(super) fn confiner_by(helper: impl Into<PathBuf>, off: Off) -> Confiner {
    if off == Off::NOTHING {
        return Confiner::with_helper(helper);
    }
    let all = Layers::offered();
    let kept = |layer| !off.has(layer);
    let layers = Layers {
        namespaces: kept(Off::NAMESPACES),
        landlock: all.landlock.filter(|_| kept(Off::LANDLOCK)),
        seccomp: kept(Off::SECCOMP),
        capabilities: kept(Off::CAPABILITIES),
        seatbelt: false,
    };
    Confiner::exactly(helper, layers)
}

/// The variable with the helper of a process of [`alone`].
const HELPER: &str = "HAFT_SUITE_HELPER";

/// Whether this is a process of [`alone`].
pub(crate) fn is_inner() -> bool {
    std::env::var_os(SECRET).is_some()
}

/// The user of hostile programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// The user of the tests, if not root.
    Own,
    Root,
    /// An ordinary user that root becomes; a different one for each number, because one case signals all processes of
    /// its user.
    Other(u32),
}

impl User {
    /// All available users.
    pub(crate) fn all(number: u32) -> Vec<Self> {
        let is_root = rustix::process::geteuid().is_root();
        if is_root { vec![Self::Root, Self::Other(number)] } else { vec![Self::Own] }
    }
}

/// Runs the test of this name in a new process as `user`; its standard error.
pub(crate) fn alone(test: &str, user: User, about: (&str, &str)) -> String {
    tried_alone(test, user, about).unwrap_or_else(|why| panic!("{why}"))
}

/// Runs the test of this name in a new process as `user`; its standard error, also of a failure.
pub(super) fn tried_alone(test: &str, user: User, about: (&str, &str)) -> Result<String, String> {
    let place = tempfile::Builder::new().prefix("haft-suite-").tempdir().unwrap();
    let temporary = place.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut files = [std::env::current_exe().unwrap(), env!("CARGO_BIN_EXE_haft").into()];
    let mut starter = if user == User::Root { contained() } else { command("env") };
    if let User::Other(number) = user {
        let id = NOBODY - number;
        chown(place.path(), Some(id), Some(id)).unwrap();
        chown(&temporary, Some(id), Some(id)).unwrap();
        starter.uid(id).gid(id).env("HOME", place.path());
        files = files.map(|file| reachable(file, place.path()));
    }
    let secret = format!("secret-{}", place.path().file_name().unwrap().to_str().unwrap());
    starter.env("TMPDIR", &temporary).current_dir("/");
    starter.env(SECRET, secret).env(HELPER, &files[1]).env(about.0, about.1).env("RUST_BACKTRACE", "0");
    starter.arg(&files[0]).args(["--exact", "--nocapture", "--test-threads=1", test]);
    let output = starter.output().unwrap();
    let [said, judged] =
        [output.stderr, output.stdout].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let passed = output.status.success() && judged.contains("1 passed");
    if passed { Ok(said) } else { Err(format!("{user:?}, {}: {said}{judged}", output.status)) }
}

/// The command in which root runs hostile programs: throwaway namespaces, because without layers the programs do
/// mount and signal everything. They are not part of the test, and leave root its rights. Without them root has few
/// rights.
fn contained() -> Command {
    const FLAGS: [&str; 7] =
        ["--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "--propagation=private"];
    if !command("unshare").args(FLAGS).arg("true").status().is_ok_and(|status| status.success()) {
        return command("env");
    }
    let mut unshare = command("unshare");
    unshare.args(FLAGS).args(["sh", "-c", SECOND, "sh"]);
    unshare
}

/// The first process of a namespace gets no signals, so that the host is a later one. Its number differs from every
/// number in a child's own namespace, so that they are not confused.
const SECOND: &str = r#"
    echo 5000 2>/dev/null >/proc/sys/kernel/ns_last_pid || while sh -c 'test $$ -lt 1000'; do :; done
    "$@"
    exit $?
"#;

/// `file` at a place where every user can run it: by a hard link, which takes no disk space, or as a copy.
pub(crate) fn reachable(file: PathBuf, place: &Path) -> PathBuf {
    let everybody = |path: &Path| fs::metadata(path).is_ok_and(|found| found.mode() & 0o001 != 0);
    if file.ancestors().all(everybody) {
        return file;
    }
    let copy = place.join(file.file_name().unwrap());
    if fs::hard_link(&file, &copy).is_err() {
        fs::copy(&file, &copy).unwrap();
    }
    copy
}

#[expect(clippy::disallowed_methods, reason = "the test runs itself, and what stands beside it")]
pub(super) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}
