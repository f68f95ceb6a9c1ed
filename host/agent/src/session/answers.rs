//! Stores the full texts of answers that a model sees in part, as files that its tool `read` opens. A text can be
//! made again from the session or is a convenience: a text that cannot be stored is reported as lost, and stops
//! nothing.
//!
//! - **Bounds:** the oldest texts of a session are removed first, and of all sessions the texts of the oldest session.
//! - **No secrets:** a text is redacted like the lines of the session.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::file::create_private;
use haft_core::secret::Redactor;
use haft_core::tool::{Keep, Whole, clip};

/// The maximum number of texts of a session: a model reads the latest ones.
const MAX_FILES: usize = 200;
/// The maximum size of all texts of a session in bytes.
const MAX_SESSION: u64 = 64 << 20;
/// The maximum size of the texts of all sessions in bytes.
const MAX_ALL: u64 = 1 << 30;

/// The full texts of one session.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    folder: PathBuf,
}

/// The position of an answer in the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// The index of the turn among the messages.
    pub(crate) message: usize,
    /// The index of the call in the turn.
    pub(crate) call: usize,
}

/// A stored text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The absolute path of the file.
    pub(crate) path: PathBuf,
    /// The size of the text in bytes.
    pub(crate) bytes: usize,
    pub(crate) lines: usize,
}

/// An entry of a folder: modification time, size in bytes, path.
pub(super) type Found = (SystemTime, u64, PathBuf);

impl Answers {
    /// Returns the texts of the session `id` below `all`. Creates no folder yet.
    pub(super) fn new(all: &Path, id: &str) -> Self {
        Self { folder: all.join(id) }
    }

    /// Stores `text`, unless that place has a text. `None` if it cannot be stored, which is logged.
    pub(super) fn keep(&self, place: Place, text: &str, redactor: &Redactor) -> Option<Kept> {
        let kept = self.kept(place, text, redactor);
        kept.inspect_err(|error| tracing::warn!("a long answer is not stored in full: {error}")).ok()
    }

    fn kept(&self, place: Place, text: &str, redactor: &Redactor) -> io::Result<Kept> {
        let name = format!("{}-{}.txt", place.message, place.call);
        if let Ok(there) = fs::read_to_string(self.folder.join(&name)) {
            return self.described(&name, &there);
        }
        let text = clip(&redactor.redact(text), Whole::MAX, Keep::Ends);
        if !self.folder.exists() {
            let all = self.folder.parent().unwrap_or(&self.folder);
            make_room(list(all)?, usize::MAX, MAX_ALL);
            create_private(all)?;
            create_private(&self.folder)?;
        }
        make_room(list(&self.folder)?, MAX_FILES - 1, MAX_SESSION.saturating_sub(text.len() as u64));
        // Written under another name first, so that the final name never holds a partial text.
        let part = self.folder.join(format!("{name}.part"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&part, self.folder.join(&name))?;
        self.described(&name, &text)
    }

    fn described(&self, name: &str, text: &str) -> io::Result<Kept> {
        // Tools know the path without symbolic links.
        let path = self.folder.canonicalize()?.join(name);
        Ok(Kept { path, bytes: text.len(), lines: text.lines().count() })
    }

    pub(super) fn remove(&self) {
        if let Err(error) = fs::remove_dir_all(&self.folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("cannot remove `{}`: {error}", self.folder.display());
        }
    }
}

/// Lists a folder, with the total size of each entry; empty if the folder does not exist.
pub(super) fn list(folder: &Path) -> io::Result<Vec<Found>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let found = |entry: fs::DirEntry| -> io::Result<Found> {
        let metadata = entry.metadata()?;
        let bytes = if metadata.is_dir() {
            list(&entry.path())?.iter().map(|(_, bytes, _)| bytes).sum()
        } else {
            metadata.len()
        };
        Ok((metadata.modified()?, bytes, entry.path()))
    };
    // Another process may remove entries meanwhile.
    Ok(entries.filter_map(|entry| found(entry.ok()?).ok()).collect())
}

/// Removes the oldest of `found` until at most `most` remain, of at most `bytes` in total.
pub(super) fn make_room(mut found: Vec<Found>, most: usize, bytes: u64) {
    found.sort_unstable();
    let mut total: u64 = found.iter().map(|(_, bytes, _)| bytes).sum();
    let mut count = found.len();
    for (_, size, path) in found {
        if count <= most && total <= bytes {
            return;
        }
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        if let Err(error) = removed {
            tracing::warn!("cannot remove `{}`: {error}", path.display());
        }
        (count, total) = (count - 1, total.saturating_sub(size));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use secrecy::SecretString;

    use super::*;

    fn place(message: usize) -> Place {
        Place { message, call: 0 }
    }

    #[test]
    fn a_text_is_kept_once_private_and_without_secrets() {
        let home = tempfile::tempdir().unwrap();
        let (answers, redactor) =
            (Answers::new(&home.path().join("answers"), "0000abcd"), Redactor::default());
        redactor.add([&SecretString::from("sk-4711-0815")]);
        let kept = answers.keep(place(1), "one\nthe key is sk-4711-0815\nthree", &redactor).unwrap();
        assert_eq!(fs::read_to_string(&kept.path).unwrap(), "one\nthe key is ***\nthree");
        assert_eq!((kept.bytes, kept.lines), (24, 3));
        assert_eq!(fs::metadata(&kept.path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(kept.path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(answers.keep(place(1), "another", &redactor), Some(kept), "it is that of the first time");
        answers.remove();
        answers.remove();
        assert_eq!(list(&home.path().join("answers")).unwrap(), []);
    }

    #[test]
    fn the_oldest_make_room() {
        let home = tempfile::tempdir().unwrap();
        let answers = Answers::new(home.path(), "0000abcd");
        for message in 0..MAX_FILES + 3 {
            answers.keep(place(message), "x", &Redactor::default()).unwrap();
        }
        let folder = home.path().join("0000abcd");
        assert_eq!(list(&folder).unwrap().len(), MAX_FILES);
        assert!(folder.join(format!("{}-0.txt", MAX_FILES + 2)).exists());
        make_room(list(home.path()).unwrap(), usize::MAX, 10);
        assert_eq!(list(home.path()).unwrap(), [], "a session goes as a whole");
    }

    #[test]
    fn what_cannot_be_kept_stops_nothing() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(Answers::new(&file, "0000abcd").keep(place(1), "x", &Redactor::default()), None);
    }
}
