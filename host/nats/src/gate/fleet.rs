//! The workers that a gate knows, and which of them gets a call: one that has the tool as the caller saw it, a label that
//! the tool lives on, and a place free. Calls wait in line for one, no longer than they may. It sends nothing itself.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::manifest::Label;
use haft_core::sync::Lock;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::message::{Beat, Known, WorkerId};

/// How long a worker may be silent: five of its beats. What is told of a death comes within three seconds then.
pub(super) const SILENCE: Duration = Duration::from_millis(2500);

/// Calls that wait for a place; each has its arguments in memory.
const MAX_WAITING: usize = 1024;

/// How long a call waits for a place: a caller is told sooner than it gives up by itself.
const PLACE: Duration = Duration::from_secs(10);

/// How long a call waits where no worker has its tool: one may be starting again.
const WORKER: Duration = Duration::from_secs(3);

/// Workers of one program; more are passed over.
const MAX_WORKERS: usize = 1024;

/// What a call needs.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) tool: String,
    pub(super) definition: String,
    pub(super) on: Arc<[Label]>,
}

/// The workers of one program.
#[derive(Default)]
pub(super) struct Fleet {
    inner: Lock<Inner>,
    /// How often the tools of the workers have changed.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    members: HashMap<WorkerId, Member>,
    waiting: VecDeque<Waiting>,
    /// Counts up: of equal workers the one is taken that was taken longest ago.
    taken: u64,
}

struct Member {
    labels: Vec<Label>,
    places: u32,
    /// Places that others use, as the worker told last.
    others: u32,
    /// Calls that this gate has there.
    own: u32,
    /// It said that it is full: no call goes there before it says something else.
    is_full: bool,
    is_leaving: bool,
    tools: Option<Arc<HashMap<String, Known>>>,
    seen: Instant,
    taken: u64,
    gone: CancellationToken,
}

struct Waiting {
    wanted: Wanted,
    place: oneshot::Sender<Lease>,
}

/// A place of a worker, given back when it is dropped.
pub(super) struct Lease {
    pub(super) worker: WorkerId,
    /// Whether calls of the tool change nothing there.
    pub(super) reads: bool,
    /// Cancelled when the worker is gone.
    pub(super) gone: CancellationToken,
    fleet: Arc<Fleet>,
}

/// A worker with its labels, its places, those in use, and its tools.
pub(super) type Listed = (WorkerId, Vec<Label>, u32, u32, Vec<Known>);

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// No worker has the tool.
    NoWorker,
    /// Those that have it are full: as many.
    Full(usize),
    /// Too many calls wait already.
    TooMany,
}

impl Fleet {
    /// Takes a place for a call, waiting for one where there is none.
    pub(super) async fn lease(self: &Arc<Self>, wanted: &Wanted) -> Result<Lease, NoPlace> {
        let (sender, mut receiver) = oneshot::channel();
        {
            let mut inner = self.inner.lock();
            if let Some(lease) = inner.take(self, wanted) {
                return Ok(lease);
            }
            inner.waiting.retain(|waiting| !waiting.place.is_closed());
            if inner.waiting.len() >= MAX_WAITING {
                return Err(NoPlace::TooMany);
            }
            inner.waiting.push_back(Waiting { wanted: wanted.clone(), place: sender });
        }
        if let Ok(Ok(lease)) = tokio::time::timeout(WORKER, &mut receiver).await {
            return Ok(lease);
        }
        if self.inner.lock().able(wanted) == 0 {
            return Err(NoPlace::NoWorker);
        }
        match tokio::time::timeout(PLACE.saturating_sub(WORKER), receiver).await {
            Ok(Ok(lease)) => Ok(lease),
            _ => Err(NoPlace::Full(self.inner.lock().able(wanted))),
        }
    }

    /// Notes that a worker lives; whether it has to be asked what it has.
    pub(super) fn beat(self: &Arc<Self>, beat: &Beat) -> bool {
        let mut inner = self.inner.lock();
        if !inner.members.contains_key(&beat.worker) && inner.members.len() >= MAX_WORKERS {
            return false;
        }
        let member = inner.members.entry(beat.worker.clone()).or_insert_with(|| Member::new(beat));
        member.heard(beat);
        let is_unknown = member.tools.is_none();
        inner.serve(self);
        is_unknown
    }

