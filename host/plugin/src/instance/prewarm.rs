//! Makes instances ahead of a plugin's next calls, while it is idle. Makes none for a plugin that is called once in a
//! process.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::call::Call;
use crate::contract::linked::LinkedComponent;
use crate::failure::End;
use crate::instance::warm_pool::IDLE;
use crate::instance::{Instance, allocator};
use crate::plugin::PluginShared;
use crate::threads::landlock;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::tool::inline::ThreadLoad;

/// Used instances that wait to be dropped: what eight calls at once leave.
const MAX_DISCARDED: usize = 8;

/// How long a plugin is not called before instances are made for its next calls.
const QUIET_TIME: Duration = Duration::from_millis(1);

/// Waits until a plugin has not been called for a moment; nothing when it is gone.
async fn wait_until_quiet(plugin: &Weak<PluginShared>) -> Option<Arc<PluginShared>> {
    loop {
        let before = plugin.upgrade()?.calls.load(Ordering::Relaxed);
        tokio::time::sleep(QUIET_TIME).await;
        let plugin = plugin.upgrade()?;
        if plugin.calls.load(Ordering::Relaxed) == before {
            return Some(plugin);
        }
    }
}

/// Drops instances of a plugin that have waited too long. Where none is left and there was no call since, it gives back what
/// was kept for them, and ends.
async fn expire(plugin: Weak<PluginShared>) {
    let mut calls_before = None;
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(plugin) = plugin.upgrade() else { return };
        let has_any = plugin.warm_pool.expire();
        let calls = plugin.calls.load(Ordering::Relaxed);
        if calls_before.replace(calls) != Some(calls) || has_any {
            continue;
        }
        let (engine, own) = (plugin.engine.clone(), plugin.clone());
        // Unmapping memory is slow.
        let _ = engine.threads().own(move || own.release_prewarm_component()).await;
        plugin.is_expiring.store(false, Ordering::SeqCst);
        if plugin.warm_pool.waiting() == 0 || plugin.is_expiring.swap(true, Ordering::SeqCst) {
            return;
        }
    }
}

impl PluginShared {
    /// Makes instances for the next calls as soon as the plugin is quiet, if it is in use: one
    /// that is called once in a process, as by `haft call`, is not.
    pub(crate) fn prewarm_later(plugin: &Arc<Self>, grant: Arc<Grant>, limits: Limits) {
        if !plugin.is_in_use()
            || !plugin.warm_pool.has_room(&grant, &limits)
            || plugin.is_prewarming.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let weak = Arc::downgrade(plugin);
        plugin.engine.threads().spawn(async move {
            let Some(plugin) = wait_until_quiet(&weak).await else { return };
            let engine = plugin.engine.clone();
            if plugin.prewarm_component().is_none() {
                // Where it has to be loaded once more, that is done with all of haft's rights.
                let own = plugin.clone();
                let _ = engine.threads().own(move || own.load_prewarm_component()).await;
            }
            Self::expire_later(&plugin);
            // No call has begun: the guest's start-up code gets no directory.
            engine.threads().start(&landlock::write_nowhere(), move |handle| {
                handle.block_on(plugin.prewarm(&grant, &limits));
                plugin.is_prewarming.store(false, Ordering::Relaxed);
            });
        });
    }

    /// Queues a used instance for a thread that drops it and prewarms others, until the queue is empty. Returns the
    /// instance where the queue is full.
    pub(crate) fn discard_later(
        plugin: &Arc<Self>,
        mut instance: Instance,
        grant: &Arc<Grant>,
        limits: Limits,
    ) -> Option<Instance> {
        let Some(spare) = plugin.engine.idle_slot() else { return Some(instance) };
        let mut discarded = plugin.discarded.lock();
        if discarded.len() >= MAX_DISCARDED {
            return Some(instance);
        }
        instance.set_aside(spare);
        discarded.push(instance);
        drop(discarded);
        if !plugin.is_discarding.swap(true, Ordering::SeqCst) {
            let (own, grant) = (plugin.clone(), grant.clone());
            plugin.engine.threads().start(&landlock::write_nowhere(), move |handle| {
                while own.drop_discarded() || own.resume_if_discarded_meanwhile() {
                    if own.is_in_use() && own.prewarm_component().is_some() {
                        handle.block_on(own.prewarm(&grant, &limits));
                    }
                }
                if own.prewarm_component().is_none() {
                    Self::prewarm_later(&own, grant, limits);
                }
                Self::expire_later(&own);
            });
        }
        None
    }

