//! The worker: runs calls of gates through its own toolbox, with the rights of its own program.toml. A gate sends
//! names and arguments; other content of a message is ignored.

mod call;
mod places;
mod readings;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::{Message, Subject, Subscriber};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::places::{CallThreads, Places};
use self::readings::{Listening, Readings};
use crate::LinkError;
use crate::link::{Link, Settings};
use crate::message::{Ask, Beat, CONNECTION, Reply, Status, WorkerId, encode, random_name};
use crate::payload::{Payload, is_whole};
use crate::subjects::{Identity, Subjects, worker_inbox};
use haft_core::sync::Lock;
use haft_core::trace::{Gauge, Trace};
use haft_manifest::Label;

pub use self::readings::Reading;

/// The interval of heartbeats.
const BEAT: Duration = Duration::from_millis(500);

/// Time limit for running calls at shutdown: as long as an orchestrator usually waits.
const DRAIN: Duration = Duration::from_secs(20);

/// Time limit for cancelled calls after that.
const STOPPED: Duration = Duration::from_secs(5);

/// The settings of a worker beside its tools.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// The name: lower-case letters, digits and `-`.
    pub name: String,
    /// The labels that tools are placed by.
    pub labels: Vec<Label>,
    /// The maximum number of concurrent calls.
    pub places: u32,
}

/// The location of a worker, for people and for its published state.
#[derive(Clone, Debug)]
pub struct Place {
    /// The name of the worker.
    pub worker: String,
    /// The program and its digest.
    pub identity: Identity,
}

/// A connected worker.
pub struct Worker {
    id: WorkerId,
    settings: WorkerSettings,
    identity: Identity,
    link: Arc<Link>,
    readings: Readings,
    /// Signals changed readings to the task that listens for their calls.
    reread: Notify,
    /// Signals that a heartbeat must be sent now.
    greeted: Notify,
    places: Arc<Places>,
    running: Lock<HashMap<String, CancellationToken>>,
    answers: Lock<Answers>,
    threads: CallThreads,
}

impl Worker {
    /// Connects a worker that runs calls with `reading`.
    ///
    /// # Errors
    /// NATS cannot be used, or denies the worker a permission.
    pub async fn connect(
        settings: WorkerSettings,
        server: &Settings,
        reading: Reading,
    ) -> Result<Arc<Self>, LinkError> {
        let id = WorkerId { name: settings.name.clone(), instance: random_name()? };
        let threads = CallThreads::start()?;
        let inbox = worker_inbox(&server.prefix, &id.name);
        let link = threads.connect(server, format!("{CONNECTION}{}", id.instance), inbox).await?;
        // A worker that cannot claim calls would reject most of them: fail at the start.
        link.check_permissions().await?;
        link.claims().await?;
        let places = Arc::new(Places::new(settings.places));
        watch(&places, &reading.session.trace);
        let identity = reading.identity.clone();
        let readings = Readings::new(reading, &server.prefix);
        Ok(Arc::new(Self {
            id,
            settings,
            identity,
            link,
            readings,
            reread: Notify::new(),
            greeted: Notify::new(),
            places,
            running: Lock::default(),
            answers: Lock::default(),
            threads,
        }))
    }

    /// Runs calls with `reading` from now on. The previous reading stays available, for an hour at most, to gates
    /// that request tools that `reading` lacks. Returns whether the tools have changed.
    pub fn read_again(&self, reading: Reading) -> bool {
        let is_other = self.readings.put(reading, &self.link.prefix);
        self.reread.notify_one();
        is_other
    }

    /// Returns the connection.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Returns the location.
    pub fn place(&self) -> Place {
        Place { worker: self.settings.name.clone(), identity: self.identity.clone() }
    }

    /// Returns the names of the tools, in order.
    pub fn tools(&self) -> Vec<String> {
        let last = self.readings.last();
        last.iter().flat_map(|read| read.toolbox.entries()).map(|entry| entry.def().name.clone()).collect()
    }

    /// Runs calls until `stop`, and ends when the running calls have ended, after half a minute at most. A drop of
    /// the future has the effect of `stop`. `ready` is called when the worker accepts calls.
    ///
    /// # Errors
    /// The server denies the worker a permission, or the connection fails.
    pub async fn run(
        self: Arc<Self>,
        stop: CancellationToken,
        ready: impl FnOnce() + Send + 'static,
    ) -> Result<(), LinkError> {
        let (worker, stop) = (self.clone(), stop.child_token());
        let _stopped = stop.clone().drop_guard();
        self.threads.beside_connection(move || worker.take_calls(stop, ready)).await?
    }

