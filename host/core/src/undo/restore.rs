//! Reverts the changes of tools for the user. Skips files that were changed since, so that no later change is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{AtFlags, Mode, OFlags, RawMode, fchmod, mkdirat, openat, renameat, symlinkat, unlinkat};

use super::{Record, Seen, State, parent};
use crate::{random, replace};

/// Which changes are reverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The changes of the last prompt that still has changes.
    Last,
    /// The changes of the session.
    All,
}

/// The result of reverting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// The restored paths.
    pub restored: Vec<PathBuf>,
    /// The unchanged paths.
    pub refused: Vec<Refusal>,
    /// Descriptions of calls that may have changed other things.
    pub uncovered: Vec<String>,
}

/// An unchanged path, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The path.
    pub path: PathBuf,
    /// The reason, as a predicate of the path.
    pub why: String,
}

/// The changes of a prompt to one path.
#[derive(Debug)]
struct Change {
    was: State,
    content: Option<String>,
    lost: Option<String>,
    /// The state after the change; `None` if haft ended before it was recorded.
    is: Option<State>,
}

/// The changes of one prompt.
#[derive(Debug, Default)]
struct Group {
    changes: BTreeMap<PathBuf, Change>,
    uncovered: Vec<String>,
}

/// Reverts the changes stored in the file at `path`, and records there which were reverted.
///
/// # Errors
/// The file cannot be read or written. Paths that cannot be restored are listed in [`Undone::refused`].
pub fn undo(path: &Path, which: Which) -> io::Result<Undone> {
    let groups = groups(path)?;
    let last = || groups.iter().rposition(|group| !group.changes.is_empty());
    let from = match which {
        Which::All => 0,
        Which::Last => last().unwrap_or(groups.len()),
    };
    let mut undone = Undone::default();
    let (mut merged, mut of_group) = (BTreeMap::new(), Vec::new());
    // The prompts after which somebody else edited a path: that edit is restored, and nothing before it.
    let mut edited = BTreeMap::new();
    for (prompt, group) in groups.into_iter().enumerate().skip(from) {
        of_group.push((prompt, group.changes.keys().cloned().collect::<BTreeSet<_>>()));
        undone.uncovered.extend(group.uncovered);
        for (path, change) in group.changes {
            if merged.get(&path).is_some_and(|earlier| is_edited_between(earlier, &change)) {
                merged.remove(&path);
                edited.insert(path.clone(), prompt);
            }
            merge(&mut merged, path, change);
        }
    }
    put_back(merged, &mut undone);
    let mut file = OpenOptions::new().append(true).open(path)?;
    for (prompt, paths) in of_group {
        let all = paths.len();
        let is_left = |path: &PathBuf| {
            edited.get(path).is_some_and(|after| prompt < *after)
                || undone.refused.iter().any(|refused| refused.path == *path)
        };
        let paths: Vec<_> = paths.into_iter().filter(|path| !is_left(path)).collect();
        if !paths.is_empty() || all == 0 {
            let line = serde_json::to_string(&Record::Undone { prompt, paths })? + "\n";
            file.write_all(line.as_bytes())?;
        }
    }
    file.sync_data()?;
    let why = "was edited between two prompts: only the changes after that edit are reverted";
    let left = edited.into_keys().filter(|path| undone.restored.contains(path));
    undone.refused.extend(left.map(|path| Refusal { path, why: why.to_owned() }).collect::<Vec<_>>());
    undone.refused.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(undone)
}

/// Returns the changes of each prompt that are not reverted.
fn groups(path: &Path) -> io::Result<Vec<Group>> {
    let mut groups = vec![Group::default()];
    for line in BufReader::new(File::open(path)?).split(b'\n') {
        let Ok(record) = serde_json::from_slice::<Record>(&line?) else { continue };
        match record {
            Record::Prompt => groups.push(Group::default()),
            Record::Undone { prompt, paths } => {
                if let Some(group) = groups.get_mut(prompt) {
                    for path in paths {
                        group.changes.remove(&path);
                    }
                    group.uncovered.clear();
                }
            }
            Record::Uncovered { what } => {
                if let Some(group) = groups.last_mut() {
                    group.uncovered.push(what);
                }
            }
            Record::Before { path, was, content, lost } => {
                if let Some(group) = groups.last_mut() {
                    let change = Change { was, content, lost, is: None };
                    merge(&mut group.changes, path, change);
                }
            }
            Record::After { path, is } => {
                if let Some(change) = groups.last_mut().and_then(|group| group.changes.get_mut(&path)) {
                    change.is = Some(is);
                }
            }
        }
    }
    // Drop temporary files, and files rewritten with equal content.
    for group in &mut groups {
        group.changes.retain(|_, change| change.is.as_ref() != Some(&change.was));
    }
    Ok(groups)
}

/// Returns whether somebody else changed a path after the earlier change. Not known if haft ended during that change.
fn is_edited_between(earlier: &Change, later: &Change) -> bool {
    earlier.is.as_ref().is_some_and(|is| *is != later.was)
}

/// Adds a later change: the first state before and the last state after count.
fn merge(changes: &mut BTreeMap<PathBuf, Change>, path: PathBuf, later: Change) {
    match changes.get_mut(&path) {
        Some(change) => change.is = later.is,
        None => _ = changes.insert(path, later),
    }
}

