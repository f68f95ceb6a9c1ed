//! The current content of the file that a call would change, for the diff that the user sees. Refuses paths that
//! the tool may not read, files that are not text, and large files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::rules::Places;
use crate::grant::{Grant, Root};

/// Maximum size of a compared file in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Returns the text of the file at `path`, as a caller writes it, if `grant` lets the tool read it; empty if the
/// file does not exist. `None` if the text is unknown.
pub(super) async fn text(path: &str, places: Places<'_>, grant: &Grant) -> Option<String> {
    let (path, grant) = (whole(path, places)?, grant.clone());
    tokio::task::spawn_blocking(move || read(&path, &grant)).await.ok()?
}

fn whole(path: &str, places: Places<'_>) -> Option<PathBuf> {
    match path.strip_prefix('~') {
        Some(below) if below.starts_with('/') => Some(places.home?.join(below.trim_start_matches('/'))),
        Some(_) => None,
        None => Some(places.workspace?.join(path)),
    }
}

fn read(path: &Path, grant: &Grant) -> Option<String> {
    let root = |path: &Path| Root::resolve(Path::new("/"), path);
    let file = root(path).ok().filter(|file| grant.readable().covers(file) && !grant.hides(file))?;
    let (folder, name) = (file.real().parent()?, file.real().file_name()?);
    let folder = root(folder).and_then(|folder| folder.folder());
    match folder.and_then(|folder| folder.read(Path::new(name), MAX_FILE + 1)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Some(String::new()),
        content => String::from_utf8(content.ok().filter(|content| content.size <= MAX_FILE)?.bytes).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// U3: only a small text file that the tool may read is compared.
    #[tokio::test]
    async fn only_a_small_file_of_text_that_the_tool_may_read_is_compared() {
        let place = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(place.path().join(name), bytes).unwrap();
        write("a", b"one\n");
        write("b", b"\xff");
        write("c", &vec![b'x'; 1 + (1 << 20)]);
        write("hidden", b"x");
        std::fs::write(outside.path().join("x"), "x").unwrap();
        std::os::unix::fs::symlink(outside.path().join("x"), place.path().join("link")).unwrap();
        let root = |path: &Path| Root::resolve(Path::new("/"), path).unwrap();
        let grant =
            Grant::none().with_read(root(place.path())).with_hidden(root(&place.path().join("hidden")));
        let places = Places { base: None, workspace: Some(place.path()), home: Some(place.path()) };
        for (path, expected) in [
            ("a", Some("one\n")),
            ("~/a", Some("one\n")),
            ("none", Some("")),
            ("none/either", Some("")),
            ("b", None),
            ("c", None),
            (".", None),
            ("hidden", None),
            ("link", None),
            ("/etc/hostname", None),
        ] {
            assert_eq!(text(path, places, &grant).await.as_deref(), expected, "{path}");
        }
        assert_eq!(text("/dev/zero", places, &grant.with_read_anywhere()).await, None);
        assert_eq!(text("a", Places::default(), &Grant::none()).await, None, "nobody knows where it starts");
    }
}
