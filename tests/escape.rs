//! Guests that attack paths blocked in every grant: haft's own directories and keys, and the program in use. The
//! state of the disk decides.
//!
//! `rights` tests that a guest stays inside the directories of its grant; `host/plugin` tests the second layer.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use haft::grant::{Grant, Root, SandboxMode};
use serde_json::{Value, json};

use crate::cli::Home;
use crate::common::hostile;
use crate::common::wait::eventually;
use crate::guest::Guest;
use crate::rights::scan;

/// A workspace that contains the program in use, and a home that contains haft's own files. Both are writable except
/// for these files.
struct Fixture {
    directory: tempfile::TempDir,
    before: Vec<String>,
}

/// Text that no answer may contain.
const SECRET: &str = "hidden";

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let fixture = Self { directory, before: Vec::new() };
        for folder in ["work/folder", "home/.cache/haft/empty", "home/.cache/other", "home/.keys", "beyond"] {
            fs::create_dir_all(fixture.path(folder)).unwrap();
        }
        for (file, text) in [
            ("work/program.toml", "fixed"),
            ("work/notes", "notes"),
            ("home/notes", "notes"),
            ("home/.cache/other/notes", "notes"),
            ("home/.cache/haft/code", "hidden code"),
            ("home/.keys/openai", "hidden key"),
        ] {
            fs::write(fixture.path(file), text).unwrap();
        }
        symlink("code", fixture.path("home/.cache/haft/link")).unwrap();
        // Links that a person created, as a repository or a restored backup may contain.
        symlink(fixture.path("home/.cache/haft/code"), fixture.path("work/leaf")).unwrap();
        symlink(fixture.path("home/.cache"), fixture.path("work/parent")).unwrap();
        symlink("../home/.cache/haft/new", fixture.path("work/dangling")).unwrap();
        symlink(".cache/haft/code", fixture.path("home/leaf")).unwrap();
        symlink(".cache/haft", fixture.path("home/parent")).unwrap();
        symlink(".cache/haft/new", fixture.path("home/dangling")).unwrap();
        symlink("program.toml", fixture.path("work/fixed-leaf")).unwrap();
        fs::hard_link(fixture.path("home/.keys/openai"), fixture.path("home/twin")).unwrap();
        fs::hard_link(fixture.path("work/program.toml"), fixture.path("work/fixed-twin")).unwrap();
        Self { before: fixture.closed(), ..fixture }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn root(&self, name: &str) -> Root {
        Root::resolve(Path::new("/"), &self.path(name)).unwrap()
    }

    /// Every kind of grant whose directories contain blocked paths.
    fn grants(&self) -> Vec<(&'static str, Grant)> {
        let sandbox = |mode| Grant::sandbox(mode, self.root("work"), [self.root("home")]);
        let plugin = Grant::none().with_write(self.root("work")).with_write(self.root("home"));
        [
            ("sandbox", sandbox(SandboxMode::Sandbox)),
            ("rx", sandbox(SandboxMode::Rx)),
            ("rwx", sandbox(SandboxMode::Rwx)),
            ("plugin", plugin),
            ("reader", Grant::none().with_read(self.root("")).with_workspace(self.root("work"))),
        ]
        .into_iter()
        .map(|(name, grant)| (name, self.sealed(grant)))
        .collect()
    }

    fn sealed(&self, grant: Grant) -> Grant {
        let grant =
            grant.with_hidden(self.root("home/.cache/haft")).with_hidden(self.root("home/.keys/openai"));
        grant.with_hidden(self.root("home/.absent/key")).with_fixed(self.root("work/program.toml"))
    }

    async fn guests(&self) -> Vec<(&'static str, Guest)> {
        let mut guests = Vec::new();
        for (name, grant) in self.grants() {
            guests.push((name, Guest::new(grant).await));
        }
        guests
    }

    /// The state and location of all blocked files.
    fn closed(&self) -> Vec<String> {
        let mut seen = Vec::new();
        for name in ["home/.cache/haft", "home/.keys", "work/program.toml", "work/fixed-leaf"] {
            scan(&self.path(name), &mut seen);
        }
        let entries = fs::read_dir(self.path("home/.cache")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().path().display().to_string()).collect();
        names.sort();
        seen.extend(names);
        seen.push(format!("{}", self.path("home/.absent").exists()));
        seen
    }

    fn assert_unchanged(&self, deed: &str) {
        assert_eq!(self.closed(), self.before, "{deed}");
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// SB05: a guest cannot read haft's own files by any path, in any mode.
#[tokio::test]
async fn what_belongs_to_haft_is_not_read() {
    let fixture = Fixture::new();
    let open = fs::File::open(fixture.path("home/.cache/haft/code")).unwrap();
    let descriptor = format!("/proc/self/fd/{}", open.as_raw_fd());
    symlink(&descriptor, fixture.path("work/descriptor")).unwrap();
    let mut paths: Vec<String> = [
        "home/.cache/haft/code",
        "home/.cache/haft/link",
        "home/.keys/openai",
        "home/../home/.cache/haft/code",
        "home/.cache/other/../haft/code",
        "work/../home/.cache/haft/code",
        "work/leaf",
        "work/parent/haft/code",
        "home/leaf",
        "home/parent/code",
        "home/parent/../haft/code",
        "home/twin",
        "work/descriptor",
    ]
    .map(|name| fixture.text(name))
    .into();
    paths.push(descriptor);
    paths.push(format!("/proc/self/root{}", fixture.text("home/.cache/haft/code")));
    for (grant, guest) in fixture.guests().await {
        for path in &paths {
            for (tool, arguments) in [
                ("open", json!({ "path": path })),
                ("open_nofollow", json!({ "path": path })),
                ("read_link", json!({ "path": path })),
            ] {
                let answer = guest.call(tool, arguments).await;
                let shown = format!("{tool} {path} with {grant}: {}", answer.content);
                let harmless = tool == "read_link" && !path.ends_with("haft/link");
                assert!(answer.is_error || harmless, "{shown}");
                assert!(!answer.content.contains(SECRET), "{shown}");
            }
        }
        for directory in ["home/.cache/haft", "home/.cache/haft/empty", "home/parent", "work/parent/haft"] {
            let answer = guest.call("list_dir", json!({ "path": fixture.path(directory) })).await;
            assert!(answer.is_error, "{directory} with {grant}: {}", answer.content);
        }
    }
    fixture.assert_unchanged("reading");
}

/// SB05: a guest cannot reach haft's open descriptors, including unlinked files.
#[tokio::test]
async fn what_haft_holds_open_is_not_reached() {
    use std::io::Write;
    let fixture = Fixture::new();
    let mut open = tempfile::tempfile().unwrap();
    open.write_all(SECRET.as_bytes()).unwrap();
    let descriptor = format!("/proc/self/fd/{}", open.as_raw_fd());
    symlink(&descriptor, fixture.path("work/descriptor")).unwrap();
    let link = fixture.text("work/descriptor");
    let plain = Grant::sandbox(SandboxMode::Rwx, fixture.root("work"), []);
    let mut guests = fixture.guests().await;
    guests.push(("nothing closed", Guest::new(plain).await));
    for (grant, guest) in guests {
        for path in [&descriptor, &link, &descriptor.replace("self", &std::process::id().to_string())] {
            for (tool, arguments) in [
                ("open", json!({ "path": path })),
                ("open_nofollow", json!({ "path": path })),
                ("write", json!({ "path": path, "text": "escaped" })),
                ("append", json!({ "path": path, "text": "escaped" })),
            ] {
                let answer = guest.call(tool, arguments).await;
                assert!(answer.is_error, "{tool} {path} with {grant}: {}", answer.content);
            }
        }
    }
    assert_eq!(open.metadata().unwrap().len(), SECRET.len() as u64);
}

/// SB05: a guest cannot find out the names in haft's directories; only the directories themselves are visible.
#[tokio::test]
async fn what_is_in_a_hidden_directory_cannot_be_told() {
    let fixture = Fixture::new();
    for (grant, guest) in fixture.guests().await {
        let refusal = |name: &str| {
            let place = fixture.text("home/.cache/haft");
            let place = if name == "missing/deep" {
                place
            } else {
                fixture.text(&format!("home/.cache/haft/{name}"))
            };
            format!(
                "Tool error: Permission denied (os error 2)\nhint: `{place}` belongs to haft: tools may not \
                 read it"
            )
        };
        for name in ["code", "empty", "link"] {
            let path = fixture.path("home/.cache/haft").join(name);
            assert_eq!(
                guest.fails("stat", json!({ "path": path })).await,
                refusal(name),
                "{name} with {grant}"
            );
        }
        let missing = json!({ "path": fixture.path("home/.cache/haft/missing/deep") });
        assert_eq!(guest.fails("stat", missing.clone()).await, refusal("missing/deep"), "{grant}");
        assert_eq!(guest.fails("open", missing).await, refusal("missing/deep"), "{grant}");
        for (path, kind) in [("home/.cache/haft", "is_dir: true"), ("home/.keys/openai", "is_file: true")] {
            let seen = guest.says("stat", json!({ "path": fixture.path(path) })).await;
            assert!(seen.contains(kind), "{path} with {grant}: {seen}");
        }
        let listed = guest.says("list_dir", json!({ "path": fixture.path("home/.cache") })).await;
        assert_eq!(listed, "haft\nother", "{grant}");
        // Files beside haft's directory stay readable.
        let beside = fixture.path("home/.cache/other/notes");
        assert_eq!(guest.says("open", json!({ "path": beside })).await, "notes", "{grant}");
    }
}

/// Every call that would change or replace the file at `path`.
fn changes(fixture: &Fixture, path: &str) -> Vec<(&'static str, Value)> {
    let free = fixture.path("work/free");
    vec![
        ("write", json!({ "path": path, "text": "escaped" })),
        ("append", json!({ "path": path, "text": "escaped" })),
        ("resize", json!({ "path": path, "bytes": 0 })),
        ("create", json!({ "path": path })),
        ("create", json!({ "path": path, "directory": true })),
        ("set_times", json!({ "path": path })),
        ("touch", json!({ "path": path })),
        ("rename", json!({ "from": path, "to": free })),
        ("rename", json!({ "from": fixture.path("work/notes"), "to": path })),
        ("hardlink", json!({ "from": path, "to": free })),
        ("hardlink", json!({ "from": fixture.path("work/notes"), "to": path })),
        ("symlink", json!({ "from": "notes", "to": path })),
        ("remove", json!({ "path": path })),
    ]
}

/// SB05: a guest cannot write, create, move, link or remove haft's own files by any path, in any mode.
#[tokio::test]
async fn what_belongs_to_haft_is_not_changed() {
    let fixture = Fixture::new();
    for (grant, guest) in fixture.guests().await {
        for name in [
            "home/.cache/haft/code",
            "home/.cache/haft/new",
            "home/.cache/haft/link",
            "home/.cache/haft/empty",
            "home/.cache/haft",
            "home/.cache/other/../haft/code",
            "home/parent/code",
            "home/parent/new",
            "home/.keys/openai",
            "home/.absent/key",
            "home/.absent",
        ] {
            for (tool, arguments) in changes(&fixture, &fixture.text(name)) {
                let answer = guest.call(tool, arguments.clone()).await;
                assert!(answer.is_error, "{tool} {arguments} with {grant}: {}", answer.content);
                fixture.assert_unchanged(&format!("{tool} {arguments} with {grant}"));
            }
        }
        // These links and hard links lead to haft's files; the links themselves are not protected.
        for name in ["home/leaf", "home/dangling", "work/leaf", "work/dangling", "home/twin"] {
            for (tool, arguments) in [
                ("write", json!({ "path": fixture.path(name), "text": "escaped" })),
                ("append", json!({ "path": fixture.path(name), "text": "escaped" })),
                ("resize", json!({ "path": fixture.path(name), "bytes": 0 })),
                ("set_times", json!({ "path": fixture.path(name) })),
                ("touch", json!({ "path": fixture.path(name) })),
            ] {
                let answer = guest.call(tool, arguments.clone()).await;
                assert!(answer.is_error, "{tool} {arguments} with {grant}: {}", answer.content);
                fixture.assert_unchanged(&format!("{tool} {arguments} with {grant}"));
            }
        }
        assert_eq!(fs::read_to_string(fixture.path("work/notes")).unwrap(), "notes");
    }
}

/// SB05: a guest cannot move or replace a directory above haft's own files, because the next start of haft would use
/// the replacement.
#[tokio::test]
async fn nothing_above_what_belongs_to_haft_is_moved() {
    let fixture = Fixture::new();
    for (grant, guest) in fixture.guests().await {
        for name in ["home/.cache", "home/.keys", "home"] {
            for (tool, arguments) in [
                ("rename", json!({ "from": fixture.path(name), "to": fixture.path("work/free") })),
                ("rename", json!({ "from": fixture.path("work/folder"), "to": fixture.path(name) })),
                ("rename", json!({ "from": fixture.path(name), "to": fixture.path("home/.moved") })),
                ("remove", json!({ "path": fixture.path(name) })),
                ("symlink", json!({ "from": "work", "to": fixture.path(name) })),
            ] {
                let answer = guest.call(tool, arguments.clone()).await;
                assert!(answer.is_error, "{tool} {arguments} with {grant}: {}", answer.content);
                fixture.assert_unchanged(&format!("{tool} {arguments} with {grant}"));
            }
        }
        assert!(fixture.path("work/folder").exists() && fixture.path("home/notes").exists());
    }
}

/// SB05: tools can read but not change the program in use, because it decides the tools' rights.
#[tokio::test]
async fn the_program_in_use_is_read_and_not_changed() {
    let fixture = Fixture::new();
    for (grant, guest) in fixture.guests().await {
        let path = fixture.text("work/program.toml");
        assert_eq!(guest.says("open", json!({ "path": path })).await, "fixed", "{grant}");
        for name in ["work/program.toml", "work/folder/../program.toml", "work/fixed-twin"] {
            for (tool, arguments) in changes(&fixture, &fixture.text(name)) {
                let answer = guest.call(tool, arguments.clone()).await;
                assert!(answer.is_error, "{tool} {arguments} with {grant}: {}", answer.content);
                fixture.assert_unchanged(&format!("{tool} {arguments} with {grant}"));
            }
        }
        for (tool, arguments) in changes(&fixture, &fixture.text("work/fixed-leaf")).into_iter().take(3) {
            let answer = guest.call(tool, arguments.clone()).await;
            assert!(answer.is_error, "{tool} {arguments} with {grant}: {}", answer.content);
            fixture.assert_unchanged(&format!("{tool} {arguments} with {grant}"));
        }
        let moved =
            guest.call("rename", json!({ "from": fixture.path("work"), "to": fixture.path("home/w") })).await;
        assert!(moved.is_error, "{grant}: {}", moved.content);
        fixture.assert_unchanged(grant);
        if grant != "reader" {
            assert_eq!(
                guest.fails("write", json!({ "path": path, "text": "x" })).await,
                format!(
                    "Tool error: Permission denied (os error 2)\nhint: `{path}` sets the tools' rights: \
                     tools may not change it"
                ),
                "{grant}"
            );
            // Other files in the directory stay writable.
            guest.says("write", json!({ "path": fixture.path("work/new"), "text": "new" })).await;
            guest
                .says("rename", json!({ "from": fixture.path("work/new"), "to": fixture.path("work/newer") }))
                .await;
            guest.says("remove", json!({ "path": fixture.path("work/newer") })).await;
        }
    }
}

/// SB05: if program.toml is a link, haft protects the link, the directories on its way and its target.
#[tokio::test]
async fn links_on_the_way_to_the_program_stay() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("work/dotfiles")).unwrap();
    fs::write(fixture.path("beyond/program.toml"), "fixed").unwrap();
    symlink(fixture.path("beyond"), fixture.path("work/dotfiles/current")).unwrap();
    symlink("dotfiles/current/program.toml", fixture.path("work/linked.toml")).unwrap();
    let links = ["work/linked.toml", "work/dotfiles/current"];
    let seen = || links.map(|link| fs::read_link(fixture.path(link)).unwrap());
    let before = seen();
    let sandbox = |mode| Grant::sandbox(mode, fixture.root("work"), [fixture.root("home")]);
    for mode in [SandboxMode::Sandbox, SandboxMode::Rwx] {
        let guest = Guest::new(sandbox(mode).with_fixed(fixture.root("work/linked.toml"))).await;
        assert_eq!(guest.says("open", json!({ "path": fixture.path("work/linked.toml") })).await, "fixed");
        for name in ["work/linked.toml", "work/dotfiles", "work/dotfiles/current"] {
            for (tool, arguments) in [
                ("rename", json!({ "from": fixture.path("work/notes"), "to": fixture.path(name) })),
                ("rename", json!({ "from": fixture.path(name), "to": fixture.path("work/free") })),
                ("remove", json!({ "path": fixture.path(name) })),
                ("write", json!({ "path": fixture.path(name), "text": "escaped" })),
            ] {
                let answer = guest.call(tool, arguments.clone()).await;
                assert!(answer.is_error, "{tool} {arguments}: {}", answer.content);
                assert_eq!(seen(), before, "{tool} {arguments}");
            }
        }
        assert_eq!(fs::read_to_string(fixture.path("beyond/program.toml")).unwrap(), "fixed");
    }
}

