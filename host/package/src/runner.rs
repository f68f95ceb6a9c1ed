//! Runs a program of this machine during a fetch (`git`, `npm`, `uv`), confined like any other child process,
//! within limits of time, output and size.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Fetching, MAX_SIZE};
use haft_core::grant::{Grant, RightsTable, Root};
use haft_core::lookup::HostPrograms;
use haft_core::tool::{Context, Own};
use haft_manifest::ProcessLimits;
use haft_sandbox::process::{self, ExitReason, Finished, Output, ProcessSpec};

/// Time limit of one command.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Maximum number of characters kept of the output: an error is in the last lines.
pub(super) const MAX_OUTPUT: usize = 4000;

/// Limit on the bytes of a fetch: the files, and once more packed.
const MAX_FETCHED: u64 = 2 * MAX_SIZE;

/// Interval between two size checks.
const SIZE_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Limit on the counted files; a fetch with more is too large.
const MAX_FILES: usize = 100_000;

/// Environment variables that these programs may read: trusted certificates, proxies, and other registries.
const REACHING_OUT: &[&str] = &[
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "npm_config_registry",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
];

/// Reasons why a program did not finish its step of a fetch.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The program is not installed.
    #[error("{}; fetching needs it", HostPrograms::missing(.0))]
    Missing(&'static str),
    /// The program cannot be started.
    #[error("cannot run `{program}`: {why}")]
    Start { program: &'static str, why: String },
    /// The program failed.
    #[error("`{program} {action}` failed: {why}")]
    Failed { program: &'static str, action: &'static str, why: String },
    /// The program exceeded its time limit.
    #[error("`{program} {action}` did not finish within {most} minutes", most = TIMEOUT.as_secs() / 60)]
    TimedOut { program: &'static str, action: &'static str },
    /// The fetch exceeds the size limit.
    #[error("the content of `{0}` is larger than {most} MiB", most = MAX_FETCHED >> 20)]
    TooLarge(&'static str),
}

impl ProgramError {
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing("git") => Some("install git, or give an archive of the repository"),
            Self::Missing("npm") => Some("install Node.js, which includes npm"),
            Self::Missing("uv") => Some("run `pip install uv`"),
            Self::Missing(_) => Some("install it"),
            Self::Failed { program: "git", .. } => Some("`git ls-remote URL` lists its branches and tags"),
            _ => None,
        }
    }
}

fn root(program: &'static str, directory: &Path) -> Result<Root, ProgramError> {
    let failed = |error: std::io::Error| ProgramError::Start { program, why: error.to_string() };
    Root::resolve(Path::new("/"), directory).map_err(failed)
}

/// A program that writes the directory of a fetch, and nothing else but its caches.
pub(super) struct Runner<'a> {
    name: &'static str,
    pub(super) program: PathBuf,
    fetching: &'a Fetching<'a>,
    grant: Grant,
}

impl<'a> Runner<'a> {
    /// Finds the program `name` on PATH. It has the rights of a fetch.
    pub(super) fn new(name: &'static str, fetching: &'a Fetching<'a>) -> Result<Self, ProgramError> {
        Self::with(name, fetching, fetching.grants.fetch.clone())
    }

    /// Returns the program with the rights of a build, for a program that runs fetched code.
    pub(super) fn alone(name: &'static str, fetching: &'a Fetching<'a>) -> Result<Self, ProgramError> {
        Self::with(name, fetching, fetching.grants.build.clone())
    }

    fn with(name: &'static str, fetching: &'a Fetching<'a>, grant: Grant) -> Result<Self, ProgramError> {
        let program = fetching.access.programs.find(name).ok_or(ProgramError::Missing(name))?;
        let root = root(name, fetching.directory)?;
        let grant = grant.with_write(root.clone()).with_workspace(root);
        Ok(Self { name, program, fetching, grant })
    }

    pub(super) fn reading(self, directory: &Path) -> Result<Self, ProgramError> {
        let root = root(self.name, directory)?;
        Ok(Self { grant: self.grant.with_read(root), ..self })
    }

    /// Runs one command, called `action` in errors. Returns at most `limit` characters of its standard output.
    pub(super) async fn run(
        &self,
        action: &'static str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        limit: usize,
    ) -> Result<String, ProgramError> {
        let arguments = arguments.into_iter().map(|word| word.as_ref().to_owned()).collect();
        let Finished { end, mut stdout, stderr, .. } = self.start(action, arguments, limit).await?;
        let program = self.name;
        match end {
            ExitReason::Exited(status) if status.success() => Ok(stdout.render(limit)),
            ExitReason::Exited(_) => {
                let why = stderr.map(|mut stderr| stderr.render(MAX_OUTPUT)).unwrap_or_default();
                let hints = self
                    .grant
                    .closed_in(&why)
                    .into_iter()
                    .filter_map(|closed| closed.hint(&RightsTable::Sandbox));
                let hints: String = hints.map(|hint| format!("\nhint: {hint}")).collect();
                let why = haft_core::report::plain(&haft_core::net::one_line(&why)) + &hints;
                Err(ProgramError::Failed { program, action, why })
            }
            ExitReason::TimedOut => Err(ProgramError::TimedOut { program, action }),
            ExitReason::Cancelled => Err(ProgramError::TooLarge(program)),
        }
    }

    async fn start(
        &self,
        action: &'static str,
        arguments: Vec<OsString>,
        limit: usize,
    ) -> Result<Finished, ProgramError> {
        let (program, timeout) = (self.program.clone(), TIMEOUT);
        let job = ProcessSpec {
            program,
            arguments,
            input: Vec::new(),
            output: Output::Separate,
            limit,
            timeout,
            environment: reaching_out()
                .filter(|_| self.grant.network())
                .chain([("PATH".into(), self.fetching.access.programs.path())])
                .collect(),
            limits: ProcessLimits::default(),
        };
        let (owner, cancel) = (Own::default(), CancellationToken::new());
        let context = Context { cancel: &cancel, ..owner.context(&self.grant) };
        let running = process::run(self.fetching.confiner, &job, action, &context);
        let watching = async {
            while !is_larger(self.fetching.directory, MAX_FETCHED) {
                tokio::time::sleep(SIZE_POLL_INTERVAL).await;
            }
            cancel.cancel();
            std::future::pending::<Infallible>().await
        };
        let failed =
            |error: process::ProcessError| ProgramError::Start { program: self.name, why: error.to_string() };
        tokio::select! {
            finished = running => finished.map_err(failed),
            never = watching => match never {},
        }
    }
}

fn reaching_out() -> impl Iterator<Item = (OsString, OsString)> {
    REACHING_OUT.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
}

/// Reports whether the files below `directory` have more than `most` bytes, or are more than [`MAX_FILES`].
fn is_larger(directory: &Path, most: u64) -> bool {
    let (mut size, mut files, mut folders) = (0, 0, vec![directory.to_owned()]);
    while let Some(folder) = folders.pop() {
        // Files that are created or removed during the walk are counted by the next check.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            (size, files) = (size + metadata.len(), files + 1);
            if size > most || files > MAX_FILES {
                return true;
            }
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    false
}
