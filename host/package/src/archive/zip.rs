//! Unpacks a zip archive, under the rules and limits of tar archives. Reads the central directory entry by entry;
//! checks the size and the checksum of every file.

use std::fs::File;
use std::io;
use std::path::Path;

use flate2::read::DeflateDecoder;
use rawzip::{CompressionMethod, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ZipArchive};

use super::{ArchiveError, put, text};
use crate::inventory::{Inventory, Unfit};

/// The bits of a Unix mode that are the file's type.
const TYPE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;

/// Reads the archive once, like [`super::pass`].
pub(super) fn pass(file: File, to: Option<&Path>) -> Result<(), ArchiveError> {
    let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
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

fn unreadable(error: rawzip::Error) -> ArchiveError {
    ArchiveError::Damaged(io::Error::other(error))
}

#[cfg(test)]
mod tests;
