//! Fair shares of a bounded number, so that a new tenant always gets one. Counts only.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

use haft_core::tool::Client;

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

    /// Returns the number of permits of a plugin's tenants.
    pub(crate) fn of_plugin(&self, plugin: u64) -> usize {
        self.of_plugins.get(&plugin).copied().unwrap_or_default()
    }

    /// Returns the number of plugins with a permit.
    pub(crate) fn plugins(&self) -> usize {
        self.of_plugins.len()
    }

    /// Returns the number of permits of the tenant.
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
    use super::*;

    /// Takes permits until the tenant is refused. Returns their number.
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
