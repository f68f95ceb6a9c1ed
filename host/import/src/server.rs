//! One server in a configuration file, in each format that clients use: a command with arguments, a list of words,
//! a table with both, or a URL.

use std::ops::Range;
use std::path::Path;

use haft_manifest::Variable;

use super::edit::Edit;
use super::syntax::{Node, Syntax};

/// Keys of an entry that is a server without a command and an address: an extension of Zed has it, or another file of
/// opencode.
const MARKS: &[&str] = &["enabled", "disabled", "settings"];

/// A server.
#[derive(Clone, Debug)]
pub struct Server {
    /// The client's name for the server.
    pub name: String,
    /// The project of the server, if the file has several projects.
    pub project: Option<String>,
    /// Whether the client uses the server.
    pub enabled: bool,
    /// The start of, or the connection to, the server.
    pub start: Start,
    /// The place of the server's command in the text.
    slot: Option<Slot>,
}

/// The start of, or the connection to, a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The client starts the server.
    Process(Process),
    /// The client connects to the server over HTTP.
    Http {
        /// The server's URL.
        url: String,
        /// Headers with their values.
        headers: Vec<(String, String)>,
        /// Headers with the variables that hold their values.
        variables: Vec<(String, String)>,
        /// The variable that holds the bearer token.
        bearer: Option<String>,
    },
    /// The file contains neither a command nor a URL.
    Elsewhere,
}

/// The start of a server by a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables with their values.
    pub env: Vec<(String, String)>,
    /// Variables passed from the client's environment.
    pub passed: Vec<String>,
    /// The path of a file with more variables, unmodified.
    pub env_file: Option<String>,
    /// The working directory, unmodified.
    pub cwd: Option<String>,
}

/// The place of a command in the text.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    /// A text, and a list of arguments.
    Command {
        command: Range<usize>,
        /// The beginning of the command's key.
        start: usize,
        /// The list and its values.
        args: Option<(Range<usize>, Vec<Range<usize>>)>,
    },
    /// A list of words: its range and those of its values.
    Words(Range<usize>, Vec<Range<usize>>),
}

impl Process {
    /// Returns whether the server is behind `haft wrap`; `haft` is the running program as written in files.
    pub fn is_wrapped(&self, haft: &str) -> bool {
        let is_haft =
            |word: &String| word == haft || Path::new(word).file_name().is_some_and(|name| name == "haft");
        self.words.first().is_some_and(is_haft) && self.words.get(1).is_some_and(|word| word == "wrap")
    }

    /// Returns the words of the command without `haft wrap`.
    pub(crate) fn own_words(&self) -> &[String] {
        let dashes = self.words.iter().position(|word| word == "--").filter(|_| self.is_wrapped("haft"));
        dashes.and_then(|dashes| self.words.get(dashes + 1..)).unwrap_or(&self.words)
    }

    /// Returns the names of the variables that the file gives it.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.env.iter().map(|(name, _)| name).chain(&self.passed).map(String::as_str)
    }
}

impl Server {
    /// Parses an entry; `None` if it is not a server.
    pub(crate) fn read(name: &str, project: Option<&str>, node: &Node) -> Option<Self> {
        // Earlier versions of Zed had a table for the command.
        let inner = node.get("command").filter(|command| command.is_table());
        let (table, key) = inner.map_or((node, "command"), |inner| (inner, "path"));
        let read = Slot::of(table, key).and_then(|slot| Some((process(node, table, key)?, slot)));
        let (start, slot) = match read {
            Some((process, slot)) => (Start::Process(process), Some(slot)),
            None => (http(node).unwrap_or(Start::Elsewhere), None),
        };
        if start == Start::Elsewhere && !MARKS.iter().any(|key| node.get(key).is_some()) {
            return None;
        }
        let is_off = |key, flag| node.get(key).is_some_and(|node| node.is(flag));
        let enabled = !is_off("enabled", false) && !is_off("disabled", true);
        Some(Self { name: name.to_owned(), project: project.map(str::to_owned), enabled, start, slot })
    }

    /// Returns the process, if the client starts one.
    pub fn process(&self) -> Option<&Process> {
        match &self.start {
            Start::Process(process) => Some(process),
            _ => None,
        }
    }