    /// Accepts calls, on the thread of the connection.
    async fn take_calls(
        self: Arc<Self>,
        stop: CancellationToken,
        ready: impl FnOnce() + Send,
    ) -> Result<(), LinkError> {
        let mut listening = Listening::default();
        listening.follow(&self).await?;
        self.send_beats().await;
        self.link.check_permissions().await?;
        ready();
        let mut others = JoinSet::new();
        others.spawn(self.clone().beat());
        let tasks = TaskTracker::new();
        let mut next = None;
        loop {
            let message = if next.is_some() {
                next.take()
            } else {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => None,
                    () = self.reread.notified() => {
                        listening.follow(&self).await?;
                        self.greeted.notify_one();
                        continue;
                    }
                    message = listening.next() => message,
                }
            };
            let Some(message) = message else { break };
            if stop.is_cancelled() {
                self.refuse(message, &tasks);
                break;
            }
            // A message that is already queued may be the next work of this thread.
            next = tokio::select! {
                biased;
                next = listening.next() => next,
                () = std::future::ready(()) => None,
            };
            self.take(message, &tasks, next.is_some()).await;
        }
        self.drain(listening, tasks).await;
        Ok(())
    }

    /// Waits for the running calls. From now on gates get no response from this worker.
    async fn drain(&self, mut listening: Listening, tasks: TaskTracker) {
        self.places.close();
        self.send_beats().await;
        listening.end().await;
        // Messages that arrive before the server has handled this are rejected, not dropped.
        while let Ok(Some(message)) = tokio::time::timeout(BEAT, listening.next()).await {
            self.refuse(message, &tasks);
        }
        tasks.close();
        if tokio::time::timeout(DRAIN, tasks.wait()).await.is_err() {
            self.running.lock().values().for_each(CancellationToken::cancel);
            let _ = tokio::time::timeout(STOPPED, tasks.wait()).await;
        }
        self.link.flush().await;
    }

    /// Runs a call if there is a free place; `more`: further calls are queued already.
    async fn take(self: &Arc<Self>, message: Message, tasks: &TaskTracker, more: bool) {
        // A gate sends an empty message to check whether the subject has a subscriber.
        if is_whole(&message) && message.payload.is_empty() {
            return self.refuse(message, tasks);
        }
        let Some(taken) = Places::take(&self.places) else { return self.refuse(message, tasks) };
        let is_short = self.is_short(&message);
        let call = tasks.track_future(self.clone().run_call(message, taken));
        if is_short {
            self.threads.run_short(call, more).await;
        } else {
            self.threads.run_long(call);
        }
    }

    /// Returns whether a call is short and only runs a guest: it may run on the receiving thread.
    fn is_short(&self, message: &Message) -> bool {
        let (tool, base) = (tool_of(message), Subjects::base_of(&message.subject));
        // The call names its reading.
        let mut readings =
            self.readings.of(base).into_iter().filter_map(|read| read.is_short(tool)).peekable();
        message.payload.len() <= places::MAX_SHORT
            && is_whole(message)
            && readings.peek().is_some()
            && readings.all(|is_short| is_short)
    }

    fn refuse(&self, message: Message, tasks: &TaskTracker) {
        let Some(subject) = message.reply else { return };
        let client = self.link.client.clone();
        tasks.spawn(async move {
            let _ = client.publish(subject, encode(&Reply::Full).into()).await;
        });
    }

    /// Sends a heartbeat twice a second, and whenever a gate asks for workers.
    async fn beat(self: Arc<Self>) {
        let mut interval = tokio::time::interval(BEAT);
        let state = self.link.state();
        loop {
            tokio::select! {
                _ = interval.tick() => {}
                () = self.places.were_missed() => {}
                () = self.greeted.notified() => {}
            }
            if !state.borrow().is_up {
                self.readings.was_deaf();
            } else if self.readings.retire() {
                self.reread.notify_one();
            }
            self.send_beats().await;
        }
    }

    async fn send_beats(&self) {
        let beat = encode(&Beat {
            worker: self.id.clone(),
            labels: self.settings.labels.iter().map(ToString::to_string).collect(),
            places: self.settings.places,
            busy: self.places.busy(),
            leaving: self.places.is_closed(),
            revision: self.readings.revision(),
        });
        for subjects in self.readings.bases() {
            let _ = self.link.client.publish(subjects.beat(&self.id), beat.clone().into()).await;
        }
    }

    /// Records the tools that the greeting gates want, and sends them a heartbeat.
    async fn hear(self: Arc<Self>, mut hellos: Subscriber) {
        while let Some(message) = hellos.next().await {
            let wanted = serde_json::from_slice::<HashSet<String>>(&message.payload).ok();
            self.readings.are_wanted(Subjects::base_of(&message.subject), wanted.as_ref());
            self.greeted.notify_one();
        }
    }

    async fn answer_asks(self: Arc<Self>, mut asks: Subscriber) {
        while let Some(message) = asks.next().await {
            let Ok(ask) = serde_json::from_slice::<Ask>(&message.payload) else { continue };
            match ask {
                Ask::Tools => {
                    let worker = self.clone();
                    // The list can be large, and this task must stay available for cancellations.
                    tokio::spawn(async move { worker.send_tools(message).await });
                }
                Ask::Cancel(id) => {
                    if let Some(cancel) = self.running.lock().get(&id) {
                        cancel.cancel();
                    }
                }
                Ask::Status(id) => self.send_status(message, &id).await,
            }
        }
    }

    async fn send_tools(&self, message: Message) {
        let Some(reply) = message.reply else { return };
        let tools = self.readings.tools(Subjects::base_of(&message.subject));
        match Payload::new(&self.link, &self.id.name, encode(&tools)).await {
            Ok(payload) => {
                let _ = payload.send(&self.link, reply, None).await;
            }
            Err(error) => tracing::warn!("cannot send this worker's tool list to a gate: {error}"),
        }
    }

    /// Sends the status of a call, and its answer again if it was answered.
    async fn send_status(&self, message: Message, id: &str) {
        let is_running = self.running.lock().contains_key(id);
        let again = self.answers.lock().get(id);
        let status = match (is_running, &again) {
            (_, Some(_)) => Status::Answered,
            (true, None) => Status::Running,
            (false, None) => Status::Unknown,
        };
        if let Some((subject, payload)) = again {
            let _ = payload.send(&self.link, subject, None).await;
        }
        if let Some(reply) = message.reply {
            let _ = self.link.client.publish(reply, encode(&status).into()).await;
        }
    }
}

