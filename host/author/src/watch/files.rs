//! Watches a few files for changes, including files that do not exist yet. Reports that a file changed, but not
//! which.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::Events;

/// A point in time, by the clock of file timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(i64, i64);

impl Moment {
    /// Returns the current time.
    pub fn now() -> Self {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(FILE_CLOCK);
        Self(tv_sec, tv_nsec)
    }

    /// Reports whether one of `files` was written or created since: changes between the reading and the
    /// watching of a file cause no event.
    pub fn is_before_a_change_of(self, files: &[PathBuf]) -> bool {
        let is_later = |metadata: Metadata| Self(metadata.ctime(), metadata.ctime_nsec()) >= self;
        // The link may be new, or its target.
        let looked = files.iter().flat_map(|file| [fs::metadata(file), fs::symlink_metadata(file)]);
        looked.flatten().any(is_later)
    }
}

/// A watch on files.
#[derive(Debug)]
pub struct FileWatch(Events);

impl FileWatch {
    /// Watches `files` by their folders: editors replace files by new ones.
    ///
    /// # Errors
    /// The system's limit on watches is reached, or a folder cannot be read.
    pub fn start(files: &[PathBuf]) -> anyhow::Result<Self> {
        let files: HashSet<PathBuf> = files.iter().flat_map(|file| names(file)).collect();
        let folders: HashSet<PathBuf> =
            files.iter().filter_map(|file| file.parent()).map(Path::to_owned).collect();
        let mut events = Events::new(move |event| event.is_ok_and(|event| is_change(&event, &files)))?;
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            events.watch(folder)?;
        }
        Ok(Self(events))
    }

    /// Waits until a file has changed and the quiet time has passed.
    pub async fn changed(&mut self) {
        if !self.0.settled().await {
            std::future::pending::<()>().await;
        }
    }
}

/// Returns the given path of a file and its path without links.
fn names(file: &Path) -> impl Iterator<Item = PathBuf> {
    let absolute = std::path::absolute(file).ok();
    let real = file.canonicalize().ok().filter(|real| Some(real) != absolute.as_ref());
    absolute.into_iter().chain(real)
}

/// Reports whether the event may have changed the content of one of `files`. Reads and changes of metadata do
/// not change the content.
fn is_change(event: &Event, files: &HashSet<PathBuf>) -> bool {
    let is_written = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => false,
        _ => true,
    };
    is_written && event.paths.iter().any(|path| files.contains(path))
}

#[cfg(target_os = "linux")]
const FILE_CLOCK: ClockId = ClockId::RealtimeCoarse;

#[cfg(target_os = "macos")]
const FILE_CLOCK: ClockId = ClockId::Realtime;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use notify::{RecursiveMode, Watcher};

    use super::*;

    /// Time limit of a wait that should succeed.
    const HANG: Duration = Duration::from_mins(5);

    async fn notices(watch: &mut FileWatch) -> bool {
        tokio::time::timeout(HANG, watch.changed()).await.is_ok()
    }

    #[test]
    fn what_changed_before_it_was_watched_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, later) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&file, "1").unwrap();
        fs::write(folder.path().join("c"), "1").unwrap();
        let files = [file.clone(), later.clone()];
        // The clock of file timestamps advances in steps.
        while Moment::now().is_before_a_change_of(&files) {
            std::thread::yield_now();
        }
        let read = Moment::now();
        assert!(!read.is_before_a_change_of(&files));
        fs::read(&file).unwrap();
        assert!(!read.is_before_a_change_of(&files));
        fs::rename(folder.path().join("c"), &later).unwrap();
        assert!(read.is_before_a_change_of(&files));
        assert!(!read.is_before_a_change_of(&files[..1]));
        fs::write(&file, "2").unwrap();
        assert!(read.is_before_a_change_of(&files[..1]));
    }

    /// Returns the events of a folder in which `file` is read and then another file is written.
    fn events(folder: &Path, file: &Path) -> Vec<Event> {
        let (sender, told) = std::sync::mpsc::channel();
        let mut watcher = notify::recommended_watcher(sender).unwrap();
        watcher.watch(folder, RecursiveMode::NonRecursive).unwrap();
        fs::read(file).unwrap();
        fs::write(folder.join("other"), "1").unwrap();
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let mut events: Vec<Event> = Vec::new();
        while events.last().is_none_or(|event| event.kind != closed) {
            events.push(told.recv_timeout(HANG).unwrap().unwrap());
        }
        events
    }

    #[tokio::test]
    async fn changes_are_noticed_and_looking_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let (file, later) = (folder.path().join("a"), folder.path().join("b"));
        let names = HashSet::from([file.clone(), later.clone()]);
        fs::write(&file, "1").unwrap();
        let mut watch = FileWatch::start(&[file.clone(), later.clone()]).unwrap();
        assert!(!events(folder.path(), &file).iter().any(|event| is_change(event, &names)));
        for change in [
            &|| fs::write(&file, "2").unwrap(),
            &|| fs::write(&later, "1").unwrap(),
            &|| fs::rename(folder.path().join("other"), &file).unwrap(),
            &|| fs::remove_file(&file).unwrap(),
        ] as [&dyn Fn(); 4]
        {
            change();
            assert!(notices(&mut watch).await);
        }
    }

    #[tokio::test]
    async fn a_link_is_watched_at_both_ends() {
        let folder = tempfile::tempdir().unwrap();
        let (there, here) = (folder.path().join("there"), folder.path().join("here"));
        fs::create_dir_all(&there).unwrap();
        fs::create_dir_all(&here).unwrap();
        fs::write(there.join("a"), "1").unwrap();
        std::os::unix::fs::symlink(there.join("a"), here.join("a")).unwrap();
        let mut watch = FileWatch::start(&[here.join("a")]).unwrap();
        fs::write(there.join("a"), "2").unwrap();
        assert!(notices(&mut watch).await);
    }
}
