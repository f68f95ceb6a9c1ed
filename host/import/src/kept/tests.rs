use std::os::unix::fs::MetadataExt;

use super::*;

fn place() -> (tempfile::TempDir, PathBuf, Originals) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mcp.json");
    fs::write(&path, "one\ntwo\nthree\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let originals = Originals::new(directory.path().join("state/import"));
    (directory, path, originals)
}

fn records(originals: &Originals) -> Vec<Record> {
    originals.all().unwrap().0
}

fn undo(originals: &Originals, merge: impl FnOnce(&str) -> Option<String>) -> Undone {
    originals.undo(&records(originals)[0], merge).unwrap()
}

#[test]
fn two_changes_are_undone_one_after_the_other() {
    let (_directory, path, originals) = place();
    let text = || fs::read_to_string(&path).unwrap();
    originals.change("claude", &path, "one\ntwo\nthree\n", "1\n").unwrap();
    originals.change("claude", &path, "1\n", "2\n").unwrap();
    assert_eq!((undo(&originals, |_| None), text().as_str()), (Undone::Restored, "1\n"));
    assert_eq!((undo(&originals, |_| None), text().as_str()), (Undone::Restored, "one\ntwo\nthree\n"));
    assert!(records(&originals).is_empty());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn a_file_that_somebody_changed_since_is_left_unless_a_person_says_so() {
    let (_directory, path, originals) = place();
    originals.change("claude", &path, "one\ntwo\nthree\n", "one\n2\nthree\n").unwrap();
    fs::write(&path, "one\n2\nthree\nfour\n").unwrap();
    assert_eq!(undo(&originals, |_| None), Undone::Changed(4, 4));
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\n2\nthree\nfour\n");
    fs::remove_file(&path).unwrap();
    assert_eq!(undo(&originals, |_| None), Undone::Removed);
    let old = records(&originals)[0].kept.old.clone();
    assert_eq!(undo(&originals, |_| Some(old.clone())), Undone::Restored);
    assert_eq!(fs::read_to_string(&path).unwrap(), old);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn a_file_that_changes_meanwhile_is_left_and_not_kept() {
    let (_directory, path, originals) = place();
    let error = originals.change("claude", &path, "another\n", "new\n").unwrap_err();
    assert!(matches!(error, KeptError::Meanwhile(_)), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
    assert!(records(&originals).is_empty());
}

/// A file with hard links is written in place: a kill may leave any mixture of both contents.
#[test]
fn a_file_that_is_half_written_is_restored() {
    let (_directory, path, originals) = place();
    let (old, new) = ("one\ntwo\nthree\n", "one\nhaft two\nthree\nfour\n");
    for written in 1..=new.len() {
        fs::write(&path, old).unwrap();
        originals.change("claude", &path, old, new).unwrap();
        let torn = format!("{}{}", new.get(..written).unwrap(), old.get(written..).unwrap_or_default());
        fs::write(&path, torn).unwrap();
        let undone = undo(&originals, |_| None);
        assert!(matches!(undone, Undone::Restored | Undone::Unneeded), "{written}: {undone:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), old, "{written}");
    }
}

#[test]
fn a_damaged_record_restores_nothing() {
    let (_directory, path, originals) = place();
    originals.change("claude", &path, "one\ntwo\nthree\n", "new\n").unwrap();
    let record = records(&originals)[0].path.clone();
    assert_eq!(fs::metadata(&record).unwrap().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&record).unwrap().replace("two", "2");
    fs::write(&record, text).unwrap();
    let (records, errors) = originals.all().unwrap();
    assert!(records.is_empty() && matches!(errors[..], [KeptError::Damaged { .. }]), "{errors:?}");
}
