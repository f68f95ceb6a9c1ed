//! Journals over machines: what a worker noted in its own file goes to a stream, line by line, and is read back from there.
//! The file is the record and the stream a copy: an outage of NATS delays lines and loses none. A line that is sent twice
//! is kept once.

mod seen;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use bytes::Bytes;
use haft_journal::{Bookmark, Followed, Outcome, Record, View};
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use self::seen::Seen;
use super::error::{LinkError, unusable};
use super::identity::NAMELESS;
use super::link::Link;
use super::payload::room;
use super::stores::Kept;
use super::subjects;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// How long is waited before what was not taken is sent again.
const PAUSE: Duration = Duration::from_secs(2);

/// Lines that are read and sent together. A line has 20 KiB at most, mostly one.
const BATCH: usize = 256;

/// Bytes of lines that travel in one message, where the server takes as many; a longer line travels alone.
const MESSAGE: usize = 128 << 10;

/// Lines of others that are gone through at one time.
const MOST_SKIPPED: usize = 16 << 10;

/// How long the last lines may take at the end of a worker.
const LAST: Duration = Duration::from_secs(5);

/// How long the next line of the stream is waited for.
const READING: Duration = Duration::from_secs(5);

/// Why journals cannot be read from NATS.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// NATS does not give them.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// They cannot be put down here.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Why lines wait.
#[derive(Debug, thiserror::Error)]
enum ShipError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("the journal cannot be read: {0}")]
    Read(#[from] io::Error),
}

/// Sends what one worker notes.
pub struct Shipper {
    link: Arc<Link>,
    subject: String,
    worker: String,
    directory: PathBuf,
    /// The file that says how far it has come.
    progress: PathBuf,
}

/// The next line of the journal.
enum Next {
    /// There is none yet.
    None,
    /// One of this worker, and what names it.
    Own(String, Vec<u8>),
    /// One of others.
    Other,
}

/// Lines of one look, and where the next one goes on.
struct Batch {
    lines: Vec<(String, Vec<u8>)>,
    bookmark: Option<Bookmark>,
    /// Whether there may be more.
    is_cut: bool,
}

impl Shipper {
    /// Sends what `worker` notes of `program` in the journal in `directory`; how far it has come is kept in `progress`.
    pub fn new(
        link: &Arc<Link>,
        (program, worker): (&str, &str),
        directory: PathBuf,
        progress: PathBuf,
    ) -> Self {
        let subject = subjects::journal_of(&link.prefix, program, worker);
        Self { link: link.clone(), subject, worker: worker.to_owned(), directory, progress }
    }

    /// Sends lines as they are written until `stop`, and then what is left, for a moment.
    pub async fn run(self, stop: CancellationToken) {
        let own = Arc::new(self);
        let mut bookmark = own.kept();
        let mut has_warned = false;
        while !stop.is_cancelled() {
            let pause = match own.clone().ship(&mut bookmark).await {
                Ok(true) => continue,
                Ok(false) => LOOK,
                Err(error) => {
                    if !std::mem::replace(&mut has_warned, true) {
                        tracing::warn!("lines of the journal wait until NATS takes them: {error}");
                    }
                    PAUSE
                }
            };
            stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
        let rest = async { while let Ok(true) = own.clone().ship(&mut bookmark).await {} };
        if tokio::time::timeout(LAST, rest).await.is_err() {
            tracing::warn!("the last lines of the journal are sent when this worker runs again");
        }
    }

    /// Sends the next lines; whether there may be more.
    async fn ship(self: Arc<Self>, bookmark: &mut Option<Bookmark>) -> Result<bool, ShipError> {
        let (own, from) = (self.clone(), *bookmark);
        let batch = tokio::task::spawn_blocking(move || own.next(from)).await.map_err(io::Error::other)??;
        if !batch.lines.is_empty() {
            self.send(batch.lines).await?;
        }
        if batch.bookmark != *bookmark {
            *bookmark = batch.bookmark;
            self.keep(bookmark.as_ref())?;
        }
        Ok(batch.is_cut)
    }

    /// The lines of this worker after `bookmark`.
    fn next(&self, bookmark: Option<Bookmark>) -> io::Result<Batch> {
        let mut followed = View::open(&self.directory)?.follow_after(bookmark)?;
        let (mut lines, mut skipped) = (Vec::new(), 0);
        let is_cut = loop {
            if lines.len() >= BATCH || skipped >= MOST_SKIPPED {
                break true;
            }
            match self.line(&mut followed)? {
                Next::None => break false,
                Next::Own(key, line) => lines.push((key, line)),
                Next::Other => skipped += 1,
            }
        };
        Ok(Batch { lines, bookmark: followed.bookmark()?.or(bookmark), is_cut })
    }

    /// The next line with what names it, where it is one of this worker.
    fn line(&self, followed: &mut Followed) -> io::Result<Next> {
        let Some(line) = followed.next_line()? else { return Ok(Next::None) };
        let bytes = line.bytes().to_vec();
        let own = line.record().filter(|record| record.program.worker.as_ref() == Some(&self.worker));
        Ok(own.map_or(Next::Other, |record| Next::Own(key(&record), bytes)))
    }

    /// Sends lines, many in a message: the server keeps and acknowledges messages.
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

    /// How far an earlier process of this worker has come.
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
        // Without a bookmark everything would be sent again, and readers know only the last lines.
        file.sync_all()?;
        fs::rename(new, &self.progress)
    }
}

/// Where a line comes from: no worker may send to the subject of another.
fn subject(prefix: &str, record: &Record) -> Option<String> {
    let (program, worker) = (record.program.name.as_deref(), record.program.worker.as_deref()?);
    Some(subjects::journal_of(prefix, program.unwrap_or(NAMELESS), worker))
}

/// What names a line among all: the call, and whether it begins or ends.
fn key(record: &Record) -> String {
    let end = if record.outcome == Outcome::Started { "begin" } else { "end" };
    format!("{}-{end}", record.id)
}

/// The messages of at most `most` bytes that lines are sent in, each with what names it: its first line and how many there
/// are.
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

/// What was read of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Lines.
    pub lines: usize,
    /// Lines that are not those of the worker that sent them, and were left out.
    pub foreign: usize,
}

/// Reads what all workers have sent, or what they did since a time, into a journal in `directory`.
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

impl std::fmt::Debug for Shipper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shipper").field("worker", &self.worker).finish_non_exhaustive()
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
}
