//! The built-in `read`, `write` and `edit`, as a model calls them in the sandbox.

mod situations;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haft::grant::{Grant, Root, SandboxMode};
use serde_json::{Value, json};

use crate::common::wait::within;
use crate::guest::Guest;

/// A workspace with the file tools, and a directory beside it.
struct Sandbox {
    directory: tempfile::TempDir,
    guest: Guest,
}

impl Sandbox {
    async fn new() -> Self {
        Self::with(SandboxMode::Sandbox).await
    }

    async fn with(mode: SandboxMode) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["workspace", "beside"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let workspace = Root::resolve(Path::new("/"), &directory.path().join("workspace")).unwrap();
        let guest = Guest::builtin("files", Grant::sandbox(mode, workspace, [])).await;
        Self { directory, guest }
    }

    /// The path of `name` in the workspace.
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("workspace").join(name)
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join("beside").join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// All names in the workspace's top directory.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    async fn read(&self, path: impl AsRef<Path>) -> String {
        self.guest.says("read", json!({ "file_path": path.as_ref() })).await
    }

    async fn cannot_read(&self, path: impl AsRef<Path>) -> String {
        let what = format!("{} is refused", path.as_ref().display());
        let refused = within(&what, self.guest.fails("read", json!({ "file_path": path.as_ref() }))).await;
        assert!(!refused.contains("was not reached in"), "{refused}");
        refused
    }

    async fn write(&self, path: impl AsRef<Path>, content: &str) -> String {
        self.guest.says("write", json!({ "file_path": path.as_ref(), "content": content })).await
    }

    async fn cannot_write(&self, path: impl AsRef<Path>) -> String {
        self.guest.fails("write", json!({ "file_path": path.as_ref(), "content": "refused" })).await
    }

    async fn edit(&self, path: &str, old: &str, new: &str) -> String {
        self.guest.says("edit", edit(path, old, new)).await
    }

    async fn cannot_edit(&self, path: &str, old: &str, new: &str) -> String {
        self.guest.fails("edit", edit(path, old, new)).await
    }
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "file_path": path, "old_string": old, "new_string": new })
}

fn make_fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// TE19: `read` returns the exact content of a file.
#[tokio::test]
async fn read_gives_the_exact_content() {
    let sandbox = Sandbox::new().await;
    for content in
        ["", "\n", "no newline at the end", " leading\r\n\ttrailing \n\n", "żółw 🐢\n", "a\u{feff}b"]
    {
        sandbox.put("file", content);
        assert_eq!(sandbox.read("file").await, content);
    }
    let exactly = "x".repeat(50_000);
    sandbox.put("file", &exactly);
    assert_eq!(sandbox.read("file").await, exactly);
}

/// TE19: `read` shows a long file in pages, and the notices lead through the whole file.
#[tokio::test]
async fn offset_and_limit_reach_the_rest() {
    let sandbox = Sandbox::new().await;
    let content: String =
        (1..=20_000).flat_map(|line| ["line ".to_owned(), line.to_string(), "\n".to_owned()]).collect();
    sandbox.put("long", &content);
    let total = content.chars().count();
    let first = sandbox.read("long").await;
    let (shown, notice) = first.split_at(50_000);
    assert_eq!(shown, &content[..50_000]);
    assert!(
        notice.starts_with(&format!(
            "\n... (output truncated: {total} total chars, showing first 50000); to read on: offset "
        )),
        "{notice}"
    );
    let mut whole = shown.to_owned();
    let mut page = first.clone();
    while let Some((_, place)) = page.rsplit_once("to read on: offset ") {
        let (offset, column) = place.split_once(", column ").unwrap();
        let offset: u64 = offset.parse().unwrap();
        let column: u64 = column.parse().unwrap();
        page = sandbox
            .guest
            .says("read", json!({ "file_path": "long", "offset": offset, "column": column }))
            .await;
        let text = page.rsplit_once("\n... (output truncated").map_or(page.as_str(), |(text, _)| text);
        whole.push_str(text);
    }
    assert_eq!(whole, content);
    let lines =
        sandbox.guest.says("read", json!({ "file_path": "long", "offset": 12_345, "limit": 2 })).await;
    assert_eq!(lines, "line 12345\nline 12346\n");
    let past = sandbox.guest.fails("read", json!({ "file_path": "long", "offset": 20_002 })).await;
    assert_eq!(
        past,
        format!(
            "invalid arguments: `offset` 20002 is past the end: the last line of `{}` is 20000",
            sandbox.path("long").display()
        )
    );
    assert!(
        sandbox
            .guest
            .fails("read", json!({ "file_path": "long", "offset": 0 }))
            .await
            .starts_with("invalid arguments")
    );
    assert!(
        sandbox
            .guest
            .fails("read", json!({ "file_path": "long", "limit": 0 }))
            .await
            .starts_with("invalid arguments")
    );
}

