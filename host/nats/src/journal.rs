//! Journals of workers: the lines that a worker writes to its file are copied to a stream and read back from there.
//! The file is the record and the stream a copy: an outage of NATS delays lines and loses none. A line that is sent
//! twice is stored once.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use bytes::Bytes;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::link::Link;
use crate::payload::room;
use crate::stores::Kept;
use crate::subjects::NAMELESS;
use crate::{LinkError, subjects, unusable};
use haft_journal::{Bookmark, Outcome, Record, View};

/// Interval of reads of the file.
const LOOK: Duration = Duration::from_millis(250);

/// The wait before a rejected batch is sent again.
const PAUSE: Duration = Duration::from_secs(2);

/// The maximum number of lines of a batch, usually one. A line has at most 20 KiB.
const BATCH: usize = 256;

/// The maximum size of a message of several lines in bytes, if the server accepts it; a longer line is sent alone.
const MESSAGE: usize = 128 << 10;

/// The maximum number of foreign lines skipped in one read.
const MOST_SKIPPED: usize = 16 << 10;

/// Time limit for the last lines when a worker ends.
const LAST: Duration = Duration::from_secs(5);

/// Time limit for the next line of the stream.
const READING: Duration = Duration::from_secs(5);

/// The reason why journals cannot be read from NATS.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// NATS cannot be used.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The journals cannot be written here.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The reason why lines are not sent.
#[derive(Debug, thiserror::Error)]
enum ShipError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("the journal cannot be read: {0}")]
    Read(#[from] io::Error),
}

/// Sends the journal of one worker.
#[derive(Debug)]
pub struct Shipper {
    link: Arc<Link>,
    subject: String,
    worker: String,
    directory: PathBuf,
    /// The file with the bookmark.
    progress: PathBuf,
}

/// The lines of one read, and the bookmark after them.
struct Batch {
    lines: Vec<(String, Vec<u8>)>,
    bookmark: Option<Bookmark>,
    /// Whether there may be more lines.
    is_cut: bool,
}

impl Shipper {
    /// Sends the lines of `worker` and `program` in the journal in `directory`; the bookmark is stored in
    /// `progress`.
    pub fn new(
        link: &Arc<Link>,
        (program, worker): (&str, &str),
        directory: PathBuf,
        progress: PathBuf,
    ) -> Self {
        let subject = subjects::journal_of(&link.prefix, program, worker);
        Self { link: link.clone(), subject, worker: worker.to_owned(), directory, progress }
    }

