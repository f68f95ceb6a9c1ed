//! Fair shares of a bounded number: no tenant takes so many that a new one finds none. Counts only.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use haft_core::tool::Client;

/// The unit of sharing: one client's use of one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tenant {
    /// The number of the plugin.
    pub(crate) plugin: u64,
    pub(crate) client: Client,
}

impl Tenant {
    /// haft itself, which asks plugins for their tools.
    pub(crate) const HAFT: Self = Self { plugin: 0, client: Client::HAFT };

    /// A number that no other plugin has.
    pub(crate) fn plugin() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

/// How many are free, and how many each tenant has.
#[derive(Debug)]
pub(crate) struct Shares {
    free: usize,
    /// No entry is zero, so there are never more of them than things.
    taken: HashMap<Tenant, usize>,
}

impl Shares {
    pub(crate) fn new(count: usize) -> Self {
        Self { free: count, taken: HashMap::new() }
    }

    /// Takes one, if that leaves enough for others: more must be free than the tenant has, plus what its plugin or its
    /// client, whichever has more, has in all. So one client of one plugin gets a
    /// third of all, a plugin or a client less than half, and whoever has none gets one as long as there
    /// is any: the more take part, the less each may have. (Dynamic thresholds, as switches use them for
    /// their buffers: Choudhury and Hahne, 1998.)
    pub(crate) fn take(&mut self, tenant: Tenant) -> bool {
        let count = |is_meant: &dyn Fn(&Tenant) -> bool| -> usize {
            self.taken.iter().filter(|(other, _)| is_meant(other)).map(|(_, taken)| taken).sum()
        };
        let of_plugin = count(&|other| other.plugin == tenant.plugin);
        let of_client = count(&|other| other.client == tenant.client);
        let admits = self.has(tenant) + of_plugin.max(of_client) < self.free;
        if admits {
            self.free -= 1;
            *self.taken.entry(tenant).or_default() += 1;
        }
        admits
    }

    /// Returns one that the tenant took.
    pub(crate) fn give_back(&mut self, tenant: Tenant) {
        let Some(taken) = self.taken.get_mut(&tenant) else { return };
        *taken -= 1;
        if *taken == 0 {
            self.taken.remove(&tenant);
        }
        self.free += 1;
    }

    /// How many the tenant has.
    pub(crate) fn has(&self, tenant: Tenant) -> usize {
        self.taken.get(&tenant).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes until the tenant is refused; how many it got.
    fn take_all(shares: &mut Shares, plugin: u64, client: Client) -> usize {
        (0..1000).take_while(|_| shares.take(Tenant { plugin, client })).count()
    }

    /// S08: a later tenant gets a share: another plugin, another client or both.
    #[test]
    fn s08_nobody_takes_everything() {
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
