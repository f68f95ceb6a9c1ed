//! Tests that stored changes can be reverted without loss of later changes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use proptest::prelude::*;
use rustix::fs::XattrFlags;
use secrecy::SecretString;

use super::*;

struct Place {
    home: tempfile::TempDir,
    root: PathBuf,
    redactor: Redactor,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        fs::create_dir(root.join("work")).unwrap();
        Self { home, root, redactor: Redactor::default() }
    }

    fn kept(&self) -> PathBuf {
        self.home.path().join("kept.jsonl")
    }

    fn keeper(&self) -> Keeper {
        Keeper::open(&self.kept(), self.redactor.clone()).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join("work").join(name)
    }

    /// Runs `deed` on `name` in a separate call, like a guest.
    fn change(&self, keeper: &Keeper, name: &str, deed: impl FnOnce(&Path)) {
        let (changes, path) = (keeper.call(), self.path(name));
        let (parent, file) = (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
        changes.before(&File::open(parent).unwrap(), file, || Ok(parent.to_owned()));
        deed(&path);
        changes.end();
    }

    fn write(&self, keeper: &Keeper, name: &str, text: &str) {
        self.change(keeper, name, |path| fs::write(path, text).unwrap());
    }

    /// Returns the names, kinds, modes and contents of all files.
    fn tree(&self) -> Vec<String> {
        let (mut seen, mut left) = (Vec::new(), vec![self.path("")]);
        while let Some(path) = left.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = match metadata.file_type() {
                kind if kind.is_dir() => {
                    left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                    Vec::new()
                }
                kind if kind.is_symlink() => {
                    fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                }
                _ => fs::read(&path).unwrap(),
            };
            seen.push(format!("{} {:o} {content:?}", path.display(), metadata.mode()));
        }
        seen.sort();
        seen
    }

    fn undo(&self, which: Which) -> Undone {
        undo(&self.kept(), which).unwrap()
    }
}

