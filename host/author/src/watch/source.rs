//! Notices when the source of a project has changed. Events only trigger a check: a file counts as changed by its
//! content, so that a tool that reads or rewrites its own files triggers no build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io::{stderr, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::sleep;
use xxhash_rust::xxh3::xxh3_64;

use super::Events;

/// Folders of a project that are watched. Each takes one of the system's watches, of which a user
/// has some thousands.
const MAX_FOLDERS: usize = 2000;

/// Files of a project that are looked at.
const MAX_FILES: usize = 20_000;

/// How often one looks where the system cannot tell.
const LOOK: Duration = Duration::from_secs(1);

/// Folders that are never source, whatever the language.
const IGNORED: &[&str] = &["target", "node_modules", "__pycache__"];

/// A file whose content is compared: one that is written again as it was is no change.
const MAX_COMPARED: u64 = 4 << 20;

/// What a file was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    content: Option<u64>,
}

/// Watches the source of one project.
#[derive(Debug)]
pub struct SourceWatch {
    folder: PathBuf,
    ignored: Vec<PathBuf>,
    /// Device and number of the files that this program writes to itself.
    own: Vec<(u64, u64)>,
    /// `None` where the system does not tell.
    events: Option<Events>,
    folders: BTreeSet<PathBuf>,
    known: BTreeMap<PathBuf, Stamp>,
}

impl SourceWatch {
    /// Watches what is in `folder`, but not the paths `ignored` below it, and nothing whose name begins
    /// with a dot.
    pub fn new(folder: &Path, ignored: Vec<PathBuf>) -> Self {
        let events = Events::new(|event| !event.is_ok_and(|event| event.kind.is_access()));
        let events = events.inspect_err(|error| tracing::debug!(%error, "no events of files")).ok();
        let (folders, known) = (BTreeSet::new(), BTreeMap::new());
        let (folder, own) = (folder.to_owned(), own_output());
        let mut watch = Self { folder, ignored, own, events, folders, known };
        watch.scan();
        watch
    }

    /// Waits until the source is another than when it was last looked at. May be dropped and called
    /// again.
    pub async fn changed(&mut self) -> Vec<PathBuf> {
        loop {
            self.wake().await;
            let changed = self.scan();
            if !changed.is_empty() {
                return changed;
            }
        }
    }

    /// Waits for an event and for the quiet after it.
    async fn wake(&mut self) {
        let Some(events) = &mut self.events else { return sleep(LOOK).await };
        if !events.settled().await {
            self.events = None;
        }
    }

    /// Looks at every file, watches folders that are new, and gives what has changed since.
    pub fn scan(&mut self) -> Vec<PathBuf> {
        let mut found = Found { known: &self.known, folders: BTreeSet::new(), files: BTreeMap::new() };
        found.walk(self, &self.folder);
        let Found { folders, files, .. } = found;
        for folder in folders.difference(&self.folders) {
            let Some(events) = &mut self.events else { break };
            if let Err(error) = events.watch(folder) {
                tracing::debug!(%error, "looking every second instead of waiting for events");
                self.events = None;
            }
        }
        self.folders = folders;
        let was = std::mem::replace(&mut self.known, files);
        let gone = was.keys().filter(|path| !self.known.contains_key(*path));
        let is_other = |was: &Stamp, is: &Stamp| was.content.is_none() || was.content != is.content;
        let is_new =
            |path: &PathBuf, is: &Stamp| was.get(path).is_none_or(|was| was != is && is_other(was, is));
        let other = self.known.iter().filter(|(path, stamp)| is_new(path, stamp));
        other.map(|(path, _)| path).chain(gone).cloned().collect()
    }

    fn is_source(&self, path: &Path, name: &str, is_folder: bool) -> bool {
        let is_temporary = name.starts_with('.') || name.ends_with('~') || name == "4913";
        let is_output = self.ignored.iter().any(|ignored| path == ignored);
        let is_ignored = is_folder && IGNORED.contains(&name);
        !(is_temporary || is_output || is_ignored)
    }
}

/// The files behind standard output and standard error: who keeps them in the project's folder would
/// else be told of a change by every word about the last one.
fn own_output() -> Vec<(u64, u64)> {
    let streams = [stdout().as_fd().try_clone_to_owned(), stderr().as_fd().try_clone_to_owned()];
    let files = streams.into_iter().flatten().filter_map(|stream| File::from(stream).metadata().ok());
    files.map(|metadata| (metadata.dev(), metadata.ino())).collect()
}

/// What a project's folder holds now.
struct Found<'a> {
    /// What it held before.
    known: &'a BTreeMap<PathBuf, Stamp>,
    folders: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Stamp>,
}

impl Found<'_> {
    fn walk(&mut self, watch: &SourceWatch, folder: &Path) {
        if self.folders.len() >= MAX_FOLDERS {
            return;
        }
        self.folders.insert(folder.to_owned());
        // What cannot be read is not there, and may be the next time.
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in entries.map_while(Result::ok) {
            let (path, name) = (entry.path(), entry.file_name());
            let Ok(metadata) = entry.metadata() else { continue };
            if watch.own.contains(&(metadata.dev(), metadata.ino())) {
                continue;
            }
            if !watch.is_source(&path, &name.to_string_lossy(), metadata.is_dir()) {
                continue;
            }
            if metadata.is_dir() {
                self.walk(watch, &path);
            } else if self.files.len() < MAX_FILES {
                let stamp = self.stamp(&path, &metadata);
                self.files.insert(path, stamp);
            }
        }
    }

    /// A file is read only where its size or time is another than before.
    fn stamp(&self, path: &Path, metadata: &Metadata) -> Stamp {
        let (length, modified) = (metadata.len(), metadata.modified().ok());
        let known = self.known.get(path).filter(|known| (known.length, known.modified) == (length, modified));
        known.cloned().unwrap_or_else(|| Stamp { length, modified, content: content(path, length) })
    }
}

fn content(path: &Path, length: u64) -> Option<u64> {
    let is_compared = length <= MAX_COMPARED && path.is_file();
    is_compared.then(|| std::fs::read(path).ok()).flatten().map(|bytes| xxh3_64(&bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::time::timeout;

    use super::*;

    /// So long a change takes to be noticed only where it never is.
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

    /// A file that is only read, or written again as it was, is no change: a build that writes its own
    /// files would go on for ever.
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
