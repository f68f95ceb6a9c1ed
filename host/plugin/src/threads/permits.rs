//! Permits to run a guest: a bounded number of concurrent guests, shared between plugins and clients so
//! that none starves another. Further calls wait in a bounded queue, each at most for its own time limit.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use haft_core::sync::Lock;
use haft_core::tool::Client;

/// Maximum number of concurrent guests. Each holds a thread, a memory and a few file descriptors. One client of one
/// plugin gets at most a third.
pub(crate) const MAX_GUESTS: usize = 64;

/// Maximum number of waiting calls. Each of the sessions served by default (2,048) may have one call of one plugin,
/// which gets less than half of the places.
const MAX_WAITING: usize = 4608;

/// Maximum size in bytes of the arguments of all waiting calls.
const MAX_WAITING_BYTES: usize = 256 << 20;

/// Maximum number of waiting calls of one client of one plugin. Each holds its arguments.
const MAX_OF_ONE: usize = 256;

/// The permits of an engine. Clones share them.
#[derive(Clone)]
pub(crate) struct Permits(Arc<Lock<Queue>>);

struct Queue {
    running: Shares,
    waiting: Shares,
    /// The waiting calls, in the order of their numbers.
    waiters: VecDeque<Waiter>,
    bytes: usize,
    next: u64,
}

struct Waiter {
    number: u64,
    tenant: Tenant,
    bytes: usize,
    sender: oneshot::Sender<Permit>,
}

/// A guest's permit to run, until it is dropped.
pub(crate) struct Permit {
    permits: Permits,
    tenant: Tenant,
}

/// The reason why a call gets no permit; the text follows the tool's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoPermit {
    #[error("was cancelled while it waited for other calls")]
    Cancelled,
    #[error(
        "timed out after {time:?}: it waited for {running} calls of its plugin, which is the limit for one \
         plugin"
    )]
    Busy { running: usize, time: Duration },
    #[error(
        "did not run: {waiting} calls of its plugin are already waiting; call again when some of them \
        have ended"
    )]
    Crowded { waiting: usize },
    #[error("did not run: the arguments of the waiting calls already use {} MiB; call again when some of \
        them have ended", MAX_WAITING_BYTES >> 20)]
    Full,
}

impl Default for Permits {
    fn default() -> Self {
        let (running, waiting) = (Shares::new(MAX_GUESTS), Shares::new(MAX_WAITING));
        Self(Arc::new(Lock::new(Queue { running, waiting, waiters: VecDeque::new(), bytes: 0, next: 0 })))
    }
}

impl Permits {
    /// Waits until the tenant may run one more guest, for at most `time`. The waiting call holds `bytes` bytes.
    pub(crate) async fn acquire(
        &self,
        tenant: Tenant,
        bytes: impl FnOnce() -> usize,
        time: Duration,
        cancel: &CancellationToken,
    ) -> Result<Permit, NoPermit> {
        if self.0.lock().take_free(tenant) {
            return Ok(Permit { permits: self.clone(), tenant });
        }
        // Without the lock, because the arguments may have some MiB.
        let bytes = bytes();
        let (number, receiver) = {
            let mut queue = self.0.lock();
            if queue.take_free(tenant) {
                return Ok(Permit { permits: self.clone(), tenant });
            }
            queue.enter(tenant, bytes)?
        };
        let _waits = QueuedWait { permits: self, number };
        tokio::select! {
            biased;
            // The sender lives in the queue as long as this wait does.
            permit = receiver => permit.map_err(|_| NoPermit::Cancelled),
            () = cancel.cancelled() => Err(NoPermit::Cancelled),
            () = tokio::time::sleep(time) => Err(NoPermit::Busy { running: self.0.lock().running.has(tenant), time }),
        }
    }

    fn grant_waiting(&self) {
        let ready = self.0.lock().ready();
        for waiter in ready {
            // If the receiver was dropped, the permit is dropped too, and thereby returned.
            drop(waiter.sender.send(Permit { permits: self.clone(), tenant: waiter.tenant }));
        }
    }
}