/// SB05: a file that was blocked at the start of haft stays blocked after a move, and its replacement is blocked too;
/// a directory that the guest opened before gives no access.
#[tokio::test]
async fn what_is_moved_meanwhile_stays_closed() {
    let fixture = Fixture::new();
    let sandbox = |mode| fixture.sealed(Grant::sandbox(mode, fixture.root("work"), [fixture.root("home")]));
    for (round, mode) in [SandboxMode::Sandbox, SandboxMode::Rwx].into_iter().enumerate() {
        let guest = Guest::new(sandbox(mode)).await;
        guest.says("open", json!({ "path": fixture.path("work/notes") })).await;
        for (number, (held, name, text)) in [
            ("home", ".moved/haft/code", None),
            ("home", ".moved/haft/code", Some("escaped")),
            ("home/.cache", "haft/code", None),
            ("home/.cache/other", "../haft/code", None),
            ("work", "program.moved", Some("escaped")),
        ]
        .into_iter()
        .enumerate()
        {
            let (ready, go) = (format!("work/ready{round}{number}"), format!("work/go{round}{number}"));
            let call = json!({
                "directory": fixture.path(held), "name": name, "text": text,
                "ready": fixture.path(&ready), "go": fixture.path(&go),
            });
            let held = tokio::spawn({
                let guest = guest.clone();
                async move { guest.call("hold", call).await }
            });
            eventually("the guest is ready", || fixture.path(&ready).exists()).await;
            let moves = [("home/.cache", "home/.moved"), ("work/program.toml", "work/program.moved")];
            for (from, to) in moves {
                fs::rename(fixture.path(from), fixture.path(to)).unwrap();
            }
            fs::write(fixture.path(&go), "").unwrap();
            let answer = held.await.unwrap();
            for (from, to) in moves {
                fs::rename(fixture.path(to), fixture.path(from)).unwrap();
            }
            assert!(answer.is_error, "{name} {text:?}: {}", answer.content);
            assert!(!answer.content.contains(SECRET), "{name}: {}", answer.content);
            assert_eq!(fs::read_to_string(fixture.path("home/.cache/haft/code")).unwrap(), "hidden code");
            assert_eq!(fs::read_to_string(fixture.path("work/program.toml")).unwrap(), "fixed");
        }
        let place = fixture.path("home/.cache/haft");
        fs::rename(&place, fixture.path("home/was")).unwrap();
        fs::create_dir(&place).unwrap();
        fs::write(place.join("code"), "hidden again").unwrap();
        for path in [place.join("code"), fixture.path("home/was/code")] {
            guest.fails("open", json!({ "path": path })).await;
            guest.fails("write", json!({ "path": path, "text": "escaped" })).await;
        }
        assert_eq!(fs::read_to_string(place.join("code")).unwrap(), "hidden again");
        assert_eq!(fs::read_to_string(fixture.path("home/was/code")).unwrap(), "hidden code");
        fs::remove_dir_all(&place).unwrap();
        fs::rename(fixture.path("home/was"), &place).unwrap();
    }
}

