//! The information about calls for a plugin's author: a profile, and the place where a guest ended. Read from
//! the component's file, which no guest's thread opens.

use std::sync::Arc;

use super::frame::Frame;
use crate::failure::End;
use crate::plugin::PluginShared;

impl PluginShared {
    /// Resolves the functions in which the guest was sampled, if a profile is recorded.
    pub(crate) async fn name_profile(self: &Arc<Self>) {
        let Some(recorder) = self.engine.recorder().filter(|recorder| recorder.has_profile()).cloned() else {
            return;
        };
        let plugin = self.clone();
        let name = move || plugin.discovered.bytes().iter().for_each(|bytes| recorder.name(bytes));
        // There is no profile if no thread can be started.
        let _ = self.engine.threads().own(name).await;
    }

    /// Returns a text about the end of a guest, with the place in its author's files.
    pub(crate) async fn told(self: &Arc<Self>, end: &End) -> String {
        end.told(&self.frames(end).await)
    }

    async fn frames(self: &Arc<Self>, end: &End) -> Vec<Frame> {
        if end.stack.is_empty() {
            return Vec::new();
        }
        let (plugin, stack) = (self.clone(), end.stack.clone());
        let find = move || plugin.symbols.frames(&stack, || plugin.discovered.bytes());
        self.engine.threads().own(find).await.unwrap_or_default()
    }
}
