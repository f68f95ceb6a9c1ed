//! The only reader of secrets, and the writer of keyring entries. Reads are bounded, and a value is registered with
//! the redactor before it is returned.

#[cfg_attr(target_os = "linux", path = "secrets/keyring/linux.rs")]
#[cfg_attr(target_os = "macos", path = "secrets/keyring/macos.rs")]
mod keyring;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use secrecy::{ExposeSecret, SecretString};

use crate::{KeyringEntry, Manifest, SecretSource, TextOrSecret};
use haft_core::grant::{Grant, Root};
use haft_core::lookup::HostPrograms;
use haft_core::report::Problem;
use haft_core::secret::{MIN_SECRET, Redactor};

/// 64 KiB: the largest certificate chain with its key is a tenth of that.
const MAX_SECRET: usize = 64 << 10;

/// Reads the secrets named in a program.toml, and stores them.
#[derive(Clone, Copy, Debug)]
pub struct Secrets<'a> {
    manifest: &'a Manifest,
    home: &'a Path,
    redactor: &'a Redactor,
}

impl<'a> Secrets<'a> {
    /// Makes a reader for the secrets of `manifest`, whose `~` is `home`. `redactor` redacts every value that is
    /// read.
    pub fn new(manifest: &'a Manifest, home: &'a Path, redactor: &'a Redactor) -> Self {
        Self { manifest, home, redactor }
    }

    /// Reads the value at `source`, without trailing newlines.
    ///
    /// A locked keyring prompts the user; the wait is bounded.
    pub async fn read(&self, source: &SecretSource) -> Result<SecretString, SecretError> {
        let bytes = match source {
            SecretSource::Keyring(entry) => {
                let found = keyring::read(entry, &self.programs()).await.map_err(locked(entry))?;
                found.ok_or_else(|| SecretError::NotInKeyring(entry.clone()))?
            }
            source => self.at_once(source)?,
        };
        self.known(source, bytes)
    }

    /// Reads a value that may be a secret.
    pub async fn value(&self, value: &TextOrSecret) -> Result<SecretString, SecretError> {
        match value {
            TextOrSecret::Text(text) => Ok(SecretString::from(text.clone())),
            TextOrSecret::Secret(source) => self.read(source).await,
        }
    }

    /// Stores a secret in the person's keyring, instead of what the entry has.
    ///
    /// # Errors
    /// There is no keyring, or it stays locked.
    pub async fn store(&self, entry: &KeyringEntry, secret: &SecretString) -> Result<(), SecretError> {
        self.redactor.add([secret]);
        let stored = keyring::write(entry, secret.expose_secret().as_bytes(), &self.programs()).await;
        stored.map_err(locked(entry))
    }

    /// Removes a secret from the person's keyring; that it does not exist is no error.
    ///
    /// # Errors
    /// There is no keyring, or it stays locked.
    pub async fn remove(&self, entry: &KeyringEntry) -> Result<(), SecretError> {
        keyring::remove(entry, &self.programs()).await.map_err(locked(entry))
    }

    /// Registers every secret of the program that can be read without prompting the user, used or not, for
    /// redaction. A secret in a keyring is not read here: it is not in this process before it is read.
    pub fn learn(&self) {
        for source in self.manifest.secrets() {
            if !matches!(source, SecretSource::Keyring(_))
                && let Ok(bytes) = self.at_once(source)
                && let Err(error) = self.known(source, bytes)
            {
                tracing::debug!("{error}");
            }
        }
    }

    /// Returns the programs that may be run to read a secret: none that `bash` or a command may have written.
    fn programs(&self) -> HostPrograms {
        let sandbox = &self.manifest.sandbox;
        let written = sandbox.workspace.iter().chain(&sandbox.write);
        let written = written.map(|path| self.manifest.resolve(&path.value, self.home));
        let roots = written
            .chain([std::env::temp_dir(), self.home.join(".haft")])
            .filter_map(|path| Root::resolve("/".as_ref(), &path).ok());
        HostPrograms::of(&roots.fold(Grant::none(), Grant::with_write))
    }

    fn at_once(&self, source: &SecretSource) -> Result<Vec<u8>, SecretError> {
        match source {
            SecretSource::Env(name) => {
                let value = std::env::var_os(name.as_str()).filter(|value| !value.is_empty());
                let value = value.ok_or_else(|| SecretError::Unset(name.to_string()))?;
                Ok(value.into_encoded_bytes())
            }
            SecretSource::File(path) => {
                let path = self.manifest.resolve(path, self.home);
                read_file(&path).map_err(|error| SecretError::File { path, error })
            }
            SecretSource::Keyring(_) => Ok(Vec::new()),
        }
    }

    /// Checks a value and registers it for redaction.
    fn known(&self, source: &SecretSource, bytes: Vec<u8>) -> Result<SecretString, SecretError> {
        let unusable = |why| SecretError::Unusable { place: place(source), why };
        if bytes.len() > MAX_SECRET {
            return Err(unusable(SecretError::TOO_LONG));
        }
        let text = String::from_utf8(bytes).map_err(|_| unusable("is not valid UTF-8"))?;
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            return Err(unusable("is empty"));
        }
        if text.len() < MIN_SECRET {
            tracing::info!("the secret in {} is too short to be redacted from messages", place(source));
        }
        let secret = SecretString::from(text);
        self.redactor.add([&secret]);
        Ok(secret)
    }
}

