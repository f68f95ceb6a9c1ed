//! Live updates: a thread reads new lines of the journal while a browser is connected, and sends them to all
//! browsers. Of many calls it sends a part and their number.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::desk::Desk;
use crate::history::Row;
use haft_core::sync::Lock;
use haft_journal::{Followed, NewLine, View};

/// Interval of reads of new lines: together with the 5 ms that a line waits to be written and one frame of
/// the browser, less than the tenth of a second within which a row must appear.
const TICK: Duration = Duration::from_millis(25);

/// The maximum number of rows of successful calls in a tick.
const MAX_ROUTINE: usize = 3;

/// The maximum number of rows of failed calls in a tick: they are sent first.
const MAX_FAILED: usize = 20;

/// The maximum number of lines read in a tick: if more are written, the rest is read later.
const MAX_LINES: usize = 20_000;

/// The maximum number of shown calls whose end is awaited: their ends are always sent.
const MAX_OPEN: usize = 256;

/// The maximum number of batches that a browser may be late; beyond it, some are dropped.
const LATE: usize = 32;

/// The updates for all browsers. Clones are equivalent.
#[derive(Clone)]
pub(crate) struct Live(Arc<Shared>);

struct Shared {
    journal: PathBuf,
    /// The position in the journal, while a browser is connected.
    followed: Lock<Option<Followed>>,
    rows: broadcast::Sender<Bytes>,
    questions: watch::Sender<Bytes>,
    is_over: CancellationToken,
}

/// The updates of a tick.
#[derive(Default, Serialize)]
struct Batch {
    rows: Vec<Row>,
    /// The number of calls that ended.
    ended: usize,
    /// The number of ended calls among the rows.
    shown: usize,
}

impl Live {
    /// Creates the updates of the journal in this directory. Nothing is read before a browser connects.
    pub(crate) fn new(journal: PathBuf) -> Self {
        let (rows, _) = broadcast::channel(LATE);
        let (questions, _) = watch::channel(Bytes::from_static(b"[]"));
        let (followed, is_over) = (Lock::default(), CancellationToken::new());
        Self(Arc::new(Shared { journal, followed, rows, questions, is_over }))
    }

    /// Starts the reading thread, until the returned value is dropped.
    pub(crate) fn start(&self, desk: &Desk) -> io::Result<DropGuard> {
        let (shared, desk) = (self.0.clone(), desk.clone());
        let run = move || Reader { shared, desk, open: Vec::new(), asked: Vec::new() }.run();
        std::thread::Builder::new().name("haft-page".into()).spawn(run)?;
        Ok(self.0.is_over.clone().drop_guard())
    }

    /// Returns the rows of new lines from now on, as JSON.
    pub(crate) fn rows(&self) -> io::Result<broadcast::Receiver<Bytes>> {
        let mut followed = self.0.followed.lock();
        if followed.is_none() {
            *followed = Some(View::open(&self.0.journal)?.follow()?);
        }
        Ok(self.0.rows.subscribe())
    }

    /// Returns the waiting questions, as JSON.
    pub(crate) fn questions(&self) -> watch::Receiver<Bytes> {
        self.0.questions.subscribe()
    }
}

struct Reader {
    shared: Arc<Shared>,
    desk: Desk,
    /// The ids of calls whose start was shown.
    open: Vec<String>,
    /// The digests of the questions that were sent last.
    asked: Vec<String>,
}

impl Reader {
    fn run(mut self) {
        while !self.shared.is_over.is_cancelled() {
            std::thread::sleep(TICK);
            if let Err(error) = self.look() {
                tracing::debug!(%error, "the dashboard cannot read new events");
            }
        }
    }

    fn look(&mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        let mut followed = shared.followed.lock();
        if shared.rows.receiver_count() == 0 {
            // The next browser reads the existing lines itself.
            *followed = None;
        }
        let Some(followed) = followed.as_mut() else { return Ok(()) };
        self.look_at_questions()?;
        let batch = self.batch(followed)?;
        if batch.ended > 0 || !batch.rows.is_empty() {
            // Fails only without a browser.
            let _ = self.shared.rows.send(serde_json::to_vec(&batch)?.into());
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

    /// Returns whether the line is the end of a call that is shown as running.
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
            self.shared.questions.send_replace(serde_json::to_vec(&found)?.into());
            self.asked = digests;
        }
        Ok(())
    }
}
