//! The side of the page: lists the waiting calls, and writes the answers of a person.

use std::fs::{self, File};
use std::io::{self, Read, Write};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};

use super::question::{Given, MAX_FILE, digest};
use super::{Answer, Desk, ENDING, MAX_QUESTIONS, Waiting, names};

/// A question, and the digest that its answer must contain.
pub(crate) struct Found {
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
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
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
        // The asking process removes the question, then its answer: a question that is gone now was answered and no
        // longer waits.
        let waiting = waiting.filter(|_| !self.answer(id).exists() && path.exists());
        Ok(waiting.map(|waiting| Found { waiting, digest: digest(&bytes) }))
    }
}
