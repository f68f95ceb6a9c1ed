//! Puts back what tools changed, for a person who asked for it. Refuses what was changed since: nobody's work is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{AtFlags, Mode, OFlags, RawMode, fchmod, mkdirat, openat, renameat, symlinkat, unlinkat};

use super::look::{Seen, parent};
use super::record::{Record, State};
use crate::random;

/// How much is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// What the last prompt changed of which something is not undone yet.
    Last,
    /// What the session changed.
    All,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Paths that are as they were.
    pub restored: Vec<PathBuf>,
    /// Those that are left as they are.
    pub refused: Vec<Refusal>,
    /// Calls that may have changed other things, in a few words each.
    pub uncovered: Vec<String>,
}

/// A path that is left as it is, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which.
    pub path: PathBuf,
    /// Why, in words that follow its name.
    pub why: String,
}

/// What prompts changed of one path.
#[derive(Debug)]
struct Change {
    was: State,
    content: Option<String>,
    lost: Option<String>,
    /// `None` where haft ended before it was known.
    is: Option<State>,
}

/// What one prompt changed.
#[derive(Debug, Default)]
struct Group {
    changes: BTreeMap<PathBuf, Change>,
    uncovered: Vec<String>,
}

/// Puts back what the file at `path` keeps. What was put back is noted there.
///
/// # Errors
/// The file cannot be read or written. What cannot be put back is told in [`Undone::refused`].
pub fn undo(path: &Path, which: Which) -> io::Result<Undone> {
    let groups = groups(path)?;
    let last = || groups.iter().rposition(|group| !group.changes.is_empty());
    let from = match which {
        Which::All => 0,
        Which::Last => last().unwrap_or(groups.len()),
    };
    let mut undone = Undone::default();
    let (mut merged, mut of_group) = (BTreeMap::new(), Vec::new());
    for (prompt, group) in groups.into_iter().enumerate().skip(from) {
        of_group.push((prompt, group.changes.keys().cloned().collect::<BTreeSet<_>>()));
        undone.uncovered.extend(group.uncovered);
        for (path, change) in group.changes {
            merge(&mut merged, path, change);
        }
    }
    put_back(merged, &mut undone);
    let mut file = OpenOptions::new().append(true).open(path)?;
    for (prompt, paths) in of_group {
        let all = paths.len();
        let is_refused = |path: &PathBuf| undone.refused.iter().any(|refused| refused.path == *path);
        let paths: Vec<_> = paths.into_iter().filter(|path| !is_refused(path)).collect();
        if !paths.is_empty() || all == 0 {
            let line = serde_json::to_string(&Record::Undone { prompt, paths })? + "\n";
            file.write_all(line.as_bytes())?;
        }
    }
    file.sync_data()?;
    Ok(undone)
}

/// What each prompt changed that is not undone.
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
            Record::Other => {}
        }
    }
    // Temporary files, and what was written as it was.
    for group in &mut groups {
        group.changes.retain(|_, change| change.is.as_ref() != Some(&change.was));
    }
    Ok(groups)
}

/// Adds a later change: what was there first and what is there last count.
fn merge(changes: &mut BTreeMap<PathBuf, Change>, path: PathBuf, later: Change) {
    match changes.get_mut(&path) {
        Some(change) => change.is = later.is,
        None => _ = changes.insert(path, later),
    }
}

/// A path that may be put back, and what is there now.
struct Ready {
    path: PathBuf,
    now: State,
    change: Change,
}

impl Ready {
    /// Whether what is there has to go before something else can take its place.
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
    // The deepest first, and what lies in folders after these.
    for one in ready.iter().rev().filter(|one| one.is_in_the_way()) {
        _ = one.remove().map_err(|error| failed.insert(one.path.clone(), error));
    }
    for one in &ready {
        if !failed.contains_key(&one.path) {
            _ = one.make().map_err(|error| failed.insert(one.path.clone(), error));
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

/// What is at a path now, where that may be changed; `None` where it is as it was. Why it is left as it is otherwise.
fn judged(path: &Path, change: &Change) -> Result<Option<State>, String> {
    if let Some(lost) = &change.lost {
        return Err(format!("cannot be put back: {lost}"));
    }
    let now = Seen::now(path).map_err(|error| format!("cannot be put back: {error}"))?.state;
    match &change.is {
        _ if now == change.was => Ok(None),
        None => Err("is left as it is: haft was ended while it was changed".to_owned()),
        Some(is) if now == *is && !matches!(now, State::Large | State::Other) => Ok(Some(now)),
        Some(_) => Err("was changed since".to_owned()),
    }
}

/// Writes a file beside, and renames it over what is there.
fn write(directory: &File, name: &str, (content, mode): (&[u8], RawMode)) -> io::Result<()> {
    let beside = temporary()?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(directory, &*beside, flags, Mode::RUSR | Mode::WUSR)?);
    let written = file.write_all(content).and_then(|()| Ok(fchmod(&file, Mode::from_raw_mode(mode))?));
    let written = written.and_then(|()| file.sync_all());
    finish(directory, (&beside, name), written)
}

fn replace_link(directory: &File, name: &str, target: &Path) -> io::Result<()> {
    let beside = temporary()?;
    let made = symlinkat(target, directory, &*beside).map_err(io::Error::from);
    finish(directory, (&beside, name), made)
}

fn finish(directory: &File, (beside, name): (&str, &str), made: io::Result<()>) -> io::Result<()> {
    let renamed = made.and_then(|()| Ok(renameat(directory, beside, directory, name)?));
    renamed.inspect_err(|_| {
        // What is there is as it was; a leftover would only be in the way.
        let _ = unlinkat(directory, beside, AtFlags::empty());
    })
}

fn temporary() -> io::Result<String> {
    Ok(format!(".haft-undo-{}", random::name::<8>()?))
}
