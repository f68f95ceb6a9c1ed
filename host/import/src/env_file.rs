//! The names of the variables in a `.env` file. Their values are not kept.

use std::io;
use std::path::Path;

use super::file::read_bounded;

/// The names, in the order of the file.
pub(crate) fn names(path: &Path) -> io::Result<Vec<String>> {
    let text = read_bounded(path)?;
    let name = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, _) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
        Some(name.trim().to_owned())
    };
    Ok(String::from_utf8_lossy(&text).lines().filter_map(name).collect())
}
