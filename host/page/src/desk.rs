//! The directory in which calls wait for a user at the dashboard: accessible to this user alone, and to no tool. A
//! process writes a question there and waits for its answer; a dashboard shows the questions and writes an answer
//! beside one. Processes need no connection to each other, and files of an ended process have no effect.
//!
//! - **Open:** while a browser shows a dashboard, its process holds a lock on a file `open-…`. Without such a lock,
//!   no process asks.
//! - **A question** is a file that the asking process keeps locked while it waits. An unlocked question is void.
//! - **An answer** contains the SHA-256 of the question's file, which contains the complete call and a unique name.
//!   The answer is valid for the process that wrote these bytes and for that one call, and the first answer counts.

mod question;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use self::question::{Given, MAX_FILE, RELOAD, digest};
use haft_core::encoding::hex;
use haft_core::random;
use haft_core::tool::{Approver, Decision, Question};

pub use self::question::Origin;
use self::question::Waiting;
pub(crate) use self::question::{Answer, Presence, Shown};

/// The maximum number of waiting questions: more than a person answers before they expire.
pub(crate) const MAX_QUESTIONS: usize = 64;

/// The maximum number of entries read from a directory: files of ended processes are removed when found.
const MAX_ENTRIES: usize = 1024;

/// The directory in which calls wait for a person.
#[derive(Clone, Debug)]
pub struct Desk {
    folder: PathBuf,
}

impl Desk {
    /// Returns the desk in `folder`, which no tool may read. The first page creates it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Creates the directories, for this user alone.
    pub(crate) fn create(&self) -> io::Result<()> {
        for folder in [self.questions(), self.answers()] {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        }
        // An existing directory may have been created by hand.
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700))
    }

    fn questions(&self) -> PathBuf {
        self.folder.join("questions")
    }

    fn answers(&self) -> PathBuf {
        self.folder.join("answers")
    }

    fn question(&self, id: &str) -> PathBuf {
        self.questions().join(format!("{id}{ENDING}"))
    }

    fn answer(&self, id: &str) -> PathBuf {
        self.answers().join(format!("{id}{ENDING}"))
    }
}

/// The extension of the files.
const ENDING: &str = ".json";

/// Returns the names in a directory that `is_meant` accepts; none if it does not exist.
fn names(folder: &Path, is_meant: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.take(MAX_ENTRIES).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter(|name| is_meant(name)).collect())
}

/// A question, and the digest that its answer must contain.
#[derive(Serialize)]
pub(crate) struct Found {
    #[serde(flatten)]
    pub(crate) waiting: Waiting,
    pub(crate) digest: String,
}

impl Desk {
    /// Returns the waiting calls, oldest first. Removes void questions.
    pub(crate) fn waiting(&self) -> io::Result<Vec<Found>> {
        let names = names(&self.questions(), |name| name.ends_with(ENDING))?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(ENDING)).take(MAX_QUESTIONS);
        let mut found: Vec<_> = ids.filter_map(|id| self.find(id).transpose()).collect::<io::Result<_>>()?;
        found.sort_unstable_by(|first, second| {
            (first.waiting.time, &first.waiting.id).cmp(&(second.waiting.time, &second.waiting.id))
        });
        Ok(found)
    }

    /// Answers the question `id` if it still waits, has this digest and is unanswered; returns whether it did.
    pub(crate) fn give(&self, id: &str, digest: &str, answer: Answer) -> io::Result<bool> {
        let is_valid = |found: &Found| {
            let is_offered = match answer {
                Answer::Session => found.waiting.for_session,
                Answer::Write => found.waiting.written_by.is_some(),
                Answer::Once | Answer::Refuse => true,
            };
            found.digest == digest && is_offered
        };
        if self.find(id)?.is_none_or(|found| !is_valid(&found)) {
            return Ok(false);
        }
        let mut file = tempfile::NamedTempFile::new_in(self.answers())?;
        file.write_all(&serde_json::to_vec(&Given { digest: digest.to_owned(), answer })?)?;
        match file.persist_noclobber(self.answer(id)) {
            Ok(_) => Ok(true),
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error.error),
        }
    }

    /// Returns the question `id` if it waits for an answer.
    fn find(&self, id: &str) -> io::Result<Option<Found>> {
        // The id becomes a part of a path.
        if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let path = self.question(id);
        let Ok(file) = File::open(&path) else { return Ok(None) };
        if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(self.answer(id));
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut bytes)?;
        let waiting = serde_json::from_slice::<Waiting>(&bytes).ok();
        let waiting = waiting.filter(|waiting| waiting.id == id && waiting.until > Timestamp::now());
        // The asking process removes the question, then its answer: a question that is missing now was answered and
        // no longer waits.
        let waiting = waiting.filter(|_| !self.answer(id).exists() && path.exists());
        Ok(waiting.map(|waiting| Found { waiting, digest: digest(&bytes) }))
    }
}