/// Reports the number of places and of used places as gauges, while the worker exists.
fn watch(places: &Arc<Places>, trace: &Trace) {
    let (most, busy) = (Arc::downgrade(places), Arc::downgrade(places));
    trace.watch(Gauge::Places, move || Some(most.upgrade()?.most.into()));
    trace.watch(Gauge::PlacesUsed, move || Some(busy.upgrade()?.busy().into()));
}

/// Returns the tool of a call: the last word but one of its subject ([`Subjects::call`]), with which the server
/// may limit a user.
fn tool_of(message: &Message) -> &str {
    message.subject.rsplit('.').nth(1).unwrap_or_default()
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("settings", &self.settings).finish_non_exhaustive()
    }
}

// The latest answers of a worker, for gates whose connection broke during the transfer. Bounded in number, bytes
// and age.

/// The maximum number of answers: more than arrive during a reconnection.
const MAX: usize = 8192;

/// The maximum size of all answers in bytes.
const MAX_BYTES: usize = 32 << 20;

/// Maximum age of a stored answer: a gate asks for the status of a call every few seconds.
const AGE: Duration = Duration::from_mins(1);

/// The answers by the ids of their calls, oldest first.
#[derive(Default)]
struct Answers {
    kept: HashMap<String, (Subject, Payload)>,
    order: VecDeque<(Instant, String, usize)>,
    bytes: usize,
}

impl Answers {
    fn put(&mut self, id: String, subject: Subject, payload: Payload) {
        let size = payload.size();
        while self.order.front().is_some_and(|(time, ..)| {
            self.order.len() >= MAX || self.bytes + size > MAX_BYTES || time.elapsed() > AGE
        }) {
            if let Some((_, oldest, size)) = self.order.pop_front() {
                self.kept.remove(&oldest);
                self.bytes -= size;
            }
        }
        if size <= MAX_BYTES {
            self.bytes += size;
            self.order.push_back((Instant::now(), id.clone(), size));
            self.kept.insert(id, (subject, payload));
        }
    }

    fn get(&self, id: &str) -> Option<(Subject, Payload)> {
        self.kept.get(id).cloned()
    }
}
