//! The worker: runs calls of gates through its own toolbox, with the rights of its own program.toml. What a gate sends are
//! names and arguments; a message that holds more is read no further than that.

mod answers;
mod call;
mod places;
mod threads;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Message, Subscriber};
use haft_core::manifest::Label;
use haft_core::sync::Lock;
use haft_core::tool::{Entry, Session, Toolbox};
use haft_core::trace::{Gauge, Trace};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::answers::Answers;
use self::places::Places;
use self::threads::CallThreads;
use crate::error::{LinkError, unusable};
use crate::identity::{Identity, definition};
use crate::link::Link;
use crate::message::{Ask, Beat, CONNECTION, Known, Reply, Status, WorkerId, encode, random_name};
use crate::passenger::Passenger;
use crate::payload::{Payload, is_whole};
use crate::settings::Settings;
use crate::subjects::Subjects;

/// How often a worker says that it lives.
const BEAT: Duration = Duration::from_millis(500);

/// How long the calls that run may take to end once the worker is to end: as long as an orchestrator waits, usually.
const DRAIN: Duration = Duration::from_secs(20);

/// The same for calls that were stopped then.
const STOPPED: Duration = Duration::from_secs(5);

/// What a worker is besides its tools.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Its name: lower-case letters, digits and `-`.
    pub name: String,
    /// What tools are placed by.
    pub labels: Vec<Label>,
    /// Calls that it runs at one time.
    pub places: u32,
}

/// Where a worker is, for people and for what is published of it.
#[derive(Clone, Debug)]
pub struct Place {
    /// The worker's name.
    pub worker: String,
    /// The program and its digest.
    pub identity: Identity,
}

/// A worker that is connected.
pub struct Worker {
    id: WorkerId,
    settings: WorkerSettings,
    identity: Identity,
    link: Arc<Link>,
    subjects: Subjects,
    toolbox: Toolbox,
    /// Its tools as gates are told, by name.
    known: HashMap<String, Known>,
    session: Session,
    passenger: Arc<dyn Passenger>,
    places: Arc<Places>,
    running: Lock<HashMap<String, CancellationToken>>,
    answers: Lock<Answers>,
    threads: CallThreads,
}

impl Worker {
    /// Connects a worker of the program `identity` whose calls `toolbox` runs, each in a session like `session`.
    pub async fn connect(
        settings: WorkerSettings,
        server: &Settings,
        identity: Identity,
        (toolbox, session): (Toolbox, Session),
        passenger: Arc<dyn Passenger>,
    ) -> Result<Arc<Self>, LinkError> {
        let id = WorkerId { name: settings.name.clone(), instance: random_name() };
        let threads = CallThreads::start()?;
        let link = threads.connect(server, format!("{CONNECTION}{}", id.instance)).await?;
        // A worker that could claim nothing would refuse most calls: better now than then.
        link.claims().await?;
        let subjects = Subjects::new(&server.prefix, &identity);
        let known = toolbox.entries().map(known).map(|tool| (tool.def.name.clone(), tool)).collect();
        let places = Arc::new(Places::new(settings.places));
        watch(&places, &session.trace);
        let (running, answers) = (Lock::default(), Lock::default());
        Ok(Arc::new(Self {
            id,
            settings,
            identity,
            link,
            subjects,
            toolbox,
            known,
            session,
            passenger,
            places,
            running,
            answers,
            threads,
        }))
    }

