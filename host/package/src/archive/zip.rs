//! Unpacks a zip archive, under the rules and limits of tar archives. Reads the central directory entry by entry;
//! checks the size and the checksum of every file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use flate2::read::DeflateDecoder;
use rawzip::{CompressionMethod, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ZipArchive};

use super::{ArchiveError, ErrorCapture, damaged, text, written};
use crate::folder::write;
use crate::inventory::{Inventory, Unfit};

/// The bits of a Unix mode that are the file's type.
const TYPE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;

/// Unpacks the archive `file` into the new folder `to`.
pub(crate) fn unpack(file: &Path, to: &Path) -> Result<(), ArchiveError> {
    // As with tar, the first pass writes nothing.
    pass(file, None)?;
    fs::create_dir(to).map_err(written(to))?;
    pass(file, Some(to))
}

fn pass(file: &Path, to: Option<&Path>) -> Result<(), ArchiveError> {
    let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let file = File::open(file).map_err(ArchiveError::Damaged)?;
    let archive = ZipArchive::from_file(file, &mut buffer).map_err(unreadable)?;
    let mut entries = archive.entries(&mut buffer);
    let mut inventory = Inventory::default();
    while let Some(entry) = entries.next_entry().map_err(unreadable)? {
        let path = text(entry.file_path().as_bytes())?;
        if let Some(folder) = path.strip_suffix('/') {
            inventory.folder(folder)?;
            continue;
        }
        let (mode, size) = (entry.mode().value(), entry.uncompressed_size_hint());
        if ![0, REGULAR].contains(&(mode & TYPE)) {
            let kind = if entry.mode().is_symlink() { "a symbolic link" } else { "not a regular file" };
            return Err(Unfit::Kind { path: haft_core::report::plain(&path), kind }.into());
        }
        inventory.file(&path, size)?;
        let Some(to) = to else { continue };
        let data = archive.get_entry(entry.wayfinder()).map_err(unreadable)?;
        let full = to.join(path);
        let is_executable = mode & 0o100 != 0;
        match entry.compression_method() {
            CompressionMethod::STORE => put(data.verifying_reader(data.reader()), &full, size, is_executable),
            CompressionMethod::DEFLATE => {
                put(data.verifying_reader(DeflateDecoder::new(data.reader())), &full, size, is_executable)
            }
            _ => Err(ArchiveError::Damaged(io::Error::other("its compression is not deflate"))),
        }?;
    }
    Ok(())
}

/// Writes one file, and reads its entry to the end, so that the size and the checksum are compared.
fn put(from: impl Read, to: &Path, size: u64, is_executable: bool) -> Result<(), ArchiveError> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(written(parent))?;
    }
    let mut read = ErrorCapture::new(from);
    let done = write(&mut read, to, size, is_executable);
    let rest = io::copy(&mut read.by_ref().take(1), &mut io::sink());
    match (read.failure, done, rest) {
        (Some(failure), ..) => Err(damaged(failure)),
        (None, Ok(done), Ok(0)) if done == size => Ok(()),
        (None, Err(error), _) => Err(written(to)(error)),
        (None, Ok(_), _) => Err(ArchiveError::Damaged(io::ErrorKind::UnexpectedEof.into())),
    }
}

fn unreadable(error: rawzip::Error) -> ArchiveError {
    ArchiveError::Damaged(io::Error::other(error))
}

#[cfg(test)]
mod tests;
