//! A credential for a registry, and its source, such as a credential helper of docker. A credential is never
//! printed.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use haft_core::grant::{Grant, Root};
use haft_core::lookup::HostPrograms;
use haft_core::tool::Own;
use haft_manifest::ProcessLimits;
use haft_sandbox::confine::Confiner;
use haft_sandbox::process::{self, ExitReason, Finished, Output, ProcessSpec};

/// A secret that is sent to a registry.
#[derive(Clone)]
pub(super) enum Secret {
    /// A user name and its password.
    Password { name: String, password: SecretString },
    /// A token that is exchanged at the token server for an access token.
    IdentityToken(SecretString),
}

#[derive(Clone)]
pub(super) struct Credential {
    pub(super) secret: Secret,
    /// The source, for messages.
    pub(super) place: String,
}

impl Credential {
    /// Returns the user name and the source, for messages.
    pub(super) fn describe(&self) -> String {
        match &self.secret {
            Secret::Password { name, .. } => format!("`{name}` from {}", self.place),
            Secret::IdentityToken(_) => format!("the token from {}", self.place),
        }
    }

    #[cfg(test)]
    pub(super) fn from_password(name: &str, password: &str, place: &str) -> Self {
        let secret = Secret::Password { name: name.to_owned(), password: password.into() };
        Self { secret, place: place.to_owned() }
    }

    /// Returns every text that must be redacted.
    pub(super) fn secrets(&self) -> Vec<SecretString> {
        match &self.secret {
            Secret::Password { name, password } => {
                let pair = format!("{name}:{}", password.expose_secret());
                vec![password.clone(), STANDARD.encode(pair).into()]
            }
            Secret::IdentityToken(token) => vec![token.clone()],
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Time limit of a helper: a locked keychain asks its owner for the password.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Limit on the characters of a helper's output: four times the longest tokens.
const MAX_OUTPUT: usize = 64 << 10;

/// Limit on the characters of a helper's name.
const MAX_NAME: usize = 64;

/// Environment variables for keychains and cloud helpers, in addition to those of every child process.
const ENVIRONMENT: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_CONFIG_FILE",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SHARED_CREDENTIALS_FILE",
    "CLOUDSDK_CONFIG",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "PASSWORD_STORE_DIR",
    "WAYLAND_DISPLAY",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// The exact output of a helper without matching credentials.
const NOTHING: &str = "credentials not found in native keychain";

/// The user name that marks a token instead of a password.
const TOKEN: &str = "<token>";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// Returns the secret that the helper `docker-credential-NAME` stores for `server`.
pub(super) async fn stored_secret(
    programs: &HostPrograms,
    name: &str,
    server: &str,
) -> Result<Option<Secret>, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.len() > MAX_NAME || !name.chars().all(is_name) {
        return Err("the credential helper of the registry has an invalid name".to_owned());
    }
    let program = format!("docker-credential-{name}");
    let found = programs.find(&program);
    let path = found.ok_or_else(|| format!("the credential helper {}", HostPrograms::missing(&program)))?;
    let finished =
        run(programs, &path, server).await.map_err(|why| format!("cannot ask `{program}`: {why}"))?;
    answered(finished).map_err(|why| format!("`{program}` {why}"))
}

async fn run(programs: &HostPrograms, program: &Path, server: &str) -> Result<Finished, String> {
    let root = Root::resolve(Path::new("/"), Path::new("/")).map_err(|error| error.to_string())?;
    let grant = Grant::none().with_read_anywhere().with_workspace(root);
    let grant = ENVIRONMENT.iter().fold(grant, |grant, name| grant.with_env(*name));
    let job = ProcessSpec {
        program: program.to_owned(),
        arguments: vec!["get".into()],
        input: server.as_bytes().to_vec(),
        output: Output::Separate,
        environment: vec![("PATH".into(), programs.path())],
        limit: MAX_OUTPUT,
        timeout: TIMEOUT,
        limits: ProcessLimits::default(),
    };
    // No output is forwarded.
    let owner = Own::default();
    let finished = process::run(&Confiner::open(), &job, "credentials", &owner.context(&grant)).await;
    finished.map_err(|error| error.to_string())
}

fn answered(mut finished: Finished) -> Result<Option<Secret>, String> {
    let text = finished.stdout.render(MAX_OUTPUT);
    match finished.end {
        ExitReason::Exited(status) if status.success() => {}
        ExitReason::Exited(_) if text.trim() == NOTHING => return Ok(None),
        ExitReason::Exited(status) => return Err(format!("gave no credentials: {status}")),
        ExitReason::TimedOut | ExitReason::Cancelled => {
            return Err(format!("gave no answer within {} s", TIMEOUT.as_secs()));
        }
    }
    let response: Answer =
        serde_json::from_str(&text).map_err(|_| "returned no valid credentials".to_owned())?;
    let secret = SecretString::from(response.secret);
    Ok(Some(match response.username.as_str() {
        TOKEN => Secret::IdentityToken(secret),
        _ => Secret::Password { name: response.username, password: secret },
    }))
}
