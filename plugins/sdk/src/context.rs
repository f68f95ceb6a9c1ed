//! The context of a call besides its arguments. Grants no rights: those belong to the component.

use std::path::{Path, PathBuf};

use crate::{Level, host, path};

/// What a call is handed: a way to talk to the person, and what paths mean.
#[derive(Clone, Debug, Default)]
pub struct Context {
    id: String,
    workspace: Option<PathBuf>,
    home: Option<PathBuf>,
}

impl Context {
    /// A context for tests outside a component: relative paths start from `workspace`, `~` means
    /// `home`, and logs go to stderr.
    pub fn for_tests(workspace: impl Into<PathBuf>, home: impl Into<PathBuf>) -> Self {
        Self { id: "test".into(), workspace: Some(workspace.into()), home: Some(home.into()) }
    }

    /// The context of the call `id`, as the host tells it.
    #[cfg(target_family = "wasm")]
    pub(crate) fn of_call(id: String) -> Self {
        let workspace = host::workspace().map(PathBuf::from);
        Self { id, workspace, home: host::home().map(PathBuf::from) }
    }

    /// Makes the workspace the directory that relative paths of `std::fs` start from.
    #[cfg(target_family = "wasm")]
    pub(crate) fn enter_workspace(&self) -> Result<(), crate::Error> {
        let Some(workspace) = &self.workspace else { return Ok(()) };
        std::env::set_current_dir(workspace).map_err(|error| {
            crate::Error::failed(format!("cannot enter the workspace `{}`: {error}", workspace.display()))
        })
    }

    /// Names the call among those under way; for logs.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Tells the person, not the model.
    pub fn log(&self, level: Level, message: impl AsRef<str>) {
        host::log(level, message.as_ref());
    }

    /// Tells how far the call has come: `done` of `total`, in a unit of your own. Without a
    /// `total` the end is unknown.
    pub fn progress(&self, done: f64, total: impl Into<Option<f64>>, message: impl AsRef<str>) {
        host::progress(done, total.into(), message.as_ref());
    }

    /// Whether the caller no longer wants the answer. Ask now and then in long work, to leave
    /// things tidy; a tool that never asks is stopped all the same.
    pub fn cancelled(&self) -> bool {
        host::cancelled()
    }

    /// The directory that relative paths start from, where there is one. Whether it may be read is
    /// another question.
    pub fn workspace(&self) -> Option<&Path> {
        self.workspace.as_deref()
    }

    /// What a path means that a model wrote: `~` is the home directory, a relative path starts
    /// from the workspace, and `..` may reach a directory above it, as outside the sandbox. A slash
    /// at the end stays, unless a directory is there: no file has one.
    ///
    /// Whether the path may be used is decided where it is used. Without a workspace a relative
    /// path stays as it is.
    pub fn path(&self, written: impl AsRef<str>) -> PathBuf {
        path::resolve(written.as_ref(), self.workspace.as_deref(), self.home.as_deref(), path::is_directory)
    }
}
