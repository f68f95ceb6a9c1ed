//! The storage of logins at MCP servers. The tokens are in the user's keyring; a marker file avoids a query of the
//! keyring if there is no login. Without a keyring the file holds the tokens: only this user can access it, in a
//! directory of haft that is closed to every tool and process.

use std::any::Any;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

use super::Dirs;
use super::dirs::{create_private, key_of, new_record, read_record};
use haft_core::secret::Redactor;
use haft_manifest::{KeyringEntry, Manifest, SecretError, SecretSource, Secrets};
use haft_mcp::client::oauth::{Login, LoginStore};

/// Maximum number of bytes of a marker file: tokens of some authorization servers have 16 KiB.
const MAX_NOTE: u64 = 256 << 10;
/// Time limit for the renewal of a login by another process: a few requests of at most 20 s each.
const HELD: Duration = Duration::from_mins(2);
/// Interval of checks whether the other process has finished.
const PAUSE: Duration = Duration::from_millis(50);

/// The stored login at one server.
#[derive(Debug)]
pub(super) struct KeptLogin {
    server: String,
    url: String,
    note: PathBuf,
    entry: KeyringEntry,
    manifest: Arc<Manifest>,
    home: PathBuf,
    redactor: Redactor,
}

/// The content of the marker file.
#[derive(Serialize, Deserialize)]
struct Note {
    server: String,
    url: String,
    /// The login; `None` if the keyring has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    login: Option<Login>,
}

impl KeptLogin {
    /// Returns the login at `server` with the URL `url`. A server of a package is called `PACKAGE/SERVER`, and gets
    /// no login of the program's own servers.
    pub(super) fn new(
        (server, url): (&str, &str),
        dirs: &Dirs,
        manifest: &Arc<Manifest>,
        redactor: &Redactor,
    ) -> Self {
        let key = key_of([server, url].map(str::as_bytes));
        Self {
            server: server.to_owned(),
            url: url.to_owned(),
            note: dirs.logins().join(&key).with_extension("json"),
            entry: KeyringEntry { service: "haft/login".to_owned(), user: key },
            manifest: manifest.clone(),
            home: dirs.home.clone(),
            redactor: redactor.clone(),
        }
    }

    fn secrets(&self) -> Secrets<'_> {
        Secrets::new(&self.manifest, &self.home, &self.redactor)
    }

    fn noted(&self) -> io::Result<Option<Note>> {
        let Some(text) = read_record(&self.note, MAX_NOTE)? else { return Ok(None) };
        // The error does not repeat unreadable content, which may contain a token.
        let note = serde_json::from_slice(&text).map(Some);
        note.map_err(|_| io::Error::other("its file has other content"))
    }

    /// Writes the marker file, accessible to this user alone.
    fn take_note(&self, login: Option<Login>) -> io::Result<()> {
        let note = Note { server: self.server.clone(), url: self.url.clone(), login };
        // Synchronized, because only the renewed token is valid now.
        new_record(&self.note, &note)?.persist(&self.note)?;
        Ok(())
    }

    fn failed(&self, what: &str, why: impl std::fmt::Display) -> String {
        format!("the login at `{}` cannot be {what}: {why}", self.server)
    }
}

#[async_trait]
impl LoginStore for KeptLogin {
    async fn read(&self) -> Result<Option<Login>, String> {
        let failed = |why: String| self.failed("read", why);
        match self.noted().map_err(|error| failed(error.to_string()))? {
            None => Ok(None),
            Some(Note { login: Some(login), .. }) => Ok(Some(login)),
            Some(_) => match self.secrets().read(&SecretSource::Keyring(self.entry.clone())).await {
                Ok(text) => {
                    let login = serde_json::from_str(text.expose_secret());
                    login.map(Some).map_err(|_| failed("its keyring entry has other content".to_owned()))
                }
                Err(SecretError::NotInKeyring(_)) => Ok(None),
                Err(error) => Err(failed(error.to_string())),
            },
        }
    }

    fn place(&self) -> Option<String> {
        Some(match self.noted().ok()?? {
            Note { login: None, .. } => "the keyring".to_owned(),
            Note { login: Some(_), .. } => format!("`{}`", self.note.display()),
        })
    }

    async fn write(&self, login: &Login) -> Result<(), String> {
        let failed = |why: String| self.failed("kept", why);
        let text = serde_json::to_string(login).map_err(|error| failed(error.to_string()))?;
        let in_file = match self.secrets().store(&self.entry, &SecretString::from(text)).await {
            Ok(()) => None,
            Err(error) => {
                tracing::debug!(%error, "the login is stored in a file");
                Some(login.clone())
            }
        };
        self.take_note(in_file).map_err(|error| failed(error.to_string()))
    }

    async fn remove(&self) -> Result<(), String> {
        let failed = |why: String| self.failed("removed", why);
        if let Some(Note { login: None, .. }) = self.noted().map_err(|error| failed(error.to_string()))? {
            self.secrets().remove(&self.entry).await.map_err(|error| failed(error.to_string()))?;
        }
        match std::fs::remove_file(&self.note) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error.to_string())),
            _ => Ok(()),
        }
    }

    async fn hold(&self) -> Result<Box<dyn Any + Send>, String> {
        let opened = create_private(self.note.parent().unwrap_or(Path::new("."))).and_then(|()| {
            File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(self.note.with_extension("lock"))
        });
        let file = opened.map_err(|error| self.failed("held", error))?;
        let held = async {
            loop {
                match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                    Err(Errno::WOULDBLOCK) => sleep(PAUSE).await,
                    done => return done,
                }
            }
        };
        let held = timeout(HELD, held).await;
        let held = held.map_err(|_| self.failed("held", "another haft has locked it for too long"))?;
        held.map_err(|error| self.failed("held", error))?;
        Ok(Box::new(file))
    }
}
