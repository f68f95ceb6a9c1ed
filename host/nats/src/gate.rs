//! The gate: sends calls to workers and returns their answers. It runs no tool, and connects at the first call.

mod attempt;
mod call;
mod fleet;
mod health;

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_nats::StatusCode;
use bytes::Bytes;
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;

use self::attempt::{Expected, Inbox};
pub use self::call::NatsTool;
pub use self::fleet::WorkerHealth;
use self::fleet::{Fleet, MAX_TOOLS, Wanted};
pub use self::health::Health;
use crate::link::{Link, Server, Settings};
use crate::message::{Ask, Beat, Known, WorkerId, encode, random_name};
use crate::payload::{Payload, received};
use crate::stores::{Kept, StoreHealth};
use crate::subjects::{ANY, DISCONNECTS, Identity, Subjects, answers_to_gates};
use crate::{LinkError, unusable};
use haft_core::sync::Lock;
use haft_core::trace::{Gauge, Trace};
use haft_manifest::Label;

/// Time limit for a worker's answer to a question.
const ASKING: Duration = Duration::from_secs(2);

/// Time limit for the workers to announce themselves.
const GATHERING: Duration = Duration::from_millis(700);

/// The silence after which no more workers are expected.
const QUIET: Duration = Duration::from_millis(150);

/// Interval of checks of the stores' health at the server.
const LOOKING: Duration = Duration::from_secs(30);

/// Interval at which a gate announces the wanted tools.
pub(crate) const GREETING: Duration = Duration::from_secs(20);

/// Sends calls of one program to its workers.
pub struct Gate {
    server: Arc<dyn Server>,
    identity: Identity,
    fleet: Arc<Fleet>,
    /// The tools that calls may want, as long as they exist.
    wanted: Arc<Lock<AllWanted>>,
    /// The number of running calls.
    calls: Arc<AtomicU64>,
    /// The connection, and the tasks that listen on it, which end with the gate.
    connected: OnceCell<(Arc<Connected>, JoinSet<()>)>,
}

struct Connected {
    /// The name of this gate in subjects and claims.
    name: String,
    link: Arc<Link>,
    subjects: Subjects,
    inbox: Arc<Inbox>,
    /// The last known health of the stores for calls.
    stores: Lock<Vec<StoreHealth>>,
    /// Whether the server did not answer the last question, and sent nothing since.
    is_server_silent: AtomicBool,
}

impl Gate {
    /// Creates the gate of the program `identity`, whose gauges go to `trace`. Connects at the first call.
    pub fn new(server: Arc<dyn Server>, identity: Identity, trace: &Trace) -> Self {
        let (fleet, wanted) = (Arc::default(), Arc::default());
        let (calls, connected) = (Arc::<AtomicU64>::default(), OnceCell::new());
        let running = Arc::downgrade(&calls);
        trace.watch(Gauge::CallsSent, move || Some(running.upgrade()?.load(Ordering::Relaxed)));
        Self { server, identity, fleet, wanted, calls, connected }
    }

    /// Counts a call as running until the returned value is dropped.
    fn count(&self) -> Counted {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Counted(self.calls.clone())
    }

    /// Records a wanted tool as long as the tool exists.
    fn wants(&self, wanted: Wanted) -> Arc<Wanted> {
        let wanted = Arc::new(wanted);
        self.wanted.lock().add(&wanted);
        wanted
    }

    /// Returns a mark for [`Gate::can_follow`]: tools wanted after the mark belong to another reading of the
    /// program.
    pub fn mark(&self) -> u64 {
        self.wanted.lock().count
    }

    /// Returns whether another gate may replace this one without a wait, because it knows no worker.
    pub fn can_be_replaced(&self) -> bool {
        self.fleet.is_empty()
    }

    /// Returns whether workers have at least half as many places for the tools wanted since `mark` as for these
    /// tools of `before`, a gate of an earlier reading of the program.
    pub fn can_follow(&self, before: &Self, mark: u64) -> bool {
        let older = before.wanted.lock().since(0);
        let newer = self.wanted.lock().since(mark);
        newer.iter().all(|new| {
            let same = older.iter().filter(|old| old.tool == new.tool);
            let needed = same.map(|old| before.fleet.places(old)).max().unwrap_or_default();
            self.fleet.places(new) >= needed.div_ceil(2)
        })
    }

    /// Returns the program whose calls the gate sends.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Connects, unless connected.
    ///
    /// # Errors
    /// NATS cannot be used.
    pub async fn connect(&self) -> Result<(), LinkError> {
        self.connected().await.map(drop)
    }

    async fn connected(&self) -> Result<&Arc<Connected>, LinkError> {
        let connect = || async {
            let settings = self.server.settings().await?;
            Connected::new(&settings, &self.identity, (self.fleet.clone(), self.wanted.clone())).await
        };
        self.connected.get_or_try_init(connect).await.map(|(connected, _)| connected)
    }

    /// Returns the tools of the workers with one of the labels `on` whose names `is_wanted` accepts. Waits a moment
    /// for the workers to announce themselves.
    ///
    /// # Errors
    /// NATS cannot be used.
    pub async fn tools(
        &self,
        on: &[Label],
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<Known>, LinkError> {
        self.gather().await?;
        Ok(self.fleet.tools(on, is_wanted))
    }

    /// Waits, for a bounded time, until the workers have announced themselves.
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

    /// Returns the counter of changes to the workers' tools.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.fleet.changes()
    }
}