/// Minimum number of swaps during a guest's calls.
const SWAPS: usize = 20_000;

/// Runs `swap` repeatedly during `during`, which sees the number of swaps.
async fn while_swapping<T>(
    mut swap: impl FnMut() + Send + 'static,
    during: impl AsyncFnOnce(&AtomicUsize) -> T,
) -> T {
    let (swaps, stopped) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let (count, stop) = (swaps.clone(), stopped.clone());
    let swapper = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            swap();
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let done = during(&swaps).await;
    stopped.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    done
}

/// Replaces the link `name` alternately by a link to each of `targets`.
fn relink(name: &Path, targets: [&'static str; 2]) -> impl FnMut() + Send + 'static {
    let (own, temporary) = (name.to_owned(), name.with_extension("next"));
    let mut targets = targets.into_iter().cycle();
    move || {
        symlink(targets.next().unwrap(), &temporary).unwrap();
        fs::rename(&temporary, &own).unwrap();
    }
}

/// The text that a guest reads at `path` in repeated reads while the path is swapped. If the guest could not read
/// anything, as on a busy machine, the reads continue for up to eight rounds.
async fn read_for_a_while(fixture: &Fixture, guest: &Guest, path: &Path, swaps: &AtomicUsize) -> String {
    let stop = fixture.path("work/stop");
    for round in 1..=8 {
        let end = swaps.load(Ordering::Relaxed) + round * SWAPS;
        let halt = async {
            eventually("it was swapped often", || swaps.load(Ordering::Relaxed) >= end).await;
            fs::write(&stop, "").unwrap();
        };
        let reads = guest.says("read_again", json!({ "path": path, "stop": stop }));
        let seen = tokio::join!(reads, halt).0;
        fs::remove_file(&stop).unwrap();
        if !seen.is_empty() {
            return seen;
        }
    }
    String::new()
}

/// SB04, SB05: haft opens exactly the file that it checked, even if another process swaps links on the path.
#[tokio::test]
async fn swapping_links_meanwhile_is_no_way_in() {
    let fixture = Fixture::new();
    symlink("notes", fixture.path("work/swapped")).unwrap();
    symlink("../.cache/other", fixture.path("home/.cache/way")).unwrap();
    for (grant, guest) in fixture.guests().await {
        let hidden = ["notes", "../home/.cache/haft/code"];
        let path = fixture.path("work/swapped");
        let reads = async |swaps: &AtomicUsize| read_for_a_while(&fixture, &guest, &path, swaps).await;
        let seen = while_swapping(relink(&path, hidden), reads).await;
        assert_eq!(seen, "notes", "{grant}");
        let path = fixture.path("home/.cache/way/notes");
        fs::rename(fixture.path("home/.cache/haft/code"), fixture.path("home/.cache/haft/notes")).unwrap();
        let swap = relink(&fixture.path("home/.cache/way"), ["other", "haft"]);
        let reads = async |swaps: &AtomicUsize| read_for_a_while(&fixture, &guest, &path, swaps).await;
        let seen = while_swapping(swap, reads).await;
        fs::rename(fixture.path("home/.cache/haft/notes"), fixture.path("home/.cache/haft/code")).unwrap();
        assert_eq!(seen, "notes", "{grant}");
    }
}

/// SB05: haft opens exactly the file that it checked, even if another process exchanges directories on the path.
#[tokio::test]
async fn swapping_directories_meanwhile_is_no_way_in() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let fixture = Fixture::new();
    let (way, other) = (fixture.path("home/way"), fixture.path("home/other"));
    fs::create_dir(&way).unwrap();
    fs::write(way.join("code"), "notes").unwrap();
    symlink(".cache/haft", &other).unwrap();
    for (grant, guest) in fixture.guests().await {
        let (one, two, path) = (way.clone(), other.clone(), way.join("code"));
        let swap = move || renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).unwrap();
        let reads = async |swaps: &AtomicUsize| read_for_a_while(&fixture, &guest, &path, swaps).await;
        let seen = while_swapping(swap, reads).await;
        assert_eq!(seen, "notes", "{grant}");
    }
    fixture.assert_unchanged("swapping");
}

