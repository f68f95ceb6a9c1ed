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

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_nats::StatusCode;
use bytes::Bytes;
use haft_core::sync::Lock;
use haft_core::trace::{Gauge, Trace};
use haft_manifest::Label;
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;

use self::fleet::{Fleet, MAX_TOOLS, Wanted};
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
use crate::stores::{Kept, StoreHealth};
use crate::subjects::{ANY, DISCONNECTS, Subjects, answers_to_gates};

/// How long a worker is waited for that was asked something: its answer is made at once.
const ASKING: Duration = Duration::from_secs(2);

/// How long all workers may take to say that they are there.
const GATHERING: Duration = Duration::from_millis(700);

/// How long no more of them may come before it is taken that all have.
const QUIET: Duration = Duration::from_millis(150);

/// How often it is looked whether what is kept at the server can be.
const LOOKING: Duration = Duration::from_secs(30);

/// How often a gate says what it wants.
pub(crate) const GREETING: Duration = Duration::from_secs(20);

/// Sends calls of one program to its workers.
pub struct Gate {
    server: Arc<dyn Server>,
    identity: Identity,
    passenger: Arc<dyn Passenger>,
    fleet: Arc<Fleet>,
    /// What calls may want, for as long as there are tools that do.
    wanted: Arc<Lock<AllWanted>>,
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
    /// What is kept at the server for calls, as it was when it was looked at last.
    stores: Arc<Lock<Vec<StoreHealth>>>,
    /// Whether the server did not answer when it was asked last, and nothing came of it since.
    is_server_silent: Arc<AtomicBool>,
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
        let (fleet, wanted) = (Arc::default(), Arc::default());
        let (calls, connected) = (Arc::<AtomicU64>::default(), OnceCell::new());
        let own = Arc::downgrade(&calls);
        trace.watch(Gauge::CallsSent, move || Some(own.upgrade()?.load(Ordering::Relaxed)));
        Self { server, identity, passenger, fleet, wanted, calls, connected }
    }

    /// Counts a call as under way until what it returns is dropped.
    fn count(&self) -> Counted {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Counted(self.calls.clone())
    }

    /// Notes what a tool wants, for as long as there is the tool.
    fn wants(&self, wanted: Wanted) -> Arc<Wanted> {
        let wanted = Arc::new(wanted);
        self.wanted.lock().add(&wanted);
        wanted
    }

    /// What is wanted from now on is another reading's of the program, as [`Gate::can_follow`] tells them apart.
    pub fn mark(&self) -> u64 {
        self.wanted.lock().count
    }

    /// Whether another gate may take its place at once: it has met nobody.
    pub fn can_be_replaced(&self) -> bool {
        self.fleet.is_empty()
    }

    /// Whether workers have at least half as many places for what was wanted since `mark` as those of `before`, a gate of
    /// the same program as it was read before, have for the same tools as these were.
    pub fn can_follow(&self, before: &Self, mark: u64) -> bool {
        let older = before.wanted.lock().since(0);
        let own = self.wanted.lock().since(mark);
        own.iter().all(|new| {
            let same = older.iter().filter(|old| old.tool == new.tool);
            let needed = same.map(|old| before.fleet.places(old)).max().unwrap_or_default();
            self.fleet.places(new) >= needed.div_ceil(2)
        })
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
            Connected::new(&settings, &self.identity, (self.fleet.clone(), self.wanted.clone())).await
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

/// What calls may want.
#[derive(Default)]
struct AllWanted {
    /// Each with how many there were before.
    all: Vec<(u64, Weak<Wanted>)>,
    count: u64,
}

impl AllWanted {
    fn add(&mut self, wanted: &Arc<Wanted>) {
        self.all.retain(|(_, own)| own.strong_count() > 0);
        self.all.push((self.count, Arc::downgrade(wanted)));
        self.count += 1;
    }

    /// What is still wanted of what came after the first `mark`.
    fn since(&self, mark: u64) -> Vec<Arc<Wanted>> {
        self.all.iter().filter(|(at, _)| *at >= mark).filter_map(|(_, wanted)| wanted.upgrade()).collect()
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
        (fleet, wanted): (Arc<Fleet>, Arc<Lock<AllWanted>>),
    ) -> Result<Arc<Self>, LinkError> {
        let name = random_name()?;
        let link = Link::connect(settings, &format!("haft-gate:{name}")).await?;
        let subjects = Subjects::new(&settings.prefix, identity);
        let inbox = Arc::new(Inbox::new(answers_to_gates(&settings.prefix), &name));
        let what = "a gate cannot listen";
        let subscribe = async |subject: String| {
            link.client.subscribe(subject).await.map_err(|error| unusable(what, &error))
        };
        let (answers, beats) = (subscribe(inbox.all()).await?, subscribe(subjects.beats()).await?);
        let disconnects = subscribe(DISCONNECTS.to_owned()).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(inbox.clone().run(answers));
        tasks.spawn(deaths::listen(fleet.clone(), disconnects));
        let (stores, is_server_silent) = (Arc::default(), Arc::default());
        let own =
            Arc::new(Self { name, link, subjects, inbox, stores, is_server_silent, _tasks: JoinSet::new() });
        tasks.spawn(look_after(own.link.clone(), own.stores.clone()));
        tasks.spawn(deaths::sweep(fleet.clone(), own.clone()));
        let listening = own.clone();
        tasks.spawn(async move { listening.listen(fleet, beats).await });
        tasks.spawn(greet(own.link.clone(), own.subjects.hello(), wanted));
        Ok(Arc::new(Self {
            name: own.name.clone(),
            link: own.link.clone(),
            subjects: own.subjects.clone(),
            inbox: own.inbox.clone(),
            stores: own.stores.clone(),
            is_server_silent: own.is_server_silent.clone(),
            _tasks: tasks,
        }))
    }

    /// Hears that workers live, and asks those that are new what they have.
    async fn listen(self: Arc<Self>, fleet: Arc<Fleet>, mut beats: async_nats::Subscriber) {
        let mut asking = JoinSet::new();
        while let Some(message) = beats.next().await {
            while asking.try_join_next().is_some() {}
            self.is_server_silent.store(false, Ordering::Relaxed);
            let Ok(beat) = serde_json::from_slice::<Beat>(&message.payload) else { continue };
            // A user who may only speak as one worker cannot speak as another one.
            if message.subject.as_str() != self.subjects.beat(&beat.worker) {
                continue;
            }
            if fleet.beat(&beat) && asking.len() < MAX_ASKING {
                let (own, fleet) = (self.clone(), fleet.clone());
                asking.spawn(async move {
                    if let Some((labels, tools)) = own.offered_by(&beat).await {
                        fleet.has(&beat, labels, &tools);
                    }
                });
            }
        }
    }

    /// The labels that the server lets a worker have, and what it says of its tools. The tools first: what answers that hears
    /// calls by its labels already.
    async fn offered_by(&self, beat: &Beat) -> Option<(HashSet<String>, Bytes)> {
        let tools = self.ask(&beat.worker, &Ask::Tools).await?;
        let mut labels = HashSet::new();
        let named = beat.labels.iter().take(MAX_LABELS).map(String::as_str);
        for label in named.filter(|label| label.parse::<Label>().is_ok_and(|own| !own.is_any())).chain([ANY])
        {
            let subject = self.subjects.call(&beat.worker, ANY, label);
            if self.is_heard(&beat.worker.name, subject).await? {
                labels.insert(label.to_owned());
            }
        }
        Some((labels, tools))
    }

    /// Whether anybody is there who hears what is sent to `subject`; nothing where the server does not say.
    async fn is_heard(&self, worker: &str, subject: String) -> Option<bool> {
        let Expected { subject: reply, last, .. } = &mut self.inbox.expect(worker).ok()?;
        self.link.client.publish_with_reply(subject, reply.clone(), Bytes::new()).await.ok()?;
        let message = tokio::time::timeout(ASKING, last).await.ok()?.ok()?;
        Some(message.status != Some(StatusCode::NO_RESPONDERS))
    }

    /// Whether the server itself answers, where nobody else does.
    async fn server_answers(&self) -> bool {
        self.is_heard(ANY, self.subjects.nobody()).await.is_some()
    }

    /// Asks a worker something besides a call; nothing where it does not answer.
    async fn ask(&self, worker: &WorkerId, ask: &Ask) -> Option<Bytes> {
        let Expected { subject, last, .. } = &mut self.inbox.expect(&worker.name).ok()?;
        let payload = Payload::new(&self.link, &worker.name, encode(ask)).await.ok()?;
        payload.send(&self.link, self.subjects.ask(worker), Some(subject.clone())).await.ok()?;
        let message = tokio::time::timeout(ASKING, last).await.ok()?.ok()?;
        if message.status.is_some() {
            return None;
        }
        received(&self.link, &worker.name, &message, MAX_TOOLS).await.ok()
    }
}

/// Labels of a worker; more are passed over.
const MAX_LABELS: usize = 16;

/// Workers that are asked at one time what they have.
const MAX_ASKING: usize = 64;

/// Looks whether what is kept at the server can be, now and from time to time.
async fn look_after(link: Arc<Link>, stores: Arc<Lock<Vec<StoreHealth>>>) {
    loop {
        let mut found = Vec::new();
        for kept in Kept::OF_CALLS {
            found.push(kept.health(&link).await);
        }
        *stores.lock() = found;
        tokio::time::sleep(LOOKING).await;
    }
}

/// Asks who is there and says what it wants of workers, now, whenever the connection was made again, and from time to
/// time.
async fn greet(link: Arc<Link>, hello: String, wanted: Arc<Lock<AllWanted>>) {
    let mut state = link.state();
    loop {
        let wanted: BTreeSet<String> =
            wanted.lock().since(0).into_iter().map(|wanted| wanted.definition.clone()).collect();
        let _ = link.client.publish(hello.clone(), encode(&wanted).into()).await;
        let before = state.borrow_and_update().made;
        let made_again = async {
            while state.borrow().made == before {
                if state.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let _ = tokio::time::timeout(GREETING, made_again).await;
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("identity", &self.identity).finish_non_exhaustive()
    }
}