impl Queue {
    /// Takes a free permit for a tenant without a waiting call, so that its calls stay in order.
    fn take_free(&mut self, tenant: Tenant) -> bool {
        self.waiting.has(tenant) == 0 && self.running.take(tenant)
    }

    fn enter(&mut self, tenant: Tenant, bytes: usize) -> Result<(u64, oneshot::Receiver<Permit>), NoPermit> {
        if self.bytes.saturating_add(bytes) > MAX_WAITING_BYTES {
            return Err(NoPermit::Full);
        }
        if self.waiting.has(tenant) >= MAX_OF_ONE || !self.waiting.take(tenant) {
            return Err(NoPermit::Crowded { waiting: self.waiting.of_plugin(tenant.plugin) });
        }
        let (sender, receiver) = oneshot::channel();
        let number = self.next;
        self.next += 1;
        self.bytes += bytes;
        self.waiters.push_back(Waiter { number, tenant, bytes, sender });
        Ok((number, receiver))
    }

    /// Removes from the queue the calls that have a permit now.
    fn ready(&mut self) -> Vec<Waiter> {
        // A tenant without a permit now gets none before the next return, which preserves its order. A plugin with too
        // many permits gets none for any tenant. The search ends once every plugin is refused.
        let (mut refused, mut refused_plugins) = (HashSet::new(), HashSet::new());
        let (mut ready, mut at) = (Vec::new(), 0);
        while refused_plugins.len() < self.waiting.plugins()
            && let Some(tenant) = self.waiters.get(at).map(|waiter| waiter.tenant)
        {
            if refused_plugins.contains(&tenant.plugin) || refused.contains(&tenant) {
                at += 1;
            } else if self.running.take(tenant) {
                ready.extend(self.remove(at));
            } else {
                let is_full = self.running.is_full(tenant.plugin);
                if is_full {
                    refused_plugins.insert(tenant.plugin)
                } else {
                    refused.insert(tenant)
                };
                at += 1;
            }
        }
        ready
    }

    fn leave(&mut self, number: u64) {
        if let Ok(at) = self.waiters.binary_search_by_key(&number, |waiter| waiter.number) {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: usize) -> Option<Waiter> {
        let waiter = self.waiters.remove(at)?;
        self.waiting.give_back(waiter.tenant);
        self.bytes -= waiter.bytes;
        Some(waiter)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.0.lock().running.give_back(self.tenant);
        self.permits.grant_waiting();
    }
}

/// A queued call, which leaves the queue at its drop.
struct QueuedWait<'a> {
    permits: &'a Permits,
    number: u64,
}

impl Drop for QueuedWait<'_> {
    fn drop(&mut self) {
        self.permits.0.lock().leave(self.number);
    }
}

/// The unit of sharing: one client's use of one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tenant {
    pub(crate) plugin: u64,
    pub(crate) client: Client,
}

impl Tenant {
    /// haft itself, which asks plugins for their tools.
    pub(crate) const HAFT: Self = Self { plugin: 0, client: Client::HAFT };

    /// Returns a number that no other plugin has.
    pub(crate) fn plugin() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

/// The number of free permits, and the number of each tenant.
#[derive(Debug)]
pub(crate) struct Shares {
    free: usize,
    /// No count is zero, so that the number of entries is bounded.
    taken: HashMap<Tenant, usize>,
    /// The sums by plugin and by client.
    of_plugins: HashMap<u64, usize>,
    of_clients: HashMap<Client, usize>,
}

impl Shares {
    pub(crate) fn new(count: usize) -> Self {
        let (taken, of_plugins, of_clients) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { free: count, taken, of_plugins, of_clients }
    }

    /// Takes one permit, if enough remain for others: the free ones must exceed the tenant's own plus all of its
    /// plugin or its client, whichever has more. One client of one plugin thus gets a third of all, and a plugin or
    /// a client less than half. A tenant without a permit gets one while any is free: the more tenants, the fewer
    /// each may have. (Dynamic thresholds, as switches use them for their buffers: Choudhury and Hahne, 1998.)
    pub(crate) fn take(&mut self, tenant: Tenant) -> bool {
        let of_client = self.of_clients.get(&tenant.client).copied().unwrap_or_default();
        let admits = self.has(tenant) + self.of_plugin(tenant.plugin).max(of_client) < self.free;
        if admits {
            self.free -= 1;
            *self.taken.entry(tenant).or_default() += 1;
            *self.of_plugins.entry(tenant.plugin).or_default() += 1;
            *self.of_clients.entry(tenant.client).or_default() += 1;
        }
        admits
    }

