//! Tests of a restricted thread, judged by the state of the disk. They use no preopened directories, as if those
//! allowed every access.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Barrier, mpsc};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use seccompiler::{SeccompAction, SeccompFilter, TargetArch};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::threads::permits::Tenant;
use crate::threads::{NoAnswer, Threads};
use haft_core::grant::{Grant, Root, SandboxMode};
use haft_core::tool::inline;

/// Two directories with a file each, one of which may be written.
struct Fixture {
    directory: tempfile::TempDir,
    threads: Threads,
    runtime: Runtime,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["granted", "outside"] {
            fs::create_dir(directory.path().join(name)).unwrap();
            for file in ["file", "moved", "carried", "removed"] {
                fs::write(directory.path().join(name).join(file), name).unwrap();
            }
            for folder in ["empty", "full"] {
                fs::create_dir(directory.path().join(name).join(folder)).unwrap();
            }
        }
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Self { directory, threads: Threads::new(), runtime }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the fixture, if this kernel has the tested feature.
    fn where_kernel_has(what: fn(&LandlockState) -> bool) -> Option<Self> {
        let fixture = Self::new();
        let state = fixture.threads.pools.state();
        if !what(&state) {
            tracing::warn!("not tested: Landlock of this kernel is {state}");
        }
        what(&state).then_some(fixture)
    }

    /// The fixture, if the kernel has Landlock at all.
    fn with_landlock() -> Option<Self> {
        Self::where_kernel_has(|state| !matches!(state, LandlockState::None { .. }))
    }

    fn granted(&self) -> Writable {
        writable(&self.path("granted"))
    }

    /// Runs `work` on a thread that may write to `writable`; returns its result.
    fn run<T: Send + 'static>(
        &self,
        writable: &Writable,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let threads = &self.threads;
        self.runtime.block_on(async {
            let (time, cancel) = (Duration::from_mins(1), CancellationToken::new());
            let permit = threads.permits.acquire(Tenant::HAFT, || 0, time, &cancel).await.unwrap();
            threads.run(permit, writable.clone(), |_, sender| drop(sender.send(work()))).await
        })
    }
}

fn grant(directory: &Path) -> Grant {
    Grant::none().with_write(Root::resolve(Path::new("/"), directory).unwrap())
}

fn writable(directory: &Path) -> Writable {
    Writable::open(&grant(directory), None)
}

/// A change, and its result.
type Change = (&'static str, io::Result<()>);

/// All kinds of changes to files in `directory`, each independent of the others.
fn all_changes(directory: &Path) -> Vec<Change> {
    let at = |name: &str| directory.join(name);
    let (file, new) = (at("file"), at("new"));
    vec![
        ("create", fs::write(&new, "new")),
        ("append", OpenOptions::new().append(true).open(&file).map(drop)),
        ("open for writing", OpenOptions::new().write(true).open(&file).map(drop)),
        ("truncate", OpenOptions::new().write(true).truncate(true).open(&file).map(drop)),
        ("make a directory", fs::create_dir(at("folder"))),
        ("link", symlink("file", at("link"))),
        ("link hard", fs::hard_link(&file, at("twin"))),
        ("make a FIFO", mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR, 0).map_err(Into::into)),
        ("rename", fs::rename(at("moved"), at("elsewhere"))),
        ("move", fs::rename(at("carried"), at("full/carried"))),
        ("remove", fs::remove_file(at("removed"))),
        ("remove a directory", fs::remove_dir(at("empty"))),
    ]
}

/// Names, sizes and contents.
fn read_tree(directory: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let seen = |path: PathBuf| if path.is_file() { fs::read_to_string(path).unwrap() } else { String::new() };
    entries.map(|entry| (entry.file_name().into_string().unwrap(), seen(entry.path()))).collect()
}

/// WA02: if a guest could write to `/` by mistake, its thread still writes in the granted directory alone, and reads
/// everything.
#[test]
fn a_thread_writes_beneath_its_directories_and_nowhere_else() {
    let Some(fixture) = Fixture::with_landlock() else { return };
    let (granted, outside) = (fixture.path("granted"), fixture.path("outside"));
    let before = read_tree(&outside);
    let (inside, beyond) = (granted.clone(), outside.clone());
    let done = fixture.run(&fixture.granted(), move || (all_changes(&inside), all_changes(&beyond))).unwrap();
    for (change, outcome) in done.0 {
        assert!(outcome.is_ok(), "{change} inside: {outcome:?}");
    }
    for (change, outcome) in done.1 {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::PermissionDenied, "{change} outside");
    }
    assert_eq!(read_tree(&outside), before);
    assert!(granted.join("new").exists() && !granted.join("removed").exists());
    let (from, to) = (outside.join("file"), granted.join("stolen"));
    let (inward, outward) = ((from.clone(), to.clone()), (granted.join("new"), outside.join("moved_out")));
    let moved = fixture.run(&fixture.granted(), move || {
        (
            fs::rename(inward.0, inward.1),
            fs::rename(outward.0, outward.1),
            fs::hard_link(&from, &to),
            fs::read(&from),
        )
    });
    let (stolen, moved_out, linked, read) = moved.unwrap();
    assert!(stolen.is_err() && moved_out.is_err() && linked.is_err(), "{stolen:?} {moved_out:?} {linked:?}");
    assert_eq!(read.unwrap(), b"outside");
    assert_eq!(read_tree(&outside), before);
}