/// TE19: reading a part of a large file needs memory only for that part.
#[tokio::test]
async fn a_large_file_can_be_read_in_part() {
    let sandbox = Sandbox::new().await;
    let line = format!("{}\n", "0123456789".repeat(10));
    sandbox.put("large", line.repeat((20 << 20) / line.len()));
    let lines =
        sandbox.guest.says("read", json!({ "file_path": "large", "offset": 200_000, "limit": 3 })).await;
    assert_eq!(lines, line.repeat(3));
    assert!(within("it is read", sandbox.read("large")).await.contains("output truncated"));
    // One line of 20 MiB; two copies of it exceed a plugin's memory.
    sandbox.put("line", "y".repeat(20 << 20));
    let part = sandbox.guest.says("read", json!({ "file_path": "line", "column": 20_000_000 })).await;
    assert!(part.starts_with("yyy") && part.contains("output truncated"), "{}", part.len());
}

/// TE20: a path that is not a regular file gives an error at once, with the reason.
#[tokio::test]
async fn what_is_no_file_is_an_error_at_once() {
    let sandbox = Sandbox::new().await;
    make_fifo(&sandbox.path("fifo"));
    let _socket = std::os::unix::net::UnixListener::bind(sandbox.path("socket")).unwrap();
    fs::create_dir(sandbox.path("folder")).unwrap();
    symlink("fifo", sandbox.path("link")).unwrap();
    symlink("nowhere", sandbox.path("dangling")).unwrap();
    symlink("circle", sandbox.path("circle")).unwrap();
    sandbox.put("file", "");
    for (path, why) in [
        ("missing", "there is no such file"),
        ("missing/file", "there is no such file"),
        ("file/below", "a part of the path is a file and no directory"),
        ("folder", "it is a directory"),
        ("fifo", "it is not a regular file"),
        ("socket", "it is not a regular file"),
        ("link", "it is not a regular file"),
        ("dangling", "there is no such file"),
    ] {
        let shown = sandbox.path(path).display().to_string();
        assert_eq!(sandbox.cannot_read(path).await, format!("Tool error: cannot read `{shown}`: {why}"));
    }
    assert!(sandbox.cannot_read("circle").await.starts_with("Tool error: cannot read `"));
    for path in ["/dev/zero", "/dev/null", "/dev/random", "/dev/tty"] {
        if Path::new(path).exists() {
            assert_eq!(
                sandbox.cannot_read(path).await,
                format!("Tool error: cannot read `{path}`: it is not a regular file")
            );
        }
    }
    assert_eq!(sandbox.cannot_read("/dev").await, "Tool error: cannot read `/dev`: it is a directory");
    assert!(sandbox.guest.fails("read", json!({ "file_path": "" })).await.contains("it is a directory"));
}

/// TE20: `read` refuses files of `/proc`, because they contain haft's own secrets.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn haft_itself_is_not_read() {
    for mode in [SandboxMode::Sandbox, SandboxMode::Rx, SandboxMode::Rwx] {
        let sandbox = Sandbox::with(mode).await;
        symlink("/proc/self/environ", sandbox.path("link")).unwrap();
        let own = format!("/proc/{}/environ", std::process::id());
        for path in [
            "/proc/self/environ",
            "/proc/self/mem",
            "/proc/self/fd/0",
            "/proc/thread-self/environ",
            &own,
            "link",
        ] {
            let refused = sandbox.cannot_read(path).await;
            assert!(refused.starts_with("Tool error: "), "{refused}");
            assert!(!refused.contains("PATH"), "{refused}");
        }
    }
}

