//! The key-value store of one plugin: one file, which several processes may open. Write transactions of all
//! processes are serialized; an acknowledged change is on disk (fsync), completely or not at all.

pub(crate) mod error;

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use redb::backends::FileBackend;
use redb::{
    BackendError, Builder, ConcurrencyMode, Database, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageBackend, TableDefinition, TransactionError, WriteTransaction,
};
use rustix::fs::OFlags;

use self::error::{MAX_KEY, MAX_READ, MAX_VALUE, POLL, StoreError, WAIT};
use crate::owner::{Homes, Kept, Owner, is_linked};

/// Bytes that an entry costs in addition to its bucket, key and value: the approximate overhead of the tree.
const ENTRY: u64 = 64;

/// Limit on the keys of one page.
const MAX_PAGE: usize = 1000;

/// Bytes of the file that are cached while it is open.
const CACHE: usize = 1 << 20;

/// The table of entries: bucket and key, and the value.
const ENTRIES: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("entries");

const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");

/// The counter of the bytes of all entries.
const USED: &str = "used";

/// The key-value store of one plugin. Clones share the open file, and block each other.
#[derive(Clone, Debug)]
pub struct Store {
    homes: Homes,
    owner: Owner,
    quota: u64,
    opened: Arc<Mutex<Option<Opened>>>,
}

#[derive(Debug)]
struct Opened {
    database: Database,
    /// A handle to check whether the file was removed.
    file: File,
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets the value of a key.
    Set(String, Vec<u8>),
    /// Removes a key.
    Delete(String),
}

/// A page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The keys, sorted.
    pub keys: Vec<String>,
    /// The number of keys to skip for the next page, if there is one.
    pub next: Option<u64>,
}

impl Homes {
    /// Returns the key-value store of a plugin with a quota of `quota` bytes. Creates and opens nothing yet.
    pub fn store(&self, owner: &Owner, quota: u64) -> Store {
        Store { homes: self.clone(), owner: owner.clone(), quota, opened: Arc::default() }
    }
}

impl Store {
    /// Returns the values of `keys`, in their order. Blocks.
    pub fn get(&self, bucket: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        checked(bucket, keys.iter())?;
        let read = self.read(|read| {
            let Some(table) = existing(read.open_table(ENTRIES))? else { return Ok(None) };
            let (mut values, mut bytes) = (Vec::with_capacity(keys.len()), 0);
            for key in keys {
                let value = table.get((bucket, key.as_str())).map_err(StoreError::engine)?;
                let value = value.map(|value| value.value().to_vec());
                bytes += value.as_ref().map_or(0, Vec::len);
                if bytes > MAX_READ {
                    return Err(StoreError::Read);
                }
                values.push(value);
            }
            Ok(Some(values))
        });
        Ok(read?.unwrap_or_else(|| vec![None; keys.len()]))
    }

    /// Reports whether `key` has a value. Blocks.
    pub fn contains(&self, bucket: &str, key: &str) -> Result<bool, StoreError> {
        checked(bucket, [key])?;
        let read = self.read(|read| {
            let Some(table) = existing(read.open_table(ENTRIES))? else { return Ok(None) };
            Ok(Some(table.get((bucket, key)).map_err(StoreError::engine)?.is_some()))
        });
        Ok(read?.unwrap_or_default())
    }

    /// Returns a page of a bucket's keys, sorted, without the first `skip`. Blocks.
    pub fn keys(&self, bucket: &str, skip: u64) -> Result<Keys, StoreError> {
        checked(bucket, [""])?;
        let from = usize::try_from(skip).unwrap_or(usize::MAX);
        let read = self.read(|read| {
            let Some(table) = existing(read.open_table(ENTRIES))? else { return Ok(None) };
            let mut page = Keys::default();
            for entry in table.range((bucket, "")..).map_err(StoreError::engine)?.skip(from) {
                let (key, _) = entry.map_err(StoreError::engine)?;
                let (key_bucket, key) = key.value();
                if key_bucket != bucket {
                    break;
                }
                if page.keys.len() == MAX_PAGE {
                    page.next = Some(skip.saturating_add(MAX_PAGE as u64));
                    break;
                }
                page.keys.push(key.to_owned());
            }
            Ok(Some(page))
        });
        Ok(read?.unwrap_or_default())
    }

    /// Makes all of `changes`, or none of them. They are on disk when this returns. Blocks.
    pub fn change(&self, bucket: &str, changes: &[Change]) -> Result<(), StoreError> {
        checked(bucket, changes.iter().map(Change::key))?;
        if changes.iter().any(|change| matches!(change, Change::Set(_, value) if value.len() > MAX_VALUE)) {
            return Err(StoreError::Value);
        }
        self.write(|entries| {
            let grown = changes.iter().map(|change| change.make(bucket, entries)).sum::<Result<i128, _>>();
            Ok(((), grown?))
        })
    }

