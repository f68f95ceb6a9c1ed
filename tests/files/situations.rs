//! Writes to files of every kind: their metadata stays, a failure leaves the complete old content, and no other file
//! remains.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
use serde_json::{Value, json};

use crate::cli::Home;
use crate::common::same_environment;

/// The caller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The user who runs the tests.
    Me,
    /// Root without the right to ignore permissions, or the user who runs the tests.
    Anybody,
    /// The caller in a mount namespace, after these commands.
    Mounted(&'static str),
}
use By::{Anybody, Me, Mounted};

/// The call: a tool, a file and its new content.
#[derive(Clone, Copy)]
enum Do {
    Write(&'static str, &'static str),
    /// A number of bytes of one letter.
    WriteMany(&'static str, usize),
    Edit(&'static str, &'static str, &'static str),
    EditMany(&'static str, &'static str, usize),
    Read(&'static str),
}
use Do::{Edit, EditMany, Read, Write, WriteMany};

/// The outcome: the content of `f` after the call, or a part of the error with `f` unchanged.
#[derive(Clone, Copy)]
enum Is {
    Now(&'static str),
    Refused(&'static str),
}
use Is::{Now, Refused};

/// The kind of the file, the shell commands that create it (`attribute` and `list` are steps of this test), the
/// call, and its outcome.
const SITUATIONS: &[(&str, By, &str, Do, Is)] = &[
    ("mode 0600", Me, "echo a >f; chmod 600 f", Edit("f", "a", "b"), Now("b\n")),
    ("mode 0640", Me, "echo a >f; chmod 640 f", Write("f", "b"), Now("b")),
    ("mode 0755", Me, "echo a >f; chmod 755 f", Edit("f", "a", "b"), Now("b\n")),
    ("mode 0666", Me, "echo a >f; chmod 666 f", Write("f", "b"), Now("b")),
    ("mode 0604", Me, "echo a >f; chmod 604 f", Edit("f", "a", "b"), Now("b\n")),
    ("an attribute, edited", Me, "echo a >f; attribute f", Edit("f", "a", "b"), Now("b\n")),
    ("an attribute, written", Me, "echo a >f; attribute f", Write("f", "b"), Now("b")),
    ("an access list, edited", Me, "echo a >f; list f", Edit("f", "a", "b"), Now("b\n")),
    ("an access list, written", Me, "echo a >f; list f", Write("f", "b"), Now("b")),
    ("a list and an attribute", Me, "echo a >f; list f; attribute f", Write("f", "b"), Now("b")),
    ("a second name, edited", Me, "echo a >f; ln f g", Edit("f", "a", "b"), Now("b\n")),
    ("a second name, written", Me, "echo a >f; ln f g", Write("f", "b"), Now("b")),
    ("a second name, longer", Me, "echo a >f; ln f g", WriteMany("f", 100_000), Now("")),
    ("a second name with a list", Me, "echo a >f; list f; ln f g", Edit("f", "a", "b"), Now("b\n")),
    ("a second name, shorter", Me, "echo abcdef >f; ln f g", Write("f", "b"), Now("b")),
    ("an empty file", Me, ": >f", Write("f", "b"), Now("b")),
    ("made empty", Me, "echo a >f", Write("f", ""), Now("")),
    ("a link to it", Me, "echo a >f; ln -s f l", Edit("l", "a", "b"), Now("b\n")),
    ("a link to a file with two names", Me, "echo a >f; ln f g; ln -s f l", Write("l", "b"), Now("b")),
    ("in a folder", Me, "mkdir d; echo a >d/x; : >f", Read("d/x"), Now("")),
    (
        "lines that end in CRLF",
        Me,
        "printf 'a\\r\\nb\\r\\n' >f",
        Edit("f", "a\nb", "c\nd"),
        Now("c\r\nd\r\n"),
    ),
    (
        "a new line among CRLF",
        Me,
        "printf 'a\\r\\nb\\r\\n' >f",
        Edit("f", "b", "c\nd"),
        Now("a\r\nc\r\nd\r\n"),
    ),
    ("both kinds of ends", Me, "printf 'a\\r\\nb\\nc\\r\\n' >f", Edit("f", "b", "x"), Now("a\r\nx\nc\r\n")),
    ("no end of line at the end", Me, "printf 'a\\nb' >f", Edit("f", "b", "c"), Now("a\nc")),
    ("a byte order mark", Me, "printf '\\357\\273\\277a\\n' >f", Edit("f", "a", "b"), Now("\u{feff}b\n")),
    (
        "a mark and CRLF",
        Me,
        "printf '\\357\\273\\277a\\r\\nb\\r\\n' >f",
        Edit("f", "a\nb", "c"),
        Now("\u{feff}c\r\n"),
    ),
    ("a text that is not there", Me, "echo a >f; list f", Edit("f", "x", "b"), Refused("not found in")),
    ("a directory", Me, "echo a >f; mkdir d", Write("d", "b"), Refused("it is a directory")),
    (
        "a name that looks alike",
        Me,
        "echo a >f; : >it’s.txt",
        Read("it's.txt"),
        Refused("it’s.txt` (in JSON: \""),
    ),
    ("one that looks alike, edited", Me, "echo a >f; : >a–b", Edit("a-b", "x", "y"), Refused("/a–b`")),
    ("a name like no other", Me, "echo a >f", Read("g"), Refused("there is no such file")),
    ("mode 0444", Anybody, "echo a >f; chmod 444 f", Edit("f", "a", "b"), Refused("the permissions of")),
    ("mode 0444, written", Anybody, "echo a >f; chmod 444 f", Write("f", "b"), Refused("the permissions of")),
    (
        "mode 0400 with two names",
        Anybody,
        "echo a >f; chmod 400 f; ln f g",
        Write("f", "b"),
        Refused("permissions"),
    ),
    (
        "a folder of mode 0555",
        Anybody,
        "mkdir d; echo a >d/x; chmod 666 d/x; ln d/x f; chmod 555 d",
        Edit("d/x", "a", "b"),
        Now("b\n"),
    ),
    (
        "no second file in its folder",
        Anybody,
        "mkdir d; echo a >d/x; ln d/x f; chmod 555 d",
        Write("d/x", "b"),
        Now("b"),
    ),
    (
        "new in a folder of mode 0555",
        Anybody,
        "echo a >f; mkdir d; chmod 555 d",
        Write("d/x", "b"),
        Refused("/d` forbid it"),
    ),
    (
        "a name without its content",
        Anybody,
        "echo a >f; chmod 200 f",
        Read("f"),
        Refused("the permissions of"),
    ),
    ("mounted by itself, edited", Mounted("mount --bind f f"), "echo a >f", Edit("f", "a", "b"), Now("b\n")),
    ("mounted by itself, written", Mounted("mount --bind f f"), "echo a >f", Write("f", "b"), Now("b")),
    (
        "mounted, and not to be written",
        Mounted("mount --bind f f; mount -o remount,bind,ro f"),
        "echo a >f",
        Write("f", "b"),
        Refused("read-only"),
    ),
    (
        "too large for its disk",
        Mounted("mount -t tmpfs -o size=64k t d; echo old >d/x"),
        "echo a >f; mkdir d",
        WriteMany("d/x", 90_000),
        Refused("No space left on device"),
    ),
    (
        "edited beyond its disk",
        Mounted("mount -t tmpfs -o size=64k t d; echo old >d/x"),
        "echo a >f; mkdir d",
        EditMany("d/x", "old", 90_000),
        Refused("No space left on device"),
    ),
    (
        "two names on a full disk",
        Mounted("mount -t tmpfs -o size=64k t d; echo old >d/x; ln d/x d/y"),
        "echo a >f; mkdir d",
        WriteMany("d/x", 90_000),
        Refused("No space left on device"),
    ),
    (
        "no place for one more name",
        Mounted("mount -t tmpfs -o size=64k,nr_inodes=2 t d; echo old >d/x"),
        "echo a >f; mkdir d",
        Write("d/y", "x"),
        Refused("No space left on device"),
    ),
    (
        "larger than `ulimit -f`",
        Mounted("ulimit -f 64"),
        "echo a >f",
        WriteMany("f", 90_000),
        Refused("File too large"),
    ),
    (
        "two names under `ulimit -f`",
        Mounted("ulimit -f 64"),
        "echo a >f; ln f g",
        WriteMany("f", 90_000),
        Refused("File too large"),
    ),
];

/// The metadata of a file.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    mode: u32,
    owner: (u32, u32),
    names: u64,
    attributes: BTreeMap<String, Vec<u8>>,
}

fn facts(path: &Path) -> Facts {
    let file = File::open(path).unwrap();
    let metadata = file.metadata().unwrap();
    let mut buffer = vec![0; 4096];
    let length = flistxattr(&file, &mut buffer[..]).unwrap_or(0);
    let names = String::from_utf8(buffer[..length].to_vec()).unwrap();
    let attributes = names.split_terminator('\0').map(|name| {
        let length = fgetxattr(&file, name, &mut buffer[..]).unwrap();
        (name.to_owned(), buffer[..length].to_vec())
    });
    let attributes = attributes.collect();
    Facts {
        mode: metadata.mode(),
        owner: (metadata.uid(), metadata.gid()),
        names: metadata.nlink(),
        attributes,
    }
}

/// An access list in the kernel's form: the owner and another user can read and write, the group can read, others
/// have no right.
fn access_list() -> Vec<u8> {
    let entry = |tag: u16, rights: u16, id: u32| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let any = u32::MAX;
    let entries =
        [entry(1, 6, any), entry(2, 6, 4711), entry(4, 4, any), entry(16, 6, any), entry(32, 0, any)];
    [&2_u32.to_le_bytes()[..], &entries.concat()].concat()
}

/// Creates the files; `false` if the file system does not support them.
fn make(home: &Home, setup: &str) -> bool {
    setup.split("; ").all(|step| {
        let set = |name: &str, value: &[u8], file: &str| {
            let file = File::open(home.work().join(file)).unwrap();
            fsetxattr(file, name, value, XattrFlags::empty()).is_ok()
        };
        match step.split_once(' ') {
            Some(("attribute", file)) => set("user.origin", b"here", file),
            Some(("list", file)) => set("system.posix_acl_access", &access_list(), file),
            _ => run("sh", &["-c", step]).current_dir(home.work()).status().unwrap().success(),
        }
    })
}

#[expect(clippy::disallowed_methods, reason = "these tests start programs of the machine")]
fn run(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

fn call(what: Do) -> (&'static str, Value) {
    match what {
        Write(file, content) => ("write", json!({ "file_path": file, "content": content })),
        WriteMany(file, count) => ("write", json!({ "file_path": file, "content": "y".repeat(count) })),
        Edit(file, old, new) => ("edit", json!({ "file_path": file, "old_string": old, "new_string": new })),
        EditMany(file, old, count) => {
            ("edit", json!({ "file_path": file, "old_string": old, "new_string": "y".repeat(count) }))
        }
        Read(file) => ("read", json!({ "file_path": file })),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The command line that starts haft for the caller.
fn starter(by: By) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match by {
        Anybody if is_root() => words(&["setpriv", "--bounding-set=-dac_override,-dac_read_search"]),
        Me | Anybody => Vec::new(),
        Mounted(commands) => {
            let flags = if is_root() { "-m" } else { "-Urm" };
            // Files in a separate file system are visible only there.
            let look = "echo; for x in d/x d/y; do [ ! -e $x ] || { echo \"$x: $(head -c 20 $x)\"; }; done; ls -A d 2>/dev/null";
            let script = format!("{{ {commands}; }} || exit 99; \"$@\"; r=$?; {look}; exit $r");
            let mut all: Vec<String> = words(&["unshare", flags, "bash", "-c"]);
            all.extend([script, "sh".to_owned()]);
            all
        }
    }
}

/// The output of haft on both streams; `None` if the machine does not support the caller.
fn answer(home: &Home, by: By, what: Do) -> Option<String> {
    let (tool, arguments) = call(what);
    let own = home.command(&[]);
    let starter = starter(by);
    let program = own.get_program().to_str().unwrap().to_owned();
    let words: Vec<String> = starter
        .into_iter()
        .chain([program, "call".to_owned(), tool.to_owned(), arguments.to_string()])
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = run(words[0], &words[1..]);
    same_environment(&own, &mut command);
    let output = command.current_dir(home.work()).output().ok()?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code() != Some(99) && !said.starts_with("unshare:")).then_some(said)
}

/// The difference from the table; `None` if there is no difference.
fn problem(home: &Home, (_, by, setup, what, is): (&str, By, &str, Do, Is)) -> Option<String> {
    let path = home.work().join("f");
    if !make(home, setup) {
        return Some("SKIPPED".to_owned());
    }
    let names = || {
        let entries = fs::read_dir(home.work()).unwrap().map(|entry| entry.unwrap().file_name());
        entries.collect::<std::collections::BTreeSet<_>>()
    };
    let (before, content, all) = (facts(&path), fs::read(&path).unwrap(), names());
    let Some(said) = answer(home, by, what) else { return Some("SKIPPED".to_owned()) };
    let (after, now) = (facts(&path), fs::read(&path).unwrap());
    let expected = match is {
        Now(_) if matches!(what, WriteMany(..)) => "y".repeat(100_000).into_bytes(),
        Now(text) => text.as_bytes().to_vec(),
        Refused(words) if !said.contains(words) => return Some(format!("the answer is {said}")),
        Refused(_) => content,
    };
    // The output line about the mounted file.
    if matches!(is, Refused(_))
        && matches!(by, Mounted(commands) if commands.contains("tmpfs"))
        && !said.contains("d/x: old\n")
    {
        return Some(format!("the old content is lost: {said}"));
    }
    if said.contains(".haft") || said.contains("os error") {
        return Some(format!("the answer is {said}"));
    }
    let is_alike = before == after && now == expected && names() == all;
    (!is_alike).then(|| format!("{before:?}, then {after:?}, {} bytes, {:?}: {said}", now.len(), names()))
}

/// True if a case needs namespaces, another user or file attributes, which some machines do not support.
fn needs_more(by: By, setup: &str) -> bool {
    matches!(by, Mounted(_))
        || ["attribute ", "list ", "chown ", "chattr "].iter().any(|step| setup.contains(step))
}

#[test]
fn files_are_written_in_every_situation() {
    let mut wrong = Vec::new();
    for situation in SITUATIONS.iter().copied() {
        let home = Home::new();
        home.write("program.toml", "[sandbox]\nworkspace = \".\"\n");
        match problem(&home, situation) {
            None => {}
            Some(why) if why == "SKIPPED" && needs_more(situation.1, situation.2) => {
                eprintln!("SKIPPED: {}: not on this machine", situation.0);
            }
            Some(why) => wrong.push(format!("{}: {why}", situation.0)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(SITUATIONS.len() >= 40, "{}", SITUATIONS.len());
}