/// TE20: `read` shows invalid UTF-8 with replacement characters and refuses binary files; `edit` refuses both.
#[tokio::test]
async fn what_is_not_utf8_is_handled() {
    let sandbox = Sandbox::new().await;
    let path = sandbox.put("latin1", b"caf\xe9 au lait\n");
    assert_eq!(
        sandbox.read("latin1").await,
        "caf\u{fffd} au lait\n\n... (not valid UTF-8: 1 invalid sequences are shown as \u{fffd})"
    );
    sandbox.put("binary", b"\x7fELF\0\0\0\x01");
    let shown = sandbox.path("binary").display().to_string();
    assert_eq!(
        sandbox.cannot_read("binary").await,
        format!("Tool error: cannot read `{shown}`: it is a binary file of 8 bytes, and no text")
    );
    let shown = path.display();
    assert_eq!(
        sandbox.cannot_edit("latin1", "lait", "eau").await,
        format!(
            "Tool error: cannot write `{shown}`: it is not UTF-8 text (byte 3 on), and only text can be edited"
        )
    );
    assert_eq!(fs::read(&path).unwrap(), b"caf\xe9 au lait\n");
}

/// TE20: `read` reports a refusal of the operating system. Root is never refused.
#[tokio::test]
async fn a_file_that_must_not_be_read_is_denied() {
    let sandbox = Sandbox::new().await;
    let path = sandbox.put("secret", "secret");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if rustix::process::geteuid().is_root() {
        assert_eq!(sandbox.read("secret").await, "secret");
    } else {
        let shown = path.display();
        assert_eq!(
            sandbox.cannot_read("secret").await,
            format!("Tool error: read denied: the permissions of `{shown}` forbid it")
        );
    }
}

/// TE21: `write` creates and replaces files, with their missing parent directories.
#[tokio::test]
async fn write_makes_parents_and_overwrites() {
    let sandbox = Sandbox::new().await;
    assert_eq!(sandbox.write("a/b/c.txt", "żółw").await, "Wrote 7 bytes to a/b/c.txt");
    assert_eq!(sandbox.content("a/b/c.txt"), "żółw");
    let absolute = sandbox.path("a/b/c.txt");
    assert_eq!(sandbox.write(&absolute, "").await, format!("Wrote 0 bytes to {}", absolute.display()));
    assert_eq!(sandbox.content("a/b/c.txt"), "");
    let large = "z".repeat(3 << 20);
    assert_eq!(sandbox.write("large", &large).await, "Wrote 3145728 bytes to large");
    assert_eq!(sandbox.content("large"), large);
    assert_eq!(sandbox.names(), ["a", "large"]);
}

/// TE21: an invalid call of `write` changes nothing.
#[tokio::test]
async fn write_refuses_what_makes_no_sense() {
    let sandbox = Sandbox::new().await;
    sandbox.put("file", "as it was");
    fs::create_dir(sandbox.path("folder")).unwrap();
    make_fifo(&sandbox.path("fifo"));
    let refused = sandbox.guest.fails("write", json!({ "file_path": "file" })).await;
    assert_eq!(refused, "invalid arguments: `content` is required");
    let refused = sandbox.guest.fails("write", json!({ "content": "x" })).await;
    assert_eq!(refused, "invalid arguments: `file_path` is required");
    assert_eq!(sandbox.cannot_write("").await, "invalid arguments: `file_path` is empty");
    for (path, why) in [
        ("folder", "it is a directory"),
        ("folder/", "it is a directory"),
        ("fifo", "it is not a regular file"),
        ("file/below", "a part of the path is a file and no directory"),
        ("file/below/deep", "a part of the path is a file and no directory"),
    ] {
        let shown = sandbox.path(path.trim_end_matches('/')).display().to_string();
        assert_eq!(
            sandbox.cannot_write(path).await,
            format!("Tool error: cannot write `{shown}`: {why}"),
            "{path}"
        );
    }
    let shown = sandbox.path("new/").display().to_string();
    for path in ["new/", "new/."] {
        let expected = format!("Tool error: cannot write `{shown}`: it names a directory");
        assert_eq!(sandbox.cannot_write(path).await, expected);
    }
    assert_eq!(sandbox.content("file"), "as it was");
    assert_eq!(sandbox.names(), ["fifo", "file", "folder"]);
}

