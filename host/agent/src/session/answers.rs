//! The whole texts of answers that a model is shown a part of, as files that its `read` opens. They can be made again
//! from the session or are a convenience: what cannot be kept is said to be gone, and stops nothing.
//!
//! - **Bounds:** of a session the oldest texts go where there are too many, of all sessions those of the oldest.
//! - **No secrets:** a text goes through the redactor like the session's lines.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::file::create_private;
use haft_core::secret::Redactor;
use haft_core::tool::{Keep, Whole, clip};

/// Texts of a session: a model reads on in the latest.
const MAX_FILES: usize = 200;
/// Bytes of all texts of a session.
const MAX_SESSION: u64 = 64 << 20;
/// Bytes of the texts of all sessions.
const MAX_ALL: u64 = 1 << 30;

/// The whole texts of one session.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    folder: PathBuf,
}

/// Which answer of a conversation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// The place of its turn among the messages.
    pub(crate) message: usize,
    /// The place of its call in the turn.
    pub(crate) call: usize,
}

/// A text that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Its file, an absolute path.
    pub(crate) path: PathBuf,
    /// Its bytes.
    pub(crate) bytes: usize,
    /// Its lines.
    pub(crate) lines: usize,
}

/// Something in a folder: when it was changed, its bytes, and where it is.
pub(super) type Found = (SystemTime, u64, PathBuf);

impl Answers {
    /// Those of the session `id` below `all`. Makes nothing yet.
    pub(super) fn new(all: &Path, id: &str) -> Self {
        Self { folder: all.join(id) }
    }

    /// Keeps `text`, unless one is kept at that place. `None` where it cannot be, which is logged.
    pub(super) fn keep(&self, place: Place, text: &str, redactor: &Redactor) -> Option<Kept> {
        let kept = self.kept(place, text, redactor);
        kept.inspect_err(|error| tracing::warn!("a long answer is not kept whole: {error}")).ok()
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
        // Under its name there is only a whole text.
        let part = self.folder.join(format!("{name}.part"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&part, self.folder.join(&name))?;
        self.described(&name, &text)
    }

    fn described(&self, name: &str, text: &str) -> io::Result<Kept> {
        // The path that tools know it by has no links in it.
        let path = self.folder.canonicalize()?.join(name);
        Ok(Kept { path, bytes: text.len(), lines: text.lines().count() })
    }

    /// Removes them.
    pub(super) fn remove(&self) {
        if let Err(error) = fs::remove_dir_all(&self.folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("cannot remove `{}`: {error}", self.folder.display());
        }
    }
}

/// What is in a folder, with the bytes of what is below it; nothing where it is not there.
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
    // What another process removes in between is gone.
    Ok(entries.filter_map(|entry| found(entry.ok()?).ok()).collect())
}

/// Removes the oldest of `found` until they are no more than `most`, of no more than `bytes`.
pub(super) fn make_room(mut found: Vec<Found>, most: usize, bytes: u64) {
    found.sort_unstable();
    let mut all: u64 = found.iter().map(|(_, bytes, _)| bytes).sum();
    let mut count = found.len();
    for (_, own, path) in found {
        if count <= most && all <= bytes {
            return;
        }
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        if let Err(error) = removed {
            tracing::warn!("cannot remove `{}`: {error}", path.display());
        }
        (count, all) = (count - 1, all.saturating_sub(own));
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
