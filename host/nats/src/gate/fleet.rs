//! The workers that a gate knows, and which of them gets a call: one that has the tool as the caller saw it, a label that
//! the tool lives on, and a place free. Calls wait in line for one, no longer than they may. It sends nothing itself.

mod member;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::sync::Lock;
use haft_manifest::Label;
use sha2::{Digest, Sha256};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use self::member::{Member, Offered};
use crate::message::{Beat, Known, WorkerId};
use crate::subjects::ANY;

/// How long a worker may be silent before the server is asked whether it is there itself: four of its beats. What is told
/// of a death comes within three seconds then.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// Calls that wait for a place; each has its arguments in memory.
const MAX_WAITING: usize = 1024;

/// How long a call waits for a place: a caller is told sooner than it gives up by itself.
const PLACE: Duration = Duration::from_secs(10);

/// How long a call waits where no worker has its tool: one may be starting again.
const WORKER: Duration = Duration::from_secs(3);

/// Workers of one program; more are passed over.
const MAX_WORKERS: usize = 1024;

/// Workers of one name: those that have ended and are not known to have yet, and those that a person called alike.
const MAX_NAMESAKES: usize = 16;

/// Bytes of what one worker says of its tools: some thousand tools.
pub(super) const MAX_TOOLS: usize = 8 << 20;

/// Bytes of what all workers say of them; what is the same of several is kept once.
const MAX_ALL_TOOLS: usize = 64 << 20;

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

struct Waiting {
    wanted: Wanted,
    place: oneshot::Sender<Lease>,
}

/// A place of a worker, given back when it is dropped.
pub(super) struct Lease {
    pub(super) worker: WorkerId,
    /// By which of its labels it was chosen.
    pub(super) label: String,
    /// Whether calls of the tool change nothing there.
    pub(super) reads: bool,
    /// Cancelled when the worker is gone.
    pub(super) gone: CancellationToken,
    fleet: Arc<Fleet>,
}