/// TE22: `edit` replaces one occurrence, or all, and reports the number.
#[tokio::test]
async fn edit_replaces_and_counts() {
    let sandbox = Sandbox::new().await;
    sandbox.put("file", "one two three two\n");
    assert_eq!(sandbox.edit("file", "one", "1").await, "Edited file (1 occurrence replaced)");
    let all = json!({ "file_path": "file", "old_string": "two", "new_string": "", "replace_all": true });
    assert_eq!(sandbox.guest.says("edit", all).await, "Edited file (2 occurrences replaced)");
    assert_eq!(sandbox.content("file"), "1  three \n");
    sandbox.put("crlf", "a\r\nb\r\n");
    sandbox.edit("crlf", "a\nb", "a\nc").await;
    assert_eq!(sandbox.content("crlf"), "a\r\nc\r\n");
}

/// TE22: an ambiguous or invalid edit does not change the file's content, time or inode.
#[tokio::test]
async fn an_edit_that_fails_leaves_the_file_alone() {
    let sandbox = Sandbox::new().await;
    let path = sandbox.put("file", "two\n  two\nthree\n");
    let shown = path.display().to_string();
    let facts = || {
        let metadata = fs::metadata(&path).unwrap();
        (metadata.ino(), metadata.mtime_nsec(), metadata.ctime_nsec(), sandbox.content("file"))
    };
    let before = facts();
    for (old, new, expected) in [
        (
            "two",
            "2",
            format!(
                "Tool error: `old_string` occurs 2 times in `{shown}`, at lines 1, 2; the file is unchanged. Give more of the text around one of them, or set `replace_all`"
            ),
        ),
        ("four", "4", format!("Tool error: `old_string` not found in `{shown}`; the file is unchanged")),
        (
            "three\n  two",
            "x",
            format!(
                "Tool error: `old_string` not found in `{shown}`; the file is unchanged. Line 3 begins alike, with other white space"
            ),
        ),
        (
            "",
            "x",
            "invalid arguments: `old_string` is empty; to create a file or replace all of it use write"
                .into(),
        ),
        ("two", "two", "invalid arguments: `old_string` and `new_string` are the same".into()),
    ] {
        let refused = sandbox.cannot_edit("file", old, new).await;
        if old == "three\n  two" {
            assert!(
                refused.starts_with(&format!("Tool error: `old_string` not found in `{shown}`")),
                "{refused} {expected}"
            );
        } else {
            assert_eq!(refused, expected);
        }
        assert_eq!(facts(), before);
    }
    let missing = sandbox.path("missing");
    assert_eq!(
        sandbox.cannot_edit("missing", "a", "b").await,
        format!("Tool error: cannot read `{}`: there is no such file", missing.display())
    );
    assert_eq!(sandbox.names(), ["file"]);
}

/// TE23: a reader sees either the old or the new content, and no temporary file is left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_never_see_half_a_file() {
    let sandbox = Sandbox::new().await;
    let contents = ["a".repeat(500_000), "b".repeat(300_000)];
    let path = sandbox.put("file", &contents[0]);
    let (done, own) = (Arc::new(AtomicBool::new(false)), contents.clone());
    let stop = done.clone();
    let reader = std::thread::spawn(move || {
        let mut seen = 0;
        while !stop.load(Ordering::Relaxed) {
            let content = fs::read_to_string(&path).unwrap();
            assert!(own.contains(&content), "half a file: {} bytes", content.len());
            seen += 1;
        }
        seen
    });
    for turn in 0..20 {
        sandbox.write("file", &contents[(turn + 1) % 2]).await;
    }
    done.store(true, Ordering::Relaxed);
    assert!(reader.join().unwrap() > 0);
    assert_eq!(sandbox.names(), ["file"]);
}

