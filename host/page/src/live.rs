//! What happens now: a thread that reads what is added to the journal while a browser looks on, and tells all browsers. Of
//! many calls it shows a part, and says how many there were.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{broadcast, watch};

use crate::desk::{Desk, Waiting};
use crate::history::Row;
use haft_core::sync::Lock;
use haft_journal::{Followed, NewLine, View};

/// How often it is looked at what was added: with the 5 ms that a line waits for being written and a frame of the
/// browser less than the tenth of a second in which a row has to be there.
const TICK: Duration = Duration::from_millis(25);

/// Rows of calls that did what they were asked, in a tick: more in a second than anybody reads.
const MAX_ROUTINE: usize = 3;

/// Rows of calls that did not, in a tick: they are shown first.
const MAX_FAILED: usize = 20;

/// Lines that are looked at in a tick: who writes more of them than are read is told of as well.
const MAX_LINES: usize = 20_000;

/// Calls whose beginning was shown and whose end was not: their ends are always shown.
const MAX_OPEN: usize = 256;

/// Batches that a browser may be late; after that some are left out.
const LATE: usize = 32;

/// What is told to all browsers. Clones are the same.
#[derive(Clone)]
pub(crate) struct Live(Arc<Told>);

struct Told {
    journal: PathBuf,
    /// What is read on from, while a browser looks on.
    followed: Lock<Option<Followed>>,
    rows: broadcast::Sender<Bytes>,
    questions: watch::Sender<Bytes>,
    is_over: AtomicBool,
}

/// What was added in a tick.
#[derive(Default, Serialize)]
struct Batch {
    rows: Vec<Row>,
    /// Calls that ended.
    ended: usize,
    /// Those of them that are among the rows.
    shown: usize,
}

/// A question as a browser gets it.
#[derive(Serialize)]
struct Question {
    #[serde(flatten)]
    waiting: Waiting,
    digest: String,
}

impl Live {
    /// Of the journal in this directory. Nothing is read before a browser looks on.
    pub(crate) fn new(journal: PathBuf) -> Self {
        let (rows, _) = broadcast::channel(LATE);
        let (questions, _) = watch::channel(Bytes::from_static(b"[]"));
        let (followed, is_over) = (Lock::default(), AtomicBool::new(false));
        Self(Arc::new(Told { journal, followed, rows, questions, is_over }))
    }

    /// Begins to read, on a thread of its own, until [`Self::stop`].
    pub(crate) fn start(&self, desk: &Desk) -> io::Result<()> {
        let (told, desk) = (self.0.clone(), desk.clone());
        let run = move || Reader { told, desk, open: Vec::new(), asked: Vec::new() }.run();
        std::thread::Builder::new().name("haft-page".into()).spawn(run).map(drop)
    }

    /// The rows of lines that are written from now on, as JSON.
    pub(crate) fn rows(&self) -> io::Result<broadcast::Receiver<Bytes>> {
        let mut followed = self.0.followed.lock();
        if followed.is_none() {
            *followed = Some(View::open(&self.0.journal)?.follow()?);
        }
        Ok(self.0.rows.subscribe())
    }

    /// The questions that wait, as JSON.
    pub(crate) fn questions(&self) -> watch::Receiver<Bytes> {
        self.0.questions.subscribe()
    }

    pub(crate) fn stop(&self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

struct Reader {
    told: Arc<Told>,
    desk: Desk,
    /// The ids of calls whose beginning was shown.
    open: Vec<String>,
    /// The digests of the questions that were told last.
    asked: Vec<String>,
}

impl Reader {
    fn run(mut self) {
        while !self.told.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
            if let Err(error) = self.look() {
                tracing::debug!(%error, "the page cannot read what is new");
            }
        }
    }

    fn look(&mut self) -> io::Result<()> {
        let told = self.told.clone();
        let mut followed = told.followed.lock();
        if told.rows.receiver_count() == 0 {
            // Whoever comes next reads what is there.
            *followed = None;
        }
        let Some(followed) = followed.as_mut() else { return Ok(()) };
        self.look_at_questions()?;
        let batch = self.batch(followed)?;
        if batch.ended > 0 || !batch.rows.is_empty() {
            // Without a browser there is nobody to tell.
            let _ = self.told.rows.send(serde_json::to_vec(&batch)?.into());
        }
        Ok(())
    }

    fn batch(&mut self, followed: &mut Followed) -> io::Result<Batch> {
        let (mut batch, mut routine, mut failed) = (Batch::default(), 0, 0);
        for _ in 0..MAX_LINES {
            let Some(line) = followed.next_line()? else { break };
            let is_begin = line.is_begin();
            batch.ended += usize::from(!is_begin);
            let is_awaited = self.is_awaited(&line);
            let room = if is_begin || line.is_success() {
                (&mut routine, MAX_ROUTINE)
            } else {
                (&mut failed, MAX_FAILED)
            };
            if !is_awaited && *room.0 >= room.1 {
                continue;
            }
            let Some(record) = line.record() else { continue };
            *room.0 += 1;
            batch.shown += usize::from(!is_begin);
            if is_begin {
                self.await_end(record.id.clone());
            }
            batch.rows.push(Row::new(&record));
        }
        Ok(batch)
    }

    /// Whether the line is the end of a call that is shown as running.
    fn is_awaited(&mut self, line: &NewLine<'_>) -> bool {
        let Some(id) = line.id().filter(|_| !line.is_begin() && !self.open.is_empty()) else { return false };
        let at = self.open.iter().position(|open| open == id);
        at.map(|at| self.open.swap_remove(at)).is_some()
    }

    fn await_end(&mut self, id: String) {
        if self.open.len() >= MAX_OPEN {
            self.open.remove(0);
        }
        self.open.push(id);
    }

    fn look_at_questions(&mut self) -> io::Result<()> {
        let found = self.desk.waiting()?;
        let digests: Vec<_> = found.iter().map(|found| found.digest.clone()).collect();
        if digests != self.asked {
            let questions =
                found.into_iter().map(|found| Question { digest: found.digest, waiting: found.waiting });
            let text = serde_json::to_vec(&questions.collect::<Vec<_>>())?;
            self.told.questions.send_replace(text.into());
            self.asked = digests;
        }
        Ok(())
    }
}
