//! Relative paths of guests that know nothing of haft.
//!
//! A C library that is not told otherwise takes `x` for `/x`, and asks for the one directory it has
//! that is called `/`: whoever hands out the workspace by that name makes `/etc/x` a file of the
//! workspace, and nobody notices. But without it relative paths lead nowhere, and most paths that
//! models write are relative. So there is such a directory, it is no directory of its own, and each
//! path below it is taken for what it was before the library shortened it:
//!
//! - **As the call has it.** Where an argument is that path, or a part or a parent of it, with a slash
//!   at its beginning, it is absolute; without, relative to the workspace.
//! - **Else it is the guest's own idea.** It is absolute where this machine has something of its first
//!   name in `/` and the workspace has not (`/etc`, `/usr`, `/tmp`), else relative.
//!
//! Either way only the directories of the grant are there. Plugins of the `haft:plugin` world get no
//! such directory: they ask haft where they are.

use std::fs::symlink_metadata;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorFlags, ErrorCode, OpenFlags};
use wasmtime_wasi::{FsPerms, OpenMode};

use super::super::wanted::Use;
use super::Files;
use super::look::Links;
use super::open::Wish;
use crate::grant::{Preopen, normalise};

/// The name that C libraries look relative paths up by, and Go's takes its working directory from.
pub(super) const NAME: &str = "/";

/// Arguments of a call that may be paths; a call names a few.
const MAX_NAMED: usize = 1000;

/// Bytes of a path, as Linux has it.
const MAX_PATH: usize = 4096;

/// What is known about relative paths of one guest.
#[derive(Default)]
pub(in crate::plugin) struct Relative {
    /// Whether the guest needs any of this.
    is_needed: bool,
    /// Descriptors that stand for [`NAME`], and whether they are the workspace itself.
    handles: Vec<(u32, bool)>,
    /// Texts among the arguments of the call.
    named: Vec<String>,
}

impl Relative {
    /// For a guest that is not told where it is.
    pub(in crate::plugin) fn needed(is_needed: bool) -> Self {
        Self { is_needed, ..Self::default() }
    }

    /// Takes down what the arguments of a call could mean by a path.
    pub(in crate::plugin) fn hear(&mut self, arguments: &Value) {
        self.named.clear();
        if self.is_needed {
            texts(arguments, &mut self.named);
        }
    }

    /// Forgets a descriptor that the guest gives back.
    pub(super) fn drop(&mut self, fd: u32) {
        self.handles.retain(|(handle, _)| *handle != fd);
    }

    fn handle(&self, fd: u32) -> Option<bool> {
        self.handles.iter().find(|(handle, _)| *handle == fd).map(|(_, is_workspace)| *is_workspace)
    }

    /// What `path`, as the guest's library has shortened it, was: the whole path, and whether the call
    /// speaks of it.
    fn meaning(&self, base: &Path, path: &str) -> (PathBuf, bool) {
        let absolute = normalise(&Path::new("/").join(path));
        let is_named = |slash: bool| {
            let alike = self.named.iter().filter(|named| named.starts_with('/') == slash);
            alike.map(|named| normalise(&Path::new("/").join(named))).any(|named| are_kin(&named, &absolute))
        };
        let relative = || normalise(&base.join(path));
        match (is_named(true), is_named(false)) {
            (_, true) => (relative(), true),
            (true, false) => (absolute, true),
            (false, false) if is_of_the_system(base, &absolute) => (absolute, false),
            (false, false) => (relative(), false),
        }
    }
}

/// The texts in a value that could be paths.
fn texts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) if !text.is_empty() && text.len() <= MAX_PATH && into.len() < MAX_NAMED => {
            into.push(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, into)),
        Value::Object(entries) => entries.values().for_each(|item| texts(item, into)),
        _ => {}
    }
}

