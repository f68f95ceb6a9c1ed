//! Writes program.toml and program.lock: both or neither, by [`Project::change`].

use super::{Candidate, InstallError, Installer};
use crate::edit::{self, EditError, NewEntry};
use crate::{Change, Kind, Pin, Project, ProjectError, Request};

impl Installer<'_> {
    /// Removes entries from program.toml and their pins from program.lock, all of them or none. The content
    /// stays in the store: other programs may use it.
    ///
    /// # Errors
    /// An entry does not exist, or the files cannot be written.
    pub fn remove<S: AsRef<str>>(&self, names: &[S]) -> Result<(), InstallError> {
        let entries = names.iter().map(|name| self.project.entry(name.as_ref()));
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        self.change(|project| {
            let (mut text, mut lock) = (project.text.clone(), project.lock.clone());
            for entry in &entries {
                let name = entry.name.as_str();
                text = edited(project, edit::remove(&text, entry.kind, name))?;
                lock.remove(entry.kind, name);
            }
            Ok(Change { text, lock })
        })
    }

    /// Writes a new entry and its pin.
    pub(super) fn write_new(&self, candidate: &Candidate, granted: &[Request]) -> Result<(), InstallError> {
        let offered = &candidate.offered;
        let granted = written_in_entry(offered.kind, granted);
        self.change(|project| {
            let name = offered.name.as_str();
            if project.kind_of(name).is_some() {
                return Err(ProjectError::Taken { path: project.path.clone(), name: name.to_owned() });
            }
            let source = candidate.source.to_string();
            let entry = NewEntry { kind: offered.kind, name, source: &source, granted: &granted };
            let text = edited(project, edit::add(&edit::begun(&project.text, project.folder()), &entry))?;
            let mut lock = project.lock.clone();
            lock.put(candidate.pin(&granted));
            Ok(Change { text, lock })
        })
    }

    /// Pins an entry and leaves program.toml unchanged.
    pub(super) fn write_pin(&self, pin: Pin) -> Result<(), InstallError> {
        self.change(|project| {
            let mut lock = project.lock.clone();
            lock.put(pin);
            Ok(Change { text: project.text.clone(), lock })
        })
    }

    /// Pins an existing entry; writes its source, if it changed, and its new grants.
    pub(super) fn write_update(&self, pin: Pin, new_grants: &[Request]) -> Result<(), InstallError> {
        let new_grants = written_in_entry(pin.kind, new_grants);
        self.change(|project| {
            let (kind, name) = (pin.kind, pin.name.as_str());
            let mut text = edited(project, edit::grant(&project.text, kind, name, &new_grants))?;
            if project.entry(name)?.source != pin.source {
                text = edited(project, edit::source(&text, kind, name, &pin.source.to_string()))?;
            }
            let mut lock = project.lock.clone();
            lock.put(pin);
            Ok(Change { text, lock })
        })
    }

    fn change(
        &self,
        change: impl FnOnce(&Project) -> Result<Change, ProjectError>,
    ) -> Result<(), InstallError> {
        Ok(Project::change(&self.project.path, self.store, change)?)
    }
}

/// Returns the grants that an entry stores: not a package's limits, which its own manifest holds; a component
/// has no other place for them.
fn written_in_entry(kind: Kind, granted: &[Request]) -> Vec<Request> {
    let is_package = kind == Kind::Package;
    let is_written = |request: &&Request| !(is_package && matches!(request, Request::Limit(..)));
    granted.iter().filter(is_written).cloned().collect()
}

fn edited(project: &Project, text: Result<String, EditError>) -> Result<String, ProjectError> {
    text.map_err(|error| ProjectError::Edit { path: project.path.clone(), error })
}
