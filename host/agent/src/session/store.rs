//! The folder of all sessions: creates, finds and lists sessions. Accepts only ids as names, so that no path is
//! built from user input.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::answers::Answers;
use super::file::{self, File};
use super::line::Line;
use super::{Begun, Entry, Restored, SessionError, SessionLog, undone};
use crate::provider::Prompt;
use crate::session;
use haft_core::secret::Redactor;
use haft_core::undo::{Undone, Which};

/// The extension of session files.
const ENDING: &str = ".jsonl";

/// The maximum number of sessions: some years of daily work. The oldest are removed when a session begins.
const MAX_SESSIONS: usize = 1000;

/// The format of the time in a file name: names sort by the beginning of the session.
const TIME: &str = "%Y%m%dT%H%M%S%.9f";

/// The minimum difference between the times in two names.
const NEXT: SignedDuration = SignedDuration::from_nanos(1);

/// The number of bytes that are read of a session if only its opening is needed: enough for the longest paths and
/// most first prompts.
const OPENING: u64 = 64 << 10;

/// The number of hexadecimal digits of an id.
const ID_LENGTH: usize = 8;

/// The sessions in a folder.
#[derive(Clone, Debug)]
pub struct Sessions {
    folder: PathBuf,
    /// The folder of full answers.
    answers: Option<PathBuf>,
    /// The folder of changes by tools.
    changes: Option<PathBuf>,
}

/// A saved session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The id.
    pub id: String,
    path: PathBuf,
    /// The folder of the full answers of all sessions.
    answers: Option<PathBuf>,
    /// The file of changes by tools in this session.
    changes: Option<PathBuf>,
}

