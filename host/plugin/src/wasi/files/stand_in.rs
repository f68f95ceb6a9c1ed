//! The stand-in for `/` that every guest gets. It is not a real directory: each path below it is interpreted
//! (`relative`) and resolved in the granted directory that contains it; a path in none is refused and recorded for
//! hints. The workspace itself is visible, so that a guest can start in it. The stand-in cannot be listed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntryStream, ErrorCode, HostDescriptor,
    MetadataHashValue, OpenFlags,
};
use wasmtime_wasi::{FsPerms, OpenMode};

use super::open::OpenRequest;
use super::relative::{HandedDirectory, NAME, names_directory, split, upwards};
use super::view::Files;
use crate::denials::denied_access::AccessKind;
use crate::wasi::files::resolve::{Bounds, Links};
use haft_core::grant::Preopen;

/// The object of the stand-in's handle, open once for all guests: no path can be resolved below it.
static NOTHING: OnceLock<Dir> = OnceLock::new();

pub(super) const HASH: MetadataHashValue = MetadataHashValue { lower: 0, upper: 0 };

pub(super) fn stat() -> DescriptorStat {
    DescriptorStat {
        type_: DescriptorType::Directory,
        link_count: 1,
        size: 0,
        data_access_timestamp: None,
        data_modification_timestamp: None,
        status_change_timestamp: None,
    }
}

impl Files<'_> {
    /// Returns the directory for all other paths, and whether it is the workspace itself. `None` for a guest that
    /// has all of `/` and uses absolute paths.
    pub(super) fn relative_root(&mut self, preopens: &[Preopen]) -> Option<(Dir, bool)> {
        let base = self.grant.base().filter(|_| !self.relative.can_ask);
        if base.is_none() && preopens.iter().any(|preopen| preopen.name == NAME) {
            return None;
        }
        if let Some(base) = base
            && let Some((preopen, rest)) = split(preopens, Some(base), base.path())
            && let Ok(directory) = self.preopen(&preopen)
            && let Ok(workspace) = self.below(&directory, &rest)
        {
            return Some((workspace, true));
        }
        if NOTHING.get().is_none() {
            let nothing = Dir::new(File::open("/dev/null").ok()?, FsPerms::ReadOnly, OpenMode::READ, true);
            // Another guest may have been faster.
            let _ = NOTHING.set(nothing);
        }
        NOTHING.get().map(|nothing| (nothing.clone(), false))
    }

    fn below(&mut self, directory: &Dir, rest: &str) -> FsResult<Dir> {
        let flags = if directory.perms.write_not_permitted() {
            DescriptorFlags::READ
        } else {
            DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY
        };
        let request = OpenRequest::new(OpenFlags::DIRECTORY, flags)?;
        match self.open(directory, rest, Links::Follow, request)? {
            Descriptor::Dir(directory) => Ok(directory),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    pub(super) async fn list(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<Resource<DirectoryEntryStream>> {
        if !self.is_listed(&fd) {
            return Err(ErrorCode::Access.into());
        }
        self.inner.read_directory(fd).await
    }

    /// Returns whether `fd` is a real directory, which can be listed.
    pub(super) fn is_listed(&self, fd: &Resource<Descriptor>) -> bool {
        !matches!(self.handed(fd), Some(HandedDirectory::Root { is_workspace: false }))
    }

    /// Returns whether `path` below `fd` is the workspace, and the complete workspace is not granted.
    pub(super) fn is_way(&self, fd: &Resource<Descriptor>, path: &str) -> bool {
        let Some(base) = self.grant.base() else { return false };
        if !matches!(self.handed(fd), Some(HandedDirectory::Root { .. })) {
            return false;
        }
        let (whole, _) = self.relative.meaning(Some(base), path);
        (whole == base.path() || whole == base.real())
            && split(&self.grant.preopens(), Some(base), &whole).is_none()
    }

    /// Returns the directory that `path` below `fd` starts from, and the way from there.
    pub(super) fn at(
        &mut self,
        fd: &Resource<Descriptor>,
        path: String,
        what_for: AccessKind,
    ) -> FsResult<(Dir, String)> {
        let directory = self.directory(fd)?;
        let Some((whole, is_named)) = self.in_full(fd, &path) else { return Ok((directory, path)) };
        let (preopen, mut rest) = match self.lies_in(whole) {
            Ok(found) => found,
            Err(whole) => return Err(self.outside(fd, (&whole, is_named), what_for).into()),
        };
        if names_directory(&path) && rest != "." {
            rest.push('/');
        }
        let directory = self.preopen(&preopen).map_err(|problem| {
            self.denied.unopened(&preopen.name, problem);
            self.denied.refuse(&Path::new(&preopen.name).join(&rest), what_for, self.grant);
            ErrorCode::NoEntry
        })?;
        Ok((directory, rest))
    }

    /// Returns the absolute path of `path` below `fd`, and whether the call's arguments name it. `None` if the
    /// kernel should resolve it below that very directory.
    fn in_full(&self, fd: &Resource<Descriptor>, path: &str) -> Option<(PathBuf, bool)> {
        match self.handed(fd)? {
            HandedDirectory::Root { .. } => Some(self.relative.meaning(self.grant.base(), path)),
            HandedDirectory::Granted(name) if self.bounds() == Bounds::Beneath => {
                Some((upwards(name, path)?, true))
            }
            HandedDirectory::Granted(_) | HandedDirectory::Private(_) => None,
        }
    }

    /// Returns the granted directory that contains `whole`, and the path below it; `whole` itself without such a
    /// directory.
    fn lies_in(&self, mut whole: PathBuf) -> Result<(Preopen, String), PathBuf> {
        let preopens = self.grant.preopens();
        loop {
            let Some((preopen, rest)) = split(&preopens, self.grant.base(), &whole) else {
                return Err(whole);
            };
            // Into a directory and out of it again: the rest has fewer `..`.
            match upwards(Path::new(&preopen.name), &rest) {
                Some(next) => whole = next,
                None => return Ok((preopen, rest)),
            }
        }
    }

    /// Returns the error for a path in no granted directory, and records it. A path that no argument names is
    /// reported as missing: libraries probe for optional files, and take any other error for a failure.
    fn outside(
        &mut self,
        fd: &Resource<Descriptor>,
        (whole, is_named): (&Path, bool),
        what_for: AccessKind,
    ) -> ErrorCode {
        if !is_named {
            self.denied.refuse_unnamed(whole.to_owned(), what_for);
            return ErrorCode::NoEntry;
        }
        self.denied.refuse(whole, what_for, self.grant);
        let is_granted = matches!(self.handed(fd), Some(HandedDirectory::Granted(_)));
        if is_granted || self.relative.is_location_known {
            ErrorCode::NotPermitted
        } else {
            ErrorCode::NoEntry
        }
    }
}
