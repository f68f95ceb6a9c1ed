//! The report of `haft doctor` on this machine: version, kernel, user, container, directories, and the programs that haft or
//! its tools use. Each is run with `--version` in the sandbox without the right to write, within a time limit.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Access, access};
use serde::Serialize;
use tokio::task::JoinSet;

use super::{Line, Mark};
use haft::program::Dirs;
use haft_core::grant::{Grant, Root, Why};
use haft_core::lookup::find_on_path;
use haft_core::tool::Own;
use haft_manifest::ProcessLimits;
use haft_sandbox::confine::Confiner;
use haft_sandbox::process::{self, ExitReason, Output, ProcessSpec};

#[derive(Serialize)]
pub(super) struct Machine {
    version: &'static str,
    kernel: String,
    architecture: &'static str,
    /// The name of the distribution.
    system: Option<String>,
    /// The user's id, and the user's name in the environment.
    user: (u32, Option<String>),
    pub(super) container: Option<&'static str>,
}

/// Files that container engines create in containers.
const MARKERS: &[(&str, &str)] = &[("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")];
/// Parts of the names of control groups of the first process in containers.
const GROUPS: &[(&str, &str)] =
    &[("kubepods", "Kubernetes"), ("docker", "Docker"), ("libpod", "Podman"), ("lxc", "LXC")];

impl Machine {
    pub(super) fn gather() -> Self {
        let kernel = ["ostype", "osrelease"].map(|name| read(&format!("/proc/sys/kernel/{name}")));
        let kernel = kernel.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let name = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
        Self {
            version: env!("CARGO_PKG_VERSION"),
            // Without `/proc`, the name of the operating system replaces the version of the kernel.
            kernel: if kernel.is_empty() { std::env::consts::OS.to_owned() } else { kernel },
            architecture: std::env::consts::ARCH,
            system: read("/etc/os-release").and_then(|text| pretty_name(&text)),
            user: (rustix::process::geteuid().as_raw(), name),
            container: container(),
        }
    }

    pub(super) fn title(&self) -> String {
        let (number, name) = &self.user;
        let user = match name {
            Some(name) => format!("user {name} ({number})"),
            None => format!("user {number}"),
        };
        let container = self.container.map(|kind| format!("in a container ({kind})"));
        let platform = format!("haft {} on {} {}", self.version, self.kernel, self.architecture);
        let parts = [Some(platform), self.system.clone(), Some(user), container];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn pretty_name(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

fn container() -> Option<&'static str> {
    let marked = MARKERS.iter().find(|(marker, _)| Path::new(marker).exists());
    let groups = read("/proc/1/cgroup").unwrap_or_default();
    let grouped = || GROUPS.iter().find(|(group, _)| groups.contains(group));
    let named = || std::env::var_os("container").map(|_| "some kind");
    marked.or_else(grouped).map(|(_, kind)| *kind).or_else(named)
}

// The directories that haft uses. Inspects them only; a missing one is created at its first use.

/// Write permission for the group and for others.
const SHARED_WRITING: u32 = 0o022;
const SHARED: u32 = 0o077;

#[derive(Serialize)]
pub(super) struct Place {
    name: &'static str,
    path: PathBuf,
    state: State,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Good,
    /// Does not exist yet.
    Missing,
    /// Other users can read the private files of haft; with `writable` they can also change them.
    Shared {
        writable: bool,
    },
    /// Cannot be used, and the reason.
    Unusable(String),
}

/// Inspects the private directories of haft, and the directories that tools may write.
pub(super) fn inspect_dirs(dirs: &Dirs) -> Vec<Place> {
    let journal = dirs.journal();
    let own = [
        ("state", &dirs.state),
        ("journal", &journal),
        ("cache", &dirs.cache),
        ("config", &dirs.config),
        ("store", &dirs.store),
        ("answers", &dirs.answers),
    ];
    let tools = [("data", &dirs.data), ("temporary", &dirs.temporary)];
    let place = |is_own: bool| {
        move |(name, path): (&'static str, &PathBuf)| Place {
            name,
            path: path.clone(),
            state: state(path, is_own),
        }
    };
    tools.into_iter().map(place(false)).chain(own.into_iter().map(place(true))).collect()
}

fn state(path: &Path, is_own: bool) -> State {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return State::Missing,
        Err(error) => return State::Unusable(format!("cannot be read: {error}")),
    };
    if !found.is_dir() {
        return State::Unusable("is not a directory".to_owned());
    }
    if let Err(error) = access(path, Access::WRITE_OK | Access::EXEC_OK) {
        return State::Unusable(format!("not writable: {error}"));
    }
    if is_own { privacy(&found) } else { State::Good }
}

fn privacy(found: &Metadata) -> State {
    let mode = found.permissions().mode();
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    match (is_ours && mode & SHARED_WRITING == 0, mode & SHARED == 0) {
        (true, true) => State::Good,
        (kept, _) => State::Shared { writable: !kept },
    }
}

impl Place {
    /// Returns whether haft cannot work with the directory.
    pub(super) fn is_unusable(&self) -> bool {
        matches!(self.state, State::Unusable(_))
    }

