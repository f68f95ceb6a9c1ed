//! Where everything is that attempts attack.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where everything is that is attacked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Brief {
    /// The only directory that may be written; it is the working directory.
    pub(super) workspace: PathBuf,
    /// A file in it, in a directory of its own, that may not be written.
    pub(super) fixed: PathBuf,
    /// A directory that may be read.
    pub(super) outside: PathBuf,
    /// A file that may not even be read.
    pub(super) hidden: PathBuf,
    /// The host's number outside every namespace of the sandbox.
    pub(super) host: i32,
    /// Where in the host's memory something lies, and how many bytes.
    pub(super) memory: (u64, usize),
    /// A socket on which the host listens, if there is one.
    pub(super) socket: Option<PathBuf>,
    /// The name of another, which is no file.
    pub(super) name: String,
    /// A terminal of the host's, if there is one.
    pub(super) terminal: Option<PathBuf>,
    /// Variables that may be seen.
    pub(super) variables: Vec<String>,
}
