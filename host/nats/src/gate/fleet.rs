//! The workers that a gate knows, and the choice of a worker for a call: it has the tool with the caller's
//! definition, a label of the tool, and a free place. Calls queue for a place for a bounded time. Sends no message
//! itself.

mod member;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::sync::Lock;
use haft_manifest::Label;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use self::member::{Member, Offered};
use crate::message::{Beat, Known, WorkerId};
use crate::subjects::ANY;

/// Maximum silence of a worker before the server is asked whether the worker is available: four beats. A death is
/// then reported within three seconds.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// The maximum number of queued calls; each holds its arguments in memory.
const MAX_WAITING: usize = 1024;

/// Time limit of a call's wait for a place: shorter than a caller's own limit.
const PLACE: Duration = Duration::from_secs(10);

/// Time limit of a call's wait if no worker has its tool, because a worker may be restarting.
const WORKER: Duration = Duration::from_secs(3);

/// The maximum number of workers of a program; more are ignored.
const MAX_WORKERS: usize = 1024;

/// The maximum number of workers with one name: workers that have ended without notice, and workers with the same
/// configured name.
const MAX_NAMESAKES: usize = 16;

/// The maximum size of the tool list of one worker in bytes: some thousand tools.
pub(super) const MAX_TOOLS: usize = 8 << 20;

/// The maximum size of all tool lists in bytes; equal lists are stored once.
const MAX_ALL_TOOLS: usize = 64 << 20;

/// The tool that a call needs.
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
    /// Counts the changes of the workers' tools.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    members: HashMap<WorkerId, Member>,
    waiting: VecDeque<Waiting>,
    /// A counter: of equally loaded workers, the one used least recently is chosen.
    taken: u64,
}

struct Waiting {
    wanted: Wanted,
    place: oneshot::Sender<Lease>,
}

/// A place of a worker, released on drop.
pub(super) struct Lease {
    pub(super) worker: WorkerId,
    /// The label that selected the worker.
    pub(super) label: String,
    /// Whether calls of the tool change nothing at that worker.
    pub(super) reads: bool,
    /// Cancelled when the worker is gone.
    pub(super) gone: CancellationToken,
    fleet: Arc<Fleet>,
}

/// The state of a worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerHealth {
    /// The name.
    pub name: String,
    /// The labels.
    pub labels: Vec<String>,
    /// The maximum number of concurrent calls.
    pub places: u32,
    /// The number of used places.
    pub busy: u32,
    /// The names of the tools.
    pub tools: Vec<String>,
}

/// The reason why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// No worker has the tool.
    NoWorker,
    /// All workers with the tool are full; their number.
    Full(usize),
    /// Too many calls are queued already.
    TooMany,
}

impl Fleet {
    /// Takes a place for a call, and waits for one if none is free.
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

    /// Records a beat of a worker; returns whether the worker must be asked for its tools.
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

