//! The locations of everything that the attempts attack.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The locations of everything that the attempts attack.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Brief {
    /// The only writable directory, which is the working directory.
    pub(super) workspace: PathBuf,
    /// A read-only file in the workspace, in its own directory.
    pub(super) fixed: PathBuf,
    /// A readable directory.
    pub(super) outside: PathBuf,
    /// A file that cannot be read.
    pub(super) hidden: PathBuf,
    /// The host's process id outside all namespaces of the sandbox.
    pub(super) host: i32,
    /// An address in the host's memory, and the number of bytes there.
    pub(super) memory: (u64, usize),
    /// The path of a socket on which the host listens, if there is one.
    pub(super) socket: Option<PathBuf>,
    /// The name of an abstract socket.
    pub(super) name: String,
    /// A terminal of the host, if there is one.
    pub(super) terminal: Option<PathBuf>,
    /// Variables that may be visible.
    pub(super) variables: Vec<String>,
}