/// TE23: concurrent writes to one file leave the complete content of one call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writes_leave_one_whole_file() {
    let sandbox = Sandbox::new().await;
    let contents: Vec<String> = (0..8).map(|number| number.to_string().repeat(10_000)).collect();
    let calls = contents.iter().map(|content| {
        let (guest, content) = (sandbox.guest.clone(), content.clone());
        tokio::spawn(
            async move { guest.says("write", json!({ "file_path": "file", "content": content })).await },
        )
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), "Wrote 10000 bytes to file");
    }
    assert!(contents.contains(&sandbox.content("file")));
    assert_eq!(sandbox.names(), ["file"]);
}

/// TE23: of concurrent edits of one file none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_edits_are_all_made() {
    let sandbox = Sandbox::new().await;
    let words = |letter: char| (0..8).map(|number| format!("{letter}{number} ")).collect::<String>();
    sandbox.put("file", words('o'));
    let calls = (0..8).map(|number| {
        let (old, new) = (format!("o{number} "), format!("n{number} "));
        let edit = json!({ "file_path": "file", "old_string": old, "new_string": new });
        let guest = sandbox.guest.clone();
        tokio::spawn(async move { guest.says("edit", edit).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), "Edited file (1 occurrence replaced)");
    }
    assert_eq!((sandbox.content("file"), sandbox.names()), (words('n'), vec!["file".to_owned()]));
}

/// TE23: `write` and `edit` replace the inode and keep the mode, also of a file that haft cannot read.
#[tokio::test]
async fn a_replaced_file_keeps_its_mode() {
    let sandbox = Sandbox::new().await;
    for mode in [0o600, 0o755, 0o644, 0o640, 0o777, 0o666, 0o200] {
        let path = sandbox.put("file", "old");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let before = fs::metadata(&path).unwrap();
        sandbox.write("file", "new text").await;
        let after = fs::metadata(&path).unwrap();
        assert_ne!(after.ino(), before.ino());
        assert_eq!(after.mode() & 0o7777, mode, "write: {:o}", after.mode());
        if mode & 0o400 != 0 {
            sandbox.edit("file", "new", "newer").await;
            let edited = fs::metadata(&path).unwrap();
            assert_eq!((edited.mode() & 0o7777, edited.ino() == after.ino()), (mode, false));
        }
        fs::remove_file(&path).unwrap();
    }
    // The replacement does not inherit a set-user-ID bit.
    let path = sandbox.put("special", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    sandbox.write("special", "new").await;
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
}

/// TE23: while haft writes a private copy, other users cannot read it.
#[tokio::test]
async fn a_copy_of_a_file_is_for_its_user_only() {
    let place = tempfile::tempdir().unwrap();
    let guest = Guest::new(crate::common::grant(&[], &[place.path()])).await;
    let mode = |name: &str| fs::metadata(place.path().join(name)).unwrap().mode() & 0o7777;
    // The mode that the user's umask leaves.
    fs::write(place.path().join("own"), "").unwrap();
    for (name, expected) in [(".haft-private-1", 0o600), (".haft-new-1", mode("own")), ("file", mode("own"))]
    {
        guest.says("create", json!({ "path": place.path().join(name) })).await;
        assert_eq!(mode(name), expected, "{name}: {:o}", mode(name));
    }
}

/// TE23: an edit that runs out of time stops by itself and leaves no copy behind.
#[tokio::test]
async fn an_edit_that_is_out_of_time_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let workspace = Root::resolve(Path::new("/"), directory.path()).unwrap();
    let content = "a line of a file\n".repeat(1 << 20) + "the end";
    let path = directory.path().join("file");
    fs::write(&path, &content).unwrap();
    // On a machine of any speed, one of these time limits ends during the copy.
    let times = std::iter::successors(Some(20), |milliseconds| Some(milliseconds + milliseconds / 4));
    let mut gave_up = 0;
    for milliseconds in times.take(32) {
        let grant = Grant::sandbox(SandboxMode::Sandbox, workspace.clone(), []);
        let files = crate::common::repository().join("plugins/built/files.wasm");
        let guest = Guest::of(&files, grant, crate::guest::briefly(milliseconds)).await;
        let edited = guest.call("edit", edit("file", "the end", "its end")).await;
        if !edited.is_error {
            break;
        }
        assert!(fs::read(&path).unwrap() == content.as_bytes(), "{}", edited.content);
        let entries = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        let left: Vec<_> = entries.filter(|entry| *entry != path).collect();
        if edited.content.contains("its time was nearly over; the file is unchanged") {
            assert!(left.is_empty(), "{milliseconds} ms: {left:?}");
            gave_up += 1;
        }
        // A guest that waited for the disk until its time limit could not remove the copy.
        for copy in left {
            fs::remove_file(copy).unwrap();
        }
    }
    assert!(gave_up > 0, "no copy was being made when its time was over");
}

