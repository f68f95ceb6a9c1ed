//! The key-value store of one plugin: one file, which any number of haft's processes may have open. Transactions that
//! change something follow each other, whoever makes them; a change is on the disk (fsync) when it is acknowledged, all
//! of it or nothing.

pub(crate) mod bounds;
pub(crate) mod error;
mod file;

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use redb::{
    Builder, ConcurrencyMode, Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition,
    TransactionError, WriteTransaction,
};

use self::bounds::{MAX_KEY, MAX_READ, MAX_VALUE, POLL, WAIT};
use self::error::StoreError;
use crate::owner::{Homes, Kept, Owner, is_linked};

/// Bytes that an entry counts as besides its key, bucket and value: what the tree keeps of it, more or less.
const ENTRY: u64 = 64;

/// Keys that are listed at once.
const MAX_PAGE: usize = 1000;

/// Bytes of the file that are cached while it is open.
const CACHE: usize = 1 << 20;

/// Bucket and key, and the value.
const ENTRIES: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("entries");

/// Numbers about the entries.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");

/// The number of bytes that all entries count as.
const USED: &str = "used";

/// The key-value store of one plugin. Clones share the open file; they wait for each other.
#[derive(Clone, Debug)]
pub struct Store {
    homes: Homes,
    owner: Owner,
    quota: u64,
    opened: Arc<Mutex<Option<Opened>>>,
}

/// The open file.
#[derive(Debug)]
struct Opened {
    database: Database,
    /// Asked whether it was removed meanwhile.
    file: File,
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key has this value from now on.
    Set(String, Vec<u8>),
    /// The key is gone.
    Delete(String),
}

/// A page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// In order.
    pub keys: Vec<String>,
    /// How many keys to pass over for the next page, where there is one.
    pub next: Option<u64>,
}

impl Store {
    pub(crate) fn new(homes: Homes, owner: Owner, quota: u64) -> Self {
        Self { homes, owner, quota, opened: Arc::default() }
    }

    /// The values of `keys`, in their order. Blocks.
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

    /// Whether there is a value of `key`. Blocks.
    pub fn contains(&self, bucket: &str, key: &str) -> Result<bool, StoreError> {
        checked(bucket, [key])?;
        let read = self.read(|read| {
            let Some(table) = existing(read.open_table(ENTRIES))? else { return Ok(None) };
            Ok(Some(table.get((bucket, key)).map_err(StoreError::engine)?.is_some()))
        });
        Ok(read?.unwrap_or_default())
    }