    /// Sends lines as they are written until `stop`, then the remaining lines within a time limit.
    pub async fn run(self, stop: CancellationToken) {
        let shipper = Arc::new(self);
        let mut bookmark = shipper.kept();
        let mut has_warned = false;
        while !stop.is_cancelled() {
            let pause = match shipper.clone().ship(&mut bookmark).await {
                Ok(true) => continue,
                Ok(false) => LOOK,
                Err(error) => {
                    if !std::mem::replace(&mut has_warned, true) {
                        tracing::warn!("lines of the journal wait for NATS: {error}");
                    }
                    PAUSE
                }
            };
            stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
        let rest = async { while let Ok(true) = shipper.clone().ship(&mut bookmark).await {} };
        if tokio::time::timeout(LAST, rest).await.is_err() {
            tracing::warn!("the last lines of the journal are sent at the next start of this worker");
        }
    }

    /// Sends the next lines; returns whether there may be more.
    async fn ship(self: Arc<Self>, bookmark: &mut Option<Bookmark>) -> Result<bool, ShipError> {
        let (shipper, from) = (self.clone(), *bookmark);
        let batch =
            tokio::task::spawn_blocking(move || shipper.next(from)).await.map_err(io::Error::other)??;
        if !batch.lines.is_empty() {
            self.send(batch.lines).await?;
        }
        if batch.bookmark != *bookmark {
            *bookmark = batch.bookmark;
            self.keep(bookmark.as_ref())?;
        }
        Ok(batch.is_cut)
    }

    /// Reads the lines of this worker after `bookmark`.
    fn next(&self, bookmark: Option<Bookmark>) -> io::Result<Batch> {
        let mut followed = View::open(&self.directory)?.follow_after(bookmark)?;
        let (mut lines, mut skipped) = (Vec::new(), 0);
        let is_cut = loop {
            if lines.len() >= BATCH || skipped >= MOST_SKIPPED {
                break true;
            }
            let Some(line) = followed.next_line()? else { break false };
            match line.record().filter(|record| record.program.worker.as_ref() == Some(&self.worker)) {
                Some(record) => lines.push((key(&record), line.bytes().to_vec())),
                None => skipped += 1,
            }
        };
        Ok(Batch { lines, bookmark: followed.bookmark()?.or(bookmark), is_cut })
    }

    /// Sends lines, many in a message: the server stores and acknowledges messages.
    async fn send(&self, lines: Vec<(String, Vec<u8>)>) -> Result<(), LinkError> {
        let what = "lines of the journal cannot be sent";
        Kept::Journal.stream(&self.link).await?;
        let mut sent = Vec::new();
        for (key, message) in messages(lines, MESSAGE.min(room(&self.link))) {
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Msg-Id", key.as_str());
            let publish = self.link.jetstream.publish_with_headers(self.subject.clone(), headers, message);
            sent.push(publish.await.map_err(|error| unusable(what, &error))?);
        }
        for taken in sent {
            taken.await.map_err(|error| unusable(what, &error))?;
        }
        Ok(())
    }

    /// Returns the bookmark of an earlier process of this worker.
    fn kept(&self) -> Option<Bookmark> {
        serde_json::from_slice(&fs::read(&self.progress).ok()?).ok()
    }

    fn keep(&self, bookmark: Option<&Bookmark>) -> io::Result<()> {
        if let Some(parent) = self.progress.parent() {
            fs::create_dir_all(parent)?;
        }
        let new = self.progress.with_extension("new");
        let mut file = fs::File::create(&new)?;
        file.write_all(&serde_json::to_vec(&bookmark)?)?;
        // Without a bookmark, all lines would be sent again, and readers recognise only the latest duplicates.
        file.sync_all()?;
        fs::rename(new, &self.progress)
    }
}

/// Returns the subject of a record's worker: no worker may send to the subject of another.
fn subject(prefix: &str, record: &Record) -> Option<String> {
    let (program, worker) = (record.program.name.as_deref(), record.program.worker.as_deref()?);
    Some(subjects::journal_of(prefix, program.unwrap_or(NAMELESS), worker))
}

/// Returns the unique key of a line: the call, and whether it begins or ends.
fn key(record: &Record) -> String {
    let end = if record.outcome == Outcome::Started { "begin" } else { "end" };
    format!("{}-{end}", record.id)
}

/// Groups lines into messages of at most `most` bytes. The key of a message is that of its first line with the
/// number of lines.
fn messages(lines: Vec<(String, Vec<u8>)>, most: usize) -> Vec<(String, Bytes)> {
    let mut messages = Vec::new();
    let mut left = lines.into_iter().peekable();
    while let Some((first, mut bytes)) = left.next() {
        let mut count = 1;
        while let Some((_, line)) = left.next_if(|(_, line)| bytes.len() + line.len() <= most) {
            bytes.extend_from_slice(&line);
            count += 1;
        }
        messages.push((format!("{first}-{count}"), bytes.into()));
    }
    messages
}

/// The result of reading the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The number of lines.
    pub lines: usize,
    /// The number of lines that did not belong to their sender and were skipped.
    pub foreign: usize,
}

/// Reads the journals of all workers, or their calls since a time, into a journal in `directory`.
///
/// # Errors
/// The stream cannot be read, or the journal cannot be written.
pub async fn fetch(
    link: &Link,
    since: Option<SystemTime>,
    directory: &Path,
) -> Result<Fetched, JournalError> {
    let what = "the journals of workers cannot be read";
    let stream = Kept::Journal.stream(link).await?;
    let mut left = stream.cached_info().state.messages;
    let deliver_policy = match since {
        Some(start_time) => DeliverPolicy::ByStartTime { start_time: start_time.into() },
        None => DeliverPolicy::All,
    };
    let config = pull::OrderedConfig { deliver_policy, ..pull::OrderedConfig::default() };
    let consumer = stream.create_consumer(config).await.map_err(|error| unusable(what, &error))?;
    left = left.min(consumer.cached_info().num_pending);
    let mut messages = consumer.messages().await.map_err(|error| unusable(what, &error))?;
    let path = directory.join("journal.jsonl");
    let failed = |source| JournalError::Write { path: path.clone(), source };
    let mut file = BufWriter::new(fs::File::create(&path).map_err(failed)?);
    let (mut seen, mut fetched) = (Seen::default(), Fetched::default());
    while left > 0 {
        let message = tokio::time::timeout(READING, messages.next()).await;
        let message = message.map_err(|late| unusable(what, &late))?;
        let Some(message) = message.transpose().map_err(|error| unusable(what, &error))? else { break };
        left = message.info().map_or(left - 1, |info| info.pending);
        for line in message.payload.split_inclusive(|byte| *byte == b'\n') {
            let Ok(record) = serde_json::from_slice::<Record>(line) else { continue };
            if subject(&link.prefix, &record).as_deref() != Some(message.subject.as_str()) {
                fetched.foreign += 1;
            } else if seen.is_new(&message.subject, &key(&record)) {
                file.write_all(line).map_err(failed)?;
                fetched.lines += 1;
            }
        }
    }
    file.flush().map_err(failed)?;
    Ok(fetched)
}

