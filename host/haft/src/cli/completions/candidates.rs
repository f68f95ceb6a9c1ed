//! The completion candidates for a position of the command line, from haft's own records. Descriptions of tools are
//! shown on one line.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};
use haft::program::{Ask, Dirs, FILE_NAME, Options, Program};
use serde_json::Value;
use tokio::runtime::Builder;

use crate::cli::{completions, trusted};
use haft_core::report::{plain, shortened};
use haft_core::tool::in_a_line;
use haft_journal::View;
use haft_manifest::{Manifest, McpServer, Transport};

/// Maximum characters of a candidate's description.
const MAX_HELP: usize = 70;

/// Maximum number of sessions and calls among the candidates: as many as a user remembers.
const MAX_RECENT: usize = 30;

/// Number of digits of a call's id, as in `haft log`.
const ID: usize = 8;

/// The prefixes of rights.
const RIGHTS: &[(&str, &str)] = &[
    ("read=", "a folder or file that may be read"),
    ("write=", "a folder or file that may be written"),
    ("host=", "a host that may be reached"),
    ("env=", "a variable that may be seen"),
    ("credentials=", "a credential store that is open"),
];

fn candidate(value: impl Into<String>, help: &str) -> CompletionCandidate {
    let help = shortened(&plain(help.lines().next().unwrap_or_default()), MAX_HELP);
    CompletionCandidate::new(plain(&value.into())).help(Some(help.into()))
}

pub(super) fn tools() -> Vec<CompletionCandidate> {
    let Some(program) = Line::typed().program() else { return Vec::new() };
    let tools = program.toolbox.offered();
    tools.iter().map(|(def, _)| candidate(def.name.as_str(), &def.description)).collect()
}

/// Returns `NAME=` for each argument, and after a complete name its values.
pub(super) fn arguments(current: &OsStr) -> Vec<CompletionCandidate> {
    let (line, current) = (Line::typed(), current.to_string_lossy());
    let (Some(tool), given) = (line.about.clone(), line.given.clone()) else { return Vec::new() };
    let Some(program) = line.program() else { return Vec::new() };
    let Some(entry) = program.toolbox.find(&tool) else { return Vec::new() };
    let properties = entry.def().parameters.get("properties").and_then(Value::as_object);
    let found = match current.split_once('=') {
        Some((name, typed)) => {
            properties.and_then(|all| all.get(name)).map(|schema| values(name, typed, schema))
        }
        None => properties.map(|all| {
            let rest = all.iter().filter(|(name, _)| !given.contains(name));
            rest.map(|(name, schema)| candidate(format!("{name}="), &said(schema))).collect()
        }),
    };
    let starts = |found: &CompletionCandidate| found.get_value().to_string_lossy().starts_with(&*current);
    found.unwrap_or_default().into_iter().filter(starts).collect()
}

/// Returns the description of a schema, or its type.
fn said(schema: &Value) -> String {
    let text = |name: &str| schema.get(name).and_then(Value::as_str).map(str::to_owned);
    text("description").or_else(|| text("type")).unwrap_or_default()
}