/// SB04, SB05: a swapped link does not let a guest write blocked files or files outside of the grant.
#[tokio::test]
async fn swapping_links_meanwhile_lets_nothing_be_written() {
    let fixture = Fixture::new();
    fs::write(fixture.path("beyond/file"), "beyond").unwrap();
    for (grant, guest) in fixture.guests().await.into_iter().filter(|(grant, _)| *grant != "reader") {
        for (target, closed, content) in [
            ("program.toml", "work/program.toml", "fixed"),
            ("../beyond/file", "beyond/file", "beyond"),
            ("../home/.cache/haft/code", "home/.cache/haft/code", "hidden code"),
        ] {
            if grant == "rwx" && closed == "beyond/file" {
                continue;
            }
            let (swapped, stop) = (fixture.path("work/swapped"), fixture.path("work/stop"));
            symlink("notes", &swapped).unwrap();
            let notes = fixture.path("work/notes");
            fs::write(&notes, "notes").unwrap();
            let writes = json!({ "path": swapped, "text": "escaped", "stop": stop });
            let work = async |swaps: &AtomicUsize| {
                let halt = async {
                    eventually("it was swapped often", || swaps.load(Ordering::Relaxed) >= SWAPS).await;
                    // On a busy machine a write through the correct link may take longer.
                    let is_written = || fs::read_to_string(&notes).unwrap() == "escaped";
                    eventually("the link lies right", is_written).await;
                    fs::write(&stop, "").unwrap();
                };
                tokio::join!(guest.says("write_again", writes), halt).0
            };
            let said = while_swapping(relink(&swapped, ["notes", target]), work).await;
            assert_ne!(said, "written 0 times", "{grant}");
            assert_eq!(fs::read_to_string(fixture.path(closed)).unwrap(), content, "{closed} with {grant}");
            assert_eq!(fs::read_to_string(&notes).unwrap(), "escaped");
            fs::remove_file(&swapped).unwrap();
            fs::remove_file(&stop).unwrap();
        }
    }
}

