//! `haft self completions`: scripts for shells, and haft's answers when a shell completes a line: the candidates for a position
//! of the line, from haft's own records. Descriptions of tools are shown on one line.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _, complete,
};
use clap_complete::env::{self, Elvish, EnvCompleter, Fish, Powershell, Shells};
use clap_complete::{CompleteEnv, Shell};
use serde_json::Value;
use tokio::runtime::Builder;

use super::terminal::Terminal;
use super::{Cli, Exit, trusted};
use haft::program::{Ask, Dirs, FILE_NAME, Options, Program};
use haft_core::report::{plain, shortened};
use haft_core::tool::in_a_line;
use haft_journal::View;
use haft_manifest::{Manifest, McpServer, Transport};

/// The variable that marks a question of the shell's script.
const VARIABLE: &str = "HAFT_COMPLETE";

/// The value of the variable, and the command that the script runs.
const NAME: &str = "haft";

const ALL: [&dyn EnvCompleter; 5] = [&BASH, &Elvish, &Fish, &Powershell, &ZSH];
const SHELLS: Shells<'static> = Shells(&ALL);

#[derive(Debug, Args)]
#[command(after_help = "\
At every Tab the script asks haft for the current verbs, options, tools and their arguments, plugins, servers, \
sessions and calls. This starts no server and compiles nothing. From a program.toml that you have not agreed \
to, only the names are read.

  haft self completions bash > ~/.local/share/bash-completion/completions/haft
  haft self completions zsh > ~/.zfunc/_haft              below `fpath=(~/.zfunc $fpath)` in ~/.zshrc
  haft self completions fish > ~/.config/fish/completions/haft.fish")]
pub(super) struct Completions {
    /// The shell that is to complete
    shell: Shell,
}

impl Completions {
    pub(super) fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let (mut script, shell) = (Vec::new(), self.shell.to_string());
        let writer = SHELLS.completer(&shell);
        let writer = writer.ok_or_else(|| anyhow::anyhow!("haft does not support the shell `{shell}`"))?;
        writer.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
        terminal.verbatim(&String::from_utf8(script)?)?;
        Ok(Exit::Success)
    }
}

/// Answers a shell that asks for the completions of a line. Returns whether a shell asked.
pub(crate) fn answered() -> bool {
    let asked =
        CompleteEnv::with_factory(Cli::grammar).var(VARIABLE).bin(NAME).completer(NAME).shells(SHELLS);
    let folder = std::env::current_dir().ok();
    // After an error there are no candidates: a message would appear within the line.
    asked.try_complete(std::env::args_os(), folder.as_deref()).unwrap_or(true)
}

/// A shell with a modified script of the library.
struct Patched {
    own: &'static dyn EnvCompleter,
    /// Parts of the library's script, and their replacements.
    parts: &'static [(&'static str, &'static str)],
    /// Whether the script passes the line to haft.
    has_line: bool,
}

/// bash splits words at `=` and `:` too, and replaces only the text after them; haft's options are whole words. The
/// script therefore passes the typed line, and answers omit the part that bash does not replace.
const BASH: Patched = Patched {
    own: &env::Bash,
    parts: &[(
        "_CLAP_IFS=\"$IFS\" \\",
        "_HAFT_LINE=\"${COMP_LINE:0:COMP_POINT}\" _HAFT_PART=\"$2\" _CLAP_IFS=\"$IFS\" \\",
    )],
    has_line: true,
};

/// zsh appends a blank to a completed word. A completion that ends with `=` is incomplete, and gets no blank.
const ZSH: Patched = Patched {
    own: &env::Zsh,
    parts: &[
        ("local -a other=()", "local -a other=() open=()"),
        (
            "if [[ \"$value\" == */ ]]; then",
            "if [[ \"$completion\" == *=:* || \"$completion\" == *= ]]; then\n                open+=(\"$completion\")\n            \
             elif [[ \"$value\" == */ ]]; then",
        ),
        (
            "[[ -n $other ]] && _describe -V 'values' other",
            "[[ -n $other ]] && _describe -V 'values' other\n        [[ -n $open ]] && _describe -V 'values' open -S ''",
        ),
    ],
    has_line: false,
};

impl EnvCompleter for Patched {
    fn name(&self) -> &'static str {
        self.own.name()
    }

    fn is(&self, name: &str) -> bool {
        self.own.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        bin: &str,
        completer: &str,
        script: &mut dyn Write,
    ) -> io::Result<()> {
        let mut own = Vec::new();
        self.own.write_registration(variable, name, bin, completer, &mut own)?;
        let own = String::from_utf8_lossy(&own).into_owned();
        let own = self.parts.iter().fold(own, |own, (there, here)| own.replace(there, here));
        script.write_all(own.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        answer: &mut dyn Write,
    ) -> io::Result<()> {
        let line = std::env::var(LINE).ok().filter(|_| self.has_line);
        match line.and_then(|line| words_of(&line)) {
            Some(typed) => complete_rest(command, typed, folder, answer),
            None => self.own.write_complete(command, words, folder, answer),
        }
    }
}

/// The variable with the line up to the cursor.
const LINE: &str = "_HAFT_LINE";

/// The variable with the part of the word that bash replaces.
const PART: &str = "_HAFT_PART";