// Recognises lines that were read before, with bounded memory.
//
// A worker sends its lines in order, and repeats only those since its bookmark, which is one batch. A duplicate is
// therefore within two batches of the worker.

/// The number of remembered lines of a worker: twice the maximum distance of duplicates.
const KNOWN: usize = 4 * BATCH;

/// The maximum number of workers, with at most 20 KiB each. Beyond it, the worker that was silent longest is
/// dropped.
const WORKERS: usize = 1024;

/// The latest lines of each worker.
#[derive(Default)]
struct Seen {
    workers: HashMap<String, Window>,
    /// A counter of lines.
    now: u64,
}

#[derive(Default)]
struct Window {
    known: HashSet<u64>,
    order: VecDeque<u64>,
    /// The counter at the worker's last line.
    last: u64,
}

impl Seen {
    /// Records a line; returns whether it is new.
    fn is_new(&mut self, worker: &str, key: &str) -> bool {
        self.now += 1;
        if !self.workers.contains_key(worker) {
            self.make_room();
            self.workers.insert(worker.to_owned(), Window::default());
        }
        let now = self.now;
        self.workers.get_mut(worker).is_none_or(|window| window.is_new(key, now))
    }

    fn make_room(&mut self) {
        if self.workers.len() < WORKERS {
            return;
        }
        let silent = self.workers.iter().min_by_key(|(_, window)| window.last).map(|(name, _)| name.clone());
        if let Some(name) = silent {
            self.workers.remove(&name);
        }
    }
}

impl Window {
    fn is_new(&mut self, key: &str, now: u64) -> bool {
        self.last = now;
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let key = hasher.finish();
        if !self.known.insert(key) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_travel_together_as_far_as_they_fit() {
        let lines = [("a", 3), ("b", 5), ("c", 1), ("d", 20), ("e", 1)];
        let lines = lines.map(|(key, size)| (key.to_owned(), key.repeat(size).into_bytes()));
        let sent = messages(lines.into(), 8);
        let shown: Vec<_> = sent.iter().map(|(key, bytes)| (key.as_str(), &bytes[..])).collect();
        let long = "d".repeat(20);
        let wanted: [(&str, &[u8]); 4] =
            [("a-2", b"aaabbbbb"), ("c-1", b"c"), ("d-1", long.as_bytes()), ("e-1", b"e")];
        assert_eq!(shown, wanted);
    }

    #[test]
    fn a_batch_that_is_sent_again_is_recognised_among_the_lines_of_others() {
        let mut seen = Seen::default();
        let mut take = |worker: &str, numbers: std::ops::Range<usize>| {
            numbers.filter(|number| seen.is_new(worker, &format!("{worker}-{number}"))).count()
        };
        assert_eq!(take("eu", 0..BATCH), BATCH);
        assert_eq!(take("us", 0..10 * KNOWN), 10 * KNOWN);
        assert_eq!(take("eu", 0..2 * BATCH), BATCH);
        assert_eq!(take("eu", BATCH..2 * BATCH), 0);
    }

    #[test]
    fn memory_does_not_grow_with_lines_or_workers() {
        let mut seen = Seen::default();
        for number in 0..10 * KNOWN {
            assert!(seen.is_new("eu", &number.to_string()));
        }
        let window = &seen.workers["eu"];
        assert_eq!((window.known.len(), window.order.len()), (KNOWN, KNOWN));
        for number in 0..3 * WORKERS {
            assert!(seen.is_new(&number.to_string(), "key"));
            assert!(!seen.is_new(&number.to_string(), "key"));
        }
        assert_eq!(seen.workers.len(), WORKERS);
        assert!(!seen.workers.contains_key("eu"));
    }
}