/// TE23: a write through a link keeps the link and changes its target in the sandbox.
#[tokio::test]
async fn a_link_inside_the_sandbox_is_written_through() {
    let sandbox = Sandbox::new().await;
    fs::create_dir(sandbox.path("folder")).unwrap();
    let path = sandbox.put("folder/file", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("folder/file", sandbox.path("link")).unwrap();
    symlink("link", sandbox.path("link2")).unwrap();
    symlink("folder", sandbox.path("through")).unwrap();
    for (number, name) in ["link", "link2", "through/file"].into_iter().enumerate() {
        sandbox.write(name, &format!("content {number}")).await;
        assert_eq!(sandbox.content("folder/file"), format!("content {number}"));
        sandbox.edit(name, "content", "edited").await;
        assert_eq!(sandbox.content("folder/file"), format!("edited {number}"));
    }
    for link in ["link", "link2"] {
        assert!(fs::symlink_metadata(sandbox.path(link)).unwrap().is_symlink());
    }
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    symlink("folder/new", sandbox.path("to-be")).unwrap();
    sandbox.write("to-be", "made").await;
    assert_eq!(sandbox.content("folder/new"), "made");
    assert_eq!(fs::read_dir(sandbox.path("folder")).unwrap().count(), 2);
}

/// TE19, TE22: `read` and `edit` work on files far larger than a guest's memory of 64 MiB. Reading all of such a file
/// would exceed a call's time limit.
#[tokio::test]
async fn files_of_any_size_are_read_and_edited() {
    let sandbox = Sandbox::new().await;
    let log = sandbox.put("log", "a line\n".repeat(10_000));
    fs::File::options().append(true).open(log).unwrap().set_len(64 << 30).unwrap();
    let page = sandbox.read("log").await;
    assert!(page.starts_with("a line\na line\n"));
    let notice = page.lines().last().unwrap();
    assert!(
        notice.starts_with("... (output truncated: more than ")
            && notice.contains(" of a file of 68719476736 bytes"),
        "{notice}"
    );
    let large = sandbox.put("large", "0123456789abcde\n".repeat(5 << 20) + "the end\n");
    fs::set_permissions(large, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(sandbox.edit("large", "the end", "its end").await, "Edited large (1 occurrence replaced)");
    let metadata = fs::metadata(sandbox.path("large")).unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o777), ((80 << 20) + 8, 0o640));
    assert!(sandbox.content("large").ends_with("e\nits end\n"));
    assert!(sandbox.cannot_edit("large", "0123456789abcde\n", "x").await.contains("occurs 5242880 times"));
    assert_eq!(sandbox.names(), ["large", "log"]);
}

/// TE24: `read` and `edit` never split a character of several bytes.
#[tokio::test]
async fn characters_are_never_split() {
    let sandbox = Sandbox::new().await;
    for (character, count) in [("ж", 60_000), ("€", 60_000), ("🐢", 60_000), ("e\u{301}", 30_000)] {
        for shift in 0..2 {
            let content = format!("{}{}", "x".repeat(shift), character.repeat(count));
            sandbox.put("file", &content);
            let page = sandbox.read("file").await;
            let (text, notice) = page.split_once("\n... (output truncated: ").unwrap();
            assert_eq!(text, content.chars().take(50_000).collect::<String>());
            let total = content.chars().count();
            assert_eq!(
                notice,
                format!("{total} total chars, showing first 50000); to read on: offset 1, column 50001")
            );
            let rest = sandbox.guest.says("read", json!({ "file_path": "file", "column": 50_001 })).await;
            assert_eq!(rest, content.chars().skip(50_000).collect::<String>());
        }
    }
    sandbox.put("file", "жук 🐢\n");
    sandbox.edit("file", "🐢", "🐇").await;
    assert_eq!(sandbox.content("file"), "жук 🐇\n");
}

