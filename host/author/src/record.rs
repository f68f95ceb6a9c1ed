//! What a component was built of. Kept in haft's cache, so that what is there already is not built again, and a component
//! that is older than its sources is known to be: of one that was not built on this machine nobody knows.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::language::{self, Language};
use super::pack;
use super::project::Project;
use super::sources::{self, Files, Scope};
use super::suite;

/// In haft's cache, a file for each component that was built.
const FOLDER: &str = "builds";

/// Bytes of one record: that of a project with as many files as are looked at has less.
const MAX_RECORD: u64 = 16 << 20;

/// Files in a project's folder that are in no component, beside its tests. Of program.toml haft itself adds to the
/// component what belongs there.
const NO_SOURCES: &[&str] =
    &[suite::FOLDER, "program.toml", "program.lock", "README.md", "CHANGELOG.md", "LICENSE"];

/// How one component was built.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    component: PathBuf,
    /// The component as it was built.
    built: Files,
    /// Hash of what made it: the tools with their versions, `[build]`, haft.
    made_with: u64,
    /// Hash of what haft added to it of program.toml.
    pub(crate) added: u64,
    debug: bool,
    /// The project's own files.
    files: Files,
    /// Files that lie elsewhere, or that the tools themselves write.
    others: Files,
}

/// What there is now, to be compared with what was built, and to be recorded.
#[derive(Debug)]
pub(crate) struct Now {
    pub(crate) made_with: u64,
    pub(crate) added: u64,
    pub(crate) debug: bool,
}

/// That a component is older than its sources.
#[derive(Debug)]
pub struct Stale {
    /// The component.
    pub component: PathBuf,
    /// The files that changed since it was built, that are new, or that are gone.
    pub changed: Vec<PathBuf>,
    /// Whether it was built with what debuggers need.
    pub debug: bool,
}

impl Stale {
    /// What of `project` has changed since its component was built, by what is in haft's `cache`. `None` where nothing
    /// has, or where that is not known.
    pub fn of(project: &Project, cache: &Path) -> Option<Self> {
        let record = Record::read(project, cache)?;
        let changed = record.changed(project);
        let (component, debug) = (project.component.clone(), record.debug);
        (!changed.is_empty()).then_some(Self { component, changed, debug })
    }
}

impl Record {
    /// That of the project's component, if that is still what was built.
    pub(crate) fn read(project: &Project, cache: &Path) -> Option<Self> {
        let path = path(cache, &component(project));
        let is_small = fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= MAX_RECORD);
        let text = is_small.then(|| fs::read(path).ok()).flatten()?;
        let record: Self = serde_json::from_slice(&text).ok()?;
        let is_it = record.component == component(project) && changed_since(&record.built).is_empty();
        is_it.then_some(record)
    }

    /// The files that are no longer as they were when the component was built of them.
    pub(crate) fn changed(&self, project: &Project) -> Vec<PathBuf> {
        let mut changed = sources::changed(&self.files, &files(project, &self.files));
        changed.extend(changed_since(&self.others));
        changed
    }

    /// Whether the component is what would be built now.
    pub(crate) fn is_current(&self, project: &Project, now: &Now) -> bool {
        (self.made_with, self.debug) == (now.made_with, now.debug) && self.changed(project).is_empty()
    }

    /// Records that the component was built of `files`, and of `others` as they are now. A build whose record cannot be
    /// written is made again.
    pub(crate) fn write(project: &Project, cache: &Path, files: Files, others: &[PathBuf], now: &Now) {
        let others: Vec<_> = others.iter().filter(|path| !files.contains_key(*path)).cloned().collect();
        let record = Self {
            component: component(project),
            built: sources::look_at([&component(project)], &Files::new()),
            made_with: now.made_with,
            added: now.added,
            debug: now.debug,
            files,
            others: sources::look_at(&others, &Files::new()),
        };
        record.save(cache);
    }

    /// Records that the component now has something else of program.toml.
    pub(crate) fn finished(self, cache: &Path, added: u64) {
        Self { built: sources::look_at([&self.component], &Files::new()), added, ..self }.save(cache);
    }

    fn save(&self, cache: &Path) {
        let written = serde_json::to_vec(self).map_err(anyhow::Error::from);
        let written = written.and_then(|text| pack::write(&path(cache, &self.component), &text));
        if let Err(error) = written {
            tracing::debug!(%error, "what a component was built of cannot be noted");
        }
    }
}

fn changed_since(was: &Files) -> Vec<PathBuf> {
    sources::changed(was, &sources::look_at(was.keys(), was))
}

/// The files that a project's component is built of, as far as they lie in its folder.
pub(crate) fn files(project: &Project, known: &Files) -> Files {
    let outputs = language::of_project(project).map(Language::outputs).unwrap_or_default();
    let folder = folder(project);
    let left_out = outputs.iter().chain(NO_SOURCES).map(|path| folder.join(path));
    let ignored = left_out.chain([component(project)]).collect();
    Scope::new(&folder, ignored).look(known).1
}

/// The project's folder, by whichever name it was opened.
fn folder(project: &Project) -> PathBuf {
    project.folder.canonicalize().unwrap_or_else(|_| project.folder.clone())
}

fn component(project: &Project) -> PathBuf {
    folder(project).join(project.relative(&project.component))
}

fn path(cache: &Path, component: &Path) -> PathBuf {
    let name = format!("{:016x}.json", xxh3_64(component.as_os_str().as_encoded_bytes()));
    cache.join(FOLDER).join(name)
}

/// Removes from haft's `cache` what was recorded of components that are gone.
///
/// # Errors
/// A record cannot be read or removed.
pub fn sweep(cache: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(cache.join(FOLDER)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        // One that is being written has another name until it is whole.
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let record = serde_json::from_slice::<Record>(&fs::read(&path)?);
        if !record.is_ok_and(|record| record.component.exists()) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
