//! The desktop's keyring: the Secret Service (specification 0.2 of freedesktop.org), accessed through
//! `secret-tool`, libsecret's own client. An entry is the item with the attributes `service` and `username`, as
//! written by `secret-tool` and the keyring libraries of Python and Rust.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use haft_core::lookup::HostPrograms;

use crate::KeyringEntry;
use crate::secrets::MAX_SECRET;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

/// 2 minutes: as long as a person needs to find and type the password of the keyring.
const PATIENCE: Duration = Duration::from_mins(2);

const PROGRAM: &str = "secret-tool";

/// Why the Secret Service cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServiceError {
    #[error("`{PROGRAM}`, which asks the desktop's keyring, is not on PATH (Debian: libsecret-tools)")]
    Missing,
    #[error("`{PROGRAM}` cannot be run: {0}")]
    NotRun(#[from] io::Error),
    #[error("the desktop's keyring cannot be asked: {0}")]
    NotAsked(String),
    #[error("the desktop's keyring is locked")]
    Locked,
    #[error("the desktop's keyring did not answer within {} s", PATIENCE.as_secs())]
    TimedOut,
}

/// The result of running the program.
struct Answer {
    succeeded: bool,
    output: Vec<u8>,
    complaint: String,
}

/// Returns the value of the entry; `None` if the service does not have it. A locked keyring prompts its user.
pub(super) async fn read(
    entry: &KeyringEntry,
    programs: &HostPrograms,
) -> Result<Option<Vec<u8>>, ServiceError> {
    let read = async {
        let found = ask(programs, &["lookup"], entry, None).await?;
        match found {
            Answer { succeeded: true, output, .. } => Ok(Some(output)),
            Answer { complaint, .. } if !complaint.is_empty() => Err(ServiceError::NotAsked(complaint)),
            // A search lists locked items too.
            _ if ask(programs, &["search"], entry, None).await?.output.is_empty() => Ok(None),
            _ => Err(ServiceError::Locked),
        }
    };
    timeout(PATIENCE, read).await.unwrap_or(Err(ServiceError::TimedOut))
}

/// Stores a value as the entry, instead of what it has.
pub(super) async fn write(
    entry: &KeyringEntry,
    value: &[u8],
    programs: &HostPrograms,
) -> Result<(), ServiceError> {
    let label = format!("--label={entry}");
    let subcommand = ["store", &label];
    let stored = ask(programs, &subcommand, entry, Some(value));
    match timeout(PATIENCE, stored).await.unwrap_or(Err(ServiceError::TimedOut))? {
        Answer { succeeded: true, .. } => Ok(()),
        Answer { complaint, .. } => Err(ServiceError::NotAsked(complaint)),
    }
}

/// Removes the entry, if it is there.
pub(super) async fn remove(entry: &KeyringEntry, programs: &HostPrograms) -> Result<(), ServiceError> {
    // It fails without a message if there is no entry.
    match timeout(PATIENCE, ask(programs, &["clear"], entry, None))
        .await
        .unwrap_or(Err(ServiceError::TimedOut))?
    {
        Answer { complaint, .. } if complaint.is_empty() => Ok(()),
        Answer { complaint, .. } => Err(ServiceError::NotAsked(complaint)),
    }
}

/// Runs a subcommand, unconfined: it is the user's own program and gets the name of an entry, and a value by its input. Reads at most
/// one byte more than the maximum size of a secret; dropping the future kills the program.
#[expect(
    clippy::disallowed_methods,
    reason = "core stands below what confines children, which closes the service's socket to them"
)]
async fn ask(
    programs: &HostPrograms,
    subcommand: &[&str],
    KeyringEntry { service, user }: &KeyringEntry,
    input: Option<&[u8]>,
) -> Result<Answer, ServiceError> {
    let program = programs.find(PROGRAM).ok_or(ServiceError::Missing)?;
    let mut command = Command::new(program);
    command.args(subcommand).args(["service", service, "username", user]).kill_on_drop(true);
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // A secret fits into the pipe; its end is the end of the input.
        stdin.write_all(input).await?;
    }
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (output, complaint) = tokio::try_join!(bounded(stdout), bounded(stderr))?;
    let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
    Ok(Answer { succeeded: child.wait().await?.success(), output, complaint })
}

async fn bounded(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MAX_SECRET as u64 + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