/// Runs one of a guest's actions, by number.
fn deed(path: &Path, number: u32) {
    let there = fs::symlink_metadata(path).ok();
    let is_folder = there.as_ref().is_some_and(fs::Metadata::is_dir);
    match (number % 6, there) {
        (_, Some(_)) if is_folder => drop(fs::remove_dir(path)),
        (0 | 1, Some(_)) => fs::remove_file(path).unwrap(),
        (2, Some(was)) if was.is_file() => {
            fs::set_permissions(path, fs::Permissions::from_mode(0o600 + number % 0o100)).unwrap();
        }
        (0, None) => fs::create_dir(path).unwrap(),
        (1, None) => symlink(format!("to-{number}"), path).unwrap(),
        (3, Some(was)) if was.is_file() => {
            let beside = path.with_extension("beside");
            fs::write(&beside, number.to_le_bytes()).unwrap();
            fs::rename(beside, path).unwrap();
        }
        (_, Some(was)) if was.is_symlink() => fs::remove_file(path).unwrap(),
        _ => fs::write(path, format!("{number}").repeat(number as usize % 50)).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    /// U11: any actions of guests, in prompts and calls, can be reverted, all together or prompt by prompt.
    #[test]
    fn whatever_was_done_is_undone(deeds in prop::collection::vec((0_usize..8, any::<u32>()), 1..80)) {
        let place = Place::new();
        fs::create_dir(place.path("folder")).unwrap();
        for name in ["0", "1", "folder/4"] {
            fs::write(place.path(name), name).unwrap();
        }
        let (keeper, mut trees) = (place.keeper(), Vec::new());
        for (index, (name, number)) in deeds.into_iter().enumerate() {
            if index % 10 == 0 {
                keeper.begin_prompt();
                trees.push(place.tree());
            }
            let name = ["0", "1", "2", "3", "folder/4", "folder/5", "folder", "6"][name];
            if fs::symlink_metadata(place.path(name).parent().unwrap()).is_ok_and(|parent| parent.is_dir()) {
                place.change(&keeper, name, |path| deed(path, number));
            }
        }
        let first = trees.first().cloned().unwrap();
        for _ in 0..trees.len() {
            let before = place.tree();
            let undone = place.undo(Which::Last);
            prop_assert_eq!(&undone.refused, &[]);
            prop_assert!(undone.restored.is_empty() || place.tree() != before || trees.contains(&before));
        }
        prop_assert_eq!(place.tree(), first);
        prop_assert_eq!(place.undo(Which::All), Undone::default());
    }
}

/// U11: prompts are reverted one by one, last first; a call without stored changes is listed with its prompt.
#[test]
fn prompts_are_undone_one_after_the_other() {
    let place = Place::new();
    let keeper = place.keeper();
    keeper.begin_prompt();
    place.write(&keeper, "a", "one");
    keeper.uncovered(|| "bash make".into());
    keeper.begin_prompt();
    place.write(&keeper, "a", "two");
    place.write(&keeper, "a", "three");
    keeper.begin_prompt();
    keeper.uncovered(|| "bash true".into());
    let undone = place.undo(Which::Last);
    assert_eq!((undone.restored, undone.uncovered), (vec![place.path("a")], vec!["bash true".to_owned()]));
    assert_eq!(fs::read_to_string(place.path("a")).unwrap(), "one");
    let undone = place.undo(Which::Last);
    assert_eq!((undone.restored, undone.uncovered), (vec![place.path("a")], vec!["bash make".to_owned()]));
    assert!(!place.path("a").exists());
    assert_eq!(place.undo(Which::Last), Undone::default());
}

/// U11: files changed since, not stored, or not recorded to the end stay unchanged, and are listed.
#[test]
fn what_cannot_be_put_back_is_left_and_named() {
    let place = Place::new();
    place.redactor.add([&SecretString::from("sk-4711-0815")]);
    for (name, text) in [("mine", "old"), ("secret", "it is sk-4711-0815"), ("torn", "old"), ("fine", "old")]
    {
        fs::write(place.path(name), text).unwrap();
    }
    fs::write(place.path("large"), vec![b'x'; 9 << 20]).unwrap();
    let keeper = place.keeper();
    for name in ["mine", "secret", "fine", "large"] {
        place.write(&keeper, name, "new");
    }
    place.change(&keeper, "made", |path| fs::create_dir(path).unwrap());
    let torn = keeper.call();
    torn.before(&File::open(place.path("")).unwrap(), "torn", || Ok(place.path("")));
    fs::write(place.path("torn"), "half").unwrap();
    drop((torn, keeper));
    let kept = fs::read_to_string(place.kept()).unwrap();
    assert!(!kept.contains("4711") && !kept.contains(&STANDARD.encode("it is sk-4711-0815")));
    fs::write(place.path("mine"), "my own").unwrap();
    fs::write(place.path("made/more"), "my own").unwrap();
    let undone = place.undo(Which::All);
    assert_eq!(undone.restored, [place.path("fine")]);
    let why: Vec<_> = undone.refused.iter().map(|refused| refused.why.as_str()).collect();
    let [large, made, mine, secret, torn] = why.as_slice() else { panic!("{why:?}") };
    assert_eq!(*large, "cannot be put back: the file was too large to save");
    assert!(made.starts_with("cannot be put back: ") && made.contains("not empty"), "{made}");
    assert_eq!(*mine, "was edited later");
    assert_eq!(*secret, "cannot be put back: the file contained a secret, which is not saved");
    assert_eq!(*torn, "is left as it is: haft ended while the file was being changed");
    assert_eq!(fs::read_to_string(place.path("mine")).unwrap(), "my own");
    // A second attempt refuses the rest again; a file with its recorded state is restored.
    fs::write(place.path("mine"), "new").unwrap();
    assert_eq!(place.undo(Which::All).restored, [place.path("mine")]);
}

/// U11: a symbolic link made by a tool cannot redirect an undo, and the stored file is private and removed if
/// empty.
#[test]
fn a_link_leads_an_undo_nowhere() {
    let place = Place::new();
    fs::create_dir(place.path("a")).unwrap();
    fs::create_dir(place.root.join("outside")).unwrap();
    fs::write(place.path("a/keys"), "what a tool wants there").unwrap();
    let keeper = place.keeper();
    place.change(&keeper, "a/keys", |path| fs::remove_file(path).unwrap());
    fs::rename(place.path("a"), place.path("b")).unwrap();
    symlink(place.root.join("outside"), place.path("a")).unwrap();
    let undone = place.undo(Which::All);
    assert_eq!((undone.restored.len(), undone.refused.len()), (0, 1), "{undone:?}");
    assert_eq!(fs::read_dir(place.root.join("outside")).unwrap().count(), 0);
    assert_eq!(fs::metadata(place.kept()).unwrap().mode() & 0o777, 0o600);
    drop(keeper);
    fs::remove_file(place.kept()).unwrap();
    drop(place.keeper());
    assert!(!place.kept().exists());
}

/// U11: an edit of the user between two prompts is the state that is restored, also by reverting everything.
#[test]
fn an_edit_between_two_prompts_is_not_lost() {
    let place = Place::new();
    fs::write(place.path("a"), "old").unwrap();
    let keeper = place.keeper();
    keeper.begin_prompt();
    place.write(&keeper, "a", "one");
    place.write(&keeper, "b", "one");
    fs::write(place.path("a"), "of the user").unwrap();
    keeper.begin_prompt();
    place.write(&keeper, "a", "two");
    let undone = place.undo(Which::All);
    assert_eq!(fs::read_to_string(place.path("a")).unwrap(), "of the user");
    assert_eq!(undone.restored, [place.path("a"), place.path("b")]);
    let [left] = &undone.refused[..] else { panic!("{undone:?}") };
    assert!(left.path == place.path("a") && left.why.contains("between two prompts"), "{left:?}");
    // The change before the edit is not marked as reverted: the path is refused again, and not forgotten.
    let again = place.undo(Which::All);
    assert!(again.restored.is_empty() && again.refused[0].why == "was edited later", "{again:?}");
}

/// U11: a file keeps its hard links and its attributes, as with the tools that changed it.
#[test]
fn a_restored_file_keeps_its_names_and_attributes() {
    let place = Place::new();
    for name in ["linked", "marked"] {
        fs::write(place.path(name), "old").unwrap();
    }
    fs::hard_link(place.path("linked"), place.path("other name")).unwrap();
    let (marked, mark) = (place.path("marked"), b"here");
    let has_attributes = rustix::fs::setxattr(&marked, "user.origin", mark, XattrFlags::empty()).is_ok();
    let keeper = place.keeper();
    for name in ["linked", "marked"] {
        place.write(&keeper, name, "new");
    }
    let undone = place.undo(Which::All);
    assert_eq!(undone.restored.len(), 2, "{undone:?}");
    assert_eq!(fs::read_to_string(place.path("other name")).unwrap(), "old");
    assert_eq!(fs::metadata(place.path("linked")).unwrap().nlink(), 2);
    let mut value = [0; 8];
    let kept = rustix::fs::getxattr(&marked, "user.origin", &mut value[..]);
    assert_eq!(kept.is_ok(), has_attributes);
}
