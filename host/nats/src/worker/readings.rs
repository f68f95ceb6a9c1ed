//! The readings of its program with which a worker runs calls: the latest one, and earlier ones while gates request
//! tools that only these have. A program can therefore be changed at gates and workers in any order. Also the
//! subscriptions to calls, requests and greetings of gates, for each of these programs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::{Message, Subscriber};
use haft_core::sync::Lock;
use haft_core::tool::{Entry, Session, Toolbox};
use haft_manifest::Label;
use tokio::task::JoinSet;
use tokio_stream::{StreamExt, StreamMap};

use super::Worker;
use crate::message::Known;
use crate::subjects::{ANY, Identity, Subjects, definition};
use crate::{LinkError, unusable};

/// The maximum number of readings, each with its components in memory; beyond it, the oldest is dropped.
const MAX: usize = 4;

/// Time after which an earlier reading that no gate wants is removed: three times the interval of greetings
/// ([`GREETING`]).
///
/// [`GREETING`]: crate::gate::GREETING
const UNWANTED: Duration = Duration::from_mins(1);

/// Maximum age of an earlier reading: a change that removes rights is complete by then.
const OVERLAP: Duration = Duration::from_hours(1);

/// A program as read, with which a worker runs calls.
#[derive(Debug)]
pub struct Reading {
    /// The identity that gates must share.
    pub identity: Identity,
    /// The tools.
    pub toolbox: Toolbox,
    /// The template for the session of each call.
    pub session: Session,
}

/// A reading with derived data.
pub(super) struct Read {
    pub(super) toolbox: Toolbox,
    pub(super) session: Session,
    pub(super) subjects: Subjects,
    /// The tools as gates see them, by name.
    pub(super) known: HashMap<String, Known>,
    /// The time of the next reading, and of the last gate that wanted a tool of this reading alone.
    replaced: Lock<Option<(Instant, Instant)>>,
}

/// The readings, latest first.
pub(super) struct Readings {
    all: Lock<Vec<Arc<Read>>>,
    /// Changes with the tool lists for gates.
    revision: AtomicU64,
}

impl Readings {
    pub(super) fn new(first: Reading, prefix: &str) -> Self {
        Self { all: Lock::new(vec![Arc::new(Read::new(first, prefix))]), revision: AtomicU64::new(0) }
    }

    /// Adds a reading as the latest. Returns whether its tools differ from those of the previous one.
    pub(super) fn put(&self, reading: Reading, prefix: &str) -> bool {
        let new = Read::new(reading, prefix);
        let mut all = self.all.lock();
        let is_other = all.first().is_none_or(|last| last.definitions() != new.definitions());
        if let Some(last) = all.first() {
            *last.replaced.lock() = Some((Instant::now(), Instant::now()));
        }
        all.insert(0, Arc::new(new));
        all.truncate(MAX);
        self.revision.fetch_add(1, Ordering::Relaxed);
        is_other
    }

    pub(super) fn last(&self) -> Option<Arc<Read>> {
        self.all.lock().first().cloned()
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }

    /// Returns the subject prefixes of all readings, without duplicates.
    pub(super) fn bases(&self) -> Vec<Subjects> {
        let mut bases: Vec<Subjects> = Vec::new();
        for read in self.all.lock().iter() {
            if !bases.contains(&read.subjects) {
                bases.push(read.subjects.clone());
            }
        }
        bases
    }

    /// Returns the readings with this subject prefix, latest first.
    pub(super) fn of(&self, base: &str) -> Vec<Arc<Read>> {
        self.all.lock().iter().filter(|read| read.subjects.base() == base).cloned().collect()
    }

    /// Returns all tools of these readings, each definition once, the newest of a name first.
    pub(super) fn tools(&self, base: &str) -> Vec<Known> {
        let (mut tools, mut seen): (Vec<Known>, HashSet<String>) = Default::default();
        for read in self.of(base) {
            tools.extend(read.known.values().filter(|tool| seen.insert(tool.definition.clone())).cloned());
        }
        // The order is fixed, so that workers with equal tools send equal texts.
        tools.sort_by(|first, second| first.def.name.cmp(&second.def.name));
        tools
    }

