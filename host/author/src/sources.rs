//! The source files of a project, with their state at the last look. A file is compared by content: reading it
//! or rewriting it unchanged is not a change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io::{stderr, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// Limit on the folders of a project that are scanned. A watched folder takes an inotify watch, of which a user
/// has some thousands.
const MAX_FOLDERS: usize = 2000;

/// Limit on the files of a project that are scanned.
const MAX_FILES: usize = 20_000;

/// Folders that are never source, in any language.
const IGNORED: &[&str] = &["target", "node_modules", "__pycache__"];

/// Extensions of files that haft itself writes beside sources: flame graphs, core dumps, packages.
const OUTPUTS: &[&str] = &["folded", "core", "gz"];

/// Limit on the bytes of a file that is compared by content; a larger file is compared by size and time.
const MAX_COMPARED: u64 = 4 << 20;

/// The state of a file at the last look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    content: Option<u64>,
}

/// Files, each with its state at the last check.
pub(crate) type Files = BTreeMap<PathBuf, Stamp>;

/// The rules that select files of a folder.
#[derive(Debug)]
pub(crate) struct Scope {
    folder: PathBuf,
    ignored: Vec<PathBuf>,
    /// Device and inode numbers of this process's own output files.
    output_files: Vec<(u64, u64)>,
}

impl Scope {
    /// Selects the files in `folder`, without the paths `ignored` and names that begin with a dot.
    pub(crate) fn new(folder: &Path, ignored: Vec<PathBuf>) -> Self {
        Self { folder: folder.to_owned(), ignored, output_files: own_output() }
    }

    /// Returns the current folders and files. Files with the size and time in `known` are not read again.
    pub(crate) fn look(&self, known: &Files) -> (BTreeSet<PathBuf>, Files) {
        let mut found = Found { scope: self, known, folders: BTreeSet::new(), files: BTreeMap::new() };
        found.walk(&self.folder);
        (found.folders, found.files)
    }

    fn counts(&self, path: &Path, name: &str, is_folder: bool) -> bool {
        let is_temporary = name.starts_with('.') || name.ends_with('~') || name == "4913";
        let end = path.extension().filter(|_| !is_folder);
        let is_written = end.is_some_and(|end| OUTPUTS.iter().any(|output| end == *output));
        let is_output = is_written || self.ignored.iter().any(|ignored| path == ignored);
        let is_ignored = is_folder && IGNORED.contains(&name);
        !(is_temporary || is_output || is_ignored)
    }
}

/// Returns the files behind standard output and standard error: if they are in the project's folder, every
/// printed line would count as a change.
fn own_output() -> Vec<(u64, u64)> {
    let streams = [stdout().as_fd().try_clone_to_owned(), stderr().as_fd().try_clone_to_owned()];
    let files = streams.into_iter().flatten().filter_map(|stream| File::from(stream).metadata().ok());
    files.map(|metadata| (metadata.dev(), metadata.ino())).collect()
}

struct Found<'a> {
    scope: &'a Scope,
    /// The files at the last look.
    known: &'a Files,
    folders: BTreeSet<PathBuf>,
    files: Files,
}

impl Found<'_> {
    fn walk(&mut self, folder: &Path) {
        if self.folders.len() >= MAX_FOLDERS {
            return;
        }
        self.folders.insert(folder.to_owned());
        // An unreadable folder counts as empty, and may be readable at the next look.
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in entries.map_while(Result::ok) {
            let (path, name) = (entry.path(), entry.file_name());
            let Ok(metadata) = entry.metadata() else { continue };
            if self.scope.output_files.contains(&(metadata.dev(), metadata.ino())) {
                continue;
            }
            if !self.scope.counts(&path, &name.to_string_lossy(), metadata.is_dir()) {
                continue;
            }
            if metadata.is_dir() {
                self.walk(&path);
            } else if self.files.len() < MAX_FILES {
                let stamp = stamp(&path, &metadata, self.known);
                self.files.insert(path, stamp);
            }
        }
    }
}

/// Returns the state of the existing files among `paths`, in any folder.
pub(crate) fn look_at<'a>(paths: impl IntoIterator<Item = &'a PathBuf>, known: &Files) -> Files {
    let stamped = |path: &PathBuf| Some((path.clone(), stamp(path, &path.metadata().ok()?, known)));
    paths.into_iter().filter_map(stamped).collect()
}

/// Returns the state of a file; reads it only if its size or time changed.
fn stamp(path: &Path, metadata: &Metadata, known: &Files) -> Stamp {
    let (length, modified) = (metadata.len(), metadata.modified().ok());
    let known = known.get(path).filter(|known| (known.length, known.modified) == (length, modified));
    known.cloned().unwrap_or_else(|| Stamp { length, modified, content: content(path, length) })
}

fn content(path: &Path, length: u64) -> Option<u64> {
    let is_compared = length <= MAX_COMPARED && path.is_file();
    is_compared.then(|| std::fs::read(path).ok()).flatten().map(|bytes| xxh3_64(&bytes))
}

pub(crate) fn changed(was: &Files, is: &Files) -> Vec<PathBuf> {
    let gone = was.keys().filter(|path| !is.contains_key(*path));
    let is_other = |was: &Stamp, is: &Stamp| was.content.is_none() || was.content != is.content;
    let is_new = |path: &PathBuf, is: &Stamp| was.get(path).is_none_or(|was| was != is && is_other(was, is));
    let other = is.iter().filter(|(path, stamp)| is_new(path, stamp));
    other.map(|(path, _)| path).chain(gone).cloned().collect()
}