/// A worker with its labels, its places, those in use, and its tools.
pub(super) type Listed = (WorkerId, Vec<String>, u32, u32, Vec<Known>);

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
        if !inner.members.contains_key(&beat.worker) && !inner.has_room_for(&beat.worker) {
            return false;
        }
        let member = inner.members.entry(beat.worker.clone()).or_insert_with(|| Member::new(beat));
        member.heard(beat);
        let is_asked = member.is_to_be_asked(beat.revision);
        inner.serve(self);
        is_asked
    }

    /// Notes the labels that a worker has, and what it says of its tools.
    pub(super) fn has(self: &Arc<Self>, beat: &Beat, labels: HashSet<String>, text: &[u8]) {
        let Some(offered) = self.offered(text) else { return };
        let mut inner = self.inner.lock();
        let Some(member) = inner.members.get_mut(&beat.worker) else { return };
        (member.labels, member.tools, member.revision) = (labels, Some(offered), beat.revision);
        inner.serve(self);
        drop(inner);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// What a text says of tools: the same as is known of another worker, or something that there is room for.
    fn offered(&self, text: &[u8]) -> Option<Arc<Offered>> {
        let digest: [u8; 32] = Sha256::digest(text).into();
        let (mut all, mut size) = (HashSet::new(), text.len());
        for offered in self.inner.lock().members.values().filter_map(|member| member.tools.as_ref()) {
            if offered.digest == digest {
                return Some(offered.clone());
            }
            if all.insert(offered.digest) {
                size += offered.size;
            }
        }
        if size > MAX_ALL_TOOLS {
            tracing::warn!(
                "a worker is passed over: the workers of this program have too many different tools"
            );
            return None;
        }
        Offered::read(text, digest).map(Arc::new)
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

    /// Notes that a worker takes no calls, until it says something else.
    pub(super) fn takes_none(&self, worker: &WorkerId) {
        if let Some(member) = self.inner.lock().members.get_mut(worker) {
            member.is_leaving = true;
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

    /// The workers that have been silent for too long.
    pub(super) fn silent(&self) -> Vec<WorkerId> {
        let inner = self.inner.lock();
        let silent = inner.members.iter().filter(|(_, member)| member.seen.elapsed() > SILENCE);
        silent.map(|(worker, _)| worker.clone()).collect()
    }

    /// Gives them up.
    pub(super) fn sweep(&self) {
        let silent = self.silent();
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

    /// Whether no worker was met.
    pub(super) fn is_empty(&self) -> bool {
        self.inner.lock().members.is_empty()
    }

    /// The tools of workers with one of the labels `on` whose names `is_wanted` says; of tools of one name that differ the
    /// one that workers of most names have.
    pub(super) fn tools(&self, on: &[Label], is_wanted: impl Fn(&str) -> bool) -> Vec<Known> {
        let inner = self.inner.lock();
        let mut votes: HashMap<(&str, &str), (HashSet<&str>, &Known)> = HashMap::new();
        for (worker, member) in inner.members.iter().filter(|(_, member)| member.label(on).is_some()) {
            let newest =
                member.tools.iter().flat_map(|offered| offered.tools.values()).filter_map(|all| all.first());
            for tool in newest.filter(|tool| is_wanted(&tool.def.name)) {
                let vote = votes.entry((&tool.def.name, &tool.definition)).or_insert((HashSet::new(), tool));
                vote.0.insert(&worker.name);
            }
        }
        let mut best: HashMap<&str, (usize, &Known)> = HashMap::new();
        for ((name, definition), (voters, tool)) in votes {
            let vote = best.entry(name).or_insert((voters.len(), tool));
            if (voters.len(), definition) > (vote.0, &vote.1.definition) {
                *vote = (voters.len(), tool);
            }
        }
        let mut tools: Vec<Known> = best.into_values().map(|(_, tool)| tool.clone()).collect();
        tools.sort_by(|one, other| one.def.name.cmp(&other.def.name));
        tools
    }

    /// Places of the workers that have a tool as it is wanted.
    pub(super) fn places(&self, wanted: &Wanted) -> u32 {
        let inner = self.inner.lock();
        let able = inner.members.values().filter(|member| member.offers(wanted).is_some());
        able.map(|member| member.places).fold(0, u32::saturating_add)
    }

    /// Each worker with its labels, its places, those in use, and its tools.
    pub(super) fn list(&self) -> Vec<Listed> {
        let inner = self.inner.lock();
        let listed = inner.members.iter().map(|(worker, member)| {
            let tools =
                member.tools.iter().flat_map(|offered| offered.tools.values()).flatten().cloned().collect();
            let mut labels: Vec<String> = member.labels.iter().cloned().collect();
            labels.sort_unstable();
            (worker.clone(), labels, member.places, member.busy(), tools)
        });
        let mut listed: Vec<_> = listed.collect();
        listed.sort_by(|one, other| one.0.cmp(&other.0));
        listed
    }
}

impl Inner {
    /// Whether one more worker is let in.
    fn has_room_for(&self, worker: &WorkerId) -> bool {
        let namesakes = self.members.keys().filter(|own| own.name == worker.name).count();
        self.members.len() < MAX_WORKERS && namesakes < MAX_NAMESAKES
    }

    /// Takes a place for a call, if one is free.
    fn take(&mut self, fleet: &Arc<Fleet>, wanted: &Wanted) -> Option<Lease> {
        let able = self.members.iter_mut().filter(|(_, member)| member.has_place());
        let mut able: Vec<_> =
            able.filter_map(|(worker, member)| Some((member.offers(wanted)?, worker, member))).collect();
        let load = |member: &Member| (u64::from(member.busy()) << 16) / u64::from(member.places.max(1));
        let best = able.iter_mut().min_by_key(|(_, _, member)| (load(member), member.taken))?;
        let ((label, reads), worker, member) = (best.0, best.1.clone(), &mut best.2);
        let label = token(wanted.on.get(label)?).to_owned();
        self.taken += 1;
        (member.taken, member.own) = (self.taken, member.own + 1);
        let gone = member.gone.clone();
        Some(Lease { worker, label, reads, gone, fleet: fleet.clone() })
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

/// What stands for a label in subjects.
fn token(label: &Label) -> &str {
    if label.is_any() { ANY } else { label.as_str() }
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