/// SB04: a guest cannot open or write devices in any mode, regardless of their creator.
#[tokio::test]
async fn devices_are_not_opened() {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let fixture = Fixture::new();
    let mut paths: Vec<PathBuf> =
        ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"].map(PathBuf::from).into();
    let node = fixture.path("work/node");
    // Only root can create a device.
    if mknodat(CWD, &node, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, makedev(1, 5)).is_ok() {
        symlink("node", fixture.path("work/node-link")).unwrap();
        paths.extend([node, fixture.path("work/node-link")]);
    }
    for (grant, guest) in fixture.guests().await {
        for path in &paths {
            for (tool, arguments) in [
                ("open", json!({ "path": path, "bytes": 1 })),
                ("open_nofollow", json!({ "path": path })),
                ("write", json!({ "path": path, "text": "x" })),
                ("append", json!({ "path": path, "text": "x" })),
                ("resize", json!({ "path": path, "bytes": 0 })),
            ] {
                let answer = guest.call(tool, arguments).await;
                assert!(answer.is_error, "{tool} {} with {grant}: {}", path.display(), answer.content);
            }
        }
    }
}

/// SB01: without a write limit everything is writable except the blocked paths.
#[tokio::test]
async fn without_a_limit_the_rest_is_open() {
    let fixture = Fixture::new();
    let grant = Grant::sandbox(SandboxMode::Rwx, fixture.root("work"), [fixture.root("home")]);
    let guest = Guest::new(fixture.sealed(grant)).await;
    let at = |name: &str| fixture.path(name);
    for (tool, arguments) in [
        ("write", json!({ "path": at("beyond/file"), "text": "written" })),
        ("append", json!({ "path": at("beyond/file"), "text": " more" })),
        ("create", json!({ "path": at("home/.cache/new"), "directory": true })),
        ("rename", json!({ "from": at("beyond/file"), "to": at("home/.cache/new/file") })),
        ("hardlink", json!({ "from": at("home/.cache/new/file"), "to": at("beyond/twin") })),
        ("symlink", json!({ "from": "twin", "to": at("beyond/link") })),
        ("write", json!({ "path": at("beyond/link"), "text": "through" })),
        ("touch", json!({ "path": at("beyond/link") })),
        ("remove", json!({ "path": at("home/.cache/other/notes") })),
        ("remove", json!({ "path": at("home/.cache/other") })),
    ] {
        assert_eq!(guest.says(tool, arguments.clone()).await, "done", "{tool} {arguments}");
    }
    let changed = |name: &str| fs::symlink_metadata(at(name)).unwrap().modified().unwrap();
    assert_eq!(changed("beyond/twin"), std::time::UNIX_EPOCH);
    assert_ne!(changed("beyond/link"), std::time::UNIX_EPOCH);
    guest.says("touch", json!({ "path": at("beyond/link"), "link": true })).await;
    assert_eq!(changed("beyond/link"), std::time::UNIX_EPOCH);
    assert_eq!(fs::read_to_string(at("home/.cache/new/file")).unwrap(), "through");
    assert!(!at("home/.cache/other").exists() && at("beyond/twin").exists());
    // The creation of an existing directory fails because it exists, even at a blocked path.
    let answer = guest.fails("create", json!({ "path": at("home/.cache"), "directory": true })).await;
    assert_eq!(answer, "Tool error: File exists (os error 20)");
}

