use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::Kind;
use crate::lock::{Lock, Pin};

fn store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::new(directory.path().join("store"));
    (directory, store)
}

/// Stores a component of these bytes.
fn keep(store: &Store, bytes: &[u8]) -> Digest {
    let installing = store.install().unwrap();
    let file = installing.directory().join("fetched");
    fs::write(&file, bytes).unwrap();
    let digest = Digest::hash(bytes);
    installing.keep(&Content::Component(file), &digest).unwrap();
    digest
}

fn names(store: &Store) -> Vec<String> {
    let entries = fs::read_dir(store.root()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn grow_old(store: &Store, digest: &Digest) {
    let past = SystemTime::now() - 2 * sweep::YOUNG;
    File::open(store.root().join(digest.hex())).unwrap().set_modified(past).unwrap();
}

fn pin(kept: &Digest) -> Pin {
    Pin {
        name: "a".parse().unwrap(),
        kind: Kind::Plugin,
        source: "a.wasm".parse().unwrap(),
        resolved: None,
        digest: kept.clone(),
        kept: kept.clone(),
        version: None,
        contracts: vec![],
        signer: None,
        asked: vec![],
        granted: vec![],
        disclosed: None,
    }
}

/// PR08: a failed installation leaves nothing.
#[test]
fn what_is_not_kept_is_gone() {
    let (_directory, store) = store();
    let installing = store.install().unwrap();
    fs::create_dir(installing.directory().join("tree")).unwrap();
    fs::write(installing.directory().join("tree/file"), "x").unwrap();
    drop(installing);
    assert_eq!(names(&store), [LOCK]);
}

/// X12: an installation removes the remains of a killed installation, but not those of a running one.
#[test]
fn what_a_killed_install_left_is_removed_by_the_next() {
    let (_directory, store) = store();
    fs::create_dir_all(store.root().join(".incomingdead/tree")).unwrap();
    let first = store.install().unwrap();
    assert!(!store.root().join(".incomingdead").exists());
    fs::create_dir(store.root().join(".incomingdead")).unwrap();
    let second = store.install().unwrap();
    assert!(first.directory().exists() && second.directory().exists());
    drop((first, second));
    drop(store.install().unwrap());
    assert_eq!(names(&store), [LOCK]);
}

#[test]
fn content_is_kept_once_and_mended_where_it_was_damaged() {
    let (_directory, store) = store();
    let digest = keep(&store, b"one");
    assert!(store.check(&digest, true).is_ok());
    assert_eq!(keep(&store, b"one"), digest);
    let file = store.component(&digest);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&file, "two").unwrap();
    assert!(matches!(store.check(&digest, true), Err(StoreError::Changed(_))));
    keep(&store, b"one");
    assert!(store.check(&digest, true).is_ok());
    assert!(matches!(store.check(&Digest::hash(b"none"), true), Err(StoreError::Absent)));
}

#[test]
fn a_tree_is_kept_with_the_list_of_its_files() {
    let (_directory, store) = store();
    let installing = store.install().unwrap();
    let folder = installing.directory().join("tree");
    fs::create_dir_all(folder.join("bin")).unwrap();
    fs::write(folder.join("bin/run"), "x").unwrap();
    let (listing, _) = Listing::from_folder(&folder).unwrap();
    let kept = listing.digest();
    installing.keep(&Content::Tree(folder, listing.clone()), &kept).unwrap();
    drop(installing);
    assert_eq!(store.listing(&kept).unwrap(), listing);
    assert!(store.check(&kept, false).is_ok());
    fs::write(store.tree(&kept).join("bin/run"), "y").unwrap();
    assert_eq!(store.check(&kept, false).unwrap_err().to_string(), "`bin/run` was changed");
}

#[test]
fn only_what_nobody_refers_to_is_swept_away() {
    let (directory, store) = store();
    let [used, old, young] = [b"used", b"oldd", b"yung"].map(|bytes| keep(&store, bytes));
    for digest in [&used, &old] {
        grow_old(&store, digest);
    }
    let lock = directory.path().join("program.lock");
    fs::write(&lock, Lock { pins: vec![pin(&used)], ..Lock::default() }.text()).unwrap();
    store.register(&lock).unwrap();
    let swept = store.sweep(true).unwrap();
    assert_eq!((swept.used, swept.young, swept.removed.len()), (1, 1, 1));
    assert_eq!((&swept.removed[0].digest, swept.removed[0].size), (&old, 4));
    assert!(store.has(&old));
    store.sweep(false).unwrap();
    assert_eq!((store.has(&used), store.has(&old), store.has(&young)), (true, false, true));
    // A removed program refers to nothing.
    fs::remove_file(&lock).unwrap();
    assert_eq!(store.sweep(false).unwrap().removed.len(), 1);
    assert!(!store.has(&used));
}

#[test]
fn nothing_is_swept_while_somebody_installs_or_nobody_knows() {
    let (directory, store) = store();
    let old = keep(&store, b"old");
    grow_old(&store, &old);
    let installing = store.install().unwrap();
    assert!(matches!(store.sweep(false), Err(SweepError::Store(StoreError::Busy(_)))));
    drop(installing);
    let lock = directory.path().join("program.lock");
    fs::write(&lock, "version = 99\n").unwrap();
    store.register(&lock).unwrap();
    let error = store.sweep(false).unwrap_err().to_string();
    assert!(error.contains("` are not known:") && error.contains("version 99"), "{error}");
    assert!(store.has(&old));
}

/// Content that is about to be used again is young.
#[test]
fn keeping_again_keeps_from_being_swept() {
    let (_directory, store) = store();
    let digest = keep(&store, b"one");
    grow_old(&store, &digest);
    keep(&store, b"one");
    assert_eq!(store.sweep(false).unwrap().young, 1);
}

/// A sweep removes the directory of a killed process.
#[test]
fn remains_of_a_killed_install_are_swept() {
    let (_directory, store) = store();
    keep(&store, b"one");
    // C19: remains of an installation, of a sweep, of a registration, and of an earlier haft.
    for name in ["AbC123/tree", "-abc/tree", "/abc/tree"] {
        let folder = store.root().join(format!("{INCOMING}{name}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), "12345").unwrap();
    }
    fs::write(store.root().join(format!("{INCOMING}x")), "12345").unwrap();
    assert_eq!(store.sweep(true).unwrap().remains, 20);
    assert_eq!(store.sweep(false).unwrap().remains, 20);
    assert!(names(&store).iter().all(|name| !name.starts_with(INCOMING)), "{:?}", names(&store));
}

/// C19: concurrent installations do not remove each other's directories.
#[test]
fn installs_at_once_do_not_disturb_each_other() {
    let (_directory, store) = store();
    let failed: Vec<String> = std::thread::scope(|scope| {
        let installs = |thread: usize| {
            let store = &store;
            scope.spawn(move || {
                (0..200).filter_map(|_| store.install().err().map(|e| format!("{thread}: {e}"))).collect()
            })
        };
        let threads: Vec<std::thread::ScopedJoinHandle<'_, Vec<String>>> = (0..8).map(installs).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(failed, Vec::<String>::new());
    assert_eq!(names(&store), [LOCK]);
}

/// C19: damaged content that several installations replace concurrently is valid afterwards for each of
/// them.
#[test]
fn damaged_content_is_mended_by_one_at_a_time() {
    let (_directory, store) = store();
    let digest = keep(&store, b"one");
    for _ in 0..20 {
        let file = store.component(&digest);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, "two").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    keep(&store, b"one");
                    store.check(&digest, true).unwrap();
                });
            }
        });
    }
}

/// C19: a truncated record of a lock file is written again; otherwise its content would look unused.
#[test]
fn a_note_that_was_cut_off_is_written_anew() {
    let (directory, store) = store();
    let used = keep(&store, b"used");
    grow_old(&store, &used);
    let lock = directory.path().join("program.lock");
    fs::write(&lock, Lock { pins: vec![pin(&used)], ..Lock::default() }.text()).unwrap();
    store.register(&lock).unwrap();
    let note = fs::read_dir(store.root().join(PROGRAMS)).unwrap().next().unwrap().unwrap().path();
    fs::write(&note, "").unwrap();
    store.register(&lock).unwrap();
    assert_eq!(store.sweep(false).unwrap().used, 1);
    assert!(store.has(&used));
}

/// C19: locked content is not removed; without any installation no lock is needed.
#[test]
fn what_is_held_is_not_swept() {
    let (_directory, store) = store();
    assert!(store.hold().unwrap().is_none());
    keep(&store, b"one");
    let held = store.hold().unwrap();
    assert!(held.is_some());
    assert!(matches!(store.sweep(false), Err(SweepError::Store(StoreError::Busy(_)))));
    drop(held);
    store.sweep(false).unwrap();
}
