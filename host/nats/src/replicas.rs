//! The state shared by the replicas of `haft serve --http`, over NATS: a bucket for their key, one for claims on
//! approvals, one for the states of tasks. Workers need no permission for any of it, and responses of the server go
//! to subjects that workers cannot subscribe to.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::kv::Store;
use async_nats::jetstream::object_store::ObjectStore;
use async_nats::{Message, RequestErrorKind, Subscriber};
use async_trait::async_trait;
use bytes::Bytes;
use secrecy::ExposeSecret;
use tokio::io::AsyncReadExt;
use tokio::sync::OnceCell;
use tokio_stream::StreamExt;
use tokio_util::task::AbortOnDropHandle;

use super::link::{Link, STORE, Server, Settings};
use super::message::random_name;
use super::stores::{Kept, create};
use super::{LinkError, subjects, unusable, within};
use haft_core::replicas::{Inbox, KEY_BYTES, Replicas, RunningTask, SharedKey};

/// The entry of the key in its bucket.
const KEY: &str = "key";

/// The intention behind a new entry, for errors.
const RECORD: &str = "cannot record data for other replicas";

/// The maximum size of a task's entry in bytes; larger states are stored as objects.
const MAX_ENTRY: usize = 16 << 10;

/// The maximum size of an object in bytes.
const MAX_OBJECT: usize = 256 << 20;

/// Time limit for storing or reading an object.
const MOVING: Duration = Duration::from_mins(1);

/// The age of a task's last state at which its replica may be dead: several intervals between two states, and the
/// difference of clocks.
const SILENCE: Duration = Duration::from_mins(1);

/// The state that this replica shares with the others of its program.
pub struct SharedState {
    server: Arc<dyn Server>,
    connected: OnceCell<Connected>,
}

struct Connected {
    link: Arc<Link>,
    keys: Store,
    claims: Store,
    tasks: Store,
    answers: ObjectStore,
}

impl SharedState {
    /// Returns the state shared at `server`. Connects when first used.
    pub fn at(server: Arc<dyn Server>) -> Self {
        Self { server, connected: OnceCell::new() }
    }

    async fn connected(&self) -> Result<&Connected, LinkError> {
        let connect = || async { Connected::new(&self.server.settings().await?).await };
        self.connected.get_or_try_init(connect).await
    }

    /// Returns the reason why state cannot be shared, if so.
    pub async fn problem(&self) -> Option<String> {
        match self.connected().await {
            Ok(connected) if connected.link.state().borrow().is_up => None,
            Ok(_) => {
                Some("approvals and tasks cannot be shared with other replicas: NATS is not connected".into())
            }
            Err(error) => Some(format!("approvals and tasks cannot be shared with other replicas: {error}")),
        }
    }
}

impl Connected {
    async fn new(settings: &Settings) -> Result<Self, LinkError> {
        let (prefix, name) = (&settings.prefix, random_name()?);
        let inbox = subjects::replica_inbox(prefix);
        let link = Link::connect_with_inbox(settings, &format!("haft-replica:{name}"), inbox).await?;
        let (keys, claims) = (Kept::Keys.bucket(&link).await?, Kept::Approvals.bucket(&link).await?);
        let (tasks, answers) = (Kept::Tasks.bucket(&link).await?, Kept::Answers.objects(&link).await?);
        Ok(Self { link, keys, claims, tasks, answers })
    }

    async fn key(&self) -> Result<Option<SharedKey>, LinkError> {
        let what = "the key of approvals cannot be read";
        let Some(bytes) = within(STORE, what, self.keys.get(KEY)).await? else { return Ok(None) };
        let key: Result<[u8; KEY_BYTES], _> = bytes.as_ref().try_into();
        let why = || format!("it has {} bytes, expected {KEY_BYTES}: delete its bucket", bytes.len());
        key.map(|key| Some(SharedKey::new(Box::new(key)))).map_err(|_| unusable(what, &why()))
    }