fn place(source: &SecretSource) -> String {
    match source {
        SecretSource::Env(name) => format!("the environment variable `{name}`"),
        SecretSource::File(path) => format!("the file `{}`", path.display()),
        SecretSource::Keyring(entry) => format!("the keyring's entry `{entry}`"),
    }
}

/// Reads at most one byte more than the maximum size of a secret.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO for reading would block until another process opens it for writing.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a file"));
    }
    if metadata.mode() & 0o007 != 0 {
        let path = path.display();
        tracing::warn!("every user of this machine can read the secret in `{path}`; run `chmod 600 {path}`");
    }
    let mut bytes = Vec::new();
    file.take(MAX_SECRET as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn locked(entry: &KeyringEntry) -> impl FnOnce(String) -> SecretError {
    move |why| SecretError::Keyring { entry: entry.clone(), why }
}

// Why a secret cannot be read: the source, the reason and a hint, never a part of the value.

/// Why a secret cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The variable is not set, or empty.
    #[error("the environment variable `{0}` is not set; program.toml reads a secret from it")]
    Unset(String),
    /// The file cannot be read.
    #[error("cannot read the secret from `{}`: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// No keyring holds the entry.
    #[error("no secret `{0}` in the keyring")]
    NotInKeyring(KeyringEntry),
    /// The kernel's keyring does not hold the entry, and the desktop's keyring is not available.
    #[error("cannot read `{entry}` from the keyring: {why}")]
    Keyring {
        /// The entry.
        entry: KeyringEntry,
        /// The cause.
        why: String,
    },
    /// The secret exists and is invalid.
    #[error("the secret in {place} {why}")]
    Unusable {
        /// The source.
        place: String,
        /// The reason.
        why: &'static str,
    },
}

impl SecretError {
    const TOO_LONG: &'static str = "is too long for a secret";

    /// Returns the problem that `what` is not available, with the way out.
    pub fn problem(&self, what: &str) -> Problem {
        let problem = Problem::new(format!("{what} is not available: {self}"));
        self.hint().into_iter().fold(problem, Problem::hint)
    }

    /// Returns the error and, on a line of its own, the way out.
    pub fn with_hint(&self) -> String {
        let hint = self.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        format!("{self}{hint}")
    }

    /// Returns how to fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unset(name) => Some(format!(
                "set `{name}`, or change the place in program.toml: `{{ file = \"PATH\" }}` or `{{ keyring = \
                 \"SERVICE/USER\" }}`"
            )),
            Self::NotInKeyring(entry) => Some(keyring::how_to_store(entry, true)),
            Self::Keyring { entry, .. } => Some(keyring::how_to_store(entry, false)),
            Self::Unusable { why, .. } if *why == Self::TOO_LONG => {
                Some(format!("a secret has at most {} KiB", MAX_SECRET >> 10))
            }
            Self::File { .. } | Self::Unusable { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    async fn read(folder: &Path, source: &str) -> (Result<String, String>, Redactor) {
        let text = format!("[provider]\nname = \"openai\"\napi_key = {source}\n");
        let manifest = Manifest::parse(&text, &folder.join("program.toml")).unwrap();
        let redactor = Redactor::default();
        let secrets = Secrets::new(&manifest, folder, &redactor);
        let read = secrets.read(manifest.secrets()[0]).await;
        let read = read.map(|secret| secret.expose_secret().to_owned()).map_err(|error| error.to_string());
        (read, redactor)
    }

    #[tokio::test]
    async fn a_file_is_read_without_its_last_newline_and_left_out_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "sk-4711-0815\r\n").unwrap();
        for source in ["{ file = \"key\" }", "{ file = \"~/key\" }"] {
            let (value, redactor) = read(folder.path(), source).await;
            assert_eq!(value.unwrap(), "sk-4711-0815");
            assert_eq!(redactor.redact("a sk-4711-0815"), "a ***");
        }
    }

    #[tokio::test]
    async fn what_is_no_secret_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        write("empty", b"\n\n");
        write("binary", b"sk-\xff");
        write("large", &vec![b'x'; MAX_SECRET + 10]);
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("pipe"), rustix::fs::Mode::RUSR).unwrap();
        for (source, expected) in [
            ("{ file = \"empty\" }", "the file `empty` is empty"),
            ("{ file = \"binary\" }", "`binary` is not valid UTF-8"),
            ("{ file = \"large\" }", "`large` is too long for a secret"),
            ("{ file = \"pipe\" }", "expected a file"),
            ("{ file = \"none\" }", "none`: No such file"),
            ("{ env = \"HAFT_NO_SUCH_VARIABLE\" }", "`HAFT_NO_SUCH_VARIABLE` is not set"),
        ] {
            let error = read(folder.path(), source).await.0.unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[tokio::test]
    async fn what_is_never_used_is_left_out_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "sk-4711-0815").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let text = "[[mcp_servers]]\nname = \"a\"\nurl = \"https://a.test\"\nheaders = { X = { file = \"key\" } }\n\
                    [provider]\nname = \"openai\"\napi_key = { keyring = \"no/such\" }\n";
        let manifest = Manifest::parse(text, &folder.path().join("program.toml")).unwrap();
        let redactor = Redactor::default();
        Secrets::new(&manifest, folder.path(), &redactor).learn();
        assert_eq!(redactor.redact("a sk-4711-0815"), "a ***");
    }
}
