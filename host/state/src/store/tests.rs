use std::path::PathBuf;

use super::*;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn homes(&self) -> Homes {
        Homes { state: self.0.path().join("state"), cache: self.0.path().join("cache") }
    }

    fn owner(&self, name: &str) -> Owner {
        Owner::new(&self.0.path().join("program.toml"), None, name)
    }

    fn store(&self, quota: u64) -> Store {
        self.homes().store(&self.owner("p"), quota)
    }

    fn file(&self) -> PathBuf {
        let files = self.homes().files(Kept::State, &self.owner("p"));
        files.parent().unwrap().join("entries.redb")
    }
}

fn set(key: &str, bytes: usize) -> Change {
    Change::Set(key.to_owned(), vec![7; bytes])
}

fn value(store: &Store, key: &str) -> Option<Vec<u8>> {
    store.get("", &[key.to_owned()]).unwrap().remove(0)
}

/// No file is created before a value is stored, and buckets are separate.
#[test]
fn what_is_kept_is_found_again() {
    let place = Place::new();
    let store = place.store(1 << 20);
    assert_eq!((value(&store, "a"), store.keys("", 0).unwrap()), (None, Keys::default()));
    assert!(!place.0.path().join("state").exists());
    store.change("", &[set("a", 3), set("b", 4)]).unwrap();
    store.change("other", &[set("a", 5)]).unwrap();
    drop(store);
    let store = place.store(1 << 20);
    assert_eq!(value(&store, "a").unwrap().len(), 3);
    assert_eq!(store.keys("", 0).unwrap().keys, ["a", "b"]);
    assert_eq!(store.keys("other", 0).unwrap().keys, ["a"]);
    assert_eq!(store.keys("", 1).unwrap().keys, ["b"]);
    assert!(store.contains("", "b").unwrap() && !store.contains("other", "b").unwrap());
    let mode = std::fs::metadata(place.file()).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
}

/// Keys are listed in pages.
#[test]
fn many_keys_are_listed_in_pages() {
    let place = Place::new();
    let store = place.store(1 << 20);
    let all: Vec<Change> = (0..2500).map(|number| set(&format!("{number:04}"), 1)).collect();
    store.change("", &all).unwrap();
    let (mut keys, mut from) = (Vec::new(), Some(0));
    while let Some(skip) = from {
        let page = store.keys("", skip).unwrap();
        assert!(page.keys.len() <= MAX_PAGE);
        keys.extend(page.keys);
        from = page.next;
    }
    assert_eq!((keys.len(), keys.is_sorted()), (2500, true));
}

/// The quota is exact to the byte, for one change and for several, and a change over the quota changes nothing.
#[test]
fn the_quota_holds() {
    let place = Place::new();
    let store = place.store(10_000);
    store.change("", &[set("a", 4000)]).unwrap();
    let used = store.used().unwrap();
    assert_eq!(used, 4000 + 1 + ENTRY);
    let rest = usize::try_from(10_000 - used - ENTRY - 1).unwrap();
    let full = store.change("", &[set("c", 1), set("b", rest)]).unwrap_err();
    assert!(matches!(full, StoreError::Full { quota: 10_000, .. }), "{full}");
    assert_eq!((value(&store, "c"), store.used().unwrap()), (None, used), "none of it");
    store.change("", &[set("b", rest)]).unwrap();
    assert_eq!(store.used().unwrap(), 10_000);
    assert!(matches!(store.increment("", "n", 1), Err(StoreError::Full { .. })));
    // Replaces another value, and deletes after a set within one transaction.
    store.change("", &[set("b", rest - 1)]).unwrap();
    store.change("", &[set("d", 100), Change::Delete("a".into())]).unwrap();
    // A lowered quota permits less, and never more.
    let lowered = place.store(100);
    assert!(matches!(lowered.change("", &[set("d", 101)]), Err(StoreError::Full { .. })));
    lowered.change("", &[set("d", 99)]).unwrap();
    lowered.change("", &[Change::Delete("b".into()), Change::Delete("none".into())]).unwrap();
    assert_eq!(lowered.used().unwrap(), 99 + 1 + ENTRY);
}

