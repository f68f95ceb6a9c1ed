//! Making instances ahead of a plugin's next calls, while nobody calls it. Makes none for a plugin
//! that is called once in a process.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use crate::contract::dispatch::Linked;
use crate::failure::End;
use crate::instance::Instance;
use crate::instance::state::Run;
use crate::instance::warm_pool::IDLE;
use crate::plugin::Inner;
use crate::threads::landlock;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::tool::inline::ThreadLoad;

/// Used instances that wait to be cleared away: what eight calls at once leave.
const MAX_LEFT: usize = 8;

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

/// Drops instances of a plugin that have waited too long, until none is left.
async fn expire(plugin: Weak<Inner>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(plugin) = plugin.upgrade() else { return };
        if !plugin.stock.expire() {
            return plugin.expiring.store(false, Ordering::Relaxed);
        }
    }
}

impl Inner {
    /// Makes instances for the next calls as soon as the plugin is quiet, if it is in use: one
    /// that is called once in a process, as by `haft call`, is not.
    pub(crate) fn restock_later(plugin: &Arc<Self>, grant: Arc<Grant>, limits: Limits) {
        if !plugin.is_in_use()
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
            engine.threads().start(&landlock::nowhere(), move |handle| {
                handle.block_on(plugin.restock(&grant, &limits));
                plugin.restocking.store(false, Ordering::Relaxed);
            });
            tokio::time::sleep(IDLE).await;
            if let Some(plugin) = weak.upgrade() {
                plugin.stock.expire();
            }
        });
    }

    /// Has an instance cleared away that is of no more use, and others made in its place, by a thread that does
    /// so until nothing is left; it comes back where that is behind.
    pub(crate) fn clear_later(
        plugin: &Arc<Self>,
        mut instance: Instance,
        grant: &Arc<Grant>,
        limits: Limits,
    ) -> Option<Instance> {
        let Some(spare) = plugin.engine.spare() else { return Some(instance) };
        let mut left = plugin.left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.len() >= MAX_LEFT {
            return Some(instance);
        }
        instance.set_aside(spare);
        left.push(instance);
        drop(left);
        if !plugin.clearing.swap(true, Ordering::SeqCst) {
            let (own, grant) = (plugin.clone(), grant.clone());
            plugin.engine.threads().start(&landlock::nowhere(), move |handle| {
                while own.clear_left() || own.is_left_again() {
                    if own.is_in_use() {
                        handle.block_on(own.restock(&grant, &limits));
                    }
                }
                Self::expire_later(&own);
            });
        }
        None
    }

    /// Clears away what is left; whether anything was.
    fn clear_left(&self) -> bool {
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        !left.is_empty()
    }

    /// Gives clearing up; whether it is to go on, since something was left in between.
    fn is_left_again(&self) -> bool {
        self.clearing.store(false, Ordering::SeqCst);
        let is_empty = self.left.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        !is_empty && !self.clearing.swap(true, Ordering::SeqCst)
    }

    /// Sees to it that no instance waits for ever.
    fn expire_later(plugin: &Arc<Self>) {
        if !plugin.expiring.swap(true, Ordering::Relaxed) {
            plugin.engine.threads().spawn(expire(Arc::downgrade(plugin)));
        }
    }

    /// Makes one instance for the next call if none waits, on the calling thread, if calls run inline there and it
    /// is idle.
    pub(crate) fn restock_here(plugin: &Arc<Self>, grant: &Arc<Grant>, limits: &Limits, load: ThreadLoad) {
        let Ok(linked) = plugin.linked() else { return };
        let is_wanted = load == ThreadLoad::Idle && plugin.is_in_use() && !plugin.stock.has(grant, limits);
        if !is_wanted || !plugin.stock.has_room(grant, limits) {
            return;
        }
        let Some(spare) = plugin.engine.spare() else { return };
        let _ticking = plugin.engine.clock().run();
        let run = Run { gives_way: true, ..Run::idle(&plugin.name, limits) };
        let (grant, injections) = (grant.clone(), plugin.injections.clone());
        let making = Instance::make(&plugin.engine, linked, grant, injections, limits, (run, None));
        match plugin.engine.threads().begin(&landlock::nowhere(), pin!(making)) {
            Ok(Poll::Ready(Ok(mut instance))) if !instance.has_reached_out() => {
                instance.set_aside(spare);
                plugin.stock.put(instance);
            }
            // One that waits or takes long is made by its call.
            _ => return,
        }
        Self::expire_later(plugin);
    }

    /// Whether instances are to be made for calls to come. One that is called once in a process, as by
    /// `haft call`, is not in use; and what is kept for several calls is as good as what would be made.
    fn is_in_use(&self) -> bool {
        self.engine.ahead() > 0 && self.calls.load(Ordering::Relaxed) > 1 && self.reuse.is_none()
    }

    async fn restock(&self, grant: &Arc<Grant>, limits: &Limits) {
        let _ticking = self.engine.clock().run();
        let Ok(linked) = self.linked() else { return };
        while self.stock.has_room(grant, limits) {
            let Some(spare) = self.engine.spare() else { return };
            let mut made = self.make_ahead(self.ready().unwrap_or(linked), grant, limits).await;
            if made.is_err() && self.ready().is_some() {
                // Other plugins have all the room there is.
                made = self.make_ahead(linked, grant, limits).await;
            }
            match made {
                Ok(mut instance) if !instance.has_reached_out() => {
                    instance.set_aside(spare);
                    self.stock.put(instance);
                }
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