/// WA02: tools that only read, and guests that list their tools, write nothing at all.
#[test]
fn without_a_directory_nothing_is_written() {
    let Some(fixture) = Fixture::with_landlock() else { return };
    let granted = fixture.path("granted");
    let before = read_tree(&granted);
    let own = granted.clone();
    for writable in [Writable::default(), Writable::open(&grant(&granted).read_only(), None)] {
        let own = own.clone();
        for (change, outcome) in fixture.run(&writable, move || all_changes(&own)).unwrap() {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::PermissionDenied, "{change}");
        }
    }
    assert_eq!(read_tree(&granted), before);
}

/// SB01: without a write limit everything may be written, but no thread makes a device node.
#[test]
fn without_a_limit_only_device_nodes_are_refused() {
    let Some(fixture) = Fixture::with_landlock() else { return };
    let everywhere = Writable::open(&Grant::sandbox(SandboxMode::Rwx, Root::everything(), []), None);
    let (granted, outside) = (fixture.path("granted"), fixture.path("outside"));
    let nodes = |directory: PathBuf| {
        move || {
            let device = rustix::fs::makedev(1, 3);
            [("null", FileType::CharacterDevice), ("disk", FileType::BlockDevice)]
                .map(|(name, kind)| mknodat(CWD, directory.join(name), kind, Mode::RUSR, device))
        }
    };
    let own = outside.clone();
    let written = fixture.run(&everywhere, move || all_changes(&own)).unwrap();
    for (change, outcome) in written {
        assert!(outcome.is_ok(), "{change}: {outcome:?}");
    }
    for (writable, directory) in [(everywhere, &outside), (fixture.granted(), &granted)] {
        let made = fixture.run(&writable, nodes(directory.clone())).unwrap();
        assert!(made.iter().all(Result::is_err), "{made:?}");
        assert!(!directory.join("null").exists() && !directory.join("disk").exists());
    }
}