    /// Notes what a worker has.
    pub(super) fn has(self: &Arc<Self>, worker: &WorkerId, tools: Vec<Known>) {
        let mut inner = self.inner.lock();
        let Some(member) = inner.members.get_mut(worker) else { return };
        let tools = tools.into_iter().map(|tool| (tool.def.name.clone(), tool)).collect();
        member.tools = Some(Arc::new(tools));
        inner.serve(self);
        drop(inner);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Notes how many places of a worker are in use, all gates' calls together and the answered one left out.
    pub(super) fn told(self: &Arc<Self>, worker: &WorkerId, busy: u32) {
        let mut inner = self.inner.lock();
        if let Some(member) = inner.members.get_mut(worker) {
            // The answered call still counts as its own here.
            member.others = busy.saturating_sub(member.own.saturating_sub(1));
            member.is_full = false;
        }
    }

    /// Notes that a worker refused a call since all its places are in use.
    pub(super) fn is_full(&self, worker: &WorkerId) {
        if let Some(member) = self.inner.lock().members.get_mut(worker) {
            member.is_full = true;
        }
    }

    /// Notes that a worker is gone: its calls hear of it.
    pub(super) fn gone(&self, is_gone: impl Fn(&WorkerId) -> bool) {
        let mut inner = self.inner.lock();
        let before = inner.members.len();
        inner.members.retain(|worker, member| {
            let goes = is_gone(worker);
            if goes {
                member.gone.cancel();
            }
            !goes
        });
        let has_changed = inner.members.len() != before;
        drop(inner);
        if has_changed {
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// Gives up the workers that have been silent for too long.
    pub(super) fn sweep(&self) {
        let silent: Vec<WorkerId> = {
            let inner = self.inner.lock();
            let silent = inner.members.iter().filter(|(_, member)| member.seen.elapsed() > SILENCE);
            silent.map(|(worker, _)| worker.clone()).collect()
        };
        if !silent.is_empty() {
            self.gone(|worker| silent.contains(worker));
        }
    }

    /// Begins to count silence anew: this process heard nothing for reasons of its own.
    pub(super) fn was_deaf(&self) {
        self.inner.lock().members.values_mut().for_each(|member| member.seen = Instant::now());
    }

    /// How often the tools of the workers have changed.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The tools of workers with one of the labels `on` whose names `is_wanted` says; of tools of one name that differ the
    /// one that most workers have.
    pub(super) fn tools(&self, on: &[Label], is_wanted: impl Fn(&str) -> bool) -> Vec<Known> {
        let inner = self.inner.lock();
        let able = inner.members.values().filter(|member| Label::are_met(on, &member.labels));
        let mut votes: HashMap<(&str, &str), (usize, &Known)> = HashMap::new();
        for tool in able.filter_map(|member| member.tools.as_deref()).flat_map(HashMap::values) {
            if is_wanted(&tool.def.name) {
                votes.entry((&tool.def.name, &tool.definition)).or_insert((0, tool)).0 += 1;
            }
        }
        let mut best: HashMap<&str, (usize, &Known)> = HashMap::new();
        for ((name, definition), (count, tool)) in votes {
            let vote = best.entry(name).or_insert((count, tool));
            if (count, definition) > (vote.0, &vote.1.definition) {
                *vote = (count, tool);
            }
        }
        let mut tools: Vec<Known> = best.into_values().map(|(_, tool)| tool.clone()).collect();
        tools.sort_by(|one, other| one.def.name.cmp(&other.def.name));
        tools
    }

    /// Each worker with its labels, its places, those in use, and its tools.
    pub(super) fn list(&self) -> Vec<Listed> {
        let inner = self.inner.lock();
        let listed = inner.members.iter().map(|(worker, member)| {
            let tools = member.tools.as_deref().into_iter().flat_map(HashMap::values).cloned().collect();
            (worker.clone(), member.labels.clone(), member.places, member.busy(), tools)
        });
        let mut listed: Vec<_> = listed.collect();
        listed.sort_by(|one, other| one.0.cmp(&other.0));
        listed
    }
}

impl Inner {
    /// Takes a place for a call, if one is free.
    fn take(&mut self, fleet: &Arc<Fleet>, wanted: &Wanted) -> Option<Lease> {
        let able = self.members.iter_mut().filter(|(_, member)| member.has_place());
        let mut able: Vec<_> =
            able.filter_map(|(worker, member)| Some((member.offers(wanted)?, worker, member))).collect();
        let load = |member: &Member| (u64::from(member.busy()) << 16) / u64::from(member.places.max(1));
        let best = able.iter_mut().min_by_key(|(_, _, member)| (load(member), member.taken))?;
        let (reads, worker, member) = (best.0, best.1.clone(), &mut best.2);
        self.taken += 1;
        (member.taken, member.own) = (self.taken, member.own + 1);
        let gone = member.gone.clone();
        Some(Lease { worker, reads, gone, fleet: fleet.clone() })
    }

    /// Hands out places to the calls that wait, the oldest first.
    fn serve(&mut self, fleet: &Arc<Fleet>) {
        let mut still = VecDeque::new();
        // Mostly one place is free: once it is taken, there is no need to look at those that wait behind.
        while self.members.values().any(Member::has_place)
            && let Some(waiting) = self.waiting.pop_front()
        {
            if waiting.place.is_closed() {
                continue;
            }
            match self.take(fleet, &waiting.wanted) {
                // Whoever stopped waiting in this moment gives the place back by dropping it, which is not done here:
                // the fleet is locked.
                Some(lease) => {
                    if let Err(mut lease) = waiting.place.send(lease) {
                        self.give_back(&lease.worker);
                        lease.forget();
                    }
                }
                None => still.push_back(waiting),
            }
        }
        still.append(&mut self.waiting);
        self.waiting = still;
    }

    fn give_back(&mut self, worker: &WorkerId) {
        if let Some(member) = self.members.get_mut(worker) {
            member.own = member.own.saturating_sub(1);
        }
    }

    /// How many workers could run such a call, had they a place.
    fn able(&self, wanted: &Wanted) -> usize {
        self.members.values().filter(|member| member.offers(wanted).is_some()).count()
    }
}

impl Member {
    fn new(beat: &Beat) -> Self {
        Self {
            labels: Vec::new(),
            places: beat.places,
            others: 0,
            own: 0,
            is_full: false,
            is_leaving: false,
            tools: None,
            seen: Instant::now(),
            taken: 0,
            gone: CancellationToken::new(),
        }
    }

    fn heard(&mut self, beat: &Beat) {
        self.labels = beat.labels.iter().filter_map(|label| label.parse().ok()).collect();
        self.places = beat.places;
        self.others = beat.busy.saturating_sub(self.own);
        self.is_full = beat.busy >= beat.places;
        self.is_leaving = beat.leaving;
        self.seen = Instant::now();
    }

    fn busy(&self) -> u32 {
        self.own.saturating_add(self.others)
    }

    fn has_place(&self) -> bool {
        !self.is_full && self.busy() < self.places
    }

    /// Whether it has what is wanted; whether that only reads.
    fn offers(&self, wanted: &Wanted) -> Option<bool> {
        if self.is_leaving || !Label::are_met(&wanted.on, &self.labels) {
            return None;
        }
        let own = self.tools.as_ref()?.get(&wanted.tool)?;
        (own.definition == wanted.definition).then_some(own.reads)
    }
}

impl Lease {
    /// Gives nothing back when it is dropped.
    fn forget(&mut self) {
        self.worker.instance.clear();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.worker.instance.is_empty() {
            return;
        }
        let fleet = self.fleet.clone();
        let mut inner = fleet.inner.lock();
        inner.give_back(&self.worker);
        if !inner.waiting.is_empty() {
            inner.serve(&fleet);
        }
    }
}

#[cfg(test)]
mod tests;
