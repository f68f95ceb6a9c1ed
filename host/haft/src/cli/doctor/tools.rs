//! The report of `haft doctor` on programs of this machine that haft or its tools use. Each is run with `--version`
//! in the sandbox without the right to write, within a time limit.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;

use super::{Line, Mark};
use haft::program::Dirs;
use haft_core::grant::{Grant, Root};
use haft_core::lookup::find_on_path;
use haft_core::tool::Own;
use haft_manifest::ProcessLimits;
use haft_sandbox::confine::Confiner;
use haft_sandbox::process::{self, ExitReason, Output, ProcessSpec};

/// Time limit for a version. A suspended engine may need some seconds.
const BOUND: Duration = Duration::from_secs(4);
/// Maximum characters of a displayed answer.
const MAX_SHOWN: usize = 100;
/// Maximum characters of a stored answer. A version is one line.
const MAX_ANSWER: usize = 4000;

/// A program to look for.
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

/// The queries, in the order of the report.
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

/// The result of a query.
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
    dirs.credentials().iter().fold(grant, |grant, (store, root)| grant.with_store(*store, root.clone()))
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
    async fn ask(&self, path: &std::path::Path, words: &[&str], grant: &Grant) -> Result<String, String> {
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

    /// CL03: the output of a program contains no control characters and is bounded.
    #[test]
    fn what_a_program_says_cannot_steer_the_terminal() {
        assert_eq!(line("\n  tool 1.2\u{1b}[2J\r\nmore\n").as_deref(), Some("tool 1.2[2J"));
        assert_eq!(last_line("first\nlast\n\n").as_deref(), Some("last"));
        assert_eq!(line(&"x".repeat(1000)).map(|text| text.len()), Some(MAX_SHOWN));
        assert_eq!(line(" \n"), None);
    }
}
