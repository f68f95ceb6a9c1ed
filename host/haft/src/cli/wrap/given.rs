//! The rights of a wrapped server, parsed and shown in the syntax of `haft grant`, with absolute paths.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use haft_core::grant::{Right, RightError, in_home, normalise};

/// The rights of a wrapped server.
const EXPECTED: &str = "expected `read=DIR`, `write=DIR`, `host=HOST`, `network`, `service=SERVICE`, `env=NAME` or \
                        `credentials=STORE`";

#[derive(Clone, Debug)]
pub(super) struct Given(pub(super) Right);

impl FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "network" {
            return network().map(Self).ok_or_else(String::new);
        }
        match text.parse() {
            Ok(Right::Read(path)) => Ok(Self(Right::Read(whole(&path)?))),
            Ok(Right::Write(path)) => Ok(Self(Right::Write(whole(&path)?))),
            Ok(Right::Service(service)) => {
                let whole =
                    |path: &Path| whole(&path.to_string_lossy()).map_or_else(|_| path.to_owned(), Into::into);
                Ok(Self(Right::Service(service.resolved(whole))))
            }
            Ok(Right::State(_) | Right::Cache(_)) => {
                Err("a wrapped server has its own home directory, which needs no right".to_owned())
            }
            Ok(right) => Ok(Self(right)),
            Err(RightError::Form) => Err(EXPECTED.to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns the right to every host.
pub(super) fn network() -> Option<Right> {
    "*".parse().ok().map(Right::Host)
}

/// Returns a path from the current directory or the home directory as an absolute path.
fn whole(path: &str) -> Result<String, String> {
    let home = etcetera::home_dir().map_err(|error| error.to_string())?;
    let whole: PathBuf =
        std::path::absolute(in_home(Path::new(path), &home)).map_err(|error| error.to_string())?;
    normalise(&whole).into_os_string().into_string().map_err(|_| format!("`{path}` is not UTF-8"))
}

pub(super) fn shown(right: &Right) -> String {
    match right {
        Right::Host(host) if host.is_any() => "network".to_owned(),
        right => right.to_string(),
    }
}

/// Returns a right as it is granted, with the meaning of a service.
pub(super) fn explained(right: &Right) -> String {
    match right {
        Right::Service(service) => format!("{right} ({})", service.meaning()),
        right => shown(right),
    }
}

/// Returns the command that grants `rights` to the server `name` with the words `command`. `command` is empty if the
/// server has a record.
pub(super) fn line(rights: &[Right], name: &str, command: &[String]) -> String {
    let mut line = "haft wrap".to_owned();
    for right in rights {
        // Writing to a `String` cannot fail.
        let _ = match shown(right).split_once('=') {
            Some((what, value)) => write!(line, " --grant {what}={}", shell_words::quote(value)),
            None => write!(line, " --grant network"),
        };
    }
    let _ = write!(line, " {}", shell_words::quote(name));
    if !command.is_empty() {
        let _ = write!(line, " -- {}", shell_words::join(command));
    }
    line
}

/// Returns `rights` without rights that others include.
pub(in crate::cli) fn distinct(rights: Vec<Right>) -> Vec<Right> {
    let mut kept: Vec<Right> = Vec::new();
    for right in rights {
        if !kept.iter().any(|other| other.covers(&right)) {
            kept.retain(|other| !right.covers(other));
            kept.push(right);
        }
    }
    kept
}

/// Returns the rights in `wanted` that no right in `had` includes.
pub(super) fn missing(wanted: &[Right], had: &[Right]) -> Vec<Right> {
    wanted.iter().filter(|right| !had.iter().any(|other| other.covers(right))).cloned().collect()
}
