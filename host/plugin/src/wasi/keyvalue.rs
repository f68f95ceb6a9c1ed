//! `wasi:keyvalue`: the keys and values of a plugin, within the quota of `state` in its grant. A guest without it
//! is refused each time it opens a bucket, which is recorded for hints. haft's own threads access the store: a
//! guest's thread may not write there.

use wasmtime::component::{Linker, Resource};

use crate::storage::Storage;
use crate::threads::OwnThreads;
use crate::wasi::capability::{Capability, Has, HasCapability, NewGuest, View};
use crate::wasi::drafts::wasi::keyvalue::store::{self, Error, Host, HostBucket, KeyResponse};
use crate::wasi::drafts::wasi::keyvalue::{atomics, batch};
use haft_state::{Change, Store, StoreError};

/// The result of a call of the interface: the outer error ends the guest.
type Answer<T> = wasmtime::Result<Result<T, Error>>;

pub(crate) struct KeyValues {
    storage: Option<Storage>,
    own_threads: OwnThreads,
}

impl Capability for KeyValues {
    fn new(guest: &NewGuest<'_>) -> Self {
        Self { storage: guest.belongings.options.storage.clone(), own_threads: guest.own_threads.clone() }
    }

    fn link<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        store::add_to_linker::<S, Has<Self>>(linker, S::view)?;
        atomics::add_to_linker::<S, Has<Self>>(linker, S::view)?;
        batch::add_to_linker::<S, Has<Self>>(linker, S::view)
    }
}

impl View<'_, KeyValues> {
    fn storage(&mut self) -> Result<(Storage, u64), Error> {
        let storage = self.own.storage.clone().zip(self.shared.call.grant.state());
        self.shared.denied.state |= storage.is_none();
        storage.ok_or(Error::AccessDenied)
    }

    /// Does `work` with the plugin's store, when no other call of this process does.
    async fn with_store<T: Send + 'static>(
        &mut self,
        bucket: &Resource<Bucket>,
        work: impl FnOnce(&Store, &str) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        let bucket = self.shared.table.get(bucket)?.0.clone();
        let (storage, quota) = match self.storage() {
            Ok(storage) => storage,
            Err(refused) => return Ok(Err(refused)),
        };
        let Ok(turn) = storage.turn().await else {
            return Ok(Err(self.failed(&StoreError::Busy(haft_state::WAIT))));
        };
        let worked = self.own.own_threads.run(move || {
            // Held until the work is done, even without a waiting caller.
            let _turn = turn;
            work(&storage.store(quota), &bucket)
        });
        Ok(match worked.await {
            Ok(worked) => worked.map_err(|error| self.failed(&error)),
            Err(no_answer) => Err(Error::Other(no_answer.to_string())),
        })
    }

    fn failed(&mut self, error: &StoreError) -> Error {
        self.shared.denied.full_state |= matches!(error, StoreError::Full { .. });
        Error::Other(error.to_string())
    }
}

impl Host for View<'_, KeyValues> {
    async fn open(&mut self, identifier: String) -> Answer<Resource<Bucket>> {
        if let Err(refused) = self.storage() {
            return Ok(Err(refused));
        }
        if identifier.len() > haft_state::MAX_KEY {
            return Ok(Err(Error::NoSuchStore));
        }
        Ok(Ok(self.shared.table.push(Bucket(identifier))?))
    }
}

impl HostBucket for View<'_, KeyValues> {
    async fn get(&mut self, bucket: Resource<Bucket>, key: String) -> Answer<Option<Vec<u8>>> {
        let found = self.with_store(&bucket, move |store, bucket| store.get(bucket, &[key])).await?;
        Ok(found.map(|values| values.into_iter().flatten().next()))
    }

    async fn set(&mut self, bucket: Resource<Bucket>, key: String, value: Vec<u8>) -> Answer<()> {
        let change = Change::Set(key, value);
        self.with_store(&bucket, move |store, bucket| store.change(bucket, &[change])).await
    }

    async fn delete(&mut self, bucket: Resource<Bucket>, key: String) -> Answer<()> {
        let change = Change::Delete(key);
        self.with_store(&bucket, move |store, bucket| store.change(bucket, &[change])).await
    }

    async fn exists(&mut self, bucket: Resource<Bucket>, key: String) -> Answer<bool> {
        self.with_store(&bucket, move |store, bucket| store.contains(bucket, &key)).await
    }

    async fn list_keys(&mut self, bucket: Resource<Bucket>, cursor: Option<u64>) -> Answer<KeyResponse> {
        let page =
            self.with_store(&bucket, move |store, bucket| store.keys(bucket, cursor.unwrap_or(0))).await?;
        Ok(page.map(|page| KeyResponse { keys: page.keys, cursor: page.next }))
    }

    async fn drop(&mut self, bucket: Resource<Bucket>) -> wasmtime::Result<()> {
        self.shared.table.delete(bucket)?;
        Ok(())
    }
}

impl atomics::Host for View<'_, KeyValues> {
    async fn increment(&mut self, bucket: Resource<Bucket>, key: String, delta: u64) -> Answer<u64> {
        self.with_store(&bucket, move |store, bucket| store.increment(bucket, &key, delta)).await
    }
}

impl batch::Host for View<'_, KeyValues> {
    async fn get_many(
        &mut self,
        bucket: Resource<Bucket>,
        keys: Vec<String>,
    ) -> Answer<Vec<Option<(String, Vec<u8>)>>> {
        let work = move |store: &Store, bucket: &str| {
            let values = store.get(bucket, &keys)?;
            Ok(keys.into_iter().zip(values).map(|(key, value)| Some((key, value?))).collect())
        };
        self.with_store(&bucket, work).await
    }

    async fn set_many(&mut self, bucket: Resource<Bucket>, entries: Vec<(String, Vec<u8>)>) -> Answer<()> {
        let changes: Vec<Change> = entries.into_iter().map(|(key, value)| Change::Set(key, value)).collect();
        self.with_store(&bucket, move |store, bucket| store.change(bucket, &changes)).await
    }

    async fn delete_many(&mut self, bucket: Resource<Bucket>, keys: Vec<String>) -> Answer<()> {
        let changes: Vec<Change> = keys.into_iter().map(Change::Delete).collect();
        self.with_store(&bucket, move |store, bucket| store.change(bucket, &changes)).await
    }
}

/// An open bucket: its name, which is a part of every key.
#[expect(unreachable_pub, reason = "the bindings hand it on")]
pub struct Bucket(String);
