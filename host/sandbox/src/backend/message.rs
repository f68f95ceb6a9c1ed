//! Parts of messages that several backends write.

use crate::BackendError;

/// What a program wrote, its lines one after the other.
pub(crate) fn joined_lines(words: &str) -> String {
    let lines: Vec<_> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    haft_core::report::plain(&lines.join("; "))
}

/// The error of a command or a file whose directory is not there.
pub(crate) fn no_directory(directory: &str, target: &str) -> BackendError {
    BackendError::Target(format!(
        "there is no directory `{directory}` on {target} that can be entered; it is `directory` of `[backend]`"
    ))
}
