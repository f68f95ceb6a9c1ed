//! Detects changes of files, and combines related changes into one: the files of a program ([`FileWatch`]), or
//! the source of a project ([`SourceWatch`]).

mod files;
mod source;

use std::path::Path;
use std::time::Duration;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout;

pub use self::files::{FileWatch, Moment};
pub use self::source::SourceWatch;

/// The quiet time after which a change is reported: editors and compilers write in several steps.
const QUIET: Duration = Duration::from_millis(50);

/// Limit on the wait for quiet.
const PATIENCE: Duration = Duration::from_secs(2);

/// The events of the files in some folders.
#[derive(Debug)]
struct Events {
    watcher: RecommendedWatcher,
    woken: Receiver<()>,
}

impl Events {
    /// Creates a watcher; `counts` selects the events.
    fn new(counts: impl Fn(notify::Result<Event>) -> bool + Send + 'static) -> notify::Result<Self> {
        // The channel holds one event: a second pending event has no further effect.
        let (waker, woken) = channel(1);
        let watcher = notify::recommended_watcher(move |event| {
            if counts(event) {
                let _ = waker.try_send(());
            }
        })?;
        Ok(Self { watcher, woken })
    }

    /// Watches another folder, without its subfolders.
    fn watch(&mut self, folder: &Path) -> notify::Result<()> {
        self.watcher.watch(folder, RecursiveMode::NonRecursive)
    }

    /// Waits for an event and the quiet after it. Returns `false` if the watcher's thread has ended.
    async fn settled(&mut self) -> bool {
        let is_woken = self.woken.recv().await.is_some();
        let quiet = async { while matches!(timeout(QUIET, self.woken.recv()).await, Ok(Some(()))) {} };
        let _ = timeout(PATIENCE, quiet).await;
        is_woken
    }
}