/// Returns the values of an argument: those of its schema, or files if its name suggests a path.
fn values(name: &str, typed: &str, schema: &Value) -> Vec<CompletionCandidate> {
    let listed = schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_bool = schema.get("type").and_then(Value::as_str) == Some("boolean");
    let switches = [Value::Bool(true), Value::Bool(false)].into_iter().filter(|_| is_bool);
    let listed: Vec<_> = listed.into_iter().chain(switches).chain(schema.get("default").cloned()).collect();
    if listed.is_empty() && ["path", "file", "dir", "folder"].iter().any(|part| name.contains(part)) {
        let files = PathCompleter::any().complete(OsStr::new(typed)).into_iter();
        return files.map(|file| file.add_prefix(format!("{name}="))).collect();
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut found: Vec<String> = listed.iter().map(|value| format!("{name}={}", text(value))).collect();
    let mut seen = std::collections::HashSet::new();
    found.retain(|value| seen.insert(value.clone()));
    found.into_iter().map(|value| candidate(value, "")).collect()
}

/// Returns the plugins and packages of program.toml.
fn installed(manifest: &Manifest) -> Vec<(String, &'static str)> {
    let plugins = manifest.plugins.iter().map(|plugin| (plugin.name.to_string(), "plugin"));
    let packages = manifest.packages.iter().map(|package| (package.name.to_string(), "package"));
    plugins.chain(packages).collect()
}

pub(super) fn plugins() -> Vec<CompletionCandidate> {
    let all = Line::typed().manifest().map(|manifest| installed(&manifest)).unwrap_or_default();
    all.into_iter().map(|(name, kind)| candidate(name, kind)).collect()
}

pub(super) fn servers() -> Vec<CompletionCandidate> {
    let manifest = Line::typed().manifest();
    let servers = manifest.iter().flat_map(|manifest| &manifest.mcp_servers);
    let at = |server: &McpServer| match &server.transport {
        Transport::Http { url, .. } => Some(candidate(server.name.to_string(), &url.value)),
        Transport::Stdio { .. } => None,
    };
    servers.filter_map(at).collect()
}

pub(super) fn rights() -> Vec<CompletionCandidate> {
    let manifest = Line::typed().manifest();
    let owners = manifest.iter().flat_map(|manifest| {
        let servers = manifest.mcp_servers.iter().map(|server| (server.name.to_string(), "MCP server"));
        installed(manifest).into_iter().chain(servers)
    });
    let own = RIGHTS.iter().map(|(right, help)| candidate(*right, help));
    let theirs = owners.flat_map(|(name, kind)| {
        RIGHTS
            .iter()
            .map(move |(right, help)| candidate(format!("{name}:{right}"), &format!("{kind}: {help}")))
    });
    own.chain(theirs).collect()
}

pub(super) fn sessions() -> Vec<CompletionCandidate> {
    let saved = Dirs::of_this_machine().ok().and_then(|dirs| dirs.kept_sessions().all().ok());
    let newest = saved.into_iter().flatten().rev().take(MAX_RECENT);
    let last = candidate("last", "the newest of this program in this folder");
    let each = newest.map(|saved| {
        let begun = saved.begun().unwrap_or_default();
        let place = begun.folder.map(|folder| folder.display().to_string()).unwrap_or_default();
        candidate(saved.id, &format!("{} {place}", begun.program.unwrap_or_default()))
    });
    std::iter::once(last).chain(each).collect()
}

pub(super) fn calls() -> Vec<CompletionCandidate> {
    let Ok(dirs) = Dirs::of_this_machine() else { return Vec::new() };
    let last = View::open(&dirs.journal()).and_then(|view| view.last(MAX_RECENT, None, |_| true));
    let records = last.map(|last| last.records).unwrap_or_default();
    let call = records.iter().rev().enumerate().map(|(at, record)| {
        let id: String = record.id.chars().take(ID).collect();
        let about = in_a_line(&record.arguments, MAX_HELP);
        // The newest calls come first; the order of digits has no meaning.
        candidate(id, &format!("{} {about}", record.tool)).display_order(Some(at))
    });
    call.collect()
}

// Facts about the program on a line that need no action: haft compiles no component, starts no server, and leaves out
// parts without consent.

/// Time limit for an answer to the shell.
const PATIENCE: Duration = Duration::from_secs(1);

/// Options that take the next word, besides `--program` and `--arg`.
const VALUED: &[&str] = &["--allow", "--container", "--ssh", "--nats", "--profile", "--coredump"];

/// The words on the line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The program.toml on the line.
    program: Option<PathBuf>,
    /// The first word after the verb that is not an option.
    pub(super) about: Option<String>,
    /// The names of arguments that already have values.
    pub(super) given: Vec<String>,
}

impl Line {
    /// Returns the line under completion.
    pub(super) fn typed() -> Self {
        Self::of(&completions::typed())
    }

    fn of(words: &[String]) -> Self {
        let (mut line, mut verb) = (Self::default(), None);
        let mut words = words.iter().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "-p" | "--program" => line.program = words.next().map(PathBuf::from),
                "-a" | "--arg" => line.given.extend(words.next().and_then(|word| name(word))),
                word if VALUED.contains(&word) => drop(words.next()),
                word if word.starts_with('-') => {
                    line.program = word.strip_prefix("--program=").map(PathBuf::from).or(line.program);
                    line.given.extend(word.strip_prefix("--arg=").and_then(name));
                }
                word if verb.is_none() => verb = Some(word),
                word if line.about.is_none() => line.about = Some(word.to_owned()),
                _ => {}
            }
        }
        line
    }

    /// Returns the program.toml, as far as it can be read. Nothing of it takes effect.
    pub(super) fn manifest(&self) -> Option<Manifest> {
        Manifest::load(&self.program.clone().unwrap_or_else(|| FILE_NAME.into())).ok()
    }

    /// Returns the program with its known tools.
    pub(super) fn program(self) -> Option<Program> {
        let trust = trusted::or_left_out(trusted::of_environment().ok()?);
        let program = self.program;
        let (ask, known_only, no_journal) = (Ask::Never, true, true);
        let options = Options { program, trust, ask, known_only, no_journal, ..Options::default() };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().ok()?;
        let loaded =
            runtime.block_on(async { tokio::time::timeout(PATIENCE, Program::load(&options)).await });
        runtime.shutdown_background();
        loaded.ok()?.ok()
    }
}

/// Returns the name in `NAME=VALUE`.
fn name(pair: &str) -> Option<String> {
    pair.split_once('=').map(|(name, _)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// U10: the program, the tool and the given arguments are read from the line.
    #[test]
    fn the_line_names_its_program_and_tool() {
        let line = |text: &str| Line::of(&completions::words_of(text).unwrap());
        let all = line("haft -p a.toml call --allow read=. x --arg one=1 --arg=two=2 --arg thr");
        let expected = Line {
            program: Some("a.toml".into()),
            about: Some("x".into()),
            given: vec!["one".into(), "two".into()],
        };
        assert_eq!(all, expected);
        assert_eq!(line("haft call --program=b.toml").program, Some("b.toml".into()));
    }
}
