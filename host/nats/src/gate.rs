//! The gate: sends calls to workers, and tells callers what became of them. It runs no tool, and connects at the first call
//! that needs it.

mod attempt;
mod call;
mod deaths;
mod fleet;
mod health;
mod inbox;
mod outgoing;
mod tool;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use haft_core::manifest::Label;
use haft_core::trace::{Gauge, Trace};
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;

use self::fleet::Fleet;
pub use self::health::{Health, WorkerHealth};
use self::inbox::{Expected, Inbox};
pub use self::tool::NatsTool;
use crate::error::{LinkError, unusable};
use crate::identity::Identity;
use crate::link::Link;
use crate::message::{Ask, Beat, Known, WorkerId, encode, random_name};
use crate::passenger::Passenger;
use crate::payload::{Payload, received};
use crate::settings::{Server, Settings};
use crate::subjects::{DISCONNECTS, Subjects};

/// How long a worker is waited for that was asked something: its answer is made at once.
const ASKING: Duration = Duration::from_secs(2);

/// How long all workers may take to say that they are there.
const GATHERING: Duration = Duration::from_millis(700);

/// How long no more of them may come before it is taken that all have.
const QUIET: Duration = Duration::from_millis(150);

/// Sends calls of one program to its workers.
pub struct Gate {
    server: Arc<dyn Server>,
    identity: Identity,
    passenger: Arc<dyn Passenger>,
    fleet: Arc<Fleet>,
    /// Calls under way.
    calls: Arc<AtomicU64>,
    connected: OnceCell<Arc<Connected>>,
}

/// A gate that is connected.
struct Connected {
    /// What its answers are sent to, and its claims are made by.
    name: String,
    link: Arc<Link>,
    subjects: Subjects,
    inbox: Arc<Inbox>,
    /// What listens; ends with the gate.
    _tasks: JoinSet<()>,
}

impl Gate {
    /// The gate of the program `identity`, whose numbers `trace` tells. Nothing is connected before the first call.
    pub fn new(
        server: Arc<dyn Server>,
        identity: Identity,
        passenger: Arc<dyn Passenger>,
        trace: &Trace,
    ) -> Self {
        let (fleet, calls, connected) = (Arc::default(), Arc::<AtomicU64>::default(), OnceCell::new());
        let own = Arc::downgrade(&calls);
        trace.watch(Gauge::CallsSent, move || Some(own.upgrade()?.load(Ordering::Relaxed)));
        Self { server, identity, passenger, fleet, calls, connected }
    }

    /// Counts a call as under way until what it returns is dropped.
    fn count(&self) -> Counted {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Counted(self.calls.clone())
    }

    /// The program whose calls it sends.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Connects, unless it is connected.
    pub async fn connect(&self) -> Result<(), LinkError> {
        self.connected().await.map(drop)
    }

    async fn connected(&self) -> Result<&Arc<Connected>, LinkError> {
        let connect = || async {
            let settings = self.server.settings().await?;
            Connected::new(&settings, &self.identity, self.fleet.clone()).await
        };
        self.connected.get_or_try_init(connect).await
    }

    /// What the workers with one of the labels `on` have, of tools whose names `is_wanted` says; waits a moment for them to
    /// say so.
    pub async fn tools(
        &self,
        on: &[Label],
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<Known>, LinkError> {
        self.gather().await?;
        Ok(self.fleet.tools(on, is_wanted))
    }

    /// Waits until the workers have said that they are there, for a moment.
    async fn gather(&self) -> Result<(), LinkError> {
        let mut changes = self.fleet.changes();
        let is_new = !self.connected.initialized();
        self.connected().await?;
        let more = async { while let Ok(Ok(())) = tokio::time::timeout(QUIET, changes.changed()).await {} };
        if is_new {
            let mut first = self.fleet.changes();
            let _ = tokio::time::timeout(GATHERING, first.changed()).await;
            let _ = tokio::time::timeout(GATHERING, more).await;
        }
        Ok(())
    }

    /// How often the tools of the workers have changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.fleet.changes()
    }
}