    pub(super) fn line(&self) -> Line {
        let path = self.path.display();
        let line = |mark, text: String| Line::new(mark, self.name, text);
        match &self.state {
            State::Good => line(Mark::Good, path.to_string()),
            State::Missing => line(Mark::Absent, format!("{path} (does not exist yet)")),
            State::Shared { writable } => {
                let what = if *writable { "write" } else { "read" };
                line(Mark::Warning, format!("other users may {what} {path}"))
                    .hint([format!("`chmod 700 {path}`, owned by you")])
            }
            State::Unusable(why) => line(Mark::Bad, format!("{path} {why}")),
        }
    }
}

/// Time limit for a version. A suspended engine may need some seconds.
const BOUND: Duration = Duration::from_secs(4);
/// Maximum characters of a displayed answer.
const MAX_SHOWN: usize = 100;
/// Maximum characters of a stored answer. A version is one line.
const MAX_ANSWER: usize = 4000;

struct ToolQuery {
    name: &'static str,
    version: &'static [&'static str],
    /// Arguments for a question to the program's engine, through a socket.
    engine: Option<&'static [&'static str]>,
    /// The feature that needs the program. `None` if only some programs need it.
    needed: Option<&'static str>,
}

const fn program(name: &'static str, version: &'static [&'static str]) -> ToolQuery {
    ToolQuery { name, version, engine: None, needed: None }
}

const QUERIES: &[ToolQuery] = &[
    ToolQuery { needed: Some("the tool `bash`"), ..program("bash", &["--version"]) },
    program("git", &["--version"]),
    program("ssh", &["-V"]),
    program("tmux", &["-V"]),
    ToolQuery {
        engine: Some(&["version", "--format", "{{.Server.Version}}"]),
        ..program("docker", &["--version"])
    },
    // Podman has no daemon.
    program("podman", &["--version"]),
    program("node", &["--version"]),
    program("python3", &["--version"]),
    program("cargo", &["--version"]),
];

/// Variables with the address of an engine.
const ENGINE_VARIABLES: &[&str] = &["DOCKER_HOST", "DOCKER_CONTEXT", "XDG_RUNTIME_DIR"];

#[derive(Serialize)]
pub(super) struct Tool {
    name: &'static str,
    path: Option<PathBuf>,
    /// The version, or the reason why it is unknown.
    version: Option<Result<String, String>>,
    engine: Option<Result<String, String>>,
    needed: Option<&'static str>,
}

/// Runs the programs, with their rights.
#[derive(Clone)]
struct Asker {
    confiner: Confiner,
    plain: Arc<Grant>,
    engine: Arc<Grant>,
}

/// Looks for all programs, and runs those that exist concurrently. Runs none if processes cannot start
/// (`is_refused`).
pub(super) async fn find_tools(confiner: &Confiner, dirs: &Dirs, is_refused: bool) -> Vec<Tool> {
    let plain = grant(dirs);
    let connected = plain.clone().with_network(true).with_unix_sockets(true);
    let connected = ENGINE_VARIABLES.iter().fold(connected, |grant, name| grant.with_env(*name));
    let asker = Asker { confiner: confiner.clone(), plain: Arc::new(plain), engine: Arc::new(connected) };
    let mut answers = JoinSet::new();
    for (index, query) in QUERIES.iter().enumerate() {
        let asker = asker.clone();
        answers.spawn(async move { (index, asker.tool(query, is_refused).await) });
    }
    let mut tools = answers.join_all().await;
    tools.sort_by_key(|(index, _)| *index);
    tools.into_iter().map(|(_, tool)| tool).collect()
}

/// Returns the right to read, and no other right.
fn grant(dirs: &Dirs) -> Grant {
    let grant = Grant::none().with_read_anywhere().with_workspace(Root::everything());
    let own = [&dirs.state, &dirs.cache, &dirs.config];
    let hidden = own.into_iter().filter_map(|path| Root::resolve(&dirs.home, path).ok());
    let grant = hidden.fold(grant, Grant::with_hidden);
    dirs.credentials()
        .iter()
        .fold(grant, |grant, (store, root)| grant.with_hidden_because(Why::Store(*store), root.clone()))
}

impl Asker {
    async fn tool(&self, query: &'static ToolQuery, is_refused: bool) -> Tool {
        let ToolQuery { name, needed, .. } = *query;
        let path = find_on_path(name);
        let (mut version, mut engine) = (None, None);
        if let Some(path) = path.as_ref().filter(|_| !is_refused) {
            version = Some(self.ask(path, query.version, &self.plain).await);
            if let Some(words) = query.engine {
                engine = Some(self.ask(path, words, &self.engine).await);
            }
        }
        Tool { name, path, version, engine, needed }
    }

    /// Returns the first line of the program's output for `words`, or the last line of its error output.
    async fn ask(&self, path: &Path, words: &[&str], grant: &Grant) -> Result<String, String> {
        let job = ProcessSpec {
            program: path.to_owned(),
            arguments: words.iter().map(Into::into).collect(),
            environment: Vec::new(),
            input: Vec::new(),
            output: Output::Separate,
            limit: MAX_ANSWER,
            timeout: BOUND,
            limits: ProcessLimits::default(),
        };
        let finished = process::run(&self.confiner, &job, "doctor", &Own::default().context(grant)).await;
        let mut finished = finished.map_err(|error| error.to_string())?;
        let version = finished.stdout.render(MAX_ANSWER);
        let complained = finished.stderr.map(|mut text| text.render(MAX_ANSWER)).unwrap_or_default();
        match finished.end {
            // Some programs print their version to standard error (`ssh`).
            ExitReason::Exited(status) if status.success() => {
                line(&version).or_else(|| line(&complained)).ok_or_else(|| "it printed nothing".to_owned())
            }
            ExitReason::Exited(status) => Err(last_line(&complained).unwrap_or_else(|| status.to_string())),
            ExitReason::TimedOut | ExitReason::Cancelled => Err(format!("no answer within {BOUND:?}")),
        }
    }
}

fn line(text: &str) -> Option<String> {
    text.lines().find(|line| !line.trim().is_empty()).map(printable)
}

fn last_line(text: &str) -> Option<String> {
    text.lines().rfind(|line| !line.trim().is_empty()).map(printable)
}

/// Returns one line of bounded length, without control characters.
fn printable(line: &str) -> String {
    line.trim().chars().filter(|character| !character.is_control()).take(MAX_SHOWN).collect()
}

impl Tool {
    pub(super) fn line(&self) -> Line {
        let line = |mark, text: &str| Line::new(mark, self.name, text);
        let Some(path) = &self.path else {
            return match self.needed {
                Some(what) => line(Mark::Bad, &format!("not found on PATH; {what} needs it")),
                None => line(Mark::Absent, "not found on PATH"),
            };
        };
        let path = path.display();
        let shown = match &self.version {
            Some(Ok(version)) => line(Mark::Good, &format!("{version} ({path})")),
            Some(Err(why)) => line(Mark::Warning, &format!("{path} did not report its version: {why}")),
            None => line(Mark::Good, &path.to_string()),
        };
        match &self.engine {
            Some(Ok(version)) => shown.more([format!("the engine answers: version {version}")]),
            Some(Err(why)) => {
                shown.marked(Mark::Warning).more([format!("the engine does not answer: {why}")])
            }
            None => shown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_called_as_it_calls_itself() {
        let text = "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n";
        assert_eq!(pretty_name(text).as_deref(), Some("Debian GNU/Linux 13 (trixie)"));
        assert_eq!(pretty_name("NAME=x"), None);
    }

    #[test]
    fn what_is_haft_s_alone_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let with_mode = |mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            state(path, true)
        };
        assert_eq!(with_mode(0o700), State::Good);
        assert_eq!(with_mode(0o755), State::Shared { writable: false });
        assert_eq!(with_mode(0o770), State::Shared { writable: true });
        assert_eq!(state(path, false), State::Good);
        assert_eq!(state(&path.join("none"), true), State::Missing);
        fs::write(path.join("file"), "").unwrap();
        assert!(matches!(state(&path.join("file"), true), State::Unusable(_)));
    }

    /// CL03: the output of a program contains no control characters and is bounded.
    #[test]
    fn what_a_program_says_cannot_steer_the_terminal() {
        assert_eq!(line("\n  tool 1.2\u{1b}[2J\r\nmore\n").as_deref(), Some("tool 1.2[2J"));
        assert_eq!(last_line("first\nlast\n\n").as_deref(), Some("last"));
        assert_eq!(line(&"x".repeat(1000)).map(|text| text.len()), Some(MAX_SHOWN));
        assert_eq!(line(" \n"), None);
    }
}
