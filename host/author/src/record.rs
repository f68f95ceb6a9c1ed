//! Records the inputs of built components in haft's cache, to skip builds without changes and to detect
//! components that are older than their sources. A component that was built on another machine has no record.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::language;
use super::pack;
use super::project::Project;
use super::sources::{self, Files, Scope};
use super::suite;

/// The folder in haft's cache, with one file per built component.
const FOLDER: &str = "builds";

/// Limit on the bytes of a record: more than that of a project with the maximum number of files.
const MAX_RECORD: u64 = 16 << 20;

/// Files of a project's folder that do not affect a component, besides its tests. haft itself adds the relevant
/// part of program.toml to the component.
const NO_SOURCES: &[&str] =
    &[suite::FOLDER, "program.toml", "program.lock", "README.md", "CHANGELOG.md", "LICENSE"];

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    component: PathBuf,
    built: Files,
    /// Hash of the tools with their versions, of `[build]` and of haft's version.
    made_with: u64,
    /// Hash of the part of program.toml that haft added.
    pub(crate) added: u64,
    debug: bool,
    files: Files,
    /// Files outside the project's folder, or written by the tools.
    others: Files,
}

#[derive(Debug)]
pub(crate) struct Now {
    pub(crate) made_with: u64,
    pub(crate) added: u64,
    pub(crate) debug: bool,
}

/// A component that is older than its sources.
#[derive(Debug)]
pub struct Stale {
    /// The component.
    pub component: PathBuf,
    /// The files that were changed, added or removed since the build.
    pub changed: Vec<PathBuf>,
    /// Whether the component was built with debug information.
    pub debug: bool,
}

impl Stale {
    /// Compares `project` with the record of its component in haft's `cache`. `None` if nothing changed, or
    /// without a record.
    pub fn of(project: &Project, cache: &Path) -> Option<Self> {
        let record = Record::read(project, cache)?;
        let changed = record.changed(project);
        let (component, debug) = (project.component.clone(), record.debug);
        (!changed.is_empty()).then_some(Self { component, changed, debug })
    }
}

impl Record {
    /// Reads the record of the project's component, if the component is unchanged since the build.
    pub(crate) fn read(project: &Project, cache: &Path) -> Option<Self> {
        let path = path(cache, &component(project));
        let is_small = fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= MAX_RECORD);
        let text = is_small.then(|| fs::read(path).ok()).flatten()?;
        let record: Self = serde_json::from_slice(&text).ok()?;
        let is_current = record.component == component(project) && changed_since(&record.built).is_empty();
        is_current.then_some(record)
    }

    pub(crate) fn changed(&self, project: &Project) -> Vec<PathBuf> {
        let mut changed = sources::changed(&self.files, &files(project, &self.files));
        changed.extend(changed_since(&self.others));
        changed
    }

    /// Reports whether a build now would give an equal component.
    pub(crate) fn is_current(&self, project: &Project, now: &Now) -> bool {
        (self.made_with, self.debug) == (now.made_with, now.debug) && self.changed(project).is_empty()
    }

    /// Records that the component was built from `files`, and from `others` in their current state. After a
    /// failed write the next build runs again.
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

    /// Records that the component now contains another part of program.toml.
    pub(crate) fn finished(self, cache: &Path, added: u64) {
        Self { built: sources::look_at([&self.component], &Files::new()), added, ..self }.save(cache);
    }

    fn save(&self, cache: &Path) {
        let written = serde_json::to_vec(self).map_err(anyhow::Error::from);
        let written = written.and_then(|text| pack::write(&path(cache, &self.component), &text));
        if let Err(error) = written {
            tracing::debug!(%error, "cannot record the sources of a component");
        }
    }
}

fn changed_since(was: &Files) -> Vec<PathBuf> {
    sources::changed(was, &sources::look_at(was.keys(), was))
}

/// Returns the files of the project's folder that affect its component.
pub(crate) fn files(project: &Project, known: &Files) -> Files {
    let outputs = language::of_project(project).map(|language| language.facts().outputs).unwrap_or_default();
    let folder = folder(project);
    let left_out = outputs.iter().chain(NO_SOURCES).map(|path| folder.join(path));
    let ignored = left_out.chain([component(project)]).collect();
    Scope::new(&folder, ignored).look(known).1
}

/// Returns the project's folder without links.
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

/// Removes the records of deleted components from haft's `cache`.
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
        // A record that is being written has another extension.
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
