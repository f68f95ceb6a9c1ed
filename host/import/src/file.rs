//! Reads configuration files of other programs.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Maximum size in bytes of a file: Claude Code's contains more than servers.
const MAX_FILE: u64 = 32 << 20;

/// Reads a regular file of at most 32 MiB; waits for no pipe.
pub(crate) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 32 MiB"));
    }
    Ok(bytes)
}

/// Returns the names of the variables in a `.env` file, in its order. Their values are not kept.
pub(crate) fn variables(path: &Path) -> io::Result<Vec<String>> {
    let text = read_bounded(path)?;
    let name = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, _) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
        Some(name.trim().to_owned())
    };
    Ok(String::from_utf8_lossy(&text).lines().filter_map(name).collect())
}
