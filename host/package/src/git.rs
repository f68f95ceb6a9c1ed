//! Fetches one commit of a git repository with this machine's git, confined like any other child process. Runs
//! nothing that the repository contains: no hook, no filter, no submodule.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Fetching, MAX_SIZE, Step};
use haft_core::grant::{Grant, RightsTable, Root};
use haft_core::tool::{Context, Own};
use haft_manifest::ProcessLimits;
use haft_sandbox::process::{self, ExitReason, Finished, Output, ProcessSpec};

/// Time limit of one git command.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Characters kept of git's output: its error is in the last lines.
const MAX_OUTPUT: usize = 4000;

/// Characters kept of a list of branches and tags: about fifty thousand refs.
const MAX_LIST: usize = 4 << 20;

/// Limit on the bytes of a repository while it is fetched: its files, and once more packed.
const MAX_CHECKOUT: u64 = 2 * MAX_SIZE;

/// Interval between two size checks.
const SIZE_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Limit on the counted files; a repository with more is too large.
const MAX_FILES: usize = 100_000;

/// Settings that leave git no program to run and no other transport to use.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=true",
    "credential.interactive=false",
    "fetch.recurseSubmodules=false",
    "submodule.recurse=false",
    "filter.lfs.smudge=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "protocol.https.allow=always",
];

/// Reasons why a repository cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// git is not installed.
    #[error("`git` is not on PATH, and the package is in a git repository")]
    Missing,
    /// git cannot be started.
    #[error("cannot run `git`: {0}")]
    Start(String),
    /// git failed.
    #[error("`git {action}` failed: {why}")]
    Failed {
        /// The git command.
        action: &'static str,
        /// Its error output.
        why: String,
    },
    /// git exceeded its time limit.
    #[error("`git {0}` was not done within {most} minutes", most = TIMEOUT.as_secs() / 60)]
    TimedOut(&'static str),
    /// The repository exceeds the size limit.
    #[error("the repository has more than {} MiB", MAX_CHECKOUT >> 20)]
    TooLarge,
}

/// Fetches one commit of the repository at `url`. Returns its folder and the commit's id.
pub(super) async fn clone(
    url: &str,
    reference: Option<&str>,
    fetching: &Fetching<'_>,
) -> Result<(PathBuf, String), GitError> {
    fetching.progress.report(Step::Started { what: url, total: None });
    let cloned = Git::new(url, fetching).map(|git| async move { git.clone(url, reference).await });
    let cloned = match cloned {
        Ok(cloning) => cloning.await,
        Err(error) => Err(error),
    };
    fetching.progress.report(Step::Finished);
    cloned
}

/// Lists `HEAD`, the branches and the tags of the repository at `url` by their full names, each with its
/// commit. An annotated tag is also listed as `NAME^{}` with the commit that it points to.
pub(super) async fn refs(url: &str, fetching: &Fetching<'_>) -> Result<Vec<(String, String)>, GitError> {
    let git = Git::new(url, fetching)?;
    let listed = git.run("ls-remote", ["--quiet", "--", url].into_iter().map(OsStr::new)).await?;
    let line = |line: &str| line.split_once('\t').map(|(commit, name)| (name.to_owned(), commit.to_owned()));
    Ok(listed.lines().filter_map(line).collect())
}

/// Returns the commit of a branch or tag among `refs`; without `reference`, of `HEAD`.
pub(super) fn commit_of(refs: &[(String, String)], reference: Option<&str>) -> Option<String> {
    let names = match reference {
        None => vec!["HEAD".to_owned()],
        Some(name) => [("tags", "^{}"), ("tags", ""), ("heads", "")]
            .map(|(kind, end)| format!("refs/{kind}/{name}{end}"))
            .to_vec(),
    };
    let find =
        |name: &String| refs.iter().find(|(listed, _)| listed == name).map(|(_, commit)| commit.clone());
    names.iter().find_map(find)
}