/// SB03: a relative path starts in the workspace, an absolute path at the root, and `~` in the person's home.
#[tokio::test]
async fn paths_mean_what_they_mean_to_the_person() {
    let sandbox = Sandbox::new().await;
    fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox.put("folder/file", "in the workspace");
    fs::write(sandbox.beside("file"), "beside").unwrap();
    let absolute = sandbox.path("folder/file");
    for path in ["folder/file", "./folder//file", "folder/../folder/file", absolute.to_str().unwrap()] {
        assert_eq!(sandbox.read(path).await, "in the workspace", "{path}");
    }
    for path in [sandbox.beside("file"), "../beside/file".into(), sandbox.path("../beside/file")] {
        assert_eq!(sandbox.read(&path).await, "beside");
        assert!(sandbox.cannot_write(&path).await.starts_with("Tool error: write denied: "));
    }
    assert_eq!(fs::read_to_string(sandbox.beside("file")).unwrap(), "beside");
    // This file exists in no home, so the error contains the searched path.
    let home = etcetera::home_dir().unwrap();
    assert_eq!(
        sandbox.cannot_read("~/haft-test/missing").await,
        format!("Tool error: cannot read `{}/haft-test/missing`: there is no such file", home.display())
    );
}

/// SB03, SB04: `read` follows links out of the workspace, also through directories; `write` and `edit` refuse them.
#[tokio::test]
async fn absolute_links_are_for_reading() {
    let sandbox = Sandbox::new().await;
    fs::write(sandbox.beside("file"), "beside").unwrap();
    symlink(sandbox.beside("file"), sandbox.path("leaf")).unwrap();
    symlink(sandbox.beside(""), sandbox.path("folder")).unwrap();
    symlink(sandbox.beside("new"), sandbox.path("dangling")).unwrap();
    symlink("../beside/file", sandbox.path("relative")).unwrap();
    symlink("../beside", sandbox.path("relative-folder")).unwrap();
    for path in ["leaf", "folder/file", "relative", "relative-folder/file", "folder/../beside/file"] {
        assert_eq!(sandbox.read(path).await, "beside", "{path}");
    }
    for path in [
        "leaf",
        "folder/file",
        "folder/new",
        "dangling",
        "relative",
        "relative-folder/new",
        "relative-folder/a/b",
    ] {
        let refused = sandbox.cannot_write(path).await;
        assert!(refused.starts_with("Tool error: write denied: "), "{path}: {refused}");
        assert_eq!(fs::read_dir(sandbox.beside("")).unwrap().count(), 1, "{path}");
    }
    for path in ["leaf", "folder/file", "relative", "relative-folder/file"] {
        let refused = sandbox.cannot_edit(path, "beside", "escaped").await;
        assert!(refused.starts_with("Tool error: write denied: "), "{path}: {refused}");
    }
    assert_eq!(fs::read_to_string(sandbox.beside("file")).unwrap(), "beside");
    assert_eq!(sandbox.names(), ["dangling", "folder", "leaf", "relative", "relative-folder"]);
}

/// SB02, SB04: a refused write names the line of program.toml that would allow it.
#[tokio::test]
async fn a_denied_write_names_what_would_allow_it() {
    for mode in [SandboxMode::Sandbox, SandboxMode::Rx] {
        let sandbox = Sandbox::with(mode).await;
        let beside = sandbox.beside("");
        let beside = beside.to_str().unwrap().trim_end_matches('/');
        for (path, directory) in [
            (sandbox.beside("new"), beside),
            ("../beside/new".into(), beside),
            ("/etc/haft-test-new".into(), "/etc"),
            ("/tmp/../etc/haft-test-new".into(), "/etc"),
            ("/tmpfoo".into(), "/"),
            (
                sandbox.directory.path().join("workspace-lookalike"),
                sandbox.directory.path().to_str().unwrap(),
            ),
        ] {
            let refused = sandbox.cannot_write(&path).await;
            let (message, hint) = refused.split_once('\n').unwrap_or((&refused, ""));
            assert!(
                message.starts_with("Tool error: write denied: `")
                    && message.ends_with("` is outside the directories that this tool may write"),
                "{message}"
            );
            let line = format!("hint: to allow it, add `write = [\"{directory}\"]` to `[sandbox]`");
            let none = format!("hint: haft proposes no line to allow it: that would grant `{directory}`, ");
            let is_wide = ["/", "/etc"].contains(&directory);
            assert!(if is_wide { hint.starts_with(&none) } else { hint == line }, "{hint}");
        }
        assert!(!Path::new("/etc/haft-test-new").exists() && !sandbox.beside("new").exists());
    }
}