    /// Changes of `text` that put `words` in front of the command.
    pub(crate) fn wrap(&self, text: &str, syntax: Syntax, words: &[String]) -> Vec<Edit> {
        let quoted: Vec<_> = words.iter().map(|word| syntax.quoted(word)).collect();
        match &self.slot {
            None => Vec::new(),
            Some(Slot::Words(list, items)) => vec![Edit::insert(text, list, items, &quoted)],
            Some(Slot::Command { command, start, args }) => {
                let (program, rest) = quoted.split_first().map_or(("", &[][..]), |(one, rest)| (one, rest));
                let own = text.get(command.clone()).unwrap_or_default().to_owned();
                let rest: Vec<_> = rest.iter().cloned().chain([own]).collect();
                let program = Edit { range: command.clone(), text: program.to_owned() };
                let list = || format!("[{}]", rest.join(", "));
                let rest = args.as_ref().map_or_else(
                    || Edit::follow(text, syntax, (*start, command), "args", &list()),
                    |(list, items)| Edit::insert(text, list, items, &rest),
                );
                vec![program, rest]
            }
        }
    }

    /// Changes of `text` that take everything up to `--` from the front of the command: the opposite of [`Self::wrap`].
    pub(crate) fn unwrap(&self, text: &str) -> Vec<Edit> {
        let Some(process) = self.process() else { return Vec::new() };
        let Some(dashes) = process.words.iter().position(|word| word == "--") else { return Vec::new() };
        let cut = |list: &Range<usize>, items: &[Range<usize>], before: usize| {
            let start = items.first().map_or(list.end, |item| item.start);
            let end = match (items.get(before), items.last()) {
                (Some(first), _) => first.start,
                (None, last) => last.map_or(start, |last| last.end),
            };
            Edit { range: start..end, text: String::new() }
        };
        match &self.slot {
            Some(Slot::Words(list, items)) => vec![cut(list, items, dashes + 1)],
            // The arguments begin with the second word.
            Some(Slot::Command { command, args: Some((list, items)), .. }) => {
                let Some(program) = items.get(dashes) else { return Vec::new() };
                let own = text.get(program.clone()).unwrap_or_default().to_owned();
                vec![Edit { range: command.clone(), text: own }, cut(list, items, dashes + 1)]
            }
            _ => Vec::new(),
        }
    }
}

impl Slot {
    /// Returns the position of the command under `key` of a table.
    fn of(node: &Node, key: &str) -> Option<Self> {
        let ranges = |node: &Node| node.items().iter().map(|item| item.range.clone()).collect();
        let member = node.member(key)?;
        let command = &member.node;
        if command.texts().is_some_and(|words| !words.is_empty()) {
            return Some(Self::Words(command.range.clone(), ranges(command)));
        }
        command.text()?;
        let args = node.get("args").map(|args| (args.range.clone(), ranges(args)));
        Some(Self::Command { command: command.range.clone(), start: member.start, args })
    }
}

/// Returns the process of an entry, whose command is `key` of `inner`; `None` if its arguments are not texts.
fn process(node: &Node, inner: &Node, key: &str) -> Option<Process> {
    let command = inner.get(key)?;
    let words = match command.text() {
        Some(program) => {
            let args = inner.get("args").map_or(Some(Vec::new()), Node::texts)?;
            [program.to_owned()].into_iter().chain(args).collect()
        }
        None => command.texts()?,
    };
    let own = |key: &str| inner.get(key).or_else(|| node.get(key));
    let text = |key: &str| own(key).and_then(Node::text).map(str::to_owned);
    let named = |item: &Node| item.text().or_else(|| item.get("name")?.text()).map(str::to_owned);
    let passed = own("env_vars").map(Node::items).unwrap_or_default().iter().filter_map(named).collect();
    let env = own("env").or_else(|| own("environment")).map(Node::pairs).unwrap_or_default();
    Some(Process { words, env, passed, env_file: text("envFile"), cwd: text("cwd") })
}

fn http(node: &Node) -> Option<Start> {
    let url = node.get("httpUrl").or_else(|| node.get("url")).and_then(Node::text)?;
    let pairs = |key: &str| node.get(key).map(Node::pairs).unwrap_or_default();
    Some(Start::Http {
        url: url.to_owned(),
        headers: [pairs("headers"), pairs("http_headers")].concat(),
        variables: pairs("env_http_headers"),
        bearer: node.get("bearer_token_env_var").and_then(Node::text).map(str::to_owned),
    })
}

/// Returns the words before a command: haft at `haft`, the variables granted to the server, and its name.
pub(crate) fn prefix<'a>(haft: &str, name: &str, variables: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut words = vec![haft.to_owned(), "wrap".to_owned()];
    for variable in variables.filter(|variable| variable.parse::<Variable>().is_ok()) {
        words.extend(["--grant".to_owned(), format!("env={variable}")]);
    }
    // A name that looks like an option would be parsed as one; haft knows the server by its command too.
    words.extend((!name.is_empty() && !name.starts_with('-')).then(|| name.to_owned()));
    words.push("--".to_owned());
    words
}