struct Git<'a> {
    program: PathBuf,
    fetching: &'a Fetching<'a>,
    grant: Grant,
    folder: PathBuf,
    /// Whether the repository is on this machine; git distrusts such a repository by default.
    is_local: bool,
}

impl<'a> Git<'a> {
    fn new(url: &str, fetching: &'a Fetching<'a>) -> Result<Self, GitError> {
        let program = fetching.access.programs.find("git").ok_or(GitError::Missing)?;
        let root = Root::resolve(Path::new("/"), fetching.directory)
            .map_err(|error| GitError::Start(error.to_string()))?;
        let grant = fetching.grant.clone().with_write(root.clone()).with_workspace(root);
        let folder = fetching.directory.join("repository");
        Ok(Self { program, fetching, grant, folder, is_local: url.starts_with("file:") })
    }

    async fn clone(&self, url: &str, reference: Option<&str>) -> Result<(PathBuf, String), GitError> {
        let folder = self.folder.as_os_str();
        let quietly = ["--quiet", "--template=", "--"].map(OsStr::new);
        self.run("init", quietly.into_iter().chain([folder])).await?;
        let fetch = ["--quiet", "--depth=1", "--no-tags", "--", url, reference.unwrap_or("HEAD")];
        self.run("fetch", fetch.into_iter().map(OsStr::new)).await?;
        self.run("checkout", ["--quiet", "--detach", "FETCH_HEAD"].into_iter().map(OsStr::new)).await?;
        let commit = self.run("rev-parse", [OsStr::new("HEAD")]).await?;
        Ok((self.folder.clone(), commit.trim().to_owned()))
    }

    /// Runs one git command; returns its standard output.
    async fn run<'o>(
        &self,
        action: &'static str,
        more: impl IntoIterator<Item = &'o OsStr>,
    ) -> Result<String, GitError> {
        let mut arguments: Vec<OsString> = Vec::new();
        let local = self.is_local.then_some("protocol.file.allow=always");
        for setting in SETTINGS.iter().copied().chain(local) {
            arguments.extend(["-c".into(), setting.into()]);
        }
        // `init` and `ls-remote` need no local repository.
        if !matches!(action, "init" | "ls-remote") {
            arguments.extend(["-C".into(), self.folder.clone().into()]);
        }
        arguments.push(action.into());
        arguments.extend(more.into_iter().map(Into::into));
        let limit = if action == "ls-remote" { MAX_LIST } else { MAX_OUTPUT };
        let finished = self.start(action, arguments, limit).await?;
        let Finished { end, mut stdout, stderr, .. } = finished;
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
                Err(GitError::Failed { action, why })
            }
            ExitReason::TimedOut => Err(GitError::TimedOut(action)),
            ExitReason::Cancelled => Err(GitError::TooLarge),
        }
    }

    async fn start(
        &self,
        action: &'static str,
        arguments: Vec<OsString>,
        limit: usize,
    ) -> Result<Finished, GitError> {
        let (program, timeout) = (self.program.clone(), TIMEOUT);
        let job = ProcessSpec {
            program,
            arguments,
            input: Vec::new(),
            output: Output::Separate,
            limit,
            timeout,
            environment: reaching_out()
                .into_iter()
                .chain([("PATH".into(), self.fetching.access.programs.path())])
                .collect(),
            limits: ProcessLimits::default(),
        };
        let (owner, cancel) = (Own::default(), CancellationToken::new());
        let context = Context { cancel: &cancel, ..owner.context(&self.grant) };
        let running = process::run(self.fetching.confiner, &job, action, &context);
        let watching = async {
            while !is_larger(self.fetching.directory, MAX_CHECKOUT) {
                tokio::time::sleep(SIZE_POLL_INTERVAL).await;
            }
            cancel.cancel();
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            finished = running => finished.map_err(|error| GitError::Start(error.to_string())),
            never = watching => match never {},
        }
    }
}

/// Environment variables that git may read: trusted certificates and proxies.
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
];

fn reaching_out() -> Vec<(OsString, OsString)> {
    REACHING_OUT.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect()
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
