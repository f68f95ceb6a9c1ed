//! Creates an instance ahead of a plugin's next call, once the plugin is idle: between concurrent calls the
//! creation would delay them. Only after a call on a guest's thread, which is long or may write: for a short call
//! on the reading thread the instance takes less than a tenth of the call. Creates none for a plugin that is called
//! once in a process, as by `haft call`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::call::Call;
use crate::instance::Instance;
use crate::plugin::PluginShared;
use crate::threads::writable::Writable;
use haft_core::grant::Grant;
use haft_core::limit::Limits;

/// Maximum number of bytes of linear memory of an idle instance: twice the initial memory of an interpreter.
const MAX_MEMORY: u64 = 32 << 20;

/// Time without a call of a plugin before an instance is created for its next call.
const QUIET_TIME: Duration = Duration::from_millis(1);

/// Waits until a plugin has not been called for a moment. Returns `None` if the plugin was dropped.
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

/// A plugin whose instance is being created, until a drop, including the case without a thread.
struct Prewarming(Arc<PluginShared>);

impl Drop for Prewarming {
    fn drop(&mut self) {
        self.0.is_prewarming.store(false, Ordering::Relaxed);
    }
}

impl PluginShared {
    /// Requests an instance for a call with these rights and limits, created once the plugin is quiet, unless one is
    /// idle.
    pub(crate) fn prewarm_later(plugin: &Arc<Self>, grant: Arc<Grant>, limits: Limits) {
        let is_in_use = plugin.engine.0.options.prewarm && plugin.calls.load(Ordering::Relaxed) > 1;
        if !is_in_use
            || plugin.reuse.is_some()
            || plugin.idle.has(&grant, &limits)
            || plugin.is_prewarming.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let weak = Arc::downgrade(plugin);
        plugin.engine.threads().spawn(async move {
            let Some(plugin) = wait_until_quiet(&weak).await else { return };
            let (engine, prewarming) = (plugin.engine.clone(), Prewarming(plugin));
            // No call has begun: the guest's start-up code gets no directory.
            engine.threads().start(&Writable::default(), move |handle| {
                handle.block_on(prewarming.0.prewarm(&grant, &limits));
            });
        });
    }

    /// Creates an idle instance that replaces the previous one. Creates none after an instance that used the network
    /// or requested directories, and none with a large memory.
    async fn prewarm(&self, grant: &Arc<Grant>, limits: &Limits) {
        let (Ok(linked), Some(slot)) = (self.linked(), self.engine.idle_slot()) else { return };
        let _ticking = self.engine.0.clock.keep_ticking();
        let call = Arc::new(Call::none(&self.name, grant, limits));
        match Instance::create(&self.engine, linked, &self.belongings, &call).await {
            Ok(instance) if !instance.has_reached_out() && instance.state().budget.used() <= MAX_MEMORY => {
                self.idle.shrink(0);
                self.idle.put(&self.engine, instance, slot, None);
            }
            Ok(_) => {}
            Err(end) => tracing::debug!(?end, "instance not made ahead"),
        }
    }
}
