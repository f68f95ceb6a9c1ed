//! The buckets and streams at the server, with the age and size of their content. Each is created if missing, and
//! never changed.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType, Stream};
use async_nats::jetstream::{kv, object_store};
use bytes::Bytes;
use serde::Serialize;

use super::link::{Link, STORE};
use super::{LinkError, subjects, unusable};
use haft_core::replicas::KEPT;
use haft_manifest::NatsStorage;

/// Maximum age of a stored payload that is too large for a message.
const PAYLOAD_AGE: Duration = Duration::from_mins(10);

/// Maximum age of a claim: a multiple of the maximum age of a request (`MAX_AGE`).
const CLAIM_AGE: Duration = Duration::from_hours(2);

/// Maximum age of lines in the stream.
const JOURNAL_AGE: Duration = Duration::from_hours(30 * 24);

/// Time during which the server recognises a line that is sent twice; readers recognise it later too.
const TWICE: Duration = Duration::from_mins(10);

/// The size of the bucket for the key in bytes.
const KEY_ROOM: u64 = 1 << 20;

/// The error of a server without room for a bucket or stream.
const NO_ROOM: &str = "insufficient storage";

/// A bucket or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Claims,
    Payloads,
    Journal,
    Keys,
    Approvals,
    Tasks,
    Answers,
}

enum Made {
    Bucket(kv::Config),
    Objects(object_store::Config),
    Stream(Config),
}

/// The state of a bucket or stream, for people.
#[derive(Clone, Debug, Serialize)]
pub struct StoreHealth {
    /// The key in `[nats.storage]`, or another name.
    pub name: &'static str,
    /// The name at the server.
    pub stream: String,
    /// The number of bytes that the store reserves, or would reserve.
    pub bytes: u64,
    /// The problem, if any.
    pub problem: Option<String>,
}

impl Kept {
    /// The stores shared by gates and workers.
    pub(crate) const OF_CALLS: [Self; 3] = [Self::Claims, Self::Payloads, Self::Journal];