    pub(crate) fn give_back(&mut self, tenant: Tenant) {
        if take_one(&mut self.taken, tenant) {
            take_one(&mut self.of_plugins, tenant.plugin);
            take_one(&mut self.of_clients, tenant.client);
            self.free += 1;
        }
    }

    /// Returns whether every tenant of the plugin would be refused now, even a tenant without a permit.
    pub(crate) fn is_full(&self, plugin: u64) -> bool {
        self.of_plugin(plugin) >= self.free
    }

    pub(crate) fn of_plugin(&self, plugin: u64) -> usize {
        self.of_plugins.get(&plugin).copied().unwrap_or_default()
    }

    pub(crate) fn plugins(&self) -> usize {
        self.of_plugins.len()
    }

    pub(crate) fn has(&self, tenant: Tenant) -> usize {
        self.taken.get(&tenant).copied().unwrap_or_default()
    }
}

/// Takes one from a count, and removes a count of zero. Returns whether there was one.
fn take_one<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K) -> bool {
    let Entry::Occupied(mut count) = counts.entry(key) else { return false };
    *count.get_mut() -= 1;
    if *count.get() == 0 {
        count.remove();
    }
    true
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    const LONG: Duration = Duration::from_mins(5);

    type PermitResult = Result<Permit, NoPermit>;

    fn tenant(plugin: u64) -> Tenant {
        Tenant { plugin, client: Client::default() }
    }

    async fn acquire(permits: &Permits, plugin: u64, time: Duration) -> PermitResult {
        permits.acquire(tenant(plugin), || 0, time, &CancellationToken::new()).await
    }

    fn now(waiting: Pin<&mut impl Future<Output = PermitResult>>) -> Option<PermitResult> {
        match waiting.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    fn all(permits: &Permits, plugin: u64) -> Vec<Permit> {
        std::iter::from_fn(|| now(pin!(acquire(permits, plugin, LONG)))?.ok()).collect()
    }

    /// S08: waiting calls get permits in turn, and do not delay another plugin's calls.
    #[tokio::test]
    async fn places_are_handed_on_in_turn() {
        let permits = Permits::default();
        let mut taken = all(&permits, 1);
        assert_eq!(taken.len(), 22);
        let (mut first, mut second) =
            (Box::pin(acquire(&permits, 1, LONG)), Box::pin(acquire(&permits, 1, LONG)));
        assert!(now(first.as_mut()).is_none() && now(second.as_mut()).is_none());
        let other = now(pin!(acquire(&permits, 2, LONG)));
        assert!(matches!(other, Some(Ok(_))));
        drop(other);
        taken.pop();
        assert!(now(second.as_mut()).is_none(), "whoever came first goes first");
        let result = now(first.as_mut());
        assert!(matches!(result, Some(Ok(_))));
        drop(result);
        assert!(matches!(now(second.as_mut()), Some(Ok(_))));
        drop((first, second, taken));
        let queue = permits.0.lock();
        assert_eq!(
            (queue.running.has(tenant(1)), queue.waiting.has(tenant(1)), queue.waiters.len()),
            (0, 0, 0)
        );
    }

    /// S08: the queue is bounded, and so is the wait.
    #[tokio::test]
    async fn waiting_is_bounded() {
        let permits = Permits::default();
        let _taken = all(&permits, 1);
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..300 {
            let permits = permits.clone();
            waiting.spawn(async move { acquire(&permits, 1, Duration::from_millis(50)).await.err() });
        }
        let ends = waiting.join_all().await;
        let count = |is: fn(&NoPermit) -> bool| ends.iter().flatten().filter(|end| is(end)).count();
        assert_eq!(count(|end| matches!(end, NoPermit::Crowded { waiting: 256 })), 300 - 256);
        assert_eq!(count(|end| matches!(end, NoPermit::Busy { running: 22, .. })), 256);
        assert!(permits.0.lock().waiters.is_empty(), "nobody is left in the queue");
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert_eq!(permits.acquire(tenant(1), || 0, LONG, &cancel).await.err(), Some(NoPermit::Cancelled));
    }

    /// C05: with a call of each session's client, every call of one plugin is served, and another plugin's too.
    #[tokio::test]
    async fn a_call_of_each_of_two_thousand_clients_is_served() {
        let permits = Permits::default();
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..2048 {
            let (permits, client) = (permits.clone(), Client::another());
            calls.spawn(async move {
                let tenant = Tenant { plugin: 1 + number % 128 / 127, client };
                let permit = permits.acquire(tenant, || 0, LONG, &CancellationToken::new()).await?;
                tokio::task::yield_now().await;
                drop(permit);
                Ok::<_, NoPermit>(())
            });
        }
        assert!(calls.join_all().await.into_iter().all(|served| served == Ok(())));
        let queue = permits.0.lock();
        assert_eq!((queue.waiters.len(), queue.waiting.plugins(), queue.running.plugins()), (0, 0, 0));
    }

    /// S08: waiting calls have a limit on their bytes, and count as long as they wait.
    #[tokio::test]
    async fn arguments_of_calls_that_wait_are_bounded() {
        let permits = Permits::default();
        let taken = all(&permits, 1);
        let (cancel, half) = (CancellationToken::new(), MAX_WAITING_BYTES / 2);
        let acquire = |bytes: usize| Box::pin(permits.acquire(tenant(1), move || bytes, LONG, &cancel));
        let (mut first, mut second) = (acquire(half), acquire(half));
        assert!(now(first.as_mut()).is_none() && now(second.as_mut()).is_none());
        assert!(matches!(now(acquire(1).as_mut()), Some(Err(NoPermit::Full))));
        assert!(now(acquire(0).as_mut()).is_none(), "what holds nothing waits on");
        drop(second);
        assert!(now(acquire(half).as_mut()).is_none());
        drop(taken);
        assert!(matches!(now(first.as_mut()), Some(Ok(_))));
        assert_eq!(permits.0.lock().bytes, 0);
    }

    /// A permit for a call that has just stopped waiting is returned.
    #[tokio::test]
    async fn a_place_for_nobody_comes_back() {
        let permits = Permits::default();
        let taken = all(&permits, 1);
        let mut gone = Box::pin(acquire(&permits, 1, LONG));
        assert!(now(gone.as_mut()).is_none());
        drop(taken);
        drop(gone);
        assert_eq!(all(&permits, 1).len(), 22);
    }

    fn take_all(shares: &mut Shares, plugin: u64, client: Client) -> usize {
        (0..1000).take_while(|_| shares.take(Tenant { plugin, client })).count()
    }

    /// S08: a later tenant gets a share: another plugin, another client or both.
    #[test]
    fn nobody_takes_everything() {
        let mut shares = Shares::new(64);
        let (first, second) = (Client::another(), Client::another());
        assert_eq!(take_all(&mut shares, 1, first), 22);
        assert_eq!(take_all(&mut shares, 1, second), 7, "another client of the same plugin");
        assert_eq!(take_all(&mut shares, 2, first), 5, "the same client by another plugin");
        assert_eq!(take_all(&mut shares, 2, second), 8, "another client by another plugin");
        for plugin in 3..10 {
            assert!(take_all(&mut shares, plugin, Client::another()) > 0, "{plugin}: {shares:?}");
        }
    }

    #[test]
    fn what_is_given_back_can_be_taken() {
        let mut shares = Shares::new(3);
        let tenant = Tenant { plugin: 1, client: Client::default() };
        assert_eq!(take_all(&mut shares, 1, tenant.client), 1);
        shares.give_back(tenant);
        assert_eq!((shares.has(tenant), shares.free), (0, 3));
        shares.give_back(tenant);
        assert_eq!(shares.free, 3, "nothing is given back twice");
        assert!(shares.take(tenant) && shares.taken.len() == 1);
    }
}