    async fn store(&self, name: &str, state: Vec<u8>) -> Result<(), LinkError> {
        let what = "a task cannot be recorded";
        let entry = if state.len() > MAX_ENTRY {
            let mut whole = state.as_slice();
            within(MOVING, what, self.answers.put(name, &mut whole)).await?;
            Vec::new()
        } else {
            state
        };
        within(STORE, what, self.tasks.put(name, entry.into())).await.map(drop)
    }

    async fn load(&self, name: &str) -> Result<Option<Vec<u8>>, LinkError> {
        match within(STORE, "a task cannot be read", self.tasks.get(name)).await? {
            Some(state) if state.is_empty() => self.object(name).await.map(Some),
            entry => Ok(entry.map(Vec::from)),
        }
    }

    async fn object(&self, name: &str) -> Result<Vec<u8>, LinkError> {
        let what = "the answer of a task cannot be read";
        let object = within(MOVING, what, self.answers.get(name)).await?;
        let mut bytes = Vec::new();
        within(MOVING, what, object.take(MAX_OBJECT as u64).read_to_end(&mut bytes)).await?;
        Ok(bytes)
    }
}

#[async_trait]
impl Replicas for SharedState {
    async fn key(&self, new: SharedKey) -> io::Result<SharedKey> {
        let connected = self.connected().await.map_err(io::Error::other)?;
        if let Some(key) = connected.key().await.map_err(io::Error::other)? {
            return Ok(key);
        }
        let bytes = Bytes::copy_from_slice(new.expose_secret());
        if create(&connected.keys, KEY, bytes, RECORD).await.map_err(io::Error::other)? {
            return Ok(new);
        }
        // Another replica was faster.
        let key = connected.key().await.map_err(io::Error::other)?;
        key.ok_or_else(|| io::Error::other("the key of approvals was deleted during its creation"))
    }

    async fn claim(&self, name: &str) -> io::Result<bool> {
        let connected = self.connected().await.map_err(io::Error::other)?;
        create(&connected.claims, name, Bytes::new(), RECORD).await.map_err(io::Error::other)
    }

    async fn store(&self, name: &str, state: Vec<u8>) -> io::Result<()> {
        let connected = self.connected().await.map_err(io::Error::other)?;
        connected.store(name, state).await.map_err(io::Error::other)
    }

    async fn load(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let connected = self.connected().await.map_err(io::Error::other)?;
        connected.load(name).await.map_err(io::Error::other)
    }

    async fn run(&self, name: &str, inbox: Inbox) -> io::Result<RunningTask> {
        let link = self.connected().await.map_err(io::Error::other)?.link.clone();
        let subject = subjects::task(&link.prefix, name);
        let asked = link.client.subscribe(subject).await.map_err(io::Error::other)?;
        Ok(Box::new(AbortOnDropHandle::new(tokio::spawn(answer(link, asked, inbox)))))
    }

    async fn reach(&self, name: &str, message: &[u8]) -> io::Result<bool> {
        let link = &self.connected().await.map_err(io::Error::other)?.link;
        let payload = Bytes::copy_from_slice(message);
        let asked = link.client.request(subjects::task(&link.prefix, name), payload);
        match tokio::time::timeout(STORE, asked).await {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => Ok(false),
            Ok(Err(error)) => Err(io::Error::other(unusable("cannot send a request to a replica", &error))),
            Err(late) => Err(io::Error::other(unusable("a replica does not answer", &late))),
        }
    }

    fn silence(&self) -> Duration {
        SILENCE
    }
}

/// Answers questions about a running task, and gives `inbox` the messages to it.
async fn answer(link: Arc<Link>, mut asked: Subscriber, inbox: Inbox) {
    while let Some(Message { payload, reply, .. }) = asked.next().await {
        if let Some(reply) = reply {
            let _ = link.client.publish(reply, Bytes::new()).await;
        }
        if !payload.is_empty() {
            inbox(&payload);
        }
    }
}

impl std::fmt::Debug for SharedState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedState").finish_non_exhaustive()
    }
}