/// A call under way.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connected {
    async fn new(
        settings: &Settings,
        identity: &Identity,
        fleet: Arc<Fleet>,
    ) -> Result<Arc<Self>, LinkError> {
        let name = random_name();
        let link = Link::connect(settings, &format!("haft-gate:{name}")).await?;
        let subjects = Subjects::new(&settings.prefix, identity);
        let inbox = Arc::new(Inbox::new(subjects.inbox(&name)));
        let what = "a gate cannot listen";
        let subscribe = async |subject: String| {
            link.client.subscribe(subject).await.map_err(|error| unusable(what, &error))
        };
        let (answers, beats) = (subscribe(inbox.all()).await?, subscribe(subjects.beats()).await?);
        let disconnects = subscribe(DISCONNECTS.to_owned()).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(inbox.clone().run(answers));
        tasks.spawn(deaths::listen(fleet.clone(), disconnects));
        tasks.spawn(deaths::sweep(fleet.clone(), link.state()));
        let own = Arc::new(Self { name, link, subjects, inbox, _tasks: JoinSet::new() });
        let listening = own.clone();
        tasks.spawn(async move { listening.listen(fleet, beats).await });
        tasks.spawn(greet(own.link.clone(), own.subjects.hello()));
        Ok(Arc::new(Self {
            name: own.name.clone(),
            link: own.link.clone(),
            subjects: own.subjects.clone(),
            inbox: own.inbox.clone(),
            _tasks: tasks,
        }))
    }

    /// Hears that workers live, and asks those that are new what they have.
    async fn listen(self: Arc<Self>, fleet: Arc<Fleet>, mut beats: async_nats::Subscriber) {
        let mut asking = JoinSet::new();
        while let Some(message) = beats.next().await {
            while asking.try_join_next().is_some() {}
            let Ok(beat) = serde_json::from_slice::<Beat>(&message.payload) else { continue };
            // A user who may only speak as one worker cannot speak as another one.
            if message.subject.as_str() != self.subjects.beat(&beat.worker) {
                continue;
            }
            if fleet.beat(&beat) && asking.len() < MAX_ASKING {
                let (own, fleet) = (self.clone(), fleet.clone());
                asking.spawn(async move {
                    if let Some(tools) = own.tools_of(&beat.worker).await {
                        fleet.has(&beat.worker, tools);
                    }
                });
            }
        }
    }

    async fn tools_of(&self, worker: &WorkerId) -> Option<Vec<Known>> {
        let answer = self.ask(worker, &Ask::Tools).await?;
        serde_json::from_slice(&answer).ok()
    }

    /// Asks a worker something besides a call; nothing where it does not answer.
    async fn ask(&self, worker: &WorkerId, ask: &Ask) -> Option<bytes::Bytes> {
        let Expected { subject, last, .. } = &mut self.inbox.expect();
        let payload = Payload::new(&self.link, encode(ask)).await.ok()?;
        payload.send(&self.link, self.subjects.ask(worker), Some(subject.clone())).await.ok()?;
        let message = tokio::time::timeout(ASKING, last).await.ok()?.ok()?;
        if message.status.is_some() {
            return None;
        }
        received(&self.link, &message).await.ok()
    }
}

/// Workers that are asked at one time what they have.
const MAX_ASKING: usize = 64;

/// Asks who is there, now and whenever the connection was made again.
async fn greet(link: Arc<Link>, hello: String) {
    let mut state = link.state();
    loop {
        let _ = link.client.publish(hello.clone(), bytes::Bytes::new()).await;
        let before = state.borrow_and_update().made;
        while state.borrow().made == before {
            if state.changed().await.is_err() {
                return;
            }
        }
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("identity", &self.identity).finish_non_exhaustive()
    }
}
