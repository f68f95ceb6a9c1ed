//! The start of a child: in the grant's workspace, confined, with an environment of named variables only.
//! Passes on no variable of haft without a reason.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use tokio::net::unix::pipe::{Receiver, Sender};

use crate::confine::{Command, Confiner, HelperSession, Streams, sys};
use crate::process::{ProcessError, caches, private, watch};
use haft_core::grant::Grant;
use haft_core::lookup::search_path;
use haft_manifest::ProcessLimits;

/// Variables of the host's environment that every child gets: the user's identity, locale, time zone and
/// trusted certificates. `LC_*` too; none of them ever holds a secret.
pub const ENVIRONMENT: &[&str] = &[
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "TMPDIR",
    "TZ",
    "USER",
    // Certificate authorities: without them downloads fail behind a company's proxy.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
    // Locations of compilers and interpreters.
    "RUSTUP_HOME",
    "JAVA_HOME",
    "GOROOT",
    "PYENV_ROOT",
    "NVM_DIR",
    "VOLTA_HOME",
];

/// Returns a helper that is becoming `command`. A prepared helper may have ended meanwhile, or one of its seals
/// may be broken; the second one is new.
pub(crate) async fn started(
    confiner: &Confiner,
    grant: &Grant,
    command: &Command,
    streams: Streams,
) -> Result<HelperSession, ProcessError> {
    let session = confiner.session(grant).await?;
    if session.replaced().is_none() && session.become_command(command, &streams).is_ok() {
        return Ok(session);
    }
    let session = confiner.session(grant).await?;
    if let Some(path) = session.replaced() {
        return Err(ProcessError::Replaced { path });
    }
    session.become_command(command, &streams).map_err(watch("hand over the command"))?;
    Ok(session)
}

pub(crate) struct Piped {
    pub(crate) session: HelperSession,
    pub(crate) input: Sender,
    pub(crate) output: Receiver,
    pub(crate) errors: Receiver,
}

/// Starts `command` with pipes, and prepares a helper for the next one. Must be called inside a tokio runtime.
pub(crate) async fn piped(
    confiner: &Confiner,
    grant: &Grant,
    command: &Command,
) -> Result<Piped, ProcessError> {
    let pipe = || io::pipe().map_err(watch("open a pipe"));
    let ((their_input, input), (output, their_output)) = (pipe()?, pipe()?);
    let (errors, their_errors) = pipe()?;
    let failed = watch("talk over a pipe");
    let input = Sender::from_owned_fd(input.into()).map_err(&failed)?;
    let output = Receiver::from_owned_fd(output.into()).map_err(&failed)?;
    let errors = Receiver::from_owned_fd(errors.into()).map_err(&failed)?;
    let streams = [their_input.into(), their_output.into(), their_errors.into()];
    let session = started(confiner, grant, command, streams).await?;
    confiner.refill(grant);
    Ok(Piped { session, input, output, errors })
}

/// Returns the command, with its permitted environment and `more`, in the grant's workspace.
pub(crate) fn command(
    program: &Path,
    arguments: &[OsString],
    more: &[(OsString, OsString)],
    grant: &Grant,
) -> Result<Command, ProcessError> {
    // The child may be unable to read this directory: its name grants nothing.
    let root = grant.base().ok_or(ProcessError::NoWorkspace)?;
    let failed = |source: io::Error| ProcessError::Workspace { path: root.path().to_owned(), source };
    let open = root.open().map_err(failed)?;
    let found = rustix::fs::fstat(&open).map_err(|error| failed(error.into()))?;
    let mut environment = environment(grant);
    environment.insert("PWD".into(), root.path().into());
    let private = grant.private().into_iter().flat_map(|own| private::variables(own.path()));
    environment
        .extend(private.filter(|(name, _)| name.to_str().is_none_or(|name| !grant.env().contains(name))));
    let caches = grant.caches().into_iter().flat_map(|caches| caches::variables(caches.path()));
    for (name, value) in caches {
        // A variable in the grant is the user's own choice.
        environment.entry(name).or_insert(value);
    }
    environment.extend(more.iter().cloned());
    Ok(Command {
        program: program.to_owned(),
        arguments: arguments.to_vec(),
        environment: environment.into_iter().collect(),
        directory: root.real().to_owned(),
        identity: sys::identity(&found),
        limits: ProcessLimits::default(),
    })
}

/// Returns the part of the host's environment that a child may see.
fn environment(grant: &Grant) -> BTreeMap<OsString, OsString> {
    let is_of_service = |name: &str| grant.services().iter().any(|known| known.variables().contains(&name));
    let is_allowed = |name: &OsStr| {
        let name = name.to_str();
        name.is_some_and(|name| {
            let is_named = ENVIRONMENT.contains(&name) || grant.env().contains(name);
            is_named || name.starts_with("LC_") || is_of_service(name)
        })
    };
    let mut environment: BTreeMap<_, _> = std::env::vars_os().filter(|(name, _)| is_allowed(name)).collect();
    environment.insert("PATH".into(), search_path());
    // Disables colours, cursor movement, and pagers that wait for a key.
    environment.entry("TERM".into()).or_insert("dumb".into());
    environment
}