impl Sessions {
    /// Returns the sessions in `folder`, which no tool may read. The folder is created with the first session.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), answers: None, changes: None }
    }

    /// Also stores full answers of which a model sees a part: in files below `folder`, which the agent's tool
    /// `read` can open and no tool can write. The files are removed with their session.
    #[must_use]
    pub fn with_answers(self, folder: impl Into<PathBuf>) -> Self {
        Self { answers: Some(folder.into()), ..self }
    }

    /// Also stores the contents of files before tools change them: in files below `folder`, which no tool may open.
    /// The files are removed with their session.
    #[must_use]
    pub fn with_changes(self, folder: impl Into<PathBuf>) -> Self {
        Self { changes: Some(folder.into()), ..self }
    }

    fn changes(&self, id: &str) -> Option<PathBuf> {
        self.changes.as_ref().map(|all| all.join(format!("{id}.jsonl")))
    }

    fn answers(&self, id: &str) -> Option<Answers> {
        self.answers.as_ref().map(|all| Answers::new(all, id))
    }

    /// Begins a session with its first prompt. Both are on the disk on return. No line contains a secret that
    /// `redactor` knows. An id of `begun`, from [`Self::promise`], is used.
    ///
    /// # Errors
    /// The folder or the file cannot be created or written.
    pub fn begin(
        &self,
        begun: Begun,
        prompt: impl Into<Prompt>,
        redactor: &Redactor,
    ) -> Result<SessionLog, SessionError> {
        file::create_private(&self.folder).map_err(SessionError::file("begin", &self.folder))?;
        let all = self.all()?;
        make_room(&all);
        let id = if begun.id.is_empty() { Self::promise() } else { begun.id.clone() };
        let path = self.path(&id, &all);
        let begun = session::text(Line::now(Entry::Begun(Begun { id: id.clone(), ..begun })), redactor);
        let prompt = session::text(Line::now(Entry::Said(prompt.into())), redactor);
        // One write, so that a session that can be found has its prompt.
        let file = File::create(&path, &id, &format!("{begun}\n{prompt}"))?;
        Ok(SessionLog::new(&id, file, redactor.clone(), (self.answers(&id), self.changes(&id))))
    }

    /// Returns an id for a session that begins later: 32 random bits, because there are at most a thousand sessions.
    pub fn promise() -> String {
        let random = RandomState::new().hash_one((std::process::id(), Timestamp::now().as_nanosecond()));
        format!("{:0width$x}", random & 0xffff_ffff, width = ID_LENGTH)
    }

    fn path(&self, id: &str, all: &[Saved]) -> PathBuf {
        let now = Timestamp::now();
        let time = all.last().map_or(now, |newest| newest.begins_before(now));
        self.folder.join(format!("{}-{id}{ENDING}", time.strftime(TIME)))
    }

    /// Opens a session to continue it.
    ///
    /// # Errors
    /// Another process uses the session, or its file cannot be read or written.
    pub fn resume(&self, saved: &Saved, redactor: &Redactor) -> Result<(SessionLog, Restored), SessionError> {
        let (file, text) = File::open(&saved.path, &saved.id)?;
        let restored = begun(&saved.path, Restored::parse(&text))?;
        let kept = (self.answers(&saved.id), self.changes(&saved.id));
        let log = SessionLog::new(&saved.id, file, redactor.clone(), kept);
        let (pid, haft) = (std::process::id(), env!("CARGO_PKG_VERSION").to_owned());
        log.note(Entry::Resumed { pid, haft })?;
        Ok((log, restored))
    }

    /// Copies `saved` to a new, independent session.
    ///
    /// # Errors
    /// The file of `saved` cannot be read, or that of the new session cannot be created.
    pub fn fork(&self, saved: &Saved, redactor: &Redactor) -> Result<Saved, SessionError> {
        let begun = Begun { id: Self::promise(), ..saved.restored()?.begun };
        let id = begun.id.clone();
        let path = self.path(&id, &self.all()?);
        let first = session::text(Line::now(Entry::Begun(begun)), redactor);
        let text = saved.text()?;
        let rest = text.lines().skip(1).map(|line| format!("\n{line}"));
        drop(File::create(&path, &id, &(first + &rest.collect::<String>()))?);
        self.find(&id)
    }

    /// Returns the sessions, oldest first.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn all(&self) -> Result<Vec<Saved>, SessionError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(SessionError::file("list", &self.folder))?,
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut all: Vec<_> = paths.filter_map(|path| Saved::at(&path, self)).collect();
        all.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }

    /// Returns the session whose id begins with `id`.
    ///
    /// # Errors
    /// No session, or several, begin with `id`.
    pub fn find(&self, id: &str) -> Result<Saved, SessionError> {
        let mut found = self.all()?.into_iter().filter(|saved| saved.id.starts_with(id));
        let first = found.next().ok_or_else(|| SessionError::Unknown(id.to_owned()))?;
        if found.next().is_some() { Err(SessionError::Ambiguous(id.to_owned())) } else { Ok(first) }
    }

    /// Returns the newest session with the program and the folder of `begun`.
    ///
    /// # Errors
    /// The session does not exist.
    pub fn last(&self, begun: &Begun) -> Result<Saved, SessionError> {
        let is_like = |saved: &Saved| saved.begun().is_some_and(|other| other.is_like(begun));
        self.all()?.into_iter().rev().find(is_like).ok_or(SessionError::None)
    }
}

/// Removes the oldest of `all` sessions if there are too many, except those in use.
fn make_room(all: &[Saved]) {
    let more = (all.len() + 1).saturating_sub(MAX_SESSIONS);
    for old in all.iter().take(more).filter(|saved| !saved.is_in_use()) {
        if let Err(error) = old.remove() {
            tracing::warn!("{error}");
        }
    }
}

impl Saved {
    fn at(path: &Path, sessions: &Sessions) -> Option<Self> {
        let (_, id) = path.file_name()?.to_str()?.strip_suffix(ENDING)?.rsplit_once('-')?;
        // The id becomes a part of a path below `answers`.
        let is_id = id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (answers, changes) = (sessions.answers.clone(), sessions.changes(id));
        is_id.then(|| Self { id: id.to_owned(), path: path.to_owned(), answers, changes })
    }

