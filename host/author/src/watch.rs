//! Detects changes of files, and combines related changes into one: the files of a program ([`FileWatch`]), or
//! the source of a project ([`SourceWatch`]).

mod files;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{sleep, timeout};

pub use self::files::{FileWatch, Moment};
use crate::sources::{Files, Scope, changed};

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

/// The interval of checks without file events.
const LOOK: Duration = Duration::from_secs(1);

/// A watch on the source of one project.
#[derive(Debug)]
pub struct SourceWatch {
    scope: Scope,
    /// `None` if the system supports no file events.
    events: Option<Events>,
    folders: BTreeSet<PathBuf>,
    known: Files,
}

impl SourceWatch {
    /// Watches the files in `folder`, without the paths `ignored` and names that begin with a dot.
    pub fn new(folder: &Path, ignored: Vec<PathBuf>) -> Self {
        let events = Events::new(|event| !event.is_ok_and(|event| event.kind.is_access()));
        let events =
            events.inspect_err(|error| tracing::debug!(%error, "file events are not available")).ok();
        let scope = Scope::new(folder, ignored);
        let mut watch = Self { scope, events, folders: BTreeSet::new(), known: Files::new() };
        watch.scan();
        watch
    }

    /// Waits until the source has changed since the last check; returns the changed files. The future may be
    /// dropped and created again.
    pub async fn changed(&mut self) -> Vec<PathBuf> {
        loop {
            self.wake().await;
            let changed = self.scan();
            if !changed.is_empty() {
                return changed;
            }
        }
    }

    /// Waits for an event and the quiet after it.
    async fn wake(&mut self) {
        let Some(events) = &mut self.events else { return sleep(LOOK).await };
        if !events.settled().await {
            self.events = None;
        }
    }

    /// Checks every file and watches new folders; returns the files that changed since the last check.
    pub fn scan(&mut self) -> Vec<PathBuf> {
        let (folders, files) = self.scope.look(&self.known);
        for folder in folders.difference(&self.folders) {
            let Some(events) = &mut self.events else { break };
            if let Err(error) = events.watch(folder) {
                tracing::debug!(%error, "checking every second instead");
                self.events = None;
            }
        }
        self.folders = folders;
        let was = std::mem::replace(&mut self.known, files);
        changed(&was, &self.known)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::time::timeout;

    use super::*;

    /// Time limit of a wait that should succeed.
    const HANG: Duration = Duration::from_mins(5);

    async fn soon(watch: &mut SourceWatch) -> Option<Vec<PathBuf>> {
        timeout(HANG, watch.changed()).await.ok()
    }

    #[tokio::test]
    async fn a_change_is_noticed_once_also_in_a_folder_that_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("a"), "1").unwrap();
        let mut watch = SourceWatch::new(root, Vec::new());
        fs::write(root.join("a"), "22").unwrap();
        assert_eq!(soon(&mut watch).await, Some(vec![root.join("a")]));
        assert_eq!(watch.scan(), [""; 0].map(PathBuf::from));
        fs::create_dir(root.join("new")).unwrap();
        fs::write(root.join("new/b"), "1").unwrap();
        assert_eq!(soon(&mut watch).await, Some(vec![root.join("new/b")]));
        fs::write(root.join("new/b"), "22").unwrap();
        assert_eq!(soon(&mut watch).await, Some(vec![root.join("new/b")]));
        fs::remove_file(root.join("a")).unwrap();
        assert_eq!(soon(&mut watch).await, Some(vec![root.join("a")]));
    }

    #[tokio::test]
    async fn what_is_built_wakes_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["target", "build", "src", ".venv"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let mut watch = SourceWatch::new(
            root,
            vec![root.join("build"), root.join("src/bindings.rs"), root.join("x.wasm")],
        );
        for name in
            ["target/a", "build/b", "src/bindings.rs", "x.wasm", ".venv/c", "src/.lib.rs.swp", "src/lib.rs~"]
        {
            fs::write(root.join(name), "1").unwrap();
        }
        assert_eq!(watch.scan(), [""; 0].map(PathBuf::from));
        fs::write(root.join("src/lib.rs"), "1").unwrap();
        assert_eq!(soon(&mut watch).await, Some(vec![root.join("src/lib.rs")]));
    }

    /// Reading a file or rewriting it unchanged is not a change: a build that writes its own files would never
    /// end.
    #[tokio::test]
    async fn looking_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "1").unwrap();
        let mut watch = SourceWatch::new(folder.path(), Vec::new());
        for _ in 0..20 {
            fs::read(&file).unwrap();
        }
        fs::write(&file, "1").unwrap();
        assert_eq!(watch.scan(), [""; 0].map(PathBuf::from));
    }
}