/// Whether one path is the other, or leads to it.
fn are_kin(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// Whether the first name of a path is one of this machine's and none of the workspace's.
fn is_of_the_system(base: &Path, path: &Path) -> bool {
    let first = path.components().find_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    first.is_some_and(|first| {
        let is_there = |directory: &Path| symlink_metadata(directory.join(first)).is_ok();
        is_there(Path::new("/")) && !is_there(base)
    })
}

/// The directory that a path lies in, and the way from there.
fn split(preopens: Vec<Preopen>, path: &Path) -> Option<(Preopen, String)> {
    let covers = preopens.into_iter().filter(|preopen| path.starts_with(&preopen.name));
    let preopen = covers.max_by_key(|preopen| preopen.name.len())?;
    let rest = path.strip_prefix(&preopen.name).ok()?.to_str()?.to_owned();
    Some((preopen, if rest.is_empty() { ".".to_owned() } else { rest }))
}

impl Files<'_> {
    /// The directory for relative paths, where the guest needs one and is granted anything.
    pub(super) fn relative_root(&mut self) -> Option<(Dir, bool)> {
        let base = self.grant.base().filter(|_| self.relative.is_needed)?.path().to_owned();
        let preopens = self.grant.preopens();
        if let Some((preopen, rest)) = split(preopens.clone(), &base)
            && let Ok(directory) = self.preopen(&preopen)
            && let Ok(workspace) = self.below(&directory, &rest)
        {
            return Some((workspace, true));
        }
        // Nothing is ever looked up in it, and it lists nothing.
        let mut stand_in = preopens.iter().find_map(|preopen| self.preopen(preopen).ok())?;
        (stand_in.perms, stand_in.open_mode) = (FsPerms::ReadOnly, OpenMode::READ);
        Some((stand_in, false))
    }

    fn below(&mut self, directory: &Dir, rest: &str) -> FsResult<Dir> {
        let flags = match directory.perms.write_not_permitted() {
            true => DescriptorFlags::READ,
            false => DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY,
        };
        let wish = Wish::new(OpenFlags::DIRECTORY, flags)?;
        match self.open(directory, rest, Links::Follow, wish)? {
            Descriptor::Dir(directory) => Ok(directory),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    /// Remembers that a descriptor stands for [`NAME`].
    pub(super) fn stands_for_root(&mut self, fd: &Resource<Descriptor>, is_workspace: bool) {
        self.relative.handles.push((fd.rep(), is_workspace));
    }

    /// Whether a directory can be listed: what only stands for one has no entries.
    pub(super) fn is_listed(&self, fd: &Resource<Descriptor>) -> bool {
        self.relative.handle(fd.rep()) != Some(false)
    }

    /// The directory that `path` below `fd` starts from, and the way from there.
    pub(super) fn at(
        &mut self,
        fd: &Resource<Descriptor>,
        path: String,
        what_for: Use,
    ) -> FsResult<(Dir, String)> {
        let directory = self.directory(fd)?;
        let base = self.grant.base().filter(|_| self.relative.handle(fd.rep()).is_some());
        let Some(base) = base else { return Ok((directory, path)) };
        let (whole, is_named) = self.relative.meaning(base.path(), &path);
        let Some((preopen, mut rest)) = split(self.grant.preopens(), &whole) else {
            if is_named {
                self.wanted.refuse(&whole, what_for, self.grant);
            } else {
                self.wanted.missed = true;
            }
            return Err(ErrorCode::NoEntry.into());
        };
        if path.ends_with('/') {
            rest.push('/');
        }
        let directory = self.preopen(&preopen).map_err(|_| ErrorCode::NoEntry)?;
        Ok((directory, rest))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meaning(arguments: &Value, path: &str) -> (String, bool) {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("usr")).unwrap();
        let mut relative = Relative::needed(true);
        relative.hear(arguments);
        let (path, is_named) = relative.meaning(base.path(), path);
        let shown = path
            .strip_prefix(base.path())
            .map_or_else(|_| path.display().to_string(), |rest| format!("WORKSPACE/{}", rest.display()));
        (shown, is_named)
    }

    #[test]
    fn a_path_is_what_the_call_says_it_is() {
        let nothing = json!({});
        for (arguments, path, expected) in [
            (json!({ "path": "/zzz" }), "zzz", ("/zzz", true)),
            (json!({ "path": "zzz" }), "zzz", ("WORKSPACE/zzz", true)),
            (json!({ "paths": [{ "to": "/zzz/a/../b" }] }), "zzz/b", ("/zzz/b", true)),
            // The parents of a file that is to be made, and what is in a directory that was named.
            (json!({ "path": "/zzz/a/b" }), "zzz/a", ("/zzz/a", true)),
            (json!({ "path": "/zzz" }), "zzz/a/b", ("/zzz/a/b", true)),
            (json!({ "path": "." }), "etc", ("WORKSPACE/etc", true)),
            (json!({ "path": "tmp/x" }), "tmp/x", ("WORKSPACE/tmp/x", true)),
            (json!({ "path": "/tmp/x", "name": "tmp" }), "tmp/x", ("WORKSPACE/tmp/x", true)),
            // What nobody spoke of.
            (nothing.clone(), "etc/passwd", ("/etc/passwd", false)),
            (nothing.clone(), "usr/local", ("WORKSPACE/usr/local", false)),
            (nothing.clone(), "no-such-name-here/x", ("WORKSPACE/no-such-name-here/x", false)),
            (json!({ "text": "" }), "etc/passwd", ("/etc/passwd", false)),
        ] {
            assert_eq!(meaning(&arguments, path), (expected.0.to_owned(), expected.1), "{arguments} {path}");
        }
    }

    #[test]
    fn a_guest_that_asks_where_it_is_is_not_listened_to() {
        let mut relative = Relative::needed(false);
        relative.hear(&json!({ "path": "/zzz" }));
        assert!(relative.named.is_empty());
        let mut relative = Relative::needed(true);
        relative.hear(&json!(["x".repeat(MAX_PATH + 1), vec!["y"; MAX_NAMED + 1]]));
        assert_eq!(relative.named.len(), MAX_NAMED);
    }
}
