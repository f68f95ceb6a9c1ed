//! Asks the person at a page: the side of the process whose call waits.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rustix::fs::{FlockOperation, flock};

use super::open::RELOAD;
use super::question::{Given, Origin, Waiting, digest};
use super::{Answer, Desk, ENDING, MAX_QUESTIONS, names};
use haft_core::encoding::hex;
use haft_core::random;
use haft_core::tool::{Approver, Decision, Question};

/// How often an answer is looked for: without a noticeable delay.
const LOOK: Duration = Duration::from_millis(50);

/// How often an open page is looked for.
const LOOK_OPEN: Duration = Duration::from_secs(1);

/// How long a question waits: as long as the toolbox waits for any approver.
const PATIENCE: Duration = Duration::from_mins(10);

/// The maximum size of an answer in bytes.
const MAX_ANSWER: u64 = 1 << 10;

/// Reports that a call waits.
type Tell = dyn Fn(&Question) + Send + Sync;

/// Asks the person at a page, if one is open.
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
    /// Asks at the pages of `desk`, for `origin`, and reports each question with `tell`.
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
            return Ok(Decision::Unasked("no page is open (`haft page` opens one)".into()));
        }
        let Some(asked) = self.desk.ask(question, &self.origin, self.for_session)? else {
            return Ok(Decision::Unasked("too many calls wait for an answer on the page".into()));
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
                    return Ok(Decision::Unasked("the page was closed before anybody answered".into()));
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
        answered.unwrap_or_else(|error| Decision::Unasked(format!("the page cannot be asked: {error}")))
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
            file => io::Read::read_to_end(&mut io::Read::take(file?, MAX_ANSWER), &mut text)?,
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
