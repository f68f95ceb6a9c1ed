use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A directory with `closed`, which is hidden, and `free`, which is not.
struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
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

    fn protected_paths(&self) -> ProtectedPaths {
        ProtectedPaths::from_grant(
            &Grant::none().with_hidden(self.root("closed")).with_fixed(self.root("free/deep/file")),
        )
    }

    fn open(&self, name: &str) -> Object {
        Object::from_file(File::open(self.path(name)).unwrap()).unwrap()
    }
}

const HIDDEN: Option<ProtectedObject> = Some(ProtectedObject { level: Protection::Hidden, itself: false });

/// SB05: a path is protected by identity and by place, with everything below.
#[test]
fn what_is_closed_is_told_by_what_it_is() {
    let fixture = Fixture::new();
    let protected_paths = fixture.protected_paths();
    for (name, expected) in [
        ("closed", Some(ProtectedObject { level: Protection::Hidden, itself: true })),
        ("closed/deep", HIDDEN),
        ("closed/deep/file", HIDDEN),
        ("free/deep/file", Some(ProtectedObject { level: Protection::ReadOnly, itself: true })),
        ("free/deep", None),
        ("free", None),
        (".", None),
        ("/", None),
    ] {
        assert_eq!(protected_paths.protection_of(&fixture.open(name)).unwrap(), expected, "{name}");
        // Again, with the remembered results.
        assert_eq!(protected_paths.protection_of(&fixture.open(name)).unwrap(), expected, "{name}");
    }
    let lookalike = fixture.path("closed-lookalike");
    fs::write(&lookalike, "").unwrap();
    assert_eq!(protected_paths.protection_of(&fixture.open("closed-lookalike")).unwrap(), None);
}

/// SB05: a remembered free directory is free at its place only.
#[test]
fn what_is_moved_is_judged_again() {
    let fixture = Fixture::new();
    let protected_paths = fixture.protected_paths();
    let held = fixture.open("free/deep");
    assert_eq!(protected_paths.protection_of(&held).unwrap(), None);
    fs::rename(fixture.path("free/deep"), fixture.path("closed/moved")).unwrap();
    assert_eq!(protected_paths.protection_of(&held).unwrap(), HIDDEN);
    fs::rename(fixture.path("closed"), fixture.path("renamed")).unwrap();
    assert_eq!(protected_paths.protection_of(&held).unwrap(), HIDDEN);
    assert_eq!(protected_paths.protection_of(&fixture.open("renamed/deep/file")).unwrap(), HIDDEN);
    // A new file at the closed path is closed too, and the first file stays closed.
    fs::create_dir_all(fixture.path("closed/new")).unwrap();
    assert_eq!(protected_paths.protection_of(&fixture.open("closed/new")).unwrap(), HIDDEN);
    assert_eq!(protected_paths.protection_of(&fixture.open("renamed/deep")).unwrap(), HIDDEN);
}

/// SB05: an object without a path is not judged by its former path.
#[test]
fn what_is_gone_has_no_place() {
    let fixture = Fixture::new();
    let protected_paths = fixture.protected_paths();
    let (file, replaced) = (fixture.open("free/deep/file"), fixture.open("free/deep/file"));
    fs::rename(fixture.path("closed/deep/file"), fixture.path("free/deep/file")).unwrap();
    assert!(matches!(protected_paths.check(&file).unwrap(), ProtectionCheck::Gone));
    fs::remove_file(fixture.path("free/deep/file")).unwrap();
    assert!(matches!(protected_paths.check(&replaced).unwrap(), ProtectionCheck::Gone));
}

/// SB05: protected names are refused, existing or not, and so are the names on their way.
#[test]
fn names_on_the_way_are_closed() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("links")).unwrap();
    symlink("links/second", fixture.path("first")).unwrap();
    symlink(fixture.path("closed/.."), fixture.path("links/second")).unwrap();
    let protected_paths = ProtectedPaths::from_grant(
        &Grant::none().with_hidden(fixture.root("first/closed/deep")).with_hidden(fixture.root("absent/key")),
    );
    let entry = |directory: &str, name: &str| {
        let directory = File::open(fixture.path(directory)).unwrap();
        protected_paths.protection_of_entry(&directory, name).unwrap().map(|protection| protection.level)
    };
    for (directory, name) in [
        (".", "first"),
        (".", "links"),
        ("links", "second"),
        (".", "closed"),
        ("closed", "deep"),
        (".", "absent"),
    ] {
        assert_eq!(entry(directory, name), Some(Protection::Hidden), "{directory}/{name}");
    }
    for (directory, name) in
        [(".", "free"), (".", "new"), ("links", "new"), ("closed", "other"), ("free", "deep")]
    {
        assert_eq!(entry(directory, name), None, "{directory}/{name}");
    }
    fs::create_dir(fixture.path("absent")).unwrap();
    assert_eq!(entry("absent", "key"), Some(Protection::Hidden));
    assert_eq!(entry("absent", "other"), None);
}

/// SB05: a path that is too deep to check is refused, and memory stays bounded.
#[test]
fn depth_and_memory_are_bounded() {
    let fixture = Fixture::new();
    let protected_paths = fixture.protected_paths();
    let mut deep = fixture.path("free");
    while deep.as_os_str().len() < 3900 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    assert!(protected_paths.protection_of(&Object::from_file(File::open(&deep).unwrap()).unwrap()).is_err());
    for number in 0..MAX_FREE + 10 {
        let directory = fixture.path(&format!("free/{number}"));
        fs::create_dir(&directory).unwrap();
        assert_eq!(
            protected_paths
                .protection_of(&Object::from_file(File::open(&directory).unwrap()).unwrap())
                .unwrap(),
            None
        );
    }
    assert!(protected_paths.free.lock().len() <= MAX_FREE);
}