/// The tools that calls may want.
#[derive(Default)]
struct AllWanted {
    /// The tools, each with its sequence number.
    all: Vec<(u64, Weak<Wanted>)>,
    count: u64,
}

impl AllWanted {
    fn add(&mut self, wanted: &Arc<Wanted>) {
        self.all.retain(|(_, known)| known.strong_count() > 0);
        self.all.push((self.count, Arc::downgrade(wanted)));
        self.count += 1;
    }

    /// Returns the tools with a sequence number from `mark` on that still exist.
    fn since(&self, mark: u64) -> Vec<Arc<Wanted>> {
        self.all.iter().filter(|(at, _)| *at >= mark).filter_map(|(_, wanted)| wanted.upgrade()).collect()
    }
}

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
    ) -> Result<(Arc<Self>, JoinSet<()>), LinkError> {
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
        tasks.spawn(health::listen(fleet.clone(), disconnects));
        let (stores, is_server_silent) = Default::default();
        let connected = Arc::new(Self { name, link, subjects, inbox, stores, is_server_silent });
        tasks.spawn(look_after(connected.clone()));
        tasks.spawn(health::sweep(fleet.clone(), connected.clone()));
        let listening = connected.clone();
        tasks.spawn(async move { listening.listen(fleet, beats).await });
        tasks.spawn(greet(connected.link.clone(), connected.subjects.hello(), wanted));
        Ok((connected, tasks))
    }

    /// Receives the beats of workers, and asks new workers for their tools.
    async fn listen(self: Arc<Self>, fleet: Arc<Fleet>, mut beats: async_nats::Subscriber) {
        let mut asking = JoinSet::new();
        while let Some(message) = beats.next().await {
            while asking.try_join_next().is_some() {}
            self.is_server_silent.store(false, Ordering::Relaxed);
            let Ok(beat) = serde_json::from_slice::<Beat>(&message.payload) else { continue };
            // The server restricts a user to the subject of one worker: a beat on another subject is forged.
            if message.subject.as_str() != self.subjects.beat(&beat.worker) {
                continue;
            }
            if fleet.beat(&beat) && asking.len() < MAX_ASKING {
                let (connected, fleet) = (self.clone(), fleet.clone());
                asking.spawn(async move {
                    if let Some((labels, tools)) = connected.offered_by(&beat).await {
                        fleet.has(&beat, labels, &tools);
                    }
                });
            }
        }
    }

    /// Returns the labels that the server permits a worker, and its tools. Tools are asked first: a worker that
    /// answers has subscribed to its labels already.
    async fn offered_by(&self, beat: &Beat) -> Option<(HashSet<String>, Bytes)> {
        let tools = self.ask(&beat.worker, &Ask::Tools).await?;
        let mut labels = HashSet::new();
        let named = beat.labels.iter().take(MAX_LABELS).map(String::as_str);
        for label in
            named.filter(|label| label.parse::<Label>().is_ok_and(|label| !label.is_any())).chain([ANY])
        {
            let subject = self.subjects.call(&beat.worker, ANY, label);
            if self.is_heard(&beat.worker.name, subject).await? {
                labels.insert(label.to_owned());
            }
        }
        Some((labels, tools))
    }

    /// Returns whether `subject` has a subscriber; `None` if the server does not answer.
    async fn is_heard(&self, worker: &str, subject: String) -> Option<bool> {
        let Expected { subject: reply, last, .. } = &mut self.inbox.expect(worker).ok()?;
        self.link.client.publish_with_reply(subject, reply.clone(), Bytes::new()).await.ok()?;
        let message = tokio::time::timeout(ASKING, last).await.ok()?.ok()?;
        Some(message.status != Some(StatusCode::NO_RESPONDERS))
    }

    /// Sends a question to a worker; `None` if it does not answer.
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

/// The maximum number of labels of a worker; more are ignored.
const MAX_LABELS: usize = 16;

/// The maximum number of workers that are asked for their tools concurrently.
const MAX_ASKING: usize = 64;

/// Checks the health of the stores at the server, now and periodically.
async fn look_after(connected: Arc<Connected>) {
    loop {
        let mut found = Vec::new();
        for kept in Kept::OF_CALLS {
            found.push(kept.health(&connected.link).await);
        }
        *connected.stores.lock() = found;
        tokio::time::sleep(LOOKING).await;
    }
}

/// Requests heartbeats of workers and announces the wanted tools, now, after every reconnection, and periodically.
async fn greet(link: Arc<Link>, hello: String, wanted: Arc<Lock<AllWanted>>) {
    let mut state = link.state();
    loop {
        let wanted: BTreeSet<String> =
            wanted.lock().since(0).into_iter().map(|wanted| wanted.definition.clone()).collect();
        let _ = link.client.publish(hello.clone(), encode(&wanted).into()).await;
        let _ = tokio::time::timeout(GREETING, Link::reconnected(&mut state)).await;
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("identity", &self.identity).finish_non_exhaustive()
    }
}
