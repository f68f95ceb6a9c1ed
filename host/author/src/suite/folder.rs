//! The temporary folder of a case: contains only the case's files, and is removed after the call.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use tempfile::TempDir;

use super::case::{Case, Grants};
use haft_core::grant::{Grant, Root};

/// Limit on the files and folders that are copied for one case.
const MAX_ENTRIES: usize = 10_000;

/// Limit on the bytes that are copied for one case.
const MAX_COPIED: u64 = 256 << 20;

/// Limit on the depth of copied folders.
const MAX_DEPTH: usize = 32;

pub(super) struct CaseFolder {
    root: Root,
    dir: Dir,
    _temporary: TempDir,
}

struct Budget {
    entries: usize,
    bytes: u64,
}

impl CaseFolder {
    /// Creates the folder of `case` for the call. `tests` contains the folder to copy.
    pub(super) fn new(case: &Case, tests: &Path) -> anyhow::Result<Self> {
        let temporary = TempDir::with_prefix("haft-test-")?;
        let root = Root::resolve(Path::new("/"), temporary.path())?;
        let dir = Dir::open_ambient_dir(temporary.path(), ambient_authority())?;
        if let Some(folder) = &case.folder {
            let shown = folder.display();
            let from =
                Dir::open_ambient_dir(tests, ambient_authority()).and_then(|tests| tests.open_dir(folder));
            let from = from.with_context(|| format!("cannot open the folder `{shown}` below `tests`"))?;
            let mut budget = Budget { entries: MAX_ENTRIES, bytes: MAX_COPIED };
            copy(&from, &dir, &mut budget, MAX_DEPTH).with_context(|| format!("cannot copy `{shown}`"))?;
        }
        write(&dir, &case.files)?;
        Ok(Self { root, dir, _temporary: temporary })
    }

    /// Returns the grant of a case; its directories are relative to this folder.
    pub(super) fn grant(&self, grants: &Grants) -> anyhow::Result<Grant> {
        let root = |path: &PathBuf| -> anyhow::Result<Root> {
            let root = Root::resolve(self.root.path(), path)?;
            let path = path.display();
            anyhow::ensure!(
                self.root.contains(&root),
                "`{path}` is outside the test's folder; a test can grant only that folder"
            );
            Ok(root)
        };
        let mut grant = Grant::none().with_workspace(self.root.clone());
        for path in &grants.read {
            grant = grant.with_read(root(path)?);
        }
        for path in &grants.write {
            grant = grant.with_write(root(path)?);
        }
        let grant = grants.hosts.iter().cloned().fold(grant, Grant::with_host);
        Ok(grants.env.iter().fold(grant, |grant, (name, value)| grant.with_value(name, value)))
    }

    pub(super) fn read(&self, path: &Path) -> io::Result<String> {
        self.dir.read_to_string(path)
    }

    /// Replaces this folder's path, which differs in each run, by `$FOLDER` in `text`.
    pub(super) fn masked(&self, text: &str) -> String {
        [self.root.real(), self.root.path()]
            .iter()
            .fold(text.to_owned(), |text, path| text.replace(path.to_string_lossy().as_ref(), "$FOLDER"))
    }
}

fn write(dir: &Dir, files: &BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
    for (path, text) in files {
        let shown = path.display();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent
            .map_or(Ok(()), |parent| dir.create_dir_all(parent))
            .with_context(|| format!("cannot make `{shown}`"))?;
        dir.write(path, text).with_context(|| format!("cannot write `{shown}`"))?;
    }
    Ok(())
}

/// Copies files and folders; skips links, because they may lead anywhere.
fn copy(from: &Dir, to: &Dir, budget: &mut Budget, depth: usize) -> io::Result<()> {
    for entry in from.entries()? {
        let (entry, full) = (entry?, || io::Error::other("it is too large or too deep for a test"));
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        budget.entries = budget.entries.checked_sub(1).ok_or_else(full)?;
        if kind.is_dir() {
            let depth = depth.checked_sub(1).ok_or_else(full)?;
            to.create_dir(&name)?;
            copy(&entry.open_dir()?, &to.open_dir(&name)?, budget, depth)?;
        } else if kind.is_file() {
            budget.bytes = budget.bytes.checked_sub(entry.metadata()?.len()).ok_or_else(full)?;
            from.copy(&name, to, &name)?;
        }
    }
    Ok(())
}