/// S09: a refusal names the requested path and the link that leads out, never a temporary file of haft.
#[tokio::test]
async fn a_refused_write_names_what_was_asked_for() {
    let sandbox = Sandbox::new().await;
    symlink(sandbox.beside(""), sandbox.path("linked")).unwrap();
    fs::write(sandbox.beside("file"), "beside").unwrap();
    fs::create_dir(sandbox.path("deep")).unwrap();
    symlink("../../beside", sandbox.path("deep/linked")).unwrap();
    for (path, link) in [
        ("linked/new", "linked"),
        ("linked/file", "linked"),
        ("linked/a/b/new", "linked"),
        ("deep/linked/new", "deep/linked"),
    ] {
        let shown = sandbox.path(path).display().to_string();
        let expected = format!(
            "Tool error: write denied: `{shown}` is outside the directories that this tool may write\nhint: \
             `{}` is a link to a target outside the granted directories; to allow it, grant the target and \
             use its path",
            sandbox.path(link).display()
        );
        assert_eq!(sandbox.cannot_write(path).await, expected);
        if path.ends_with("file") {
            assert_eq!(sandbox.cannot_edit(path, "beside", "x").await, expected);
        }
    }
    let long = "x".repeat(300);
    let mut refused = vec![sandbox.cannot_write(&long).await, sandbox.cannot_write("no\u{0}ne").await];
    fs::create_dir(sandbox.path("closed")).unwrap();
    fs::set_permissions(sandbox.path("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    if !rustix::process::geteuid().is_root() {
        let denied = sandbox.cannot_write("closed/new").await;
        let shown = sandbox.path("closed/new").display().to_string();
        assert!(denied.contains(&shown), "{denied}");
        refused.push(denied);
    }
    for refused in refused {
        assert!(refused.starts_with("Tool error: ") && !refused.contains(".haft-"), "{refused}");
    }
}

/// C15: a path that ends in a slash never names a file, in any spelling.
#[tokio::test]
async fn a_file_with_a_slash_is_no_file() {
    let sandbox = Sandbox::new().await;
    sandbox.put("a.txt", "one");
    symlink("a.txt", sandbox.path("link")).unwrap();
    for name in ["a.txt", "link"] {
        for end in ["/", "/.", "//", "/./"] {
            let path = format!("{name}{end}");
            let absolute = format!("{}{end}", sandbox.path(name).display());
            for path in [path, absolute] {
                let answers = [
                    sandbox.cannot_read(&path).await,
                    sandbox.cannot_write(&path).await,
                    sandbox.cannot_edit(&path, "one", "two").await,
                ];
                for answer in answers {
                    assert!(
                        answer.contains("a part of the path is a file and no directory"),
                        "{path}: {answer}"
                    );
                }
            }
        }
    }
    assert_eq!((sandbox.content("a.txt"), sandbox.names().len()), ("one".into(), 2));
}

/// SB01: without a write limit the calls can write everywhere.
#[tokio::test]
async fn without_a_limit_everything_may_be_written() {
    let sandbox = Sandbox::with(SandboxMode::Rwx).await;
    sandbox.write(sandbox.beside("new"), "beside").await;
    sandbox.write("here", "here").await;
    assert_eq!(fs::read_to_string(sandbox.beside("new")).unwrap(), "beside");
    assert_eq!(sandbox.content("here"), "here");
}

/// A call of `read` produces no events besides its start and end.
#[tokio::test]
async fn read_is_read_only_and_the_others_are_not() {
    let sandbox = Sandbox::new().await;
    sandbox.put("file", "x");
    assert_eq!(sandbox.read("file").await, "x");
    let received = sandbox.guest.received();
    assert!(received.is_empty(), "{received:?}");
}