/// WA02: a guest's thread reaches neither outside processes nor their abstract sockets.
#[test]
fn signals_and_abstract_sockets_stay_inside() {
    let Some(fixture) = Fixture::where_kernel_has(|state| *state == LandlockState::Full) else { return };
    let name = format!("haft-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    UnixStream::connect_addr(&address).unwrap();
    let parent = rustix::process::getppid().unwrap();
    let tried = fixture.run(&fixture.granted(), move || {
        (rustix::process::test_kill_process(parent), UnixStream::connect_addr(&address))
    });
    let (signalled, connected) = tried.unwrap();
    assert_eq!(signalled, Err(rustix::io::Errno::PERM));
    assert_eq!(connected.unwrap_err().kind(), ErrorKind::PermissionDenied);
}

/// WA02: a right is to a directory, not to its name. A replacement under the name is writable from then on; the
/// original is not, wherever it was moved.
#[test]
fn a_replaced_directory_has_a_wall_of_its_own() {
    let Some(fixture) = Fixture::with_landlock() else { return };
    let granted = fixture.path("granted");
    let write = |path: PathBuf| fixture.run(&writable(&granted), move || fs::write(path, "written")).unwrap();
    write(granted.join("first")).unwrap();
    fs::rename(&granted, fixture.path("was")).unwrap();
    assert!(write(granted.join("nothing")).is_err());
    for round in 0..3 {
        // A file system often reuses the inode of a directory that was just removed.
        fs::create_dir(&granted).unwrap();
        write(granted.join("second")).unwrap();
        assert_eq!(fs::read_to_string(granted.join("second")).unwrap(), "written", "{round}");
        fs::remove_dir_all(&granted).unwrap();
    }
    fs::create_dir(&granted).unwrap();
    assert!(write(fixture.path("was/second")).is_err());
    assert!(!fixture.path("was/second").exists());
}

/// Tries to write in both directories on a chain of threads, each started by the previous one. All of them wait
/// for `barrier`, so that no idle thread takes the work of another.
fn write_in_chain(
    left: usize,
    paths: (PathBuf, PathBuf),
    sender: mpsc::Sender<(bool, bool)>,
    barrier: &Arc<Barrier>,
) {
    let written = |directory: &Path| fs::write(directory.join(left.to_string()), "").is_ok();
    sender.send((written(&paths.0), written(&paths.1))).unwrap();
    if left > 0 {
        let barrier = barrier.clone();
        tokio::task::spawn_blocking(move || write_in_chain(left - 1, paths, sender, &barrier));
    }
    barrier.wait();
}

/// WA02: threads started by a thread are confined too, for chains of any length.
#[test]
fn threads_of_threads_are_inside() {
    const HANG: Duration = Duration::from_mins(5);
    /// More than Landlock can stack layers.
    const CHAIN: usize = 40;
    let Some(fixture) = Fixture::with_landlock() else { return };
    let (granted, outside) = (fixture.path("granted"), fixture.path("outside"));
    let (sender, receiver) = mpsc::channel();
    let (paths, barrier) = ((granted, outside.clone()), Arc::new(Barrier::new(CHAIN + 1)));
    fixture.run(&fixture.granted(), move || write_in_chain(CHAIN, paths, sender, &barrier)).unwrap();
    let seen: Vec<_> = receiver.iter().collect();
    assert_eq!(seen, vec![(true, false); CHAIN + 1]);
    assert!(read_tree(&outside).keys().all(|name| name.parse::<usize>().is_err()));
    // Any of these threads may run the next guests, so that as many guests run concurrently.
    let (all, (sender, receiver)) = (Arc::new(Barrier::new(CHAIN + 1)), mpsc::channel());
    for _ in 0..=CHAIN {
        let (all, sender) = (all.clone(), sender.clone());
        fixture.threads.start(&fixture.granted(), move |_| {
            sender.send(()).unwrap();
            all.wait();
        });
    }
    for number in 0..=CHAIN {
        receiver.recv_timeout(HANG).unwrap_or_else(|_| panic!("only {number} of them"));
    }
}

/// WA02: tasks that a guest leaves behind are confined too.
#[test]
fn tasks_of_guests_are_inside() {
    let Some(fixture) = Fixture::with_landlock() else { return };
    let (granted, outside) = (fixture.path("granted/new"), fixture.path("outside/new"));
    let written = fixture.run(&fixture.granted(), move || {
        let task = async move { (fs::write(granted, "").is_ok(), fs::write(outside, "").is_ok()) };
        Handle::current().block_on(tokio::spawn(task)).unwrap()
    });
    assert_eq!(written.unwrap(), (true, false));
    assert!(!fixture.path("outside/new").exists());
}

/// Pools without users are dropped; the other pools stay, regardless of their number.
#[test]
fn pools_are_bounded_and_none_in_use_is_dropped() {
    let fixture = Fixture::new();
    let pools = ThreadPools::new(4);
    let directories: Vec<PathBuf> =
        (0..3 * MAX_POOLS).map(|number| fixture.path(&number.to_string())).collect();
    for directory in &directories {
        fs::create_dir(directory).unwrap();
    }
    let (stop, stopped) = mpsc::channel::<()>();
    let (answer, answers) = mpsc::channel();
    let (first, own) = (directories[0].clone(), directories[0].join("file"));
    pools.pool(&writable(&first)).unwrap().start(move |inside| {
        let _ = stopped.recv();
        answer.send((inside.is_ok(), fs::write(own, "").is_ok())).unwrap();
    });
    for directory in &directories {
        pools.pool(&writable(directory)).unwrap();
    }
    let remaining = pools.pools.lock().clone();
    assert_eq!(remaining.len(), MAX_POOLS);
    assert!(remaining.iter().any(|pool| pool.extent == writable(&first).extent()));
    let last = directories.last().unwrap();
    let (again, remaining) = (pools.pool(&writable(last)).unwrap(), pools.pool(&writable(last)).unwrap());
    assert!(Arc::ptr_eq(&again, &remaining));
    stop.send(()).unwrap();
    assert_eq!(answers.recv().unwrap(), (true, true));
}

/// Runs `work` with this error for these system calls, as on a kernel without them.
fn without(calls: &[i64], error: u32, work: impl FnOnce() + Send + 'static) {
    let calls: BTreeMap<i64, _> = calls.iter().map(|call| (*call, Vec::new())).collect();
    let architecture = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter =
        SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(error), architecture).unwrap();
    let filter: seccompiler::BpfProgram = filter.try_into().unwrap();
    let confined = move || {
        seccompiler::apply_filter(&filter).unwrap();
        work();
    };
    std::thread::spawn(confined).join().unwrap();
}

