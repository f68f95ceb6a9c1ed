//! The cached answers of sources, one file for each question. Damaged, foreign and old files count as missing. A
//! question whose file cannot be written is asked again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use haft_core::replace::New;
use serde::{Deserialize, Serialize};

use super::Offer;
use crate::Digest;
use crate::listing::read_text;

/// Maximum age of an answer that counts as current.
const FRESH: Duration = Duration::from_hours(1);

/// Maximum age of an answer that is used at all.
const MAX_AGE: Duration = Duration::from_hours(24 * 30);

/// Limit on the bytes of a file: the largest answer that is read.
const MAX_FILE: u64 = 8 << 20;

/// Limits on all files together.
const MAX_FILES: usize = 200;
const MAX_BYTES: u64 = 64 << 20;

/// The form of the files: a part of their names.
const FORM: u32 = 2;

/// The cache of answers.
#[derive(Debug)]
pub struct Cache<'a> {
    /// The folder, which may be absent.
    pub folder: &'a Path,
    /// Whether only the cache is used.
    pub is_offline: bool,
}

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Seconds since 1970.
    pub(super) at: u64,
    pub(super) left_out: usize,
    pub(super) is_cut: bool,
    pub(super) offers: Vec<Offer>,
}

impl Cache<'_> {
    /// Whether an answer of this age is used without asking.
    pub(super) fn is_enough(&self, age: Duration) -> bool {
        self.is_offline || age < FRESH
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{}.json", Digest::hash(format!("{FORM} {key}").as_bytes()).hex()))
    }

    pub(super) fn read(&self, key: &str) -> Option<(Kept, Duration)> {
        let kept: Kept = serde_json::from_str(&read_text(&self.path(key), MAX_FILE).ok()?).ok()?;
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(kept.at))?;
        let age = SystemTime::now().duration_since(at).ok()?;
        (age < MAX_AGE).then_some((kept, age))
    }

    pub(super) fn keep(&self, key: &str, mut kept: Kept) -> Kept {
        kept.at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        if let Err(error) = self.write(key, &kept) {
            tracing::debug!("cannot save a result in the cache: {error}");
        }
        kept
    }

    fn write(&self, key: &str, kept: &Kept) -> io::Result<()> {
        let text = serde_json::to_vec(kept)?;
        if text.len() as u64 >= MAX_FILE {
            return Ok(());
        }
        fs::create_dir_all(self.folder)?;
        New::write(&self.path(key), &text, 0o600)?.put()?;
        self.prune()
    }

    /// Removes the oldest files beyond the limits, and useless ones.
    fn prune(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.folder)? {
            let entry = entry?;
            let about = entry.metadata()?;
            files.push((about.modified()?, about.len(), entry.path()));
        }
        files.sort_by(|one, other| other.cmp(one));
        let mut bytes = 0;
        for (index, (modified, length, path)) in files.into_iter().enumerate() {
            bytes += length;
            let is_old = modified.elapsed().is_ok_and(|age| age > MAX_AGE);
            if is_old || index >= MAX_FILES || bytes > MAX_BYTES {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_few_and_not_older_than_a_month() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache { folder: &place.path().join("search"), is_offline: false };
        for number in 0..MAX_FILES + 5 {
            cache.keep(&format!("question {number}"), Kept { left_out: number, ..Kept::default() });
        }
        assert_eq!(fs::read_dir(cache.folder).unwrap().count(), MAX_FILES);
        let last = format!("question {}", MAX_FILES + 4);
        let (kept, age) = cache.read(&last).unwrap();
        assert!(kept.left_out == MAX_FILES + 4 && cache.is_enough(age));
        let path = cache.path(&last);
        for (at, is_there) in [(kept.at - 7200, true), (kept.at - 40 * 86400, false), (kept.at + 600, false)]
        {
            fs::write(&path, serde_json::to_vec(&Kept { at, ..Kept::default() }).unwrap()).unwrap();
            assert_eq!(cache.read(&last).is_some(), is_there, "{at}");
        }
        fs::write(&path, "{").unwrap();
        assert!(cache.read(&last).is_none());
    }
}
