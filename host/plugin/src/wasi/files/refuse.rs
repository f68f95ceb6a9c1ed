//! What is refused whatever the grant says, and a note of what was refused for want of one.
//! Decides by what is there, never by its name.

use std::io;
use std::path::PathBuf;

use rustix::fs::FileType;
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{FsError, FsResult};

use super::open::is;
use crate::denials::denied_access::Use;
use crate::wasi::files::protected::{Closed, Judged, ProtectedObject};
use crate::wasi::files::resolve;
use crate::wasi::files::resolve::{Bounds, Links, Object, look};
use crate::wasi::files::view::Files;

/// How often an object is looked for that loses its place while it is judged, as a file that another
/// process replaces again and again.
const MAX_TURNS: usize = 40;

impl Files<'_> {
    /// What `path` below `directory` leads to, and what keeps it closed.
    pub(super) fn judged(
        &mut self,
        directory: &Dir,
        path: &str,
        links: Links,
        bounds: Bounds,
    ) -> FsResult<(Object, Option<ProtectedObject>)> {
        for _ in 0..MAX_TURNS {
            let object = match look(directory, path, links, bounds) {
                Ok(object) => object,
                Err(error) => return Err(self.missed(directory, path, bounds, error)),
            };
            match self.seals.judge(&object).map_err(resolve::error)? {
                Judged::Gone => {}
                Judged::Free => return Ok((object, None)),
                Judged::ProtectedDirectory(seal) => return Ok((object, Some(seal))),
            }
        }
        Err(ErrorCode::NoEntry.into())
    }

    /// The same for somebody who asks about it. That a hidden directory is there anybody can see who
    /// lists the one above; what is in it nobody.
    pub(super) fn seen(
        &mut self,
        directory: &Dir,
        path: &str,
        links: Links,
        bounds: Bounds,
    ) -> FsResult<Object> {
        match self.judged(directory, path, links, bounds)? {
            (object, Some(ProtectedObject { closed: Closed::Hidden, itself: false })) => {
                Err(self.refuse(Closed::Hidden, resolve::real_path(&object.file), Use::Read))
            }
            (object, _) => Ok(object),
        }
    }

    /// The refusal of what is closed, with a note of it.
    pub(super) fn refuse(&mut self, closed: Closed, place: io::Result<PathBuf>, what_for: Use) -> FsError {
        if let Ok(place) = place {
            self.wanted.closed(closed, place, what_for);
        }
        // Not what a path outside the grant gets: no grant would help.
        ErrorCode::Access.into()
    }

    /// The error of a path that leads to nothing. What is missing in a hidden directory is as hidden
    /// as what is there.
    pub(super) fn missed(&mut self, directory: &Dir, path: &str, bounds: Bounds, error: FsError) -> FsError {
        if self.seals.hides_nothing() {
            return error;
        }
        let mut above = path.trim_end_matches('/');
        while let Some((parent, _)) = above.rsplit_once('/') {
            above = parent;
            let found = look(directory, if above.is_empty() { "/" } else { above }, Links::Follow, bounds);
            let Ok(found) = found else { continue };
            return match self.seals.on(&found) {
                Ok(Some(ProtectedObject { closed: Closed::Hidden, .. })) => {
                    self.refuse(Closed::Hidden, resolve::real_path(&found.file), Use::Read)
                }
                _ => error,
            };
        }
        error
    }

    /// Remembers what was refused for want of a right, for the hint that goes with the answer.
    pub(super) fn note<T>(&mut self, (directory, path): (&Dir, &str), what_for: Use, result: &FsResult<T>) {
        if !matches!(result, Err(error) if is(error, ErrorCode::NotPermitted)) {
            return;
        }
        let Ok(place) = resolve::place(directory, path) else { return };
        self.wanted.refuse(&place, what_for, self.grant);
        if let Some(link) = stray(directory, path) {
            self.wanted.strays.note(link);
        }
    }

    /// The same of a file that was to go from one directory to another.
    pub(super) fn note_both<T>(&mut self, from: (&Dir, &str), to: (&Dir, &str), result: &FsResult<T>) {
        for place in [from, to] {
            self.note(place, Use::Write, result);
        }
    }
}

/// The first link of `path` that leads out of `directory`.
fn stray(directory: &Dir, path: &str) -> Option<PathBuf> {
    let mut ends = path.trim_end_matches('/').match_indices('/').map(|(end, _)| end).chain([path.len()]);
    let link = ends.find_map(|end| {
        let part = path.get(..end).filter(|part| !part.is_empty())?;
        match look(directory, part, Links::Follow, Bounds::Beneath) {
            Err(error) if is(&error, ErrorCode::NotPermitted) => {
                let itself = look(directory, part, Links::Keep, Bounds::Beneath).ok()?;
                (itself.kind() == FileType::Symlink).then(|| resolve::place(directory, part))
            }
            _ => None,
        }
    });
    link?.ok()
}