    /// Drops the queued instances; whether there were any.
    fn drop_discarded(&self) -> bool {
        let discarded = std::mem::take(&mut *self.discarded.lock());
        !discarded.is_empty()
    }

    /// Stops dropping; whether to go on after all, since another instance was queued meanwhile.
    fn resume_if_discarded_meanwhile(&self) -> bool {
        self.is_discarding.store(false, Ordering::SeqCst);
        let is_empty = self.discarded.lock().is_empty();
        !is_empty && !self.is_discarding.swap(true, Ordering::SeqCst)
    }

    /// Starts the task that drops expired instances, unless it runs.
    fn expire_later(plugin: &Arc<Self>) {
        if !plugin.is_expiring.swap(true, Ordering::Relaxed) {
            plugin.engine.threads().spawn(expire(Arc::downgrade(plugin)));
        }
    }

    /// Makes one instance for the next call if none waits, on the calling thread, if calls run inline there and it
    /// is idle.
    pub(crate) fn prewarm_here(plugin: &Arc<Self>, grant: &Arc<Grant>, limits: &Limits, load: ThreadLoad) {
        let Ok(linked) = plugin.linked() else { return };
        let is_needed =
            load == ThreadLoad::Idle && plugin.is_in_use() && !plugin.warm_pool.has(grant, limits);
        if !is_needed || !plugin.warm_pool.has_room(grant, limits) {
            return;
        }
        let Some(spare) = plugin.waiting_slot(linked) else { return };
        let _ticking = plugin.engine.clock().keep_ticking();
        let call = Arc::new(Call { begins_inline: true, ..Call::none(&plugin.name, grant, limits) });
        let making = Instance::create(&plugin.engine, linked, &plugin.belongings, &call);
        // An instance whose start-up waits or takes long is made by its call.
        if let Ok(Poll::Ready(Ok(instance))) =
            plugin.engine.threads().poll_inline(&landlock::write_nowhere(), pin!(making))
            && plugin.put_aside(instance, spare)
        {
            Self::expire_later(plugin);
        }
    }

    /// Whether instances are to be made for calls to come: not for a plugin that is called once in a process, as by
    /// `haft call`, nor for one whose instances are reused.
    fn is_in_use(&self) -> bool {
        self.engine.ahead() > 0 && self.calls.load(Ordering::Relaxed) > 1 && self.reuse.is_none()
    }

    async fn prewarm(&self, grant: &Arc<Grant>, limits: &Limits) {
        let _ticking = self.engine.clock().keep_ticking();
        let (Ok(linked), Some(component)) = (self.linked(), self.prewarm_component()) else { return };
        while self.warm_pool.has_room(grant, limits) {
            let Some(spare) = self.waiting_slot(linked) else { return };
            let mut made = self.make_ahead(component.separate().unwrap_or(linked), grant, limits).await;
            if made.is_err() && component.separate().is_some() {
                // Other plugins have all the room there is.
                made = self.make_ahead(linked, grant, limits).await;
            }
            let made = made.inspect_err(|end| tracing::debug!(?end, "instance not made ahead"));
            if !made.is_ok_and(|instance| self.put_aside(instance, spare)) {
                return;
            }
        }
    }

    /// A slot for one more instance that waits for a call; `None` where slots, or the memory for such, are used up.
    fn waiting_slot(&self, linked: &LinkedComponent) -> Option<OwnedSemaphorePermit> {
        let bytes = allocator::initial_memory(linked.component());
        self.engine.waiting_memory().has(bytes).then(|| self.engine.idle_slot()).flatten()
    }

    /// Lets an instance wait for a call; whether it may. It may not where it used the network or asked for directories
    /// before any call, nor where there is no memory left for it.
    fn put_aside(&self, mut instance: Instance, spare: OwnedSemaphorePermit) -> bool {
        let memory = self.engine.waiting_memory().take(instance.state().budget.used());
        let Some(memory) = memory.filter(|_| !instance.has_reached_out()) else { return false };
        instance.set_waiting(spare, memory);
        self.warm_pool.put(instance);
        true
    }

    async fn make_ahead(
        &self,
        linked: &LinkedComponent,
        grant: &Arc<Grant>,
        limits: &Limits,
    ) -> Result<Instance, End> {
        let call = Arc::new(Call::none(&self.name, grant, limits));
        Instance::create(&self.engine, linked, &self.belongings, &call).await
    }
}

#[cfg(test)]
mod tests;