const CREATE: i64 = libc::SYS_landlock_create_ruleset;
const RESTRICT: i64 = libc::SYS_landlock_restrict_self;

/// SB08: without Landlock in the kernel, preopens confine guests, and the state reports that.
#[test]
fn without_landlock_guests_run_and_it_is_said() {
    for (call, error, reason) in [
        (
            CREATE,
            libc::ENOSYS,
            "this kernel has no Landlock (Linux 5.19 or later, with `landlock` among its security modules)",
        ),
        (
            CREATE,
            libc::EOPNOTSUPP,
            "this kernel has no Landlock (Linux 5.19 or later, with `landlock` among its security modules)",
        ),
        (
            RESTRICT,
            libc::EPERM,
            "Landlock: failed to restrict the calling thread: Operation not permitted (os error 1)",
        ),
    ] {
        without(&[call], error.cast_unsigned(), move || {
            let fixture = Fixture::new();
            let expected = LandlockState::None { reason: reason.into() };
            assert_eq!(fixture.threads.pools.state(), expected);
            let path = fixture.path("outside/new");
            fixture.run(&fixture.granted(), move || fs::write(path, "")).unwrap().unwrap();
            assert_eq!(fixture.threads.pools.state(), expected);
        });
    }
}

/// SB08: with Landlock, no guest runs unconfined.
#[test]
fn a_wall_that_fails_once_it_held_is_an_error() {
    let Some(fixture) = Fixture::where_kernel_has(|state| *state == LandlockState::Full) else { return };
    let held = Arc::new(FirstState::from(LandlockState::Full));
    without(&[RESTRICT], libc::EPERM.cast_unsigned(), move || {
        let (outside, writable) = (fixture.path("outside/new"), fixture.granted());
        let pools = ThreadPools { pools: Lock::default(), verdict: held, threads: 4 };
        let (sender, receiver) = mpsc::channel();
        pools.pool(&writable).unwrap().start(move |inside| {
            let outcome = inside.map(|_| fs::write(outside, "").is_ok());
            sender.send(outcome).unwrap();
        });
        let refused = receiver.recv().unwrap().unwrap_err();
        assert_eq!(
            refused,
            "Landlock: failed to restrict the calling thread: Operation not permitted (os error 1)"
        );
    });
}

/// SB08: the text of a state.
#[test]
fn what_is_open_is_named() {
    assert_eq!(LandlockState::Full.to_string(), "full");
    assert_eq!(
        LandlockState::Partial { abi: 4 }.to_string(),
        "partial: Landlock 4 of this kernel does not cover device controls, signals and abstract sockets"
    );
    assert_eq!(LandlockState::None { reason: "no kernel".into() }.to_string(), "none: no kernel");
}

/// Directories stay open for a call, regardless of later changes to their names.
#[test]
fn directories_are_opened_once() {
    let fixture = Fixture::new();
    let granted = fixture.path("granted");
    let writable = fixture.granted();
    fs::rename(&granted, fixture.path("was")).unwrap();
    fs::create_dir(&granted).unwrap();
    let root = Root::resolve(Path::new("/"), &granted).unwrap();
    let opened = writable.directory(&root).unwrap();
    let is = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        let (own, other) = (opened.metadata().unwrap(), File::open(path).unwrap().metadata().unwrap());
        (own.dev(), own.ino()) == (other.dev(), other.ino())
    };
    assert!(is(&fixture.path("was")) && !is(&granted));
    assert_ne!(writable.extent(), fixture.granted().extent());
}

/// WA02: a thread that runs calls inline is confined from the first call on. No other thread is used for such
/// calls, and no such thread for guests that may write.
#[test]
fn a_thread_that_runs_calls_inline_writes_nothing() {
    let Some(fixture) = Fixture::with_landlock() else { return };
    let granted = fixture.path("granted");
    let before = read_tree(&granted);
    let (own, writable) = (granted.clone(), fixture.granted());
    std::thread::scope(|scope| {
        let inline_thread = scope.spawn(|| {
            let begin = |writable: &Writable| {
                let work = std::pin::pin!(async { all_changes(&own) });
                fixture.threads.poll_inline(writable, work).unwrap()
            };
            assert!(begin(&Writable::default()).is_pending(), "not enabled");
            inline::enable();
            assert!(begin(&writable).is_pending(), "for a guest that may write");
            let Poll::Ready(done) = begin(&Writable::default()) else { panic!("nothing was done") };
            done
        });
        for (change, outcome) in inline_thread.join().unwrap() {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::PermissionDenied, "{change}");
        }
    });
    assert_eq!(read_tree(&granted), before);
}