/// A path that may be restored, and its current state.
struct Ready {
    path: PathBuf,
    now: State,
    change: Change,
}

impl Ready {
    /// Returns whether the current file must be removed before the old one can be restored.
    fn is_in_the_way(&self) -> bool {
        let is_folder = |state: &State| matches!(state, State::Folder { .. });
        self.now != State::Absent
            && (self.change.was == State::Absent || is_folder(&self.now) != is_folder(&self.change.was))
    }

    fn remove(&self) -> io::Result<()> {
        let (directory, name) = parent(&self.path)?;
        let is_folder = matches!(self.now, State::Folder { .. });
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(unlinkat(directory, name, flags)?)
    }

    fn make(&self) -> io::Result<()> {
        if self.change.was == State::Absent {
            return Ok(());
        }
        let (directory, name) = parent(&self.path)?;
        match &self.change.was {
            State::Absent => Ok(()),
            State::Folder { mode } => Ok(mkdirat(&directory, &*name, Mode::from_raw_mode(*mode))?),
            State::Link { target } => replace_link(&directory, &name, target),
            State::File { mode, .. } => {
                let content = self.change.content.as_deref().unwrap_or_default();
                let content = STANDARD.decode(content).map_err(io::Error::other)?;
                write(&directory, &name, (&content, *mode))
            }
            State::Large | State::Other => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

fn put_back(changes: BTreeMap<PathBuf, Change>, undone: &mut Undone) {
    let mut ready = Vec::new();
    for (path, change) in changes {
        match judged(&path, &change) {
            Ok(Some(now)) => ready.push(Ready { path, now, change }),
            Ok(None) => undone.restored.push(path),
            Err(why) => undone.refused.push(Refusal { path, why }),
        }
    }
    let mut failed = BTreeMap::new();
    // The deepest first, so that the content of folders is removed before the folders.
    for entry in ready.iter().rev().filter(|entry| entry.is_in_the_way()) {
        _ = entry.remove().map_err(|error| failed.insert(entry.path.clone(), error));
    }
    for entry in &ready {
        if !failed.contains_key(&entry.path) {
            _ = entry.make().map_err(|error| failed.insert(entry.path.clone(), error));
        }
    }
    for Ready { path, .. } in ready {
        match failed.remove(&path) {
            None => undone.restored.push(path),
            Some(error) => {
                undone.refused.push(Refusal { path, why: format!("cannot be put back: {error}") });
            }
        }
    }
    undone.restored.sort();
    undone.refused.sort_by(|a, b| a.path.cmp(&b.path));
}

/// Returns the current state of a path that may be restored; `None` if it already has its old state; otherwise the
/// reason for leaving it unchanged.
fn judged(path: &Path, change: &Change) -> Result<Option<State>, String> {
    if let Some(lost) = &change.lost {
        return Err(format!("cannot be put back: {lost}"));
    }
    let now = Seen::now(path).map_err(|error| format!("cannot be put back: {error}"))?.state;
    match &change.is {
        _ if now == change.was => Ok(None),
        None => Err("is left as it is: haft ended while the file was being changed".to_owned()),
        Some(is) if now == *is && !matches!(now, State::Large | State::Other) => Ok(Some(now)),
        Some(_) => Err("was edited later".to_owned()),
    }
}

/// Writes a temporary file with the owner and the attributes of the current file, and renames it over that one. A file
/// with hard links, or with metadata that cannot be copied, is overwritten in place.
fn write(directory: &File, name: &str, (content, mode): (&[u8], RawMode)) -> io::Result<()> {
    let mode = Mode::from_raw_mode(mode);
    if replace::has_other_names(directory, name)? {
        return overwrite(directory, name, (content, mode));
    }
    let beside = temporary()?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(directory, &*beside, flags, Mode::RUSR | Mode::WUSR)?);
    if replace::keep(directory, name, &file).is_err() {
        let _ = unlinkat(directory, &*beside, AtFlags::empty());
        return overwrite(directory, name, (content, mode));
    }
    let written = file.write_all(content).and_then(|()| Ok(fchmod(&file, mode)?));
    let written = written.and_then(|()| file.sync_all());
    finish(directory, (&beside, name), written)
}

fn overwrite(directory: &File, name: &str, (content, mode): (&[u8], Mode)) -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(directory, name, flags, Mode::empty())?);
    replace::overwrite_or_restore(&mut file, content)?;
    Ok(fchmod(&file, mode)?)
}

fn replace_link(directory: &File, name: &str, target: &Path) -> io::Result<()> {
    let beside = temporary()?;
    let made = symlinkat(target, directory, &*beside).map_err(io::Error::from);
    finish(directory, (&beside, name), made)
}

fn finish(directory: &File, (beside, name): (&str, &str), made: io::Result<()>) -> io::Result<()> {
    let renamed = made.and_then(|()| Ok(renameat(directory, beside, directory, name)?));
    renamed.inspect_err(|_| {
        // The current file is unchanged; the temporary file is removed.
        let _ = unlinkat(directory, beside, AtFlags::empty());
    })
}

fn temporary() -> io::Result<String> {
    Ok(format!(".haft-undo-{}", random::name::<8>()?))
}
