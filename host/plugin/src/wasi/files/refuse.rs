//! Refuses protected paths, and records refusals for hints. Decisions depend on the resolved object, never on its
//! name.

use std::io;
use std::path::PathBuf;

use rustix::fs::FileType;
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{FsError, FsResult};

use super::open::has_code;
use crate::denials::denied_access::{AccessKind, Protection};
use crate::wasi::files::protected::{ProtectedObject, ProtectionCheck};
use crate::wasi::files::resolve::{self, Bounds, Links, Object, resolve_path};
use crate::wasi::files::view::Files;

/// Maximum number of attempts to resolve a path whose object disappears before its check, as when another process
/// keeps replacing a file.
const MAX_ATTEMPTS: usize = 40;

impl Files<'_> {
    /// Resolves `path` below `directory`. Returns the object and its protection.
    pub(super) fn resolve_and_check(
        &mut self,
        directory: &Dir,
        path: &str,
        links: Links,
        bounds: Bounds,
    ) -> FsResult<(Object, Option<ProtectedObject>)> {
        for _ in 0..MAX_ATTEMPTS {
            let object = match resolve_path(directory, path, links, bounds) {
                Ok(object) => object,
                Err(error) => return Err(self.missing_path_error(directory, path, bounds, error)),
            };
            match self.protected_paths.check(&object).map_err(resolve::error)? {
                ProtectionCheck::Gone => {}
                ProtectionCheck::Free => return Ok((object, None)),
                ProtectionCheck::Protected(protection) => return Ok((object, Some(protection))),
            }
        }
        Err(ErrorCode::NoEntry.into())
    }

    /// Resolves the object of a metadata query. A hidden directory itself is visible, because listing its parent
    /// shows it; its content is not.
    pub(super) fn resolve_visible(
        &mut self,
        directory: &Dir,
        path: &str,
        links: Links,
        bounds: Bounds,
    ) -> FsResult<Object> {
        match self.resolve_and_check(directory, path, links, bounds)? {
            (object, Some(ProtectedObject { level: Protection::Hidden, itself: false })) => {
                Err(self.refuse(Protection::Hidden, resolve::real_path(&object.file), AccessKind::Read))
            }
            (object, _) => Ok(object),
        }
    }

    pub(super) fn refuse(
        &mut self,
        level: Protection,
        place: io::Result<PathBuf>,
        what_for: AccessKind,
    ) -> FsError {
        if let Ok(place) = place {
            self.denied.record_protected(level, place, what_for);
        }
        // Another error than for a path outside the grant: no grant would help.
        ErrorCode::Access.into()
    }

    /// Returns the error of a path that does not resolve. Below a hidden directory it must not reveal whether the
    /// path exists.
    pub(super) fn missing_path_error(
        &mut self,
        directory: &Dir,
        path: &str,
        bounds: Bounds,
        error: FsError,
    ) -> FsError {
        if self.protected_paths.hides_nothing() {
            return error;
        }
        let mut above = path.trim_end_matches('/');
        while let Some((parent, _)) = above.rsplit_once('/') {
            above = parent;
            let found =
                resolve_path(directory, if above.is_empty() { "/" } else { above }, Links::Follow, bounds);
            let Ok(found) = found else { continue };
            return match self.protected_paths.protection_of(&found) {
                Ok(Some(ProtectedObject { level: Protection::Hidden, .. })) => {
                    self.refuse(Protection::Hidden, resolve::real_path(&found.file), AccessKind::Read)
                }
                _ => error,
            };
        }
        error
    }

    /// Records a path that was refused for lack of a right, for the hints of the answer.
    pub(super) fn record_refusal<T>(
        &mut self,
        (directory, path): (&Dir, &str),
        what_for: AccessKind,
        result: &FsResult<T>,
    ) {
        let is_refused = matches!(result, Err(error) if has_code(error, ErrorCode::NotPermitted));
        // No line of program.toml grants a path outside of a private directory.
        if !is_refused || self.inside.is_some() {
            return;
        }
        let Ok(place) = resolve::place(directory, path) else { return };
        self.denied.refuse(&place, what_for, self.grant);
        if let Some(link) = escaping_link(directory, path) {
            self.denied.escaping_links.record(link);
        }
    }

    pub(super) fn record_refusals<T>(&mut self, from: (&Dir, &str), to: (&Dir, &str), result: &FsResult<T>) {
        for place in [from, to] {
            self.record_refusal(place, AccessKind::Write, result);
        }
    }
}

fn escaping_link(directory: &Dir, path: &str) -> Option<PathBuf> {
    let mut ends = path.trim_end_matches('/').match_indices('/').map(|(end, _)| end).chain([path.len()]);
    let link = ends.find_map(|end| {
        let part = path.get(..end).filter(|part| !part.is_empty())?;
        match resolve_path(directory, part, Links::Follow, Bounds::Beneath) {
            Err(error) if has_code(&error, ErrorCode::NotPermitted) => {
                let itself = resolve_path(directory, part, Links::Keep, Bounds::Beneath).ok()?;
                (itself.kind() == FileType::Symlink).then(|| resolve::place(directory, part))
            }
            _ => None,
        }
    });
    link?.ok()
}