    /// Records the definitions that a gate wants; a gate without this information wants all.
    pub(super) fn are_wanted(&self, base: &str, wanted: Option<&HashSet<String>>) {
        let mut newer: HashSet<String> = HashSet::new();
        for read in self.of(base) {
            let is_wanted = |definition: &String| wanted.is_none_or(|wanted| wanted.contains(definition));
            if read
                .definitions()
                .into_iter()
                .any(|definition| !newer.contains(definition) && is_wanted(definition))
            {
                read.is_wanted();
            }
            newer.extend(read.definitions().into_iter().cloned());
        }
    }

    /// Restarts the measurement of unwanted time, after a time in which this process could receive nothing.
    pub(super) fn was_deaf(&self) {
        self.all.lock().iter().for_each(|read| read.is_wanted());
    }

    /// Drops the readings that no gate wants any more. Returns whether there were any.
    pub(super) fn retire(&self) -> bool {
        let mut all = self.all.lock();
        let before = all.len();
        all.retain(|read| !read.is_over());
        let has_changed = all.len() != before;
        if has_changed {
            self.revision.fetch_add(1, Ordering::Relaxed);
        }
        has_changed
    }
}

impl Read {
    fn new(reading: Reading, prefix: &str) -> Self {
        let Reading { identity, toolbox, session } = reading;
        let known = toolbox.entries().map(known).map(|tool| (tool.def.name.clone(), tool)).collect();
        Self {
            toolbox,
            session,
            subjects: Subjects::new(prefix, &identity),
            known,
            replaced: Lock::default(),
        }
    }

    fn definitions(&self) -> HashSet<&String> {
        self.known.values().map(|tool| &tool.definition).collect()
    }

    fn is_wanted(&self) {
        if let Some((_, wanted)) = self.replaced.lock().as_mut() {
            *wanted = Instant::now();
        }
    }

    fn is_over(&self) -> bool {
        let is_over =
            |(since, wanted): (Instant, Instant)| since.elapsed() > OVERLAP || wanted.elapsed() > UNWANTED;
        self.replaced.lock().is_some_and(is_over)
    }

    /// Returns whether a call of `tool` is short and only runs a guest; `None` if the reading has no such tool.
    pub(super) fn is_short(&self, tool: &str) -> Option<bool> {
        let known = self.known.get(tool)?;
        Some(known.reads && self.toolbox.find(tool).is_some_and(Entry::may_run_inline))
    }
}

/// Returns a tool as gates see it.
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

/// The subscriptions of a worker.
#[derive(Default)]
pub(super) struct Listening {
    /// Calls, by prefix and subject.
    calls: StreamMap<(String, String), Subscriber>,
    /// The tasks for all other messages, by prefix; they end on drop.
    others: HashMap<String, JoinSet<()>>,
}

impl Listening {
    /// Subscribes for the programs that `worker` runs calls of now, and unsubscribes from others.
    pub(super) async fn follow(&mut self, worker: &Arc<Worker>) -> Result<(), LinkError> {
        let bases = worker.readings.bases();
        let is_over = |base: &str| !bases.iter().any(|subjects| subjects.base() == base);
        self.others.retain(|base, _| !is_over(base));
        let over: Vec<_> = self.calls.keys().filter(|(base, _)| is_over(base)).cloned().collect();
        for key in &over {
            self.calls.remove(key);
        }
        for subjects in bases {
            if !self.others.contains_key(subjects.base()) {
                self.add(worker, &subjects).await?;
            }
        }
        Ok(())
    }

    async fn add(&mut self, worker: &Arc<Worker>, subjects: &Subjects) -> Result<(), LinkError> {
        let subscribe = async |subject: String| {
            let what = "a worker cannot listen";
            worker.link.client.subscribe(subject).await.map_err(|error| unusable(what, &error))
        };
        for label in worker.settings.labels.iter().map(Label::as_str).chain([ANY]) {
            let calls = subscribe(subjects.call(&worker.id, "*", label)).await?;
            self.calls.insert((subjects.base().to_owned(), label.to_owned()), calls);
        }
        let (asks, hellos) = (subscribe(subjects.ask(&worker.id)).await?, subscribe(subjects.hello()).await?);
        let mut others = JoinSet::new();
        others.spawn(worker.clone().answer_asks(asks));
        others.spawn(worker.clone().hear(hellos));
        self.others.insert(subjects.base().to_owned(), others);
        Ok(())
    }

    /// Returns the next call. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Message> {
        self.calls.next().await.map(|(_, message)| message)
    }

    /// Unsubscribes from calls; messages already under way still arrive.
    pub(super) async fn end(&mut self) {
        for calls in self.calls.values_mut() {
            let _ = calls.unsubscribe().await;
        }
    }
}
