//! Linux: first the kernel's keyring, which answers at once without a prompt, then the desktop's (the Secret
//! Service of GNOME, KDE or a password manager; specification 0.2 of freedesktop.org), accessed through
//! `secret-tool`, libsecret's own client. An entry of the desktop is the item with the attributes `service` and
//! `username`, as written by `secret-tool` and the keyring libraries of Python and Rust.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use linux_keyutils::{KeyRing, KeyRingIdentifier};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

use crate::KeyringEntry;
use crate::secrets::MAX_SECRET;
use haft_core::lookup::HostPrograms;

/// 2 minutes: as long as a person needs to find and type the password of the keyring.
const PATIENCE: Duration = Duration::from_mins(2);

const PROGRAM: &str = "secret-tool";

struct Answer {
    succeeded: bool,
    output: Vec<u8>,
    complaint: String,
}

/// Reads an entry: `None` if it does not exist, an error if the keyring is not available. A locked keyring prompts its
/// user.
pub(super) async fn read(entry: &KeyringEntry, programs: &HostPrograms) -> Result<Option<Vec<u8>>, String> {
    if let Some(secret) = read_kernel(entry) {
        return Ok(Some(secret));
    }
    let read = async {
        match ask(programs, &["lookup"], entry, None).await? {
            Answer { succeeded: true, output, .. } => Ok(Some(output)),
            Answer { complaint, .. } if !complaint.is_empty() => Err(not_asked(&complaint)),
            // A search lists locked items too.
            _ if ask(programs, &["search"], entry, None).await?.output.is_empty() => Ok(None),
            _ => Err("the desktop's keyring is locked".to_owned()),
        }
    };
    in_time(read).await
}

/// Stores a value in the desktop's keyring, instead of what the entry has: the kernel's lasts until the machine is
/// started again.
pub(super) async fn write(entry: &KeyringEntry, value: &[u8], programs: &HostPrograms) -> Result<(), String> {
    let label = format!("--label={entry}");
    let answer = in_time(ask(programs, &["store", &label], entry, Some(value))).await?;
    if answer.succeeded { Ok(()) } else { Err(not_asked(&answer.complaint)) }
}

/// Removes an entry from the desktop's keyring, if it is there.
pub(super) async fn remove(entry: &KeyringEntry, programs: &HostPrograms) -> Result<(), String> {
    // It fails without a message if there is no entry.
    let answer = in_time(ask(programs, &["clear"], entry, None)).await?;
    if answer.complaint.is_empty() { Ok(()) } else { Err(not_asked(&answer.complaint)) }
}

/// Returns the command that stores an entry. Without a desktop, it uses the kernel's keyring.
pub(super) fn how_to_store(entry: &KeyringEntry, keyring_answers: bool) -> String {
    if keyring_answers {
        let KeyringEntry { service, user } = entry;
        format!("`secret-tool store --label='{entry}' service '{service}' username '{user}'` stores it")
    } else {
        format!(
            "without a desktop, `keyctl padd user '{entry}' @u` stores it until the machine restarts; or use \
             a file: `{{ file = \"PATH\" }}`"
        )
    }
}

/// Returns the value of the entry, if this process can read it.
fn read_kernel(entry: &KeyringEntry) -> Option<Vec<u8>> {
    // A service without a session does not possess the user's keyring through its session.
    let rings = [KeyRingIdentifier::Session, KeyRingIdentifier::User];
    let find = |ring| KeyRing::from_special_id(ring, false)?.search(&entry.to_string())?.read_to_vec();
    rings.into_iter().find_map(|ring| find(ring).ok())
}

fn not_asked(complaint: &str) -> String {
    format!("the desktop's keyring cannot be asked: {complaint}")
}

async fn in_time<T>(asked: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = || format!("the desktop's keyring did not answer within {} s", PATIENCE.as_secs());
    timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err(late()))
}

/// Runs a subcommand, unconfined: it is the user's own program and gets the name of an entry, and a value by its input.
#[expect(
    clippy::disallowed_methods,
    reason = "core stands below what confines children, which closes the service's socket to them"
)]
async fn ask(
    programs: &HostPrograms,
    subcommand: &[&str],
    KeyringEntry { service, user }: &KeyringEntry,
    input: Option<&[u8]>,
) -> Result<Answer, String> {
    let missing =
        || format!("`{PROGRAM}`, which asks the desktop's keyring, is not on PATH (Debian: libsecret-tools)");
    let mut command = Command::new(programs.find(PROGRAM).ok_or_else(missing)?);
    command.args(subcommand).args(["service", service, "username", user]).kill_on_drop(true);
    answer(command, input).await.map_err(|error| format!("`{PROGRAM}` cannot be run: {error}"))
}

/// Reads at most one byte more than the maximum size of a secret; dropping the future kills the program.
async fn answer(mut command: Command, input: Option<&[u8]>) -> io::Result<Answer> {
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// If the kernel has keyrings for this process, an entry in them is found.
    #[test]
    fn a_key_of_the_session_is_found() {
        let entry =
            KeyringEntry { service: "haft.test/x".into(), user: format!("ada-{}", std::process::id()) };
        assert_eq!(read_kernel(&entry), None);
        let Ok(ring) = KeyRing::from_special_id(KeyRingIdentifier::User, true) else { return };
        let Ok(key) = ring.add_key(&entry.to_string(), b"sk-4711-0815") else { return };
        assert_eq!(read_kernel(&entry).as_deref(), Some(b"sk-4711-0815".as_slice()));
        key.invalidate().unwrap();
        assert_eq!(read_kernel(&entry), None);
    }
}
