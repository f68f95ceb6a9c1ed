//! Making instances ahead of a plugin's next calls, while nobody calls it. Makes none for a plugin
//! that is called once in a process.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::contract::Linked;
use super::failure::End;
use super::instance::Instance;
use super::loaded::Inner;
use super::state::Run;
use super::stock::IDLE;
use super::wall;
use crate::grant::Grant;
use crate::limit::Limits;

/// How long a plugin is not called before instances are made for its next calls.
const QUIET: Duration = Duration::from_millis(1);

/// Waits until a plugin has not been called for a moment; nothing when it is gone.
async fn quiet(plugin: &Weak<Inner>) -> Option<Arc<Inner>> {
    loop {
        let before = plugin.upgrade()?.calls.load(Ordering::Relaxed);
        tokio::time::sleep(QUIET).await;
        let plugin = plugin.upgrade()?;
        if plugin.calls.load(Ordering::Relaxed) == before {
            return Some(plugin);
        }
    }
}

impl Inner {
    /// Makes instances for the next calls as soon as the plugin is quiet, if it is in use: one
    /// that is called once in a process, as by `haft call`, is not.
    pub(super) fn restock_later(plugin: &Arc<Self>, grant: Arc<Grant>, limits: Limits) {
        let in_use = plugin.engine.ahead() > 0 && plugin.calls.load(Ordering::Relaxed) > 1;
        if !in_use
            // What is kept is as good as what would be made.
            || plugin.reuse.is_some()
            || !plugin.stock.has_room(&grant, &limits)
            || plugin.restocking.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let weak = Arc::downgrade(plugin);
        plugin.engine.threads().spawn(async move {
            let Some(plugin) = quiet(&weak).await else { return };
            let engine = plugin.engine.clone();
            if plugin.ready.get().is_none() {
                // Where it has to be loaded once more, that is done with all of haft's rights.
                let own = plugin.clone();
                let _ = engine.threads().own(move || _ = own.ready()).await;
            }
            // Nobody has called: whatever a guest does before, it does without a directory.
            engine.threads().start(&wall::nowhere(), move |handle| {
                handle.block_on(plugin.restock(&grant, &limits));
                plugin.restocking.store(false, Ordering::Relaxed);
            });
            tokio::time::sleep(IDLE).await;
            if let Some(plugin) = weak.upgrade() {
                plugin.stock.expire();
            }
        });
    }

    async fn restock(&self, grant: &Arc<Grant>, limits: &Limits) {
        let _ticking = self.engine.clock().run();
        let Ok(linked) = self.linked() else { return };
        while self.stock.has_room(grant, limits) {
            let mut made = self.make_ahead(self.ready().unwrap_or(linked), grant, limits).await;
            if made.is_err() && self.ready().is_some() {
                // Other plugins have all the room there is.
                made = self.make_ahead(linked, grant, limits).await;
            }
            match made {
                Ok(instance) if !instance.has_reached_out() => self.stock.put(instance),
                // It was given no directory, and what it asked of the network was for nobody.
                Ok(_) => return,
                Err(end) => return tracing::debug!(end.line, "instance not made ahead"),
            }
        }
    }

    async fn make_ahead(
        &self,
        linked: &Linked,
        grant: &Arc<Grant>,
        limits: &Limits,
    ) -> Result<Instance, End> {
        let (run, injections) = (Run::idle(&self.name, limits), self.injections.clone());
        Instance::make(&self.engine, linked, grant.clone(), injections, limits, (run, None)).await
    }
}
