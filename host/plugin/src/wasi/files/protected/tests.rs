use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A directory with `closed` in it, which is hidden, and `free`, which is not.
struct Ground {
    directory: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for folder in ["closed/deep", "free/deep"] {
            fs::create_dir_all(directory.path().join(folder)).unwrap();
            fs::write(directory.path().join(folder).join("file"), "").unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn root(&self, name: &str) -> Root {
        Root::resolve(Path::new("/"), &self.path(name)).unwrap()
    }

    fn seals(&self) -> ProtectedPaths {
        ProtectedPaths::of(
            &Grant::none().with_hidden(self.root("closed")).with_fixed(self.root("free/deep/file")),
        )
    }

    fn open(&self, name: &str) -> Object {
        Object::of(File::open(self.path(name)).unwrap()).unwrap()
    }
}

const HIDDEN: Option<ProtectedObject> = Some(ProtectedObject { closed: Closed::Hidden, itself: false });

/// SB05: by identity and by place, the thing itself and all below.
#[test]
fn sb05_what_is_closed_is_told_by_what_it_is() {
    let ground = Ground::new();
    let seals = ground.seals();
    for (name, expected) in [
        ("closed", Some(ProtectedObject { closed: Closed::Hidden, itself: true })),
        ("closed/deep", HIDDEN),
        ("closed/deep/file", HIDDEN),
        ("free/deep/file", Some(ProtectedObject { closed: Closed::Fixed, itself: true })),
        ("free/deep", None),
        ("free", None),
        (".", None),
        ("/", None),
    ] {
        assert_eq!(seals.on(&ground.open(name)).unwrap(), expected, "{name}");
        // Once more, with what was remembered.
        assert_eq!(seals.on(&ground.open(name)).unwrap(), expected, "{name}");
    }
    let lookalike = ground.path("closed-lookalike");
    fs::write(&lookalike, "").unwrap();
    assert_eq!(seals.on(&ground.open("closed-lookalike")).unwrap(), None);
}

/// SB05: what is remembered to be free is so in its place only.
#[test]
fn sb05_what_is_moved_is_judged_again() {
    let ground = Ground::new();
    let seals = ground.seals();
    let held = ground.open("free/deep");
    assert_eq!(seals.on(&held).unwrap(), None);
    fs::rename(ground.path("free/deep"), ground.path("closed/moved")).unwrap();
    assert_eq!(seals.on(&held).unwrap(), HIDDEN);
    fs::rename(ground.path("closed"), ground.path("renamed")).unwrap();
    assert_eq!(seals.on(&held).unwrap(), HIDDEN);
    assert_eq!(seals.on(&ground.open("renamed/deep/file")).unwrap(), HIDDEN);
    // What comes to stand in its place is closed as well, and the first one still is.
    fs::create_dir_all(ground.path("closed/new")).unwrap();
    assert_eq!(seals.on(&ground.open("closed/new")).unwrap(), HIDDEN);
    assert_eq!(seals.on(&ground.open("renamed/deep")).unwrap(), HIDDEN);
}

/// SB05: an object without a place is not judged by where it was.
#[test]
fn sb05_what_is_gone_has_no_place() {
    let ground = Ground::new();
    let seals = ground.seals();
    let (file, replaced) = (ground.open("free/deep/file"), ground.open("free/deep/file"));
    fs::rename(ground.path("closed/deep/file"), ground.path("free/deep/file")).unwrap();
    assert!(matches!(seals.judge(&file).unwrap(), Judged::Gone));
    fs::remove_file(ground.path("free/deep/file")).unwrap();
    assert!(matches!(seals.judge(&replaced).unwrap(), Judged::Gone));
}

/// SB05: names that are closed, there or not, and those that lead there.
#[test]
fn sb05_names_on_the_way_are_closed() {
    let ground = Ground::new();
    fs::create_dir(ground.path("links")).unwrap();
    symlink("links/second", ground.path("first")).unwrap();
    symlink(ground.path("closed/.."), ground.path("links/second")).unwrap();
    let seals = ProtectedPaths::of(
        &Grant::none().with_hidden(ground.root("first/closed/deep")).with_hidden(ground.root("absent/key")),
    );
    let entry = |directory: &str, name: &str| {
        let directory = File::open(ground.path(directory)).unwrap();
        seals.on_entry(&directory, name).unwrap().map(|seal| seal.closed)
    };
    for (directory, name) in [
        (".", "first"),
        (".", "links"),
        ("links", "second"),
        (".", "closed"),
        ("closed", "deep"),
        (".", "absent"),
    ] {
        assert_eq!(entry(directory, name), Some(Closed::Hidden), "{directory}/{name}");
    }
    for (directory, name) in
        [(".", "free"), (".", "new"), ("links", "new"), ("closed", "other"), ("free", "deep")]
    {
        assert_eq!(entry(directory, name), None, "{directory}/{name}");
    }
    fs::create_dir(ground.path("absent")).unwrap();
    assert_eq!(entry("absent", "key"), Some(Closed::Hidden));
    assert_eq!(entry("absent", "other"), None);
}

#[test]
fn circles_of_links_come_to_an_end() {
    let ground = Ground::new();
    symlink("circle", ground.path("circle")).unwrap();
    assert_eq!(links(&ground.path("circle/file")).len(), MAX_LINKS);
}

/// SB05: what is too deep to be judged is refused, and memory stays bounded.
#[test]
fn sb05_depth_and_memory_are_bounded() {
    let ground = Ground::new();
    let seals = ground.seals();
    let mut deep = ground.path("free");
    while deep.as_os_str().len() < 3900 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    assert!(seals.on(&Object::of(File::open(&deep).unwrap()).unwrap()).is_err());
    for number in 0..MAX_FREE + 10 {
        let directory = ground.path(&format!("free/{number}"));
        fs::create_dir(&directory).unwrap();
        assert_eq!(seals.on(&Object::of(File::open(&directory).unwrap()).unwrap()).unwrap(), None);
    }
    assert!(seals.free.lock().unwrap().len() <= MAX_FREE);
}
