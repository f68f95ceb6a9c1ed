//! The folder of all sessions: begins them, finds them, lists them. Refuses to hand out one by a name that is not an id,
//! so that no path is ever made of what somebody typed.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::file::{self, File};
use super::line::{Line, now};
use super::{Begun, Entry, Restored, SessionError, SessionLog, log};
use crate::secret::Redactor;

/// What the names of the files end with.
const ENDING: &str = ".jsonl";

/// Sessions that are kept: some years of daily work. The oldest go when one more is begun.
const MAX_SESSIONS: usize = 1000;

/// Hexadecimal digits of an id.
const ID_LENGTH: usize = 8;

/// The sessions in a folder.
#[derive(Clone, Debug)]
pub struct Sessions {
    folder: PathBuf,
}

/// A session that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Its id.
    pub id: String,
    path: PathBuf,
}

impl Sessions {
    /// Those in `folder`, which no tool may look into. Nothing is made before the first one begins.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Begins a session; no line of it will hold what `redactor` knows.
    pub fn begin(&self, begun: Begun, redactor: &Redactor) -> Result<SessionLog, SessionError> {
        file::create_private(&self.folder).map_err(SessionError::file("begin", &self.folder))?;
        self.make_room();
        let id = new_id();
        let time = now().strftime("%Y%m%dT%H%M%S");
        let path = self.folder.join(format!("{time}-{id}{ENDING}"));
        let first = log::text(Line::now(Entry::Begun(Begun { id: id.clone(), ..begun })), redactor);
        let file = File::create(&path, &id, &first)?;
        Ok(SessionLog::new(&id, file, redactor.clone()))
    }

    /// Opens a session to go on with it.
    pub fn resume(&self, saved: &Saved, redactor: &Redactor) -> Result<(SessionLog, Restored), SessionError> {
        let (file, text) = File::open(&saved.path, &saved.id)?;
        let restored = begun(&saved.path, Restored::of(&text))?;
        let log = SessionLog::new(&saved.id, file, redactor.clone());
        let (pid, haft) = (std::process::id(), env!("CARGO_PKG_VERSION").to_owned());
        log.note(Entry::Resumed { pid, haft })?;
        Ok((log, restored))
    }

    /// The sessions, oldest first.
    pub fn all(&self) -> Result<Vec<Saved>, SessionError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(SessionError::file("list", &self.folder))?,
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut all: Vec<_> = paths.filter_map(|path| Saved::at(&path)).collect();
        all.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }

    /// The session whose id begins with `id`.
    pub fn find(&self, id: &str) -> Result<Saved, SessionError> {
        let mut found = self.all()?.into_iter().filter(|saved| saved.id.starts_with(id));
        let first = found.next().ok_or_else(|| SessionError::Unknown(id.to_owned()))?;
        if found.next().is_some() { Err(SessionError::Ambiguous(id.to_owned())) } else { Ok(first) }
    }

    /// The newest session like `begun`: of the same program, from the same folder.
    pub fn last(&self, begun: &Begun) -> Result<Saved, SessionError> {
        let is_like = |saved: &Saved| saved.begun().is_some_and(|own| own.is_like(begun));
        self.all()?.into_iter().rev().find(is_like).ok_or(SessionError::None)
    }

    /// Removes the oldest sessions where there are too many. One that is in use stays.
    fn make_room(&self) {
        let Ok(all) = self.all() else { return };
        let more = (all.len() + 1).saturating_sub(MAX_SESSIONS);
        for old in all.iter().take(more).filter(|saved| !saved.is_in_use()) {
            if let Err(error) = old.remove() {
                tracing::warn!("{error}");
            }
        }
    }
}

