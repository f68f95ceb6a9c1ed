//! Fetches one commit of a git repository with this machine's git, confined like any other child process. Runs
//! no code of the repository: no hook, no filter, no submodule.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::runner::{MAX_OUTPUT, ProgramError, Runner};
use super::{Fetching, Step};

/// Maximum number of characters kept of a list of branches and tags: about fifty thousand refs.
const MAX_LIST: usize = 4 << 20;

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

/// Fetches one commit of the repository at `url`. Returns its folder and the commit's id.
pub(super) async fn clone(
    url: &str,
    reference: Option<&str>,
    fetching: &Fetching<'_>,
) -> Result<(PathBuf, String), ProgramError> {
    let _transfer = fetching.progress.begin(Step::Started { what: url, total: None });
    Git::new(url, fetching)?.clone(url, reference).await
}

/// Lists `HEAD`, the branches and the tags of the repository at `url` by their full names, each with its
/// commit. An annotated tag is also listed as `NAME^{}` with the commit that it points to.
pub(super) async fn refs(url: &str, fetching: &Fetching<'_>) -> Result<Vec<(String, String)>, ProgramError> {
    let git = Git::new(url, fetching)?;
    let listed = git.run("ls-remote", ["--quiet", "--", url]).await?;
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
    runner: Runner<'a>,
    folder: PathBuf,
    /// Whether the repository is on this machine; git distrusts such a repository by default.
    is_local: bool,
}

impl<'a> Git<'a> {
    fn new(url: &str, fetching: &'a Fetching<'a>) -> Result<Self, ProgramError> {
        let folder = fetching.directory.join("repository");
        Ok(Self { runner: Runner::new("git", fetching)?, folder, is_local: url.starts_with("file:") })
    }

    async fn clone(&self, url: &str, reference: Option<&str>) -> Result<(PathBuf, String), ProgramError> {
        let folder = self.folder.as_os_str();
        let quietly = ["--quiet", "--template=", "--"].map(OsStr::new);
        self.run("init", quietly.into_iter().chain([folder])).await?;
        let fetch = ["--quiet", "--depth=1", "--no-tags", "--", url, reference.unwrap_or("HEAD")];
        self.run("fetch", fetch).await?;
        self.run("checkout", ["--quiet", "--detach", "FETCH_HEAD"]).await?;
        let commit = self.run("rev-parse", ["HEAD"]).await?;
        Ok((self.folder.clone(), commit.trim().to_owned()))
    }

    async fn run(
        &self,
        action: &'static str,
        more: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<String, ProgramError> {
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
        arguments.extend(more.into_iter().map(|word| word.as_ref().to_owned()));
        let limit = if action == "ls-remote" { MAX_LIST } else { MAX_OUTPUT };
        self.runner.run(action, arguments, limit).await
    }
}
