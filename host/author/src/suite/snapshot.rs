//! Snapshots of results beside the tests: `tests/snapshots/FILE/NAME.txt`.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// The folder below the tests' folder.
const FOLDER: &str = "snapshots";

/// Returns the path of the snapshot for the case `name` of the file `file`, below `tests`.
pub(super) fn path(tests: &Path, file: &Path, name: &str) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default();
    tests.join(FOLDER).join(stem).join(format!("{}.txt", file_name(name)))
}

/// Returns the file name of the case `name`, without its extension.
pub(super) fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ') { c } else { '_' };
    name.chars().map(plain).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Reads a snapshot; `None` if it does not exist.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Writes a snapshot, completely or not at all.
pub(super) fn write(path: &Path, answer: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(ErrorKind::InvalidFilename)?;
    fs::create_dir_all(folder)?;
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(answer.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