/// Answers with completions of the last typed word, without the part that bash does not replace.
fn complete_rest(
    command: &mut clap::Command,
    typed: Vec<String>,
    folder: Option<&Path>,
    answer: &mut dyn Write,
) -> io::Result<()> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let word = typed.last().cloned().unwrap_or_default();
    let known = word.strip_suffix(&variable(PART)).unwrap_or_default().to_owned();
    let at = typed.len().saturating_sub(1);
    let found = complete(command, typed.into_iter().map(OsString::from).collect(), at, folder)?;
    let values = found.iter().map(|found| found.get_value().to_string_lossy());
    let values = values.map(|value| value.strip_prefix(&known).unwrap_or(&value).to_owned());
    let separator = Some(variable("_CLAP_IFS")).filter(|separator| !separator.is_empty());
    answer.write_all(values.collect::<Vec<_>>().join(separator.as_deref().unwrap_or("\n")).as_bytes())
}

/// Splits a typed line into words; the last may be empty. Returns `None` if a quote is open: the words of bash are
/// used then.
fn words_of(line: &str) -> Option<Vec<String>> {
    let mut words = shell_words::split(line).ok().filter(|words| !words.is_empty())?;
    if line.ends_with(char::is_whitespace) && !line.ends_with("\\ ") {
        words.push(String::new());
    }
    Some(words)
}

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

/// Completes callable tools.
pub(super) fn tools() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Some(program) = Line::typed().program() else { return Vec::new() };
        let tools = program.toolbox.offered();
        tools.iter().map(|(def, _)| candidate(def.name.as_str(), &def.description)).collect()
    })
}

/// Completes `NAME=` for each argument of the tool on the line, and after a complete name its values.
pub(super) fn arguments() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
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
    })
}

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

/// Completes installed packages and the plugins of program.toml.
pub(super) fn plugins() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let all = Line::typed().manifest().map(|manifest| installed(&manifest)).unwrap_or_default();
        all.into_iter().map(|(name, kind)| candidate(name, kind)).collect()
    })
}

/// Completes the MCP servers of program.toml with a URL.
pub(super) fn servers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let manifest = Line::typed().manifest();
        let servers = manifest.iter().flat_map(|manifest| &manifest.mcp_servers);
        let at = |server: &McpServer| match &server.transport {
            Transport::Http { url, .. } => Some(candidate(server.name.to_string(), &url.value)),
            Transport::Stdio { .. } => None,
        };
        servers.filter_map(at).collect()
    })
}

/// Completes rights for the program and each of its plugins.
pub(super) fn rights() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
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
    })
}

/// Completes the newest sessions.
pub(super) fn sessions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let saved = Dirs::of_this_machine().ok().and_then(|dirs| dirs.kept_sessions().all().ok());
        let newest = saved.into_iter().flatten().rev().take(MAX_RECENT);
        let last = candidate("last", "the newest of this program in this folder");
        let each = newest.map(|saved| {
            let begun = saved.begun().unwrap_or_default();
            let place = begun.folder.map(|folder| folder.display().to_string()).unwrap_or_default();
            candidate(saved.id, &format!("{} {place}", begun.program.unwrap_or_default()))
        });
        std::iter::once(last).chain(each).collect()
    })
}

/// Completes the newest calls of the journal.
pub(super) fn calls() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
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
    })
}

// Facts about the program on a line that need no action: haft compiles no component, starts no server, and leaves out
// parts without consent.

/// Time limit for an answer to the shell.
const PATIENCE: Duration = Duration::from_secs(1);

/// Options that take the next word, besides `--program` and `--arg`.
const VALUED: &[&str] = &["--allow", "--container", "--ssh", "--nats", "--profile", "--coredump"];

#[derive(Debug, Default, PartialEq, Eq)]
struct Line {
    program: Option<PathBuf>,
    /// The first word after the verb that is not an option.
    about: Option<String>,
    /// The names of arguments that already have values.
    given: Vec<String>,
}

impl Line {
    /// Returns the line under completion, as far as its words are known.
    fn typed() -> Self {
        let line = std::env::var(LINE).unwrap_or_default();
        Self::of(&words_of(&line).unwrap_or_else(|| {
            let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
            words.map(|word| word.to_string_lossy().into_owned()).collect()
        }))
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
    fn manifest(&self) -> Option<Manifest> {
        Manifest::load(&self.program.clone().unwrap_or_else(|| FILE_NAME.into())).ok()
    }

    /// Returns the program with its known tools.
    fn program(self) -> Option<Program> {
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

fn name(pair: &str) -> Option<String> {
    pair.split_once('=').map(|(name, _)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// U10: a word with a separator of bash stays one word.
    #[test]
    fn a_word_that_bash_parts_is_one() {
        assert_eq!(words_of("haft call x --arg a=b").unwrap(), ["haft", "call", "x", "--arg", "a=b"]);
        assert_eq!(words_of("haft call ").unwrap(), ["haft", "call", ""]);
        assert_eq!((words_of("haft 'a"), words_of("")), (None, None));
    }

    /// U10: the script for bash passes the line up to the cursor.
    #[test]
    fn the_script_hands_over_the_line() {
        let mut script = Vec::new();
        BASH.write_registration("V", "haft", "haft", "haft", &mut script).unwrap();
        assert!(String::from_utf8(script).unwrap().contains("_HAFT_LINE=\"${COMP_LINE:0:COMP_POINT}\""));
    }

    /// U10: the script for zsh completes names of arguments without a space after them.
    #[test]
    fn the_script_leaves_names_of_arguments_open() {
        let mut script = Vec::new();
        ZSH.write_registration("V", "haft", "haft", "haft", &mut script).unwrap();
        let script = String::from_utf8(script).unwrap();
        for (_, here) in ZSH.parts {
            assert!(script.contains(here), "{here}: {script}");
        }
    }

    /// U10: the program, the tool and the given arguments are read from the line.
    #[test]
    fn the_line_names_its_program_and_tool() {
        let line = |text: &str| Line::of(&words_of(text).unwrap());
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
