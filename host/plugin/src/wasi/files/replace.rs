//! A file that is replaced by renaming another over it keeps its mode, owner and attributes, which WASI has no way to ask
//! for. Never follows a link.

use std::fs::File;
use std::io;

use haft_core::replace;
use rustix::fs::{Mode, OFlags, openat};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

/// How the name begins of a temporary file that will replace another one: what that holds may be for its user only, and it
/// becomes that file in all but content, or its rename fails.
pub(super) const PRIVATE: &str = ".haft-private-";

/// Enough to change a file's mode; waits for nothing.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Gives the file `old` what the file `new` is besides its content. A guest that asked for that by a [`PRIVATE`] name is
/// told that the file is busy where it is not to be had, and writes it as it lies there. What other guests cannot keep is
/// left as it is: the rename itself is what they asked for.
pub(super) fn keep((from, old): (&File, &str), (to, new): (&File, &str)) -> FsResult<()> {
    let is_private = old.starts_with(PRIVATE);
    let keep = || -> io::Result<bool> {
        let file = File::from(openat(from, old, READ, Mode::empty())?);
        replace::keep(to, new, &file)?;
        Ok(!is_private || !replace::has_other_names(to, new)?)
    };
    match keep() {
        Ok(true) => Ok(()),
        Err(error) if !is_private || error.kind() == io::ErrorKind::NotFound => {
            tracing::debug!(%error, "not all of a replaced file is kept");
            Ok(())
        }
        Ok(false) | Err(_) => Err(ErrorCode::Busy.into()),
    }
}