/// SB02: without a write right a guest cannot change file times.
#[tokio::test]
async fn times_are_written_too() {
    let fixture = Fixture::new();
    let changed = || fs::metadata(fixture.path("home/notes")).unwrap().modified().unwrap();
    let before = changed();
    let sandbox = Grant::sandbox(SandboxMode::Sandbox, fixture.root("work"), []);
    for grant in [Grant::none().with_read(fixture.root("home")), sandbox] {
        let guest = Guest::new(grant).await;
        for (tool, link) in [("touch", true), ("touch", false), ("set_times", false)] {
            let arguments = json!({ "path": fixture.path("home/notes"), "link": link });
            let arguments =
                if tool == "touch" { arguments } else { json!({ "path": fixture.path("home/notes") }) };
            guest.fails(tool, arguments).await;
            assert_eq!(changed(), before, "{tool}");
        }
    }
}

/// SB05: a grant never includes a directory that belongs to haft.
#[tokio::test]
async fn a_hidden_directory_is_never_handed_out() {
    let fixture = Fixture::new();
    for name in ["home/.cache/haft", "home/.cache/haft/empty"] {
        for grant in
            [Grant::none().with_read(fixture.root(name)), Grant::none().with_write(fixture.root(name))]
        {
            let guest = Guest::new(fixture.sealed(grant)).await;
            let refused = guest.fails("list_dir", json!({ "path": fixture.path(name) })).await;
            assert_eq!(
                refused,
                format!(
                    "Tool error: No such file or directory (os error 44)\nhint: a granted directory cannot \
                     be opened: `{}`: it belongs to haft",
                    fixture.text(name)
                )
            );
            guest.fails("create", json!({ "path": fixture.path(name).join("new") })).await;
        }
    }
    fixture.assert_unchanged("handed out");
}

