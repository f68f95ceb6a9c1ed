//! What a file holds that a call would change, so that a person who is asked sees the difference. Refuses what is no file
//! of text, and what is large: nothing waits for it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::rules::Places;

/// Bytes of a file that is compared: of a larger one nobody reads the difference.
const MAX_FILE: u64 = 1 << 20;

/// The text of the file that `path` names as a caller writes it; empty where there is none. `None` where that is not known.
pub(super) async fn text(path: &str, places: Places<'_>) -> Option<String> {
    let path = whole(path, places)?;
    tokio::task::spawn_blocking(move || read(&path)).await.ok()?
}

fn whole(path: &str, places: Places<'_>) -> Option<PathBuf> {
    match path.strip_prefix('~') {
        Some(below) if below.starts_with('/') => Some(places.home?.join(below.trim_start_matches('/'))),
        Some(_) => None,
        None => Some(places.workspace?.join(path)),
    }
}

fn read(path: &Path) -> Option<String> {
    // A pipe would have to be waited for.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(String::new()),
        file => file.ok()?,
    };
    file.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() <= MAX_FILE)?;
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn u3_only_a_small_file_of_text_is_compared() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(place.path().join(name), bytes).unwrap();
        write("a", b"one\n");
        write("b", b"\xff");
        write("c", &vec![b'x'; 1 + (1 << 20)]);
        let places = Places { base: None, workspace: Some(place.path()), home: Some(place.path()) };
        for (path, expected) in [
            ("a", Some("one\n")),
            ("~/a", Some("one\n")),
            ("none", Some("")),
            ("b", None),
            ("c", None),
            (".", None),
        ] {
            assert_eq!(text(path, places).await.as_deref(), expected, "{path}");
        }
        assert_eq!(text("/dev/zero", places).await, None);
        assert_eq!(text("a", Places::default()).await, None, "nobody knows where it starts");
    }
}