    /// Records the labels and the tool list of a worker.
    pub(super) fn has(self: &Arc<Self>, beat: &Beat, labels: HashSet<String>, text: &[u8]) {
        let Some(offered) = self.offered(text) else { return };
        let mut inner = self.inner.lock();
        let Some(member) = inner.members.get_mut(&beat.worker) else { return };
        (member.labels, member.tools, member.revision) = (labels, Some(offered), beat.revision);
        inner.serve(self);
        drop(inner);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Parses a tool list, or returns the equal list of another worker; `None` if it is invalid or exceeds the
    /// limit.
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
            tracing::warn!("skipped a worker: the workers of this program have too many different tools");
            return None;
        }
        Offered::read(text, digest).map(Arc::new)
    }

    /// Records how many places of a worker are in use, for all gates and without the answered call.
    pub(super) fn told(self: &Arc<Self>, worker: &WorkerId, busy: u32) {
        let mut inner = self.inner.lock();
        if let Some(member) = inner.members.get_mut(worker) {
            // The answered call is still counted in `own`.
            member.others = busy.saturating_sub(member.own.saturating_sub(1));
            member.is_full = false;
        }
    }

    /// Records that a worker rejected a call because all its places are in use.
    pub(super) fn is_full(&self, worker: &WorkerId) {
        if let Some(member) = self.inner.lock().members.get_mut(worker) {
            member.is_full = true;
        }
    }

    /// Records that a worker takes no calls until its next message.
    pub(super) fn takes_none(&self, worker: &WorkerId) {
        if let Some(member) = self.inner.lock().members.get_mut(worker) {
            member.is_leaving = true;
        }
    }

    /// Removes workers that are gone, and cancels their calls.
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

    /// Returns the workers that have been silent for too long.
    pub(super) fn silent(&self) -> Vec<WorkerId> {
        let inner = self.inner.lock();
        let silent = inner.members.iter().filter(|(_, member)| member.seen.elapsed() > SILENCE);
        silent.map(|(worker, _)| worker.clone()).collect()
    }

    pub(super) fn sweep(&self) {
        let silent = self.silent();
        if !silent.is_empty() {
            self.gone(|worker| silent.contains(worker));
        }
    }

    /// Restarts the measurement of silence, after a time in which this process could receive nothing.
    pub(super) fn was_deaf(&self) {
        self.inner.lock().members.values_mut().for_each(|member| member.seen = Instant::now());
    }

    /// Returns the counter of changes to the workers' tools.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inner.lock().members.is_empty()
    }

    /// Returns the tools of workers with one of the labels `on` whose names `is_wanted` accepts; of different tools
    /// with one name, the one offered under most worker names.
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
        tools.sort_by(|first, second| first.def.name.cmp(&second.def.name));
        tools
    }

    /// Returns the number of places at workers with the wanted tool.
    pub(super) fn places(&self, wanted: &Wanted) -> u32 {
        let inner = self.inner.lock();
        let able = inner.members.values().filter(|member| member.offers(wanted).is_some());
        able.map(|member| member.places).fold(0, u32::saturating_add)
    }

    /// Returns the workers, sorted by name and process.
    pub(super) fn list(&self) -> Vec<WorkerHealth> {
        let inner = self.inner.lock();
        let mut members: Vec<_> = inner.members.iter().collect();
        members.sort_by_key(|(worker, _)| *worker);
        let listed = members.into_iter().map(|(worker, member)| {
            let tools = member.tools.iter().flat_map(|offered| offered.tools.keys());
            let tools: BTreeSet<String> = tools.cloned().collect();
            let labels = member.labels.iter().filter(|label| *label != ANY);
            let labels: BTreeSet<String> = labels.cloned().collect();
            WorkerHealth {
                name: worker.name.clone(),
                labels: labels.into_iter().collect(),
                places: member.places,
                busy: member.busy(),
                tools: tools.into_iter().collect(),
            }
        });
        listed.collect()
    }
}

impl Inner {
    fn has_room_for(&self, worker: &WorkerId) -> bool {
        let namesakes = self.members.keys().filter(|known| known.name == worker.name).count();
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

    /// Assigns free places to queued calls, oldest first.
    fn serve(&mut self, fleet: &Arc<Fleet>) {
        let mut still = VecDeque::new();
        // Usually one place is free: once it is taken, the rest of the queue need not be checked.
        while self.members.values().any(Member::has_place)
            && let Some(waiting) = self.waiting.pop_front()
        {
            if waiting.place.is_closed() {
                continue;
            }
            match self.take(fleet, &waiting.wanted) {
                // The receiver may stop waiting at this moment. Dropping the lease would lock the fleet, which is
                // locked here, so the place is released directly.
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

    /// Returns the number of workers that could run the call if they had a free place.
    fn able(&self, wanted: &Wanted) -> usize {
        self.members.values().filter(|member| member.offers(wanted).is_some()).count()
    }
}

/// Returns the form of a label in subjects.
fn token(label: &Label) -> &str {
    if label.is_any() { ANY } else { label.as_str() }
}

impl Lease {
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
