//! Answers that are kept beside the tests: `tests/snapshots/FILE/NAME.txt`.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// The folder, below that of the tests.
const FOLDER: &str = "snapshots";

/// Where the answer of the case `name` of the file `file` is kept, below `tests`.
pub(super) fn path(tests: &Path, file: &Path, name: &str) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default();
    tests.join(FOLDER).join(stem).join(format!("{}.txt", file_name(name)))
}

/// What the file of the case `name` is called, without its ending.
pub(super) fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ') { c } else { '_' };
    name.chars().map(plain).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The kept answer; `None` where there is none yet.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Keeps an answer, whole or not at all.
pub(super) fn write(path: &Path, answer: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(ErrorKind::InvalidFilename)?;
    fs::create_dir_all(folder)?;
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(answer.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