/// SB05: the file tools say why a path is refused, and leave no files behind.
#[tokio::test]
async fn the_file_tools_say_why() {
    let fixture = Fixture::new();
    let grant = Grant::sandbox(SandboxMode::Sandbox, fixture.root("work"), [fixture.root("home")]);
    let guest = Guest::builtin("files", fixture.sealed(grant)).await;
    let code = fixture.text("home/.cache/haft/code");
    let program = fixture.text("work/program.toml");
    let names = || fs::read_dir(fixture.path("work")).unwrap().count();
    let before = names();
    assert_eq!(
        guest.fails("read", json!({ "file_path": code })).await,
        format!(
            "Tool error: read denied: the permissions of `{code}` forbid it\nhint: `{code}` belongs to haft: \
             tools may not read it"
        )
    );
    assert!(guest.says("read", json!({ "file_path": program })).await.contains("fixed"));
    for (tool, arguments) in [
        ("write", json!({ "file_path": program, "content": "escaped" })),
        ("edit", json!({ "file_path": program, "old_string": "fixed", "new_string": "escaped" })),
    ] {
        assert_eq!(
            guest.fails(tool, arguments).await,
            format!(
                "Tool error: write denied: the permissions of `{program}` forbid it\nhint: `{program}` sets \
                 the tools' rights: tools may not change it"
            )
        );
    }
    let refused = guest.fails("write", json!({ "file_path": code, "content": "escaped" })).await;
    assert!(refused.contains("` belongs to haft"), "{refused}");
    assert_eq!(names(), before);
    fixture.assert_unchanged("file tools");
}