impl Saved {
    fn at(path: &Path) -> Option<Self> {
        let (_, id) = path.file_name()?.to_str()?.strip_suffix(ENDING)?.rsplit_once('-')?;
        Some(Self { id: id.to_owned(), path: path.to_owned() })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All of its whole lines.
    pub fn text(&self) -> Result<String, SessionError> {
        file::read(&self.path)
    }

    /// What it has come to.
    pub fn restored(&self) -> Result<Restored, SessionError> {
        begun(&self.path, Restored::of(&self.text()?))
    }

    /// Its lines, and when each was written; those that cannot be read are left out.
    pub fn lines(&self) -> Result<Vec<Line>, SessionError> {
        Ok(self.text()?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Whether a process goes on with it.
    pub fn is_in_use(&self) -> bool {
        file::is_in_use(&self.path)
    }

    /// Removes it.
    pub fn remove(&self) -> Result<(), SessionError> {
        if self.is_in_use() {
            return Err(SessionError::InUse(self.id.clone()));
        }
        fs::remove_file(&self.path).map_err(SessionError::file("remove", &self.path))
    }

    /// How it began, if its first line says so.
    pub fn begun(&self) -> Option<Begun> {
        use io::{BufRead, Read};
        let file = fs::File::open(&self.path).ok()?;
        let mut first = String::new();
        // As long as the longest paths are.
        io::BufReader::new(file.take(64 << 10)).read_line(&mut first).ok()?;
        match serde_json::from_str::<Line>(&first).ok()?.entry {
            Entry::Begun(begun) => Some(begun),
            _ => None,
        }
    }
}

fn begun(path: &Path, restored: Restored) -> Result<Restored, SessionError> {
    match restored.begun.v {
        0 => Err(file::invalid(path, "its first line does not say how it began")),
        1 => Ok(restored),
        v => Err(file::invalid(path, &format!("it is of version {v}, and this haft knows version 1"))),
    }
}

/// 32 random bits: there are a thousand sessions at most.
fn new_id() -> String {
    let random = RandomState::new().hash_one((std::process::id(), Timestamp::now().as_nanosecond()));
    format!("{:0width$x}", random & 0xffff_ffff, width = ID_LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(folder: &str) -> Begun {
        Begun::new(None, None, Some(Path::new(folder)))
    }

    #[test]
    fn sessions_are_found_by_the_beginning_of_their_id_and_by_their_folder() {
        let place = tempfile::tempdir().unwrap();
        let sessions = Sessions::new(place.path().join("state/sessions"));
        assert_eq!(sessions.all().unwrap(), []);
        assert!(matches!(sessions.last(&begun("/a")), Err(SessionError::None)));
        let redactor = Redactor::default();
        let first = sessions.begin(begun("/a"), &redactor).unwrap();
        let second = sessions.begin(begun("/b"), &redactor).unwrap();
        assert_eq!(sessions.all().unwrap().len(), 2);
        assert_eq!(sessions.last(&begun("/a")).unwrap().id, first.id());
        assert_eq!(sessions.find(second.id().get(..6).unwrap()).unwrap().id, second.id());
        assert!(matches!(sessions.find("../../etc"), Err(SessionError::Unknown(_))));
        assert!(matches!(sessions.find(""), Err(SessionError::Ambiguous(_))));
        let saved = sessions.find(first.id()).unwrap();
        assert!(matches!(saved.remove(), Err(SessionError::InUse(_))));
        drop(first);
        let (log, restored) = sessions.resume(&saved, &redactor).unwrap();
        assert_eq!(restored.begun.folder.as_deref(), Some(Path::new("/a")));
        drop(log);
        saved.remove().unwrap();
        assert_eq!(sessions.all().unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_session_is_not_gone_on_with() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("20260101T000000-00000001.jsonl");
        let saved = Saved::at(&path).unwrap();
        for text in
            ["", "{}\n", "{\"time\":\"2026-01-01T00:00:00Z\",\"kind\":\"begun\",\"v\":2,\"id\":\"1\"}\n"]
        {
            fs::write(&path, text).unwrap();
            let resumed = Sessions::new(place.path()).resume(&saved, &Redactor::default());
            assert!(matches!(resumed, Err(SessionError::Invalid { .. })), "{text}");
        }
    }
}
