//! The rules for a package's entries: names, kinds and amounts, for archives and folders alike. Reads no file;
//! the code that unpacks or copies a file checks it here first.

use std::collections::BTreeMap;

use super::MAX_SIZE;

/// The file that makes a folder a package.
pub(super) const MANIFEST: &str = "program.toml";

/// Limit on the files and folders of one package: a thousand times the files of a plugin.
const MAX_ENTRIES: usize = 10_000;

/// Limit on the bytes of a path within a package: a quarter of the kernel's limit, so that the store's path
/// fits in front.
const MAX_PATH: usize = 1024;

/// Limit on the bytes of one name: the limit of every file system.
const MAX_NAME: usize = 255;

/// Limit on the depth of folders.
const MAX_DEPTH: usize = 32;

/// Top-level names that only the installing haft may write.
const OURS: &[&str] = &["program.lock"];

/// Reasons why an entry is not allowed in a package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The path begins with `/`.
    #[error("`{0}` is an absolute path: expected a path in the package")]
    Absolute(String),
    /// The path contains `..`.
    #[error("`{0}` is outside the package")]
    Parent(String),
    /// The path contains control characters, or characters that make it look like another path.
    #[error("`{0}` has characters that are not allowed in file names")]
    Characters(String),
    /// The path is not UTF-8.
    #[error("`{0}` is not UTF-8")]
    Encoding(String),
    /// The path is too long or too deep.
    #[error(
        "`{0}` is too long: a path has at most {MAX_PATH} bytes and {MAX_DEPTH} folders, a name {MAX_NAME} bytes"
    )]
    Length(String),
    /// The path exists already, perhaps with other capitals.
    #[error("`{0}` occurs twice; names that differ only in case are the same file on some machines")]
    Duplicate(String),
    /// The entry is neither a file nor a folder.
    #[error("`{path}` is {kind}: a package has only files and folders")]
    Kind { path: String, kind: &'static str },
    /// The file is part of haft's own state.
    #[error("haft writes `{0}` when it installs a package; a package must not contain it")]
    Ours(String),
    /// The package has more than `MAX_ENTRIES` entries.
    #[error("more than {MAX_ENTRIES} files and folders")]
    Entries,
    /// The files are larger than [`MAX_SIZE`] together.
    #[error("its files have more than {} MiB", MAX_SIZE >> 20)]
    Size,
}

#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// Every path in lower case, with its original spelling and whether it is a file.
    entries: BTreeMap<String, (String, bool)>,
    size: u64,
}

impl Inventory {
    /// Admits a folder. A folder may be admitted more than once, and after its entries.
    pub(super) fn folder(&mut self, path: &str) -> Result<(), Unfit> {
        check_path(path)?;
        self.parents(path)?;
        self.enter(path, false)
    }

    /// Admits a file of `size` bytes, with the folders above it.
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

/// Checks a path within a package, as archives and folders spell it: names joined by `/`.
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

    /// PR08: each disallowed entry is refused with its reason.
    #[test]
    fn hostile_names_are_refused() {
        let file = |path: &str| Inventory::default().file(path, 1);
        let long = "a/".repeat(40) + "b";
        for (path, reason) in [
            ("/etc/passwd", "absolute"),
            ("../x", "is outside"),
            ("a/../../x", "is outside"),
            ("a//x", "is outside"),
            ("./x", "is outside"),
            ("", "is outside"),
            ("a\u{7}b", "characters"),
            ("a\nb", "characters"),
            ("a\\b", "characters"),
            ("evil\u{202e}txt.exe", "characters"),
            (&long, "too long"),
            (&"x".repeat(256), "too long"),
            (&"x/".repeat(513), "too long"),
            ("program.lock", "haft writes `program.lock`"),
        ] {
            let error = file(path).expect_err(path).to_string();
            assert!(error.contains(reason), "{path:?}: {error}");
            assert!(!error.contains(['\u{7}', '\n', '\u{202e}']), "{error:?}");
        }
        for path in ["program.toml", "a/b/c.wasm", "sub/program.lock", "größe.md", "..hidden"] {
            assert_eq!(file(path), Ok(()), "{path}");
        }
    }

    /// PR08: two spellings of one path are refused, and so is a repeated path.
    #[test]
    fn duplicates_are_refused_whatever_their_capitals() {
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