/// SB05: a program blocks its own program.toml, the keys it names and haft's directories without any entry in
/// program.toml.
#[test]
fn a_program_closes_what_belongs_to_haft() {
    let home = Home::new();
    let key = home.work().join("openai.key");
    let program = format!(
        "[program]\nname = \"test\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \".\"\n[provider]\nname = \"openai\"\nmodel = \"m\"\napi_key = {{ file = \"{}\" }}\n",
        key.display()
    );
    home.write("program.toml", &program);
    home.write("openai.key", "sk-hidden");
    let config = home.work().parent().unwrap().join(".config/haft/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "hidden").unwrap();
    for path in [&key, &config] {
        let answer = home.haft(&["call", "read", &json!({ "file_path": path }).to_string()]);
        assert_ne!(answer.code, 0);
        let report = format!("{}{}", answer.stdout, answer.stderr);
        let hint = format!("`{}` belongs to haft: tools may not read it", path.display());
        assert!(report.contains(&hint) && !report.contains("sk-hidden"), "{report}");
    }
    let own = home.work().join("program.toml");
    for mode in [&[][..], &["--allow", "write=/"]] {
        for path in [&own, &key] {
            let call = json!({ "file_path": path, "content": "escaped" }).to_string();
            let arguments: Vec<&str> =
                ["call", "write", &call].into_iter().chain(mode.iter().copied()).collect();
            let answer = home.haft(&arguments);
            assert_ne!(answer.code, 0, "{}", answer.stdout);
        }
    }
    assert_eq!(fs::read_to_string(&own).unwrap(), program);
    assert_eq!(fs::read_to_string(&key).unwrap(), "sk-hidden");
    assert!(
        home.haft(&["call", "read", &json!({ "file_path": own }).to_string()]).stdout.contains("workspace")
    );
}

/// SB05: haft's own directories cannot be granted, and the error names the place of the grant.
#[test]
fn haft_s_own_directories_cannot_be_granted() {
    let home = Home::new();
    let state = home.work().parent().unwrap().join(".local/state/haft");
    home.write(
        "program.toml",
        &format!(
            "[program]\nname = \"test\"\nversion = \"0.1.0\"\n[[plugins]]\nname = \"guest\"\ncomponent = \"{}\"\n[plugins.grant]\nread = [\"~/.local/state/haft/journal\"]\n",
            hostile().display()
        ),
    );
    let answer = home.haft(&["tools"]);
    let report = format!(
        "error: `{}` cannot be granted: `{}` belongs to haft",
        state.join("journal").display(),
        state.display()
    );
    assert_ne!(answer.code, 0);
    assert!(answer.stderr.contains(&report), "{}", answer.stderr);
    assert!(answer.stderr.contains("program.toml:8:9"), "{}", answer.stderr);
    fs::remove_file(home.work().join("program.toml")).unwrap();
    let answer = home.haft(&["tools", "--allow", "write=~/.local/state/haft"]);
    assert_ne!(answer.code, 0);
    assert!(answer.stderr.contains("` belongs to haft"), "{}", answer.stderr);
    // A directory above haft's own can be granted.
    assert_eq!(home.haft(&["tools", "--allow", "write=~/.local"]).code, 0);
}
