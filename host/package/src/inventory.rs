//! What may lie in a package: names, kinds and amounts, for archives and folders alike. Reads no file; code that
//! unpacks or copies one checks it here first.

use std::collections::BTreeMap;

use super::MAX_SIZE;

/// The file that makes a folder a package.
pub(super) const MANIFEST: &str = "program.toml";

/// Files and folders of one package. A thousand times what a plugin is made of.
const MAX_ENTRIES: usize = 10_000;

/// Bytes of a path within a package: a quarter of what the kernel takes, so that the path of the
/// store fits in front of it.
const MAX_PATH: usize = 1024;

/// Bytes of one name: what every file system takes.
const MAX_NAME: usize = 255;

/// Folders above one another.
const MAX_DEPTH: usize = 32;

/// Names at the top of a package that mean something to the haft that installs it, and are written
/// by that one alone.
const OURS: &[&str] = &["program.lock"];

/// Why something may not lie in a package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Begins with `/`.
    #[error("`{0}` is an absolute path, and everything in a package lies in the package")]
    Absolute(String),
    /// Has `..`.
    #[error("`{0}` leads out of the package")]
    Parent(String),
    /// Control characters, or those that make text look like another.
    #[error("`{0}` has characters that no file name should have")]
    Characters(String),
    /// Not UTF-8.
    #[error("`{0}` is not UTF-8")]
    Encoding(String),
    /// Too long or too deep.
    #[error(
        "`{0}` is too long: a path has at most {MAX_PATH} bytes and {MAX_DEPTH} folders, a name {MAX_NAME} bytes"
    )]
    Length(String),
    /// There already, perhaps with other capitals.
    #[error("`{0}` is there twice; names that differ in capitals alone are one file on some machines")]
    Duplicate(String),
    /// Neither a file nor a folder.
    #[error("`{path}` is {kind}: a package is made of files and folders")]
    Kind {
        /// Where.
        path: String,
        /// What it is, with its article.
        kind: &'static str,
    },
    /// State of haft's own.
    #[error("`{0}` is written by haft where a package is installed; a package cannot bring one")]
    Ours(String),
    /// Too many files.
    #[error("more than {MAX_ENTRIES} files and folders")]
    Entries,
    /// Too much.
    #[error("its files have more than {} MiB", MAX_SIZE >> 20)]
    Size,
}

/// What has been let in so far.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// Every path in lower case, how it was really spelt, and whether it is a file.
    entries: BTreeMap<String, (String, bool)>,
    size: u64,
}

impl Inventory {
    /// Lets a folder in. It may come more than once, and after what lies in it.
    pub(super) fn folder(&mut self, path: &str) -> Result<(), Unfit> {
        check_path(path)?;
        self.parents(path)?;
        self.enter(path, false)
    }

    /// Lets a file of `size` bytes in, with the folders above it.
    pub(super) fn file(&mut self, path: &str, size: u64) -> Result<(), Unfit> {
        check_path(path)?;
        if OURS.contains(&path) {
            return Err(Unfit::Ours(path.to_owned()));
        }
        self.parents(path)?;
        self.enter(path, true)?;
        self.size = self.size.saturating_add(size);
        if self.size > MAX_SIZE { Err(Unfit::Size) } else { Ok(()) }
    }

    /// Bytes of all files.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    fn parents(&mut self, path: &str) -> Result<(), Unfit> {
        let slashes = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        slashes.collect::<Vec<_>>().into_iter().try_for_each(|parent| self.enter(parent, false))
    }

    fn enter(&mut self, path: &str, is_file: bool) -> Result<(), Unfit> {
        let spelt = path.to_lowercase();
        if let Some((known, was_file)) = self.entries.get(&spelt) {
            let is_same_folder = known == path && !is_file && !was_file;
            return if is_same_folder { Ok(()) } else { Err(Unfit::Duplicate(path.to_owned())) };
        }
        if self.entries.len() >= MAX_ENTRIES {
            return Err(Unfit::Entries);
        }
        self.entries.insert(spelt, (path.to_owned(), is_file));
        Ok(())
    }
}

/// A path within a package, as both archives and folders spell it: names joined by `/`.
fn check_path(path: &str) -> Result<(), Unfit> {
    let shown = || haft_core::report::plain(path.get(..path.floor_char_boundary(200)).unwrap_or_default());
    if path.len() > MAX_PATH || path.split('/').any(|name| name.len() > MAX_NAME) {
        return Err(Unfit::Length(format!("{}…", shown())));
    }
    if haft_core::report::plain(path) != path || path.contains('\\') {
        return Err(Unfit::Characters(shown()));
    }
    if path.starts_with('/') {
        return Err(Unfit::Absolute(shown()));
    }
    if path.split('/').any(|name| matches!(name, ".." | "." | "")) {
        return Err(Unfit::Parent(shown()));
    }
    if path.split('/').count() > MAX_DEPTH { Err(Unfit::Length(shown())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PR08: what no package may have, each with its reason.
    #[test]
    fn pr08_hostile_names_are_refused() {
        let file = |path: &str| Inventory::default().file(path, 1);
        let long = "a/".repeat(40) + "b";
        for (path, reason) in [
            ("/etc/passwd", "absolute"),
            ("../x", "leads out"),
            ("a/../../x", "leads out"),
            ("a//x", "leads out"),
            ("./x", "leads out"),
            ("", "leads out"),
            ("a\u{7}b", "characters"),
            ("a\nb", "characters"),
            ("a\\b", "characters"),
            ("evil\u{202e}txt.exe", "characters"),
            (&long, "too long"),
            (&"x".repeat(256), "too long"),
            (&"x/".repeat(513), "too long"),
            ("program.lock", "is written by haft"),
        ] {
            let error = file(path).expect_err(path).to_string();
            assert!(error.contains(reason), "{path:?}: {error}");
            assert!(!error.contains(['\u{7}', '\n', '\u{202e}']), "{error:?}");
        }
        for path in ["program.toml", "a/b/c.wasm", "sub/program.lock", "größe.md", "..hidden"] {
            assert_eq!(file(path), Ok(()), "{path}");
        }
    }

    /// PR08: one file under two names, or two under one.
    #[test]
    fn pr08_duplicates_are_refused_whatever_their_capitals() {
        let both = |first: &str, second: &str| {
            let mut inventory = Inventory::default();
            inventory.file(first, 1)?;
            inventory.file(second, 1)
        };
        for (first, second) in [("a", "a"), ("a", "A"), ("Docs/x", "docs/y"), ("a", "a/b"), ("a/b", "a")] {
            assert!(matches!(both(first, second), Err(Unfit::Duplicate(_))), "{first} {second}");
        }
        let mut inventory = Inventory::default();
        assert_eq!(inventory.file("a/b", 1), Ok(()));
        assert_eq!((inventory.folder("a"), inventory.folder("a")), (Ok(()), Ok(())));
        assert!(inventory.folder("a/b").is_err());
    }

    #[test]
    fn amounts_are_bounded() {
        let mut inventory = Inventory::default();
        assert_eq!(inventory.file("a", MAX_SIZE), Ok(()));
        assert_eq!(inventory.file("b", 1), Err(Unfit::Size));
        let mut inventory = Inventory::default();
        let mut names = (0..=MAX_ENTRIES).map(|number| number.to_string());
        assert_eq!(names.find_map(|name| inventory.file(&name, 0).err()), Some(Unfit::Entries));
        assert_eq!(Inventory::default().file("a", u64::MAX), Err(Unfit::Size));
    }
}
