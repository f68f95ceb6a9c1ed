//! The readings of its program that a worker runs calls of: the last one, and earlier ones for as long as gates want what
//! they alone have. So a program can change at gates and workers in any order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use haft_core::sync::Lock;
use haft_core::tool::{Entry, Session, Toolbox};

use crate::identity::{Identity, definition};
use crate::message::Known;
use crate::subjects::Subjects;

/// Readings at one time, each with its components in memory; the oldest goes.
const MAX: usize = 4;

/// How long an earlier reading stays that no gate wants: three times as long as gates take to say so ([`GREETING`]).
///
/// [`GREETING`]: crate::gate::GREETING
const UNWANTED: Duration = Duration::from_mins(1);

/// How long one stays at most: a change that takes rights away is whole by then.
const OVERLAP: Duration = Duration::from_hours(1);

/// What a worker runs calls with: a program as it was read.
#[derive(Debug)]
pub struct Reading {
    /// What gates have to agree on.
    pub identity: Identity,
    /// Its tools.
    pub toolbox: Toolbox,
    /// What each call's session is like.
    pub session: Session,
}

/// A reading with what is known of it.
pub(super) struct Read {
    pub(super) toolbox: Toolbox,
    pub(super) session: Session,
    pub(super) subjects: Subjects,
    /// Its tools as gates are told, by name.
    pub(super) known: HashMap<String, Known>,
    /// When the next one came, and when a gate last wanted what this one alone has.
    replaced: Lock<Option<(Instant, Instant)>>,
}

/// The readings, the last one first.
pub(super) struct Readings {
    all: Lock<Vec<Arc<Read>>>,
    /// Changes with what gates are told.
    revision: AtomicU64,
}

impl Readings {
    pub(super) fn new(first: Reading, prefix: &str) -> Self {
        Self { all: Lock::new(vec![Arc::new(Read::new(first, prefix))]), revision: AtomicU64::new(0) }
    }

    /// Takes a new one, the last from now on. Whether it has other tools than the one before.
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

    /// The last one.
    pub(super) fn last(&self) -> Option<Arc<Read>> {
        self.all.lock().first().cloned()
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }

    /// What the subjects of each begin with, once.
    pub(super) fn bases(&self) -> Vec<Subjects> {
        let mut bases: Vec<Subjects> = Vec::new();
        for read in self.all.lock().iter() {
            if !bases.contains(&read.subjects) {
                bases.push(read.subjects.clone());
            }
        }
        bases
    }

    /// Those whose subjects begin so, the last one first.
    pub(super) fn of(&self, base: &str) -> Vec<Arc<Read>> {
        self.all.lock().iter().filter(|read| read.subjects.base() == base).cloned().collect()
    }

    /// All tools of those, each definition once; of a name the newest first.
    pub(super) fn tools(&self, base: &str) -> Vec<Known> {
        let (mut tools, mut seen): (Vec<Known>, HashSet<String>) = Default::default();
        for read in self.of(base) {
            tools.extend(read.known.values().filter(|tool| seen.insert(tool.definition.clone())).cloned());
        }
        // Of workers that have the same the text is the same.
        tools.sort_by(|one, other| one.def.name.cmp(&other.def.name));
        tools
    }

    /// Notes that a gate is there that wants these definitions; of one that does not say, that it wants all.
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

    /// Begins to count anew how long nothing was wanted: nothing could be heard.
    pub(super) fn was_deaf(&self) {
        self.all.lock().iter().for_each(|read| read.is_wanted());
    }

    /// Gives up those that no gate wants any more; whether there were any.
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

    /// Whether a call of `tool` takes no time and nothing but a guest; nothing where it has none of that name.
    pub(super) fn is_short(&self, tool: &str) -> Option<bool> {
        let known = self.known.get(tool)?;
        Some(known.reads && self.toolbox.find(tool).is_some_and(Entry::may_run_inline))
    }
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