    /// Adds `delta` to the number of `key`, or to 0, and returns the sum. Numbers are stored as decimal digits.
    /// Blocks.
    pub fn increment(&self, bucket: &str, key: &str, delta: u64) -> Result<u64, StoreError> {
        checked(bucket, [key])?;
        self.write(|entries| {
            let before = entries.get((bucket, key)).map_err(StoreError::engine)?;
            let before = before.map(|value| number(value.value())).transpose()?.unwrap_or(0);
            let sum = before.checked_add(delta).ok_or(StoreError::Overflow)?;
            let grown = Change::Set(key.to_owned(), sum.to_string().into_bytes()).make(bucket, entries)?;
            Ok((sum, grown))
        })
    }

    /// Returns the bytes of all entries, without changing the file. Blocks.
    pub(crate) fn used(&self) -> Result<u64, StoreError> {
        let folder = self.homes.folder(Kept::State, &self.owner);
        let Some((backend, _)) = open(&folder, false, self.quota)? else { return Ok(0) };
        let read = match builder().open_read_only_with_backend(backend) {
            Ok(database) => database.begin_read().map_err(StoreError::engine)?,
            // The file needs a repair first, since a process was killed while it was open.
            Err(_) => return self.read(used).map(Option::unwrap_or_default),
        };
        used(&read).map(Option::unwrap_or_default)
    }

    /// Runs a read transaction; returns `None` without a file or a table.
    fn read<T>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let folder = self.homes.folder(Kept::State, &self.owner);
        let read =
            self.with((&folder, false), |database| read(&database.begin_read().map_err(StoreError::engine)?));
        Ok(read?.flatten())
    }

    /// Runs one write transaction, which returns its result and the growth of the entries in bytes. It changes
    /// nothing if it fails, or if it grows beyond the quota: with a lowered quota, entries can still be
    /// removed.
    fn write<T>(
        &self,
        change: impl FnOnce(&mut Entries<'_>) -> Result<(T, i128), StoreError>,
    ) -> Result<T, StoreError> {
        let folder = self.homes.create(Kept::State, &self.owner)?;
        let written = self.with((&folder, true), |database| {
            let write = begin_write(database)?;
            let result = {
                let mut entries = write.open_table(ENTRIES).map_err(StoreError::engine)?;
                let mut numbers = write.open_table(NUMBERS).map_err(StoreError::engine)?;
                let before = numbers.get(USED).map_err(StoreError::engine)?.map_or(0, |used| used.value());
                let (result, grown) = change(&mut entries)?;
                let needed = u64::try_from(i128::from(before) + grown).unwrap_or(0);
                if needed > self.quota && grown > 0 {
                    return Err(StoreError::Full { needed, quota: self.quota });
                }
                numbers.insert(USED, needed).map_err(StoreError::engine)?;
                result
            };
            write.commit().map_err(StoreError::engine)?;
            Ok(result)
        });
        written?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound).into())
    }

    /// Runs `work` on the database, which is opened on first use, and created if it is missing and `create` is
    /// set.
    fn with<T>(
        &self,
        (folder, create): (&Path, bool),
        work: impl FnOnce(&Database) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        // Another process ran `haft remove`.
        if opened.as_ref().is_some_and(|opened| !is_linked(&opened.file)) {
            *opened = None;
        }
        if opened.is_none() {
            *opened = self.open(folder, create)?;
        }
        let Some(open) = &*opened else { return Ok(None) };
        let worked = work(&open.database);
        // After an I/O error the engine must reopen the file.
        if matches!(worked, Err(StoreError::Unusable(_))) {
            *opened = None;
        }
        worked.map(Some)
    }

    fn open(&self, folder: &Path, create: bool) -> Result<Option<Opened>, StoreError> {
        retried(|| {
            let Some((backend, file)) = open(folder, create, self.quota)? else { return Ok(Some(None)) };
            match builder().create_with_backend(backend) {
                Ok(database) => Ok(Some(Some(Opened { database, file }))),
                Err(redb::DatabaseError::DatabaseAlreadyOpen) => Ok(None),
                Err(error) => Err(StoreError::engine(error)),
            }
        })
    }
}

/// Repeats an attempt while another process has the store, which is `None`, up to the time limit of a transaction.
fn retried<T>(attempt: impl Fn() -> Result<Option<T>, StoreError>) -> Result<T, StoreError> {
    let since = Instant::now();
    loop {
        match attempt()? {
            Some(made) => return Ok(made),
            None if since.elapsed() < WAIT => std::thread::sleep(POLL),
            None => return Err(StoreError::Busy(WAIT)),
        }
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE).set_concurrency_mode(ConcurrencyMode::MultiWriter);
    builder
}

