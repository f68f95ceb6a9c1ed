//! The locations that the attempts attack, and the outcome of an attempt, as the process that made it sees it.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::selftest::Outcome;

/// Limit on the named ways of an attempt that succeeded in several.
const MAX_WAYS: usize = 3;

/// The outcome as the attempting process sees it, before the host's check.
impl Outcome {
    /// Returns success if this operation succeeded.
    pub(super) fn by(what: &str, result: io::Result<()>) -> Self {
        match result {
            Ok(()) => Self::Escaped(what.to_owned()),
            Err(error) => Self::Held(error.to_string()),
        }
    }

    /// Returns success if any of these operations succeeded. All are tried.
    pub(super) fn by_any<What: Into<String>>(ways: impl IntoIterator<Item = (What, io::Result<()>)>) -> Self {
        let (mut out, mut held) = (Vec::new(), None);
        for (what, result) in ways {
            match result {
                Ok(()) => out.push(what.into()),
                Err(error) => held = Some(error.to_string()),
            }
        }
        match held {
            _ if !out.is_empty() => Self::Escaped(joined(&out)),
            Some(held) => Self::Held(held),
            None => Self::Untried("there is no target for this attempt".to_owned()),
        }
    }
}

/// Lists the first ways and the number of the others.
fn joined(ways: &[String]) -> String {
    let first = ways.iter().take(MAX_WAYS).cloned().collect::<Vec<_>>().join(", ");
    match ways.len().saturating_sub(MAX_WAYS) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

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
    pub(super) name: String,
    pub(super) terminal: Option<PathBuf>,
    /// Whether the process is granted one host, so that other attempts are made.
    pub(super) has_hosts: bool,
    /// The port of this host on this machine.
    pub(super) granted: u16,
    /// A port of this machine that is not granted.
    pub(super) closed: u16,
    /// Variables that may be visible.
    pub(super) variables: Vec<String>,
}