    /// Returns the time for the name of a session that begins `now`: later than this session, even if the clock was
    /// set back or has not advanced.
    fn begins_before(&self, now: Timestamp) -> Timestamp {
        let named = self.path.file_name().and_then(|name| name.to_str()?.split('-').next());
        let named = named.and_then(|time| DateTime::strptime(TIME, time).ok()?.to_zoned(TimeZone::UTC).ok());
        let next = named.and_then(|named| named.timestamp().checked_add(NEXT).ok());
        next.map_or(now, |next| next.max(now))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns all complete lines.
    pub fn text(&self) -> Result<String, SessionError> {
        file::read(&self.path)
    }

    /// Returns the state of the session.
    pub fn restored(&self) -> Result<Restored, SessionError> {
        begun(&self.path, Restored::parse(&self.text()?))
    }

    /// Returns the lines with their times, without unreadable ones.
    pub fn lines(&self) -> Result<Vec<Line>, SessionError> {
        Ok(self.text()?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Returns the beginning of the session, and the first prompt if it is within the first 64 KiB.
    pub fn opening(&self) -> Option<(Begun, Option<String>)> {
        let file = fs::File::open(&self.path).ok()?;
        let mut lines = io::BufRead::lines(io::BufReader::new(io::Read::take(file, OPENING)));
        let mut entry = || Some(serde_json::from_str::<Line>(&lines.next()?.ok()?).ok()?.entry);
        let Some(Entry::Begun(begun)) = entry() else { return None };
        let prompt = match entry() {
            Some(Entry::Said(prompt)) => Some(prompt.text),
            _ => None,
        };
        Some((begun, prompt))
    }

    /// Returns the beginning of the session, if the first line is valid.
    pub fn begun(&self) -> Option<Begun> {
        self.opening().map(|(begun, _)| begun)
    }

    /// Returns the time of the last write.
    pub fn changed(&self) -> Option<Timestamp> {
        let changed = fs::metadata(&self.path).ok()?.modified().ok()?;
        Timestamp::try_from(changed).ok()
    }

    /// Returns whether a process uses the session.
    pub fn is_in_use(&self) -> bool {
        file::is_in_use(&self.path)
    }

    /// Removes the session.
    ///
    /// # Errors
    /// A process uses the session, or its file cannot be removed.
    pub fn remove(&self) -> Result<(), SessionError> {
        if self.is_in_use() {
            return Err(SessionError::InUse(self.id.clone()));
        }
        fs::remove_file(&self.path).map_err(SessionError::file("remove", &self.path))?;
        if let Some(all) = &self.answers {
            Answers::new(all, &self.id).remove();
        }
        match self.changes.as_ref().map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                Err(SessionError::file("remove", &self.path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Reverts the changes of tools; `None` if none are stored.
    ///
    /// # Errors
    /// A process uses the session, or the stored changes cannot be read.
    pub fn undo(&self, which: Which) -> Result<Option<Undone>, SessionError> {
        if self.is_in_use() {
            return Err(SessionError::InUse(self.id.clone()));
        }
        self.changes.as_ref().map_or(Ok(None), |path| undone(path, which))
    }
}

fn begun(path: &Path, restored: Restored) -> Result<Restored, SessionError> {
    match restored.begun.v {
        0 => Err(file::invalid(path, "its first line is not the start of a session")),
        1 => Ok(restored),
        v => Err(file::invalid(path, &format!("its version is {v}; this haft supports version 1"))),
    }
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
        let answers = place.path().join("answers");
        let sessions = Sessions::new(place.path().join("state/sessions")).with_answers(&answers);
        assert_eq!(sessions.all().unwrap(), []);
        assert!(matches!(sessions.last(&begun("/a")), Err(SessionError::None)));
        let redactor = Redactor::default();
        let first = sessions.begin(begun("/a"), "one", &redactor).unwrap();
        let second = sessions.begin(begun("/b"), "two", &redactor).unwrap();
        assert_eq!(sessions.all().unwrap().len(), 2);
        assert_eq!(sessions.last(&begun("/a")).unwrap().id, first.id());
        assert_eq!(sessions.find(second.id().get(..6).unwrap()).unwrap().id, second.id());
        assert!(matches!(sessions.find("../../etc"), Err(SessionError::Unknown(_))));
        assert!(matches!(sessions.find(""), Err(SessionError::Ambiguous(_))));
        let saved = sessions.find(first.id()).unwrap();
        assert!(matches!(saved.remove(), Err(SessionError::InUse(_))));
        let kept = first.keep_answer(session::Place { message: 1, call: 0 }, "all of it").unwrap();
        drop(first);
        let (log, restored) = sessions.resume(&saved, &redactor).unwrap();
        assert_eq!(restored.begun.folder.as_deref(), Some(Path::new("/a")));
        drop(log);
        assert!(kept.path.exists());
        saved.remove().unwrap();
        assert!(!kept.path.exists() && answers.exists(), "its answers go with it");
        assert_eq!(sessions.all().unwrap().len(), 1);
    }

    /// C17: sessions sort by their beginning, also within a second, after the clock was set back, and after names
    /// with whole seconds.
    #[test]
    fn the_last_session_is_the_one_that_began_last() {
        let place = tempfile::tempdir().unwrap();
        let (sessions, redactor) = (Sessions::new(place.path()), Redactor::default());
        let line = |id: &str| {
            let begun = Begun { id: id.to_owned(), ..begun("/a") };
            session::text(Line::now(Entry::Begun(begun)), &redactor)
        };
        // A name of an earlier version, and one of a clock in the future.
        for name in ["20260101T000000-ffffffff", "29990101T000000-00000000"] {
            let id = name.rsplit_once('-').unwrap().1;
            fs::write(place.path().join(format!("{name}{ENDING}")), line(id) + "\n").unwrap();
            assert_eq!(sessions.last(&begun("/a")).unwrap().id, id);
        }
        let mut ids = vec!["ffffffff".to_owned(), "00000000".to_owned()];
        for _ in 0..32 {
            let log = sessions.begin(begun("/a"), "do it", &redactor).unwrap();
            assert_eq!(sessions.last(&begun("/a")).unwrap().id, log.id());
            ids.push(log.id().to_owned());
        }
        let all: Vec<_> = sessions.all().unwrap().into_iter().map(|saved| saved.id).collect();
        assert_eq!(all, ids);
    }

    /// C17: a session has its prompt from the beginning.
    #[test]
    fn a_session_begins_with_its_prompt_on_file() {
        let place = tempfile::tempdir().unwrap();
        let (sessions, redactor) = (Sessions::new(place.path()), Redactor::default());
        drop(sessions.begin(begun("/a"), "do it", &redactor).unwrap());
        let restored = sessions.last(&begun("/a")).unwrap().restored().unwrap();
        assert!(
            matches!(restored.messages.as_slice(), [crate::provider::Message::User(said)] if said.text == "do it")
        );
    }

    /// A name that is no id could be a path outside of the folder.
    #[test]
    fn a_file_whose_name_has_no_id_is_no_session() {
        let place = tempfile::tempdir().unwrap();
        for id in ["..", "", "a", "0000000g", "000000000", "0000000é"] {
            fs::write(place.path().join(format!("20260101T000000-{id}{ENDING}")), "").unwrap();
        }
        assert_eq!(Sessions::new(place.path()).with_answers(place.path()).all().unwrap(), []);
    }

    #[test]
    fn what_is_no_session_is_not_gone_on_with() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("20260101T000000-00000001.jsonl");
        let saved = Saved::at(&path, &Sessions::new(place.path())).unwrap();
        for text in
            ["", "{}\n", "{\"time\":\"2026-01-01T00:00:00Z\",\"kind\":\"begun\",\"v\":2,\"id\":\"1\"}\n"]
        {
            fs::write(&path, text).unwrap();
            let resumed = Sessions::new(place.path()).resume(&saved, &Redactor::default());
            assert!(matches!(resumed, Err(SessionError::Invalid { .. })), "{text}");
        }
    }
}