    /// The stores shared by the replicas of a gate.
    pub(crate) const OF_REPLICAS: [Self; 4] = [Self::Keys, Self::Approvals, Self::Tasks, Self::Answers];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claims => "claims",
            Self::Payloads => "payloads",
            Self::Journal => "journal",
            Self::Keys => "keys",
            Self::Approvals => "approvals",
            Self::Tasks => "tasks",
            Self::Answers => "answers",
        }
    }

    fn bytes(self, storage: &NatsStorage) -> u64 {
        match self {
            Self::Claims => storage.claims,
            Self::Payloads => storage.payloads,
            Self::Journal => storage.journal,
            Self::Keys => KEY_ROOM,
            Self::Approvals => storage.approvals,
            Self::Tasks => storage.tasks,
            Self::Answers => storage.answers,
        }
    }

    /// Returns the name of the bucket, or of the stream of lines.
    fn own_name(self, prefix: &str) -> String {
        format!("{prefix}-{}", self.name())
    }

    fn stream_name(self, prefix: &str) -> String {
        let own = self.own_name(prefix);
        match self {
            Self::Claims | Self::Keys | Self::Approvals | Self::Tasks => format!("KV_{own}"),
            Self::Payloads | Self::Answers => format!("OBJ_{own}"),
            Self::Journal => own,
        }
    }

    fn made(self, prefix: &str, storage: &NatsStorage) -> Made {
        let max_bytes = i64::try_from(self.bytes(storage)).unwrap_or(i64::MAX);
        let (own, storage) = (self.own_name(prefix), StorageType::File);
        let bucket = |description: &str, max_age| {
            let (bucket, description) = (own.clone(), description.to_owned());
            Made::Bucket(kv::Config {
                bucket,
                description,
                max_age,
                max_bytes,
                storage,
                ..Default::default()
            })
        };
        match self {
            Self::Claims => bucket("the claims of calls, and their results", CLAIM_AGE),
            Self::Keys => bucket("the key that approvals are signed with", Duration::ZERO),
            Self::Approvals => bucket("which approvals were used", KEPT),
            Self::Tasks => bucket("the state of long calls", KEPT),
            Self::Answers => Made::Objects(object_store::Config {
                bucket: own,
                description: Some("answers of tasks that are too large for an entry".into()),
                max_age: KEPT,
                max_bytes,
                storage,
                num_replicas: 1,
                ..object_store::Config::default()
            }),
            Self::Payloads => Made::Stream(Config {
                name: self.stream_name(prefix),
                description: Some("arguments and answers that are too large for a message".into()),
                subjects: vec![format!("{}.>", subjects::payload_base(prefix))],
                max_age: PAYLOAD_AGE,
                max_bytes,
                max_messages_per_subject: 1,
                discard: DiscardPolicy::New,
                storage,
                allow_direct: true,
                ..Config::default()
            }),
            Self::Journal => Made::Stream(Config {
                name: own,
                description: Some("the workers' logs of calls".into()),
                subjects: vec![format!("{}.>", subjects::journal(prefix))],
                max_age: JOURNAL_AGE,
                max_bytes,
                discard: DiscardPolicy::Old,
                storage,
                duplicate_window: TWICE,
                ..Config::default()
            }),
        }
    }

    /// Returns the stream; creates it if missing.
    pub(crate) async fn stream(self, link: &Link) -> Result<Stream, LinkError> {
        let name = self.stream_name(&link.prefix);
        if let Ok(stream) = link.jetstream.get_stream(&name).await {
            return Ok(stream);
        }
        let jetstream = &link.jetstream;
        let made = match self.made(&link.prefix, &link.storage) {
            Made::Bucket(config) => {
                jetstream.create_key_value(config).await.err().map(|error| error.to_string())
            }
            Made::Objects(config) => {
                jetstream.create_object_store(config).await.err().map(|error| error.to_string())
            }
            Made::Stream(config) => {
                jetstream.create_stream(config).await.err().map(|error| error.to_string())
            }
        };
        let failed = |why: String| LinkError::Store { name: self.name(), why: self.explained(link, why) };
        if let Some(why) = made {
            return Err(failed(why));
        }
        jetstream.get_stream(&name).await.map_err(|error| failed(error.to_string()))
    }

    pub(crate) async fn bucket(self, link: &Link) -> Result<kv::Store, LinkError> {
        self.stream(link).await?;
        let bucket = link.jetstream.get_key_value(self.own_name(&link.prefix)).await;
        bucket.map_err(|error| LinkError::Store { name: self.name(), why: error.to_string() })
    }

    pub(crate) async fn objects(self, link: &Link) -> Result<object_store::ObjectStore, LinkError> {
        self.stream(link).await?;
        let objects = link.jetstream.get_object_store(self.own_name(&link.prefix)).await;
        objects.map_err(|error| LinkError::Store { name: self.name(), why: error.to_string() })
    }

    /// Explains why the store cannot be created, with a hint.
    fn explained(self, link: &Link, why: String) -> String {
        if !why.contains(NO_ROOM) {
            return why;
        }
        let megabytes = self.bytes(&link.storage) >> 20;
        format!(
            "the server lacks the {megabytes} MiB to reserve: lower `[nats.storage] {}`, or give the \
             server's JetStream more storage ({why})",
            self.name()
        )
    }

    /// Returns the state; creates it if missing.
    pub(crate) async fn health(self, link: &Link) -> StoreHealth {
        let bytes = self.bytes(&link.storage);
        let (bytes, problem) = match self.stream(link).await {
            Ok(stream) => (u64::try_from(stream.cached_info().config.max_bytes).unwrap_or(bytes), None),
            Err(LinkError::Store { why, .. }) => (bytes, Some(why)),
            Err(error) => (bytes, Some(error.to_string())),
        };
        StoreHealth { name: self.name(), stream: self.stream_name(&link.prefix), bytes, problem }
    }
}

impl Link {
    /// Returns the bucket of claims; creates it if missing.
    pub(crate) async fn claims(&self) -> Result<&kv::Store, LinkError> {
        self.claims.get_or_try_init(|| Kept::Claims.bucket(self)).await
    }

    /// Fails if the server has denied this user a permission so far.
    pub(crate) async fn check_permissions(&self) -> Result<(), LinkError> {
        // The server reports earlier errors before it answers this request.
        let answered = Kept::Claims.stream(self).await.map(drop);
        let denied = self.denied.lock().first().cloned();
        denied.map_or(answered, |denied| Err(LinkError::Denied(denied)))
    }
}

/// Creates an entry of a bucket, unless it exists. Returns whether it did not exist.
pub(crate) async fn create(
    store: &kv::Store,
    key: &str,
    value: Bytes,
    what: &'static str,
) -> Result<bool, LinkError> {
    let made = tokio::time::timeout(STORE, store.create(key, value)).await;
    match made.map_err(|late| unusable(what, &late))? {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == kv::CreateErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(unusable(what, &error)),
    }
}

/// Returns the storage limit of the account in bytes, if the server reports one.
pub(crate) async fn account_limit(link: &Link) -> Option<u64> {
    let account = tokio::time::timeout(STORE, link.jetstream.query_account()).await.ok()?.ok()?;
    u64::try_from(account.limits.max_storage?).ok().filter(|limit| *limit > 0)
}
