//! Noticing that files were changed, once for many changes that belong together: the files of a program
//! ([`FileWatch`]), or all that is source in a project ([`SourceWatch`]).

mod files;
mod source;

use std::path::Path;
use std::time::Duration;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout;

pub use self::files::{FileWatch, Moment};
pub use self::source::SourceWatch;

/// How long files are left alone before a change counts: editors and compilers write in several steps.
const QUIET: Duration = Duration::from_millis(50);

/// How long a change waits for quiet at most.
const PATIENCE: Duration = Duration::from_secs(2);

/// Events of the files in some folders.
#[derive(Debug)]
struct Events {
    watcher: RecommendedWatcher,
    woken: Receiver<()>,
}

impl Events {
    /// Those that `counts` lets through.
    fn new(counts: impl Fn(notify::Result<Event>) -> bool + Send + 'static) -> notify::Result<Self> {
        // An event that is not yet looked at is as good as two.
        let (waker, woken) = channel(1);
        let watcher = notify::recommended_watcher(move |event| {
            if counts(event) {
                let _ = waker.try_send(());
            }
        })?;
        Ok(Self { watcher, woken })
    }

    /// Watches a folder as well, without those in it.
    fn watch(&mut self, folder: &Path) -> notify::Result<()> {
        self.watcher.watch(folder, RecursiveMode::NonRecursive)
    }

    /// Waits for an event and for the quiet after it. `false` where the thread that tells of events has ended.
    async fn settled(&mut self) -> bool {
        let is_woken = self.woken.recv().await.is_some();
        let quiet = async { while matches!(timeout(QUIET, self.woken.recv()).await, Ok(Some(()))) {} };
        let _ = timeout(PATIENCE, quiet).await;
        is_woken
    }
}