    /// The connection.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        Place { worker: self.settings.name.clone(), identity: self.identity.clone() }
    }

    /// The names of its tools, in order.
    pub fn tools(&self) -> Vec<&str> {
        self.toolbox.entries().map(|entry| entry.def().name.as_str()).collect()
    }

    /// Takes calls until `stop`, and ends when those that run have ended, for half a minute at most. Dropped, it takes no
    /// more either.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) -> Result<(), LinkError> {
        let (own, stop) = (self.clone(), stop.child_token());
        let _stopped = stop.clone().drop_guard();
        self.threads.beside_connection(move || own.take_calls(stop)).await?
    }

    /// The same, on the connection's own thread.
    async fn take_calls(self: Arc<Self>, stop: CancellationToken) -> Result<(), LinkError> {
        let subscribe = async |subject: String| {
            let what = "a worker cannot listen";
            self.link.client.subscribe(subject).await.map_err(|error| unusable(what, &error))
        };
        let mut calls = subscribe(self.subjects.call(&self.id, "*")).await?;
        let asks = subscribe(self.subjects.ask(&self.id)).await?;
        let hellos = subscribe(self.subjects.hello()).await?;
        let mut others = JoinSet::new();
        others.spawn(self.clone().answer_asks(asks));
        others.spawn(self.clone().beat(hellos));
        let tasks = TaskTracker::new();
        let mut next = None;
        loop {
            let message = match next.take() {
                Some(message) => Some(message),
                None => stop.run_until_cancelled(calls.next()).await.flatten(),
            };
            let Some(message) = message else { break };
            if stop.is_cancelled() {
                self.refuse(message, &tasks);
                break;
            }
            // What waits behind it may be the next thing that this thread does.
            next =
                tokio::select! { biased; next = calls.next() => next, () = std::future::ready(()) => None };
            self.take(message, &tasks, next.is_some()).await;
        }
        self.drain(calls, tasks).await;
        Ok(())
    }

    /// Lets what runs end. From now on gates hear that nobody is here.
    async fn drain(&self, mut calls: Subscriber, tasks: TaskTracker) {
        self.places.close();
        self.send_beat().await;
        let _ = calls.unsubscribe().await;
        // What came before the server heard of that is refused, not dropped.
        while let Ok(Some(message)) = tokio::time::timeout(BEAT, calls.next()).await {
            self.refuse(message, &tasks);
        }
        tasks.close();
        if tokio::time::timeout(DRAIN, tasks.wait()).await.is_err() {
            self.running.lock().values().for_each(CancellationToken::cancel);
            let _ = tokio::time::timeout(STOPPED, tasks.wait()).await;
        }
        self.link.flush().await;
    }

    /// Runs a call, where there is a place for it; `more` says whether others wait already.
    async fn take(self: &Arc<Self>, message: Message, tasks: &TaskTracker, more: bool) {
        let Some(taken) = Places::take(&self.places) else { return self.refuse(message, tasks) };
        let is_short = self.is_short(&message);
        let call = tasks.track_future(self.clone().run_call(message, taken));
        if is_short {
            self.threads.run_short(call, more).await;
        } else {
            self.threads.run_long(call);
        }
    }

    /// Whether a call takes no time and nothing but a guest: it may run where it is taken.
    fn is_short(&self, message: &Message) -> bool {
        let tool = tool_of(message);
        message.payload.len() <= threads::MAX_SHORT
            && is_whole(message)
            && self.known.get(tool).is_some_and(|known| known.reads)
            && self.toolbox.find(tool).is_some_and(Entry::may_run_inline)
    }

    fn refuse(&self, message: Message, tasks: &TaskTracker) {
        let Some(subject) = message.reply else { return };
        let client = self.link.client.clone();
        tasks.spawn(async move {
            let _ = client.publish(subject, encode(&Reply::Full).into()).await;
        });
    }

    /// Says twice a second that it lives, and whenever a gate asks who does.
    async fn beat(self: Arc<Self>, mut hellos: Subscriber) {
        let mut interval = tokio::time::interval(BEAT);
        loop {
            tokio::select! {
                _ = interval.tick() => {}
                () = self.places.were_missed() => {}
                hello = hellos.next() => if hello.is_none() { return },
            }
            self.send_beat().await;
        }
    }

    async fn send_beat(&self) {
        let beat = Beat {
            worker: self.id.clone(),
            labels: self.settings.labels.iter().map(ToString::to_string).collect(),
            places: self.settings.places,
            busy: self.places.busy(),
            leaving: self.places.is_closed(),
        };
        let _ = self.link.client.publish(self.subjects.beat(&self.id), encode(&beat).into()).await;
    }

    async fn answer_asks(self: Arc<Self>, mut asks: Subscriber) {
        while let Some(message) = asks.next().await {
            let Ok(ask) = serde_json::from_slice::<Ask>(&message.payload) else { continue };
            match ask {
                Ask::Tools => {
                    let own = self.clone();
                    // It can be large, and calls are cancelled by way of this.
                    tokio::spawn(async move { own.send_tools(message).await });
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
        let tools: Vec<&Known> = self.known.values().collect();
        match Payload::new(&self.link, encode(&tools)).await {
            Ok(payload) => {
                let _ = payload.send(&self.link, reply, None).await;
            }
            Err(error) => tracing::warn!("a gate cannot be told what this worker has: {error}"),
        }
    }

    /// Says what became of a call, and sends its answer once more where it was answered.
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

/// Has it told how many places there are and how many are in use, while there is the worker.
fn watch(places: &Arc<Places>, trace: &Trace) {
    let (most, busy) = (Arc::downgrade(places), Arc::downgrade(places));
    trace.watch(Gauge::Places, move || Some(most.upgrade()?.most().into()));
    trace.watch(Gauge::PlacesUsed, move || Some(busy.upgrade()?.busy().into()));
}

/// The tool that a call is of: the end of its subject ([`Subjects::call`]), by which a user of the server may be held to
/// some.
fn tool_of(message: &Message) -> &str {
    message.subject.rsplit_once('.').map_or("", |(_, tool)| tool)
}

/// A tool as gates are told of it.
fn known(entry: &Entry) -> Known {
    let (def, component) = (entry.def().clone(), entry.digest().map(str::to_owned));
    Known {
        title: def.title.clone(),
        hints: def.hints,
        output: def.output.clone(),
        definition: definition(&def, component.as_deref()),
        reads: !entry.may_have_effects(),
        def,
        component,
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("settings", &self.settings).finish_non_exhaustive()
    }
}
