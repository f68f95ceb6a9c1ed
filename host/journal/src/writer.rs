//! Writes journal lines. In a server with many calls, a thread writes gathered lines in groups: one `write` for
//! each [`INTERVAL`]. A line that must be in the file before its call runs is written together with the lines
//! gathered so far, so that lines stay in order.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;
use std::time::Duration;

use haft_core::journal::Lines;
use haft_core::limit::KeptJournal;
use haft_core::sync::Lock;

use super::Record;
use super::file::File;

/// Maximum wait of a gathered line: too short for a user to notice, and fifty lines at ten thousand calls per
/// second.
pub(super) const INTERVAL: Duration = Duration::from_millis(5);

/// The maximum size of the waiting lines in bytes, ten times the amount of one [`INTERVAL`]. The next line is
/// written at once, with all others.
const MAX_BYTES: usize = 256 << 10;

/// The maximum number of started calls whose first line waits. A line can have 20 KiB.
const MAX_BEGUN: usize = 64;

/// The writers that gather lines, for [`write_through`].
static GATHERING: Lock<Vec<Weak<Inner>>> = Lock::new(Vec::new());

/// The writer of one journal, which is stopped with the last clone of the journal.
#[derive(Debug)]
pub(super) struct Writer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    /// Locked before `gathered` if both are locked.
    file: Lock<File>,
    gathered: Lock<Gathered>,
    /// Whether the next lines can be written without opening a file or starting a thread.
    is_settled: AtomicBool,
    /// The thread that writes groups, once started; `None` if it could not be started.
    thread: OnceLock<Option<Thread>>,
    /// Whether a write error was reported.
    warned: AtomicBool,
}

/// Whether lines may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Lines are written at once, until gathering begins.
    #[default]
    AtOnce,
    /// Lines may wait.
    Gathering,
    /// Lines are written immediately from now on: the process ends, and the thread may have ended.
    Over,
}

/// The lines that wait.
#[derive(Debug, Default)]
struct Gathered {
    mode: Mode,
    /// Complete lines.
    lines: Vec<u8>,
    /// Calls that have started and not ended. A call that ends while it is here has only its last line.
    begun: Vec<Arc<Record>>,
}

impl Writer {
    pub(super) fn new(directory: &Path, table: KeptJournal) -> Self {
        Self(Arc::new(Inner {
            directory: directory.to_owned(),
            file: Lock::new(File::new(directory, table)),
            gathered: Lock::default(),
            is_settled: AtomicBool::new(false),
            thread: OnceLock::new(),
            warned: AtomicBool::new(false),
        }))
    }
}

impl Lines for Writer {
    fn gather(&self) {
        let mut all = GATHERING.lock();
        all.retain(|writer| writer.strong_count() > 0);
        all.push(Arc::downgrade(&self.0));
        let mut gathered = self.0.gathered.lock();
        if gathered.mode == Mode::AtOnce {
            gathered.mode = Mode::Gathering;
        }
    }

    fn is_settled(&self) -> bool {
        let starts_none = || self.0.thread.get().is_some() || !self.0.gathered.lock().is_on();
        self.0.is_settled.load(Ordering::Relaxed) && starts_none()
    }

    fn begin(&self, record: &Arc<Record>, may_wait: bool) {
        let is_gathered = may_wait && self.0.put(|gathered| gathered.begin(record));
        if !is_gathered {
            self.0.write_at_once(record);
        }
    }

    fn forget(&self, id: &str) -> bool {
        self.0.gathered.lock().forget(id)
    }

    fn end(&self, record: &Record) {
        if !self.0.put(|gathered| gathered.end(record)) {
            self.0.write_at_once(record);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Inner {
    /// Writes the waiting lines, and every later line immediately.
    fn stop(&self) {
        self.gathered.lock().mode = Mode::Over;
        self.write(|_| Ok(()));
        if let Some(Some(thread)) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Calls `put` to add to the waiting lines, if lines may wait and a thread writes them.
    fn put(&self, put: impl FnOnce(&mut Gathered) -> bool) -> bool {
        let Some(Some(thread)) = self.thread.get() else { return false };
        let mut gathered = self.gathered.lock();
        let (is_first, is_put) = (gathered.is_empty(), gathered.is_on() && put(&mut gathered));
        drop(gathered);
        if is_first && is_put {
            thread.unpark();
        }
        is_put
    }

    fn write_at_once(self: &Arc<Self>, record: &Record) {
        if self.thread.get().is_none() && self.gathered.lock().is_on() {
            self.start();
        }
        self.write(|lines| record.write_line(lines));
    }

    /// Writes the waiting lines, then those that `add` appends.
    fn write(&self, add: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>) {
        let mut file = self.file.lock();
        let Gathered { mut lines, begun, .. } = self.gathered.lock().take();
        let listed = begun.iter().try_for_each(|record| record.write_line(&mut lines));
        let listed = listed.and_then(|()| add(&mut lines)).map_err(io::Error::from);
        if !lines.is_empty() {
            let written = file.append(&lines);
            self.is_settled.store(file.is_settled(), Ordering::Relaxed);
            self.warn(listed.and(written));
        }
    }

    fn warn(&self, written: io::Result<()>) {
        if let Err(error) = written
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            let directory = self.directory.display();
            tracing::warn!("calls are not recorded in the journal `{directory}`: {error}");
        }
    }

    /// Starts the thread with the first line, and not on a thread that runs guests: such a thread is confined, and
    /// threads that it starts inherit the confinement. Without a thread every line is written immediately.
    fn start(self: &Arc<Self>) {
        self.thread.get_or_init(|| {
            let writer = self.clone();
            let started = std::thread::Builder::new().name("haft-journal".into()).spawn(move || writer.run());
            started.ok().map(|thread| thread.thread().clone())
        });
    }

    fn run(&self) {
        loop {
            let (is_over, is_empty) = {
                let gathered = self.gathered.lock();
                (gathered.mode == Mode::Over, gathered.is_empty())
            };
            if !is_empty {
                std::thread::sleep(INTERVAL);
                self.write(|_| Ok(()));
            } else if is_over {
                return;
            } else {
                std::thread::park();
            }
        }
    }
}

impl Gathered {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.begun.is_empty()
    }

    fn is_on(&self) -> bool {
        self.mode == Mode::Gathering
    }

    fn take(&mut self) -> Self {
        let mode = self.mode;
        std::mem::replace(self, Self { mode, ..Self::default() })
    }

    fn begin(&mut self, record: &Arc<Record>) -> bool {
        let has_room = self.begun.len() < MAX_BEGUN;
        if has_room {
            self.begun.push(record.clone());
        }
        has_room
    }

    fn end(&mut self, record: &Record) -> bool {
        let before = self.lines.len();
        let is_written = before < MAX_BYTES && record.write_line(&mut self.lines).is_ok();
        if !is_written {
            self.lines.truncate(before);
        }
        is_written
    }

    /// Removes the first line of a call; returns whether it was waiting.
    fn forget(&mut self, id: &str) -> bool {
        let place = self.begun.iter().position(|record| record.id == id);
        place.map(|index| self.begun.remove(index)).is_some()
    }
}

/// Writes the gathered lines of all journals of the process, and every later line immediately. For the end of the
/// process, which no thread survives.
pub fn write_through() {
    let gathering = std::mem::take(&mut *GATHERING.lock());
    for writer in gathering.iter().filter_map(Weak::upgrade) {
        writer.stop();
    }
}

#[cfg(test)]
mod tests;