/// Neither the tree nor copies of changed pages make the file much larger than the quota.
#[test]
fn the_file_stays_bounded() {
    let place = Place::new();
    let quota = 2 << 20;
    let store = place.store(quota);
    let sizes = [300_000, 70_000, 1_100_000, 10, 520_000];
    for round in 0..60_usize {
        let size = sizes[round % sizes.len()];
        match store.change("", &[set(&format!("k{}", round % 7), size)]) {
            Ok(()) | Err(StoreError::Full { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let length = std::fs::metadata(place.file()).unwrap().len();
    assert!(length <= quota * 8, "{length}");
}

#[test]
fn what_is_too_large_is_refused() {
    let place = Place::new();
    let store = place.store(1 << 30);
    let long = "k".repeat(MAX_KEY + 1);
    assert!(matches!(store.change("", &[set(&long, 1)]), Err(StoreError::Key)));
    assert!(matches!(store.get(&long, &[]), Err(StoreError::Key)));
    assert!(matches!(store.change("", &[set("a", MAX_VALUE + 1)]), Err(StoreError::Value)));
    store.change("", &[set("a", MAX_VALUE), set("b", MAX_VALUE)]).unwrap();
    let thrice: Vec<String> = ["a", "b", "a"].map(str::to_owned).into();
    assert!(matches!(store.get("", &thrice), Err(StoreError::Read)));
    assert_eq!(store.get("", &thrice[..2]).unwrap().len(), 2);
}

#[test]
fn numbers_are_added_to() {
    let place = Place::new();
    let store = place.store(1 << 20);
    assert_eq!([store.increment("", "n", 5).unwrap(), store.increment("", "n", 2).unwrap()], [5, 7]);
    assert_eq!(value(&store, "n").unwrap(), b"7");
    assert!(matches!(store.increment("", "n", u64::MAX), Err(StoreError::Overflow)));
    store.change("", &[set("x", 3)]).unwrap();
    assert!(matches!(store.increment("", "x", 1), Err(StoreError::NotANumber)));
    assert_eq!(value(&store, "x").unwrap(), [7; 3]);
}

/// Two open handles, as of two processes: each sees the other's writes, and no increment is lost.
#[test]
fn two_that_have_it_open_follow_each_other() {
    let place = Place::new();
    let stores = [place.store(1 << 20), place.store(1 << 20)];
    std::thread::scope(|scope| {
        for store in &stores {
            scope.spawn(move || (0..20).for_each(|_| _ = store.increment("", "n", 1).unwrap()));
        }
    });
    assert_eq!(value(&stores[0], "n").unwrap(), b"40");
    assert_eq!(value(&stores[1], "n").unwrap(), b"40");
}

/// The wait for a transaction that does not end has a limit.
#[test]
fn a_transaction_that_does_not_end_is_told_of() {
    let place = Place::new();
    let [store, other] = [place.store(1 << 20), place.store(1 << 20)];
    store.change("", &[set("a", 1)]).unwrap();
    other.change("", &[set("a", 2)]).unwrap();
    let held = other.opened.lock().unwrap();
    let _transaction = held.as_ref().unwrap().database.begin_write().unwrap();
    let refused = store.change("", &[set("a", 3)]).unwrap_err();
    assert!(matches!(refused, StoreError::Busy(_)), "{refused}");
    assert_eq!(value(&store, "a").unwrap().len(), 2, "reading waits for nobody");
    let third = place.store(1 << 20);
    assert!(matches!(third.get("", &["a".to_owned()]), Err(StoreError::Busy(_))), "nor is it opened");
}

/// Removed data is gone for open handles too; their later writes are kept.
#[test]
fn what_was_removed_is_gone_for_all() {
    let place = Place::new();
    let store = place.store(1 << 20);
    store.change("", &[set("a", 1)]).unwrap();
    assert!(place.homes().remove(&place.0.path().join("program.toml"), "p").unwrap());
    assert!(!place.homes().remove(&place.0.path().join("program.toml"), "p").unwrap());
    assert_eq!(value(&store, "a"), None);
    store.change("", &[set("b", 1)]).unwrap();
    assert_eq!(place.store(1 << 20).keys("", 0).unwrap().keys, ["b"]);
}

/// A file that is not a store causes an error without its path.
#[test]
fn what_is_damaged_is_told_of() {
    let place = Place::new();
    place.store(1 << 20).change("", &[set("a", 1)]).unwrap();
    std::fs::write(place.file(), vec![0x5a; 100_000]).unwrap();
    let error = place.store(1 << 20).get("", &["a".to_owned()]).unwrap_err().to_string();
    assert!(error.starts_with("the state of this plugin cannot be used") && !error.contains('/'), "{error}");
}
