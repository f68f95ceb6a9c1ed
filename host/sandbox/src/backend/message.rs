//! Parts of messages that several backends use.

use crate::BackendError;

/// Joins the lines of a program's output.
pub(crate) fn joined_lines(words: &str) -> String {
    let lines: Vec<_> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    haft_core::report::plain(&lines.join("; "))
}

/// Returns the error of a command or file whose directory does not exist.
pub(crate) fn no_directory(directory: &str, target: &str) -> BackendError {
    BackendError::Target(format!(
        "there is no directory `{directory}` on {target} that can be entered; it is `directory` of `[backend]`"
    ))
}
