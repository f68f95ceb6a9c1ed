//! Overwrites a file in place if it cannot be replaced by another file: its directory takes no new file, or the
//! file is a mount point, has several hard links, or belongs to another user. If the new content cannot be written
//! completely, the complete old content is restored.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use haft_plugin::{Context, Error};

use crate::problem::{Action, words};
use crate::replace::{Content, Watched, failure};

/// Bytes of the old and of the new content: both are in memory meanwhile.
const MAX_BYTES: usize = 12 << 20;

/// New content in memory, with a bound.
#[derive(Default)]
struct Held(Vec<u8>);

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            return Err(io::Error::other(too_large()));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn too_large() -> String {
    format!(
        "no other file can take its place, and only {MAX_BYTES} bytes can be written to it as it lies there"
    )
}

/// Has `write` write the whole content of the file at `path`, unless `check` refuses then.
pub(crate) fn replace(
    context: &Context,
    path: &Path,
    write: impl FnOnce(&mut Content<'_>) -> io::Result<()>,
    check: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |error| Action::Write.failed(path, &error);
    let mut new = Held::default();
    Watched::fill(&mut new, context, write).map_err(failed)?;
    let mut file = File::options().write(true).open(path).map_err(failed)?;
    let old = read(path).map_err(failed)?;
    check()?;
    let Err(error) = overwrite(&mut file, &new.0) else { return Ok(()) };
    let error = failure(&file, error);
    // What it was written over takes no more room than before. In a guest nothing more can be written by way of `file`.
    let put_back = File::options().write(true).open(path).and_then(|mut file| overwrite(&mut file, &old));
    if put_back.is_ok() {
        return Err(failed(error));
    }
    let why = format!("{}; and its old content could not be put back", words(&error));
    Err(Action::Write.cannot(path, why))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut old = Vec::new();
    File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut old)?;
    if old.len() > MAX_BYTES { Err(io::Error::other(too_large())) } else { Ok(old) }
}

fn overwrite(file: &mut File, content: &[u8]) -> io::Result<()> {
    file.rewind()?;
    file.write_all(content)?;
    file.set_len(content.len() as u64)?;
    file.sync_all()
}