/// Interval of checks for an answer: without a noticeable delay.
const LOOK: Duration = Duration::from_millis(50);

/// Interval of checks for an open dashboard.
const LOOK_OPEN: Duration = Duration::from_secs(1);

/// Time limit of a question: that of the toolbox for any approver.
const PATIENCE: Duration = Duration::from_mins(10);

/// The maximum size of an answer in bytes.
const MAX_ANSWER: u64 = 1 << 10;

/// Reports that a call waits.
type Tell = dyn Fn(&Question) + Send + Sync;

/// Asks the user at a dashboard, if one is open.
pub struct PageApprover {
    desk: Desk,
    origin: Origin,
    for_session: bool,
    tell: Box<Tell>,
}

/// A waiting question, withdrawn on drop.
struct Asked {
    question: PathBuf,
    answer: PathBuf,
    digest: String,
    /// Locked while the question waits.
    _file: File,
}

impl PageApprover {
    /// Asks at the dashboards of `desk`, for `origin`, and reports each question with `tell`.
    pub fn new(desk: Desk, origin: Origin, tell: impl Fn(&Question) + Send + Sync + 'static) -> Self {
        Self { desk, origin, for_session: true, tell: Box::new(tell) }
    }

    /// Offers no answer that outlives its call.
    #[must_use]
    pub fn once_only(self) -> Self {
        Self { for_session: false, ..self }
    }

    async fn answered(&self, question: &Question) -> io::Result<Decision> {
        if !self.desk.is_open()? {
            return Ok(Decision::Unasked("no dashboard is open (`haft dashboard` opens one)".into()));
        }
        let Some(asked) = self.desk.ask(question, &self.origin, self.for_session)? else {
            return Ok(Decision::Unasked("too many calls wait for an answer on the dashboard".into()));
        };
        (self.tell)(question);
        let (mut seen, mut looked) = (Instant::now(), Instant::now());
        loop {
            if let Some(answer) = asked.answer()? {
                return Ok(decision(answer, self.for_session));
            }
            if looked.elapsed() >= LOOK_OPEN {
                looked = Instant::now();
                if self.desk.is_open()? {
                    seen = looked;
                } else if seen.elapsed() > RELOAD {
                    return Ok(Decision::Unasked("the dashboard was closed before an answer".into()));
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[async_trait]
impl Approver for PageApprover {
    async fn ask(&self, question: &Question) -> Decision {
        let answered = self.answered(question).await;
        answered.unwrap_or_else(|error| Decision::Unasked(format!("the dashboard cannot be asked: {error}")))
    }
}

fn decision(answer: Answer, for_session: bool) -> Decision {
    match answer {
        Answer::Session if for_session => Decision::Always,
        // Was not offered unless the answer may hold for the session.
        Answer::Write if for_session => Decision::Written,
        Answer::Once | Answer::Session | Answer::Write => Decision::Approved,
        Answer::Refuse => Decision::Denied,
    }
}

impl Desk {
    /// Writes a question; `None` if there are too many.
    fn ask(&self, question: &Question, origin: &Origin, for_session: bool) -> io::Result<Option<Asked>> {
        if names(&self.questions(), |name| name.ends_with(ENDING))?.len() >= MAX_QUESTIONS {
            return Ok(None);
        }
        let id = hex(&random::bytes::<16>()?);
        let waiting = Waiting::new(id.clone(), question, origin.clone(), PATIENCE, for_session);
        let bytes = serde_json::to_vec(&waiting)?;
        let new = self.questions().join(format!(".{id}"));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        // Locked before a page can see it.
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let asked = Asked {
            question: self.question(&id),
            answer: self.answer(&id),
            digest: digest(&bytes),
            _file: file.try_clone()?,
        };
        let put = file.write_all(&bytes).and_then(|()| fs::rename(&new, &asked.question));
        put.inspect_err(|_| drop(fs::remove_file(&new)))?;
        Ok(Some(asked))
    }
}

impl Asked {
    /// Returns the answer to this question, once there is one. Ignores an answer to another question.
    fn answer(&self) -> io::Result<Option<Answer>> {
        let mut text = Vec::new();
        match File::open(&self.answer) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => Read::read_to_end(&mut Read::take(file?, MAX_ANSWER), &mut text)?,
        };
        let given: Option<Given> = serde_json::from_slice(&text).ok();
        Ok(given.filter(|given| given.digest == self.digest).map(|given| given.answer))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // The question is withdrawn, and its answer used up.
        let _ = fs::remove_file(&self.question);
        let _ = fs::remove_file(&self.answer);
    }
}

impl std::fmt::Debug for PageApprover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageApprover").field("origin", &self.origin).finish_non_exhaustive()
    }
}