/// Begins a write transaction; waits for other processes.
fn begin_write(database: &Database) -> Result<WriteTransaction, StoreError> {
    retried(|| match database.try_begin_write() {
        Ok(write) => Ok(Some(write)),
        Err(TransactionError::WouldBlock) => Ok(None),
        Err(error) => Err(StoreError::engine(error)),
    })
}

fn used(read: &ReadTransaction) -> Result<Option<u64>, StoreError> {
    let Some(numbers) = existing(read.open_table(NUMBERS))? else { return Ok(None) };
    Ok(numbers.get(USED).map_err(StoreError::engine)?.map(|used| used.value()))
}

type Entries<'t> = redb::Table<'t, (&'static str, &'static str), &'static [u8]>;

impl Change {
    fn key(&self) -> &str {
        match self {
            Self::Set(key, _) | Self::Delete(key) => key,
        }
    }

    /// Applies the change; returns the growth of the entries in bytes.
    fn make(&self, bucket: &str, entries: &mut Entries<'_>) -> Result<i128, StoreError> {
        let key = (bucket, self.key());
        let before = match self {
            Self::Set(_, value) => entries.insert(key, value.as_slice()),
            Self::Delete(_) => entries.remove(key),
        };
        let before = before.map_err(StoreError::engine)?.map_or(0, |value| cost(key, value.value()));
        Ok(match self {
            Self::Set(_, value) => cost(key, value) - before,
            Self::Delete(_) => -before,
        })
    }
}

fn cost((bucket, key): (&str, &str), value: &[u8]) -> i128 {
    i128::from(ENTRY) + (bucket.len() + key.len() + value.len()) as i128
}

fn number(digits: &[u8]) -> Result<u64, StoreError> {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(StoreError::NotANumber)
}

fn checked<'k>(bucket: &str, keys: impl IntoIterator<Item = impl AsRef<str> + 'k>) -> Result<(), StoreError> {
    let fits = |text: &str| text.len() <= MAX_KEY;
    let all_fit = fits(bucket) && keys.into_iter().all(|key| fits(key.as_ref()));
    if all_fit { Ok(()) } else { Err(StoreError::Key) }
}

fn existing<T>(opened: Result<T, redb::TableError>) -> Result<Option<T>, StoreError> {
    match opened {
        Ok(table) => Ok(Some(table)),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(StoreError::engine(error)),
    }
}

// The file of a store: opened below the plugin's folder without following links, and limited in proportion to
// its quota, however the engine uses free pages.

const NAME: &str = "entries.redb";

/// The file's limit as a multiple of the quota: a value takes the next power of two in pages, a changed page is
/// written beside the old one, and the old one is free one transaction later.
const OVERHEAD: u64 = 8;

/// The minimal limit in bytes, for an empty or small store.
const LEAST: u64 = 4 << 20;

#[derive(Debug)]
struct Backend {
    file: FileBackend,
    /// A handle to check whether the file was removed.
    same: File,
    most: u64,
}

/// Opens the file in `folder`, which is created if it is missing and `create` is set. Returns a second handle
/// to check whether the file was removed.
fn open(folder: &Path, create: bool, quota: u64) -> Result<Option<(Backend, File)>, StoreError> {
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed();
    let opened = File::options()
        .read(true)
        .write(true)
        .create(create)
        .mode(0o600)
        .custom_flags(flags)
        .open(folder.join(NAME));
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !create => return Ok(None),
        opened => opened?,
    };
    let (same, other, length) = (file.try_clone()?, file.try_clone()?, file.metadata()?.len());
    let most = quota.saturating_mul(OVERHEAD).max(LEAST).max(length);
    let file = FileBackend::new(file).map_err(StoreError::engine)?;
    Ok(Some((Backend { file, same, most }, other)))
}

/// Retries a lock up to the time limit of a transaction: the engine's own wait is unlimited.
fn waited(attempt: impl Fn() -> Result<bool, BackendError>) -> Result<(), BackendError> {
    let since = Instant::now();
    while !attempt()? {
        if since.elapsed() >= WAIT {
            return Err(BackendError::Io(io::ErrorKind::TimedOut.into()));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if length > self.most {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        self.file.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        // A removed file keeps nothing, so the change must not be acknowledged.
        if !is_linked(&self.same) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        waited(|| self.file.try_lock_range(start, end))
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        waited(|| self.file.try_lock_shared_range(start, end))
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests;