    /// Keys of a bucket in order, without the first `skip`. Blocks.
    pub fn keys(&self, bucket: &str, skip: u64) -> Result<Keys, StoreError> {
        checked(bucket, [""])?;
        let from = usize::try_from(skip).unwrap_or(usize::MAX);
        let read = self.read(|read| {
            let Some(table) = existing(read.open_table(ENTRIES))? else { return Ok(None) };
            let mut page = Keys::default();
            for entry in table.range((bucket, "")..).map_err(StoreError::engine)?.skip(from) {
                let (key, _) = entry.map_err(StoreError::engine)?;
                let (own, key) = key.value();
                if own != bucket {
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

    /// Makes all of `changes`, or none of them. They are on the disk when this returns. Blocks.
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

    /// Adds `delta` to the number that `key` has, or to 0, and gives the sum. A number is kept as its digits. Blocks.
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

    /// Bytes that all entries count as, without changing the file. Blocks.
    pub(crate) fn used(&self) -> Result<u64, StoreError> {
        let files = self.homes.files(Kept::State, &self.owner);
        let folder = files.parent().unwrap_or(&files);
        let Some((backend, _)) = file::open(folder, false, self.quota)? else { return Ok(0) };
        let read = match builder().open_read_only_with_backend(backend) {
            Ok(database) => database.begin_read().map_err(StoreError::engine)?,
            // It has to be repaired first: a process that had it open was killed.
            Err(_) => return self.read(used).map(Option::unwrap_or_default),
        };
        used(&read).map(Option::unwrap_or_default)
    }

    /// Reads with the file as it is now; nothing where there is none, or no table in it.
    fn read<T>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let files = self.homes.files(Kept::State, &self.owner);
        let folder = files.parent().unwrap_or(&files);
        let read =
            self.with((folder, false), |database| read(&database.begin_read().map_err(StoreError::engine)?));
        Ok(read?.flatten())
    }

    /// Runs one transaction on the entries, which gives its result and by how much more they count as then. It changes
    /// nothing where it fails, or where it needs more than the quota and more than before: one that was lowered keeps
    /// nobody from removing what is there.
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
        written?.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound).into())
    }

    /// Works with the database, opened at its first use; made where it is not there and `create` says so.
    fn with<T>(
        &self,
        (folder, create): (&Path, bool),
        work: impl FnOnce(&Database) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        // `haft remove` of another process.
        if opened.as_ref().is_some_and(|opened| !is_linked(&opened.file)) {
            *opened = None;
        }
        if opened.is_none() {
            *opened = self.open(folder, create)?;
        }
        let Some(open) = &*opened else { return Ok(None) };
        let worked = work(&open.database);
        // After a failure of the disk the engine wants it to be opened again.
        if matches!(worked, Err(StoreError::Unusable(_))) {
            *opened = None;
        }
        worked.map(Some)
    }

    fn open(&self, folder: &Path, create: bool) -> Result<Option<Opened>, StoreError> {
        let since = Instant::now();
        loop {
            let Some((backend, file)) = file::open(folder, create, self.quota)? else { return Ok(None) };
            match builder().create_with_backend(backend) {
                Ok(database) => return Ok(Some(Opened { database, file })),
                Err(redb::DatabaseError::DatabaseAlreadyOpen) if since.elapsed() < WAIT => {
                    std::thread::sleep(POLL);
                }
                Err(redb::DatabaseError::DatabaseAlreadyOpen) => return Err(StoreError::Busy(WAIT)),
                Err(error) => return Err(StoreError::engine(error)),
            }
        }
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE).set_concurrency_mode(ConcurrencyMode::MultiWriter);
    builder
}

/// Begins to change something, as soon as no other process does.
fn begin_write(database: &Database) -> Result<WriteTransaction, StoreError> {
    let since = Instant::now();
    loop {
        match database.try_begin_write() {
            Ok(write) => return Ok(write),
            Err(TransactionError::WouldBlock) if since.elapsed() < WAIT => std::thread::sleep(POLL),
            Err(TransactionError::WouldBlock) => return Err(StoreError::Busy(WAIT)),
            Err(error) => return Err(StoreError::engine(error)),
        }
    }
}

fn used(read: &ReadTransaction) -> Result<Option<u64>, StoreError> {
    let Some(numbers) = existing(read.open_table(NUMBERS))? else { return Ok(None) };
    Ok(numbers.get(USED).map_err(StoreError::engine)?.map(|used| used.value()))
}

/// The entries, in a transaction that changes them.
type Entries<'t> = redb::Table<'t, (&'static str, &'static str), &'static [u8]>;

impl Change {
    fn key(&self) -> &str {
        match self {
            Self::Set(key, _) | Self::Delete(key) => key,
        }
    }

    /// Makes it; how many bytes more the entries count as then.
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

/// Bytes that an entry counts as.
fn cost((bucket, key): (&str, &str), value: &[u8]) -> i128 {
    i128::from(ENTRY) + (bucket.len() + key.len() + value.len()) as i128
}

fn number(digits: &[u8]) -> Result<u64, StoreError> {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(StoreError::NotANumber)
}

fn checked<'k>(bucket: &str, keys: impl IntoIterator<Item = impl AsRef<str> + 'k>) -> Result<(), StoreError> {
    let fits = |text: &str| text.len() <= MAX_KEY;
    let all = fits(bucket) && keys.into_iter().all(|key| fits(key.as_ref()));
    if all { Ok(()) } else { Err(StoreError::Key) }
}

/// A table; `None` where nothing was ever written.
fn existing<T>(opened: Result<T, redb::TableError>) -> Result<Option<T>, StoreError> {
    match opened {
        Ok(table) => Ok(Some(table)),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(StoreError::engine(error)),
    }
}

#[cfg(test)]
mod tests;
