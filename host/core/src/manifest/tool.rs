//! `[[tools]]`: command tools. The command is words, never a text for a shell; what they do when
//! they run is not known here.

use std::time::Duration;

use serde_json::Value;
use toml::de::DeValue;

use super::catalogue::{ARGUMENT, TOOL};
use super::entry::{Entry, Located};
use super::json;
use super::label::Label;
use super::name::ToolName;
use super::section::{Section, note_duplicates};
use crate::limit::Limits;
use crate::report::Span;

/// A program that the model may start.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandTool {
    /// The model sees `program__<program>__<name>`.
    pub name: Located<ToolName>,
    /// Written for the model.
    pub description: String,
    /// The words that are run, without a shell; at least one. The first is a bare name to be
    /// looked up on PATH, or begins with `./` and lies below the program's folder.
    pub command: Located<Vec<String>>,
    /// In the order in which they are appended to the command.
    pub arguments: Vec<Argument>,
    /// Whether a call may add any further words as `args`; by default only where `arguments` is absent.
    pub extra_args: bool,
    /// When the whole process tree is stopped.
    pub timeout: Duration,
    /// Variables of haft's environment that it may see, besides those every child gets.
    pub env: Vec<String>,
    /// Whether a person is asked before every call.
    pub confirm: bool,
    /// Labels of the workers that it lives on; none: it lives here.
    pub on: Vec<Label>,
}

/// What the model may add to a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Its name in a call.
    pub name: ToolName,
    /// Written for the model.
    pub description: String,
    /// What a value must be.
    pub kind: ArgumentType,
    /// Whether a call must have it.
    pub required: bool,
    /// What is used where a call leaves it out; of type `kind`. `None` where `required`.
    pub default: Option<Value>,
    /// Written before the value: `--title` as a word of its own, `--title=` joined to the value.
    /// `None`: the value stands alone.
    pub flag: Option<String>,
}

/// The argument of a call that takes any further words.
pub const EXTRA_ARGS: &str = "args";

/// What an argument's value must be, and how it becomes words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArgumentType {
    /// One word.
    #[default]
    String,
    /// A whole number, one word.
    Integer,
    /// Any number, one word.
    Number,
    /// `true`: the flag alone, without a value; `false`: nothing. Always has a flag.
    Boolean,
    /// Texts: a word each, each after the flag where there is one.
    Array,
}

/// The types, as JSON Schema calls them.
pub(super) const ARGUMENT_TYPES: &[(&str, ArgumentType)] = &[
    ("string", ArgumentType::String),
    ("integer", ArgumentType::Integer),
    ("number", ArgumentType::Number),
    ("boolean", ArgumentType::Boolean),
    ("array", ArgumentType::Array),
];

impl ArgumentType {
    /// As JSON Schema calls it.
    pub fn as_str(self) -> &'static str {
        ARGUMENT_TYPES.iter().find(|(_, kind)| *kind == self).map_or("string", |(name, _)| name)
    }
}

impl CommandTool {
    /// Two minutes, like `bash`.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);

    pub(super) fn read_all(root: &Section<'_>) -> Vec<Self> {
        let tools = sections(root);
        note_duplicates(
            root.notes(),
            "tools",
            tools.iter().filter_map(|tool| Some((tool.name_span, tool.name?))),
        );
        tools.iter().filter_map(Named::read).collect()
    }
}

/// A tool's section with its name, wherever that stands.
struct Named<'a> {
    section: Section<'a>,
    name: Option<&'a str>,
    name_span: Span,
    /// The name where it is the table's own.
    head: Option<Located<ToolName>>,
}

/// Both forms: an array of tables, or a table of tables.
fn sections<'a>(root: &Section<'a>) -> Vec<Named<'a>> {
    if root.get("tools", |entry| Some(entry.raw().is_table())) != Some(true) {
        let unnamed = |section: Section<'a>| Named {
            name: section.name(),
            name_span: section.span_of("name"),
            section,
            head: None,
        };
        return root.tables("tools", &TOOL).into_iter().map(unnamed).collect();
    }
    root.get("tools", Entry::entries).unwrap_or_default().iter().filter_map(named).collect()
}

fn named<'a>((name, entry): &(Located<String>, Entry<'a>)) -> Option<Named<'a>> {
    let parsed = name.parse::<ToolName>().map_err(|error| entry.reject_name(name, error.to_string())).ok();
    let section = Section::from_entry(entry, &TOOL, Some("name"))?;
    let head = Located { value: parsed?, span: name.span };
    Some(Named { section, name: None, name_span: name.span, head: Some(head) })
}

impl Named<'_> {
    fn read(&self) -> Option<CommandTool> {
        let section = &self.section;
        let name = match &self.head {
            Some(name) => Some(name.clone()),
            None => section.require("name", |entry| entry.located(Entry::parse)),
        };
        let description = section.require("description", Entry::text);
        let command = section.require("command", |entry| entry.located(command));
        let arguments = read_arguments(section);
        let extra_args = read_extra_args(section, &arguments);
        let longest = Duration::from_millis(1)..=Limits::MAX_TIME;
        let timeout = section.get("timeout", |entry| entry.duration(longest));
        let env = section.list("env", Entry::variable);
        let confirm = section.get("confirm", Entry::flag).unwrap_or_default();
        let timeout = timeout.unwrap_or(CommandTool::DEFAULT_TIMEOUT);
        Some(CommandTool {
            name: name?,
            description: description?,
            command: command?,
            arguments,
            extra_args,
            timeout,
            env,
            confirm,
            on: Label::read_on(section),
        })
    }
}

/// PR05: a program is found on PATH or shipped with the program.toml, never named by a path
/// that means something else on every machine.
fn command(entry: &Entry<'_>) -> Option<Vec<String>> {
    let words = entry.command()?;
    let program = words.first()?;
    let is_own = program.starts_with("./") && !program.split('/').any(|part| part == "..");
    if program.contains('/') && !is_own {
        return entry
            .reject("expected a bare name, which is looked up on PATH, or `./…` below the program's folder");
    }
    Some(words)
}

fn read_arguments(tool: &Section<'_>) -> Vec<Argument> {
    let sections = tool.list("arguments", |entry| entry.section(&ARGUMENT));
    let names = sections.iter().filter_map(|section| Some((section.span_of("name"), section.name()?)));
    note_duplicates(tool.notes(), "arguments of one tool", names);
    let arguments: Vec<_> =
        sections.iter().filter_map(|section| Some((section, Argument::read(section)?))).collect();
    note_shifting(&arguments);
    arguments.into_iter().map(|(_, argument)| argument).collect()
}

/// What is declared is all that a call may add, unless the program says otherwise.
fn read_extra_args(tool: &Section<'_>, arguments: &[Argument]) -> bool {
    let extra = tool.get("extra_args", Entry::flag);
    if extra == Some(true) && arguments.iter().any(|argument| argument.name.as_str() == EXTRA_ARGS) {
        tool.reject("extra_args", format!("an argument of the name `{EXTRA_ARGS}` is declared already"));
    }
    extra.unwrap_or(!tool.has("arguments"))
}

/// A positional argument that may be missing moves those after it into its place.
fn note_shifting(arguments: &[(&Section<'_>, Argument)]) {
    let mut positional = arguments.iter().filter(|(_, argument)| argument.flag.is_none()).peekable();
    while let Some((section, argument)) = positional.next() {
        let may_be_missing = !argument.required && argument.default.is_none();
        if let Some((_, next)) = positional.peek().filter(|_| may_be_missing) {
            section.reject(
                "required",
                format!(
                    "`{}` would take its place: give this one a `flag` or a `default`, or put it last",
                    next.name
                ),
            );
        }
    }
}

impl Argument {
    fn read(section: &Section<'_>) -> Option<Self> {
        let name = section.require("name", Entry::parse);
        let description = section.require("description", Entry::text);
        let kind = section.get("type", |entry| entry.one_of(ARGUMENT_TYPES)).unwrap_or_default();
        let flag = section.get("flag", |entry| entry.parse_with(parse_flag));
        let default = section.get("default", |entry| read_default(entry, kind));
        let required = section.get("required", Entry::flag);
        if required == Some(true) && section.has("default") {
            section.reject("default", "never used: the argument is required");
        }
        if kind == ArgumentType::Boolean && !section.has("flag") {
            section.reject("type", "a boolean needs a `flag`, which is written where it is true");
        }
        let required = required.unwrap_or(!section.has("default"));
        Some(Self { name: name?, description: description?, kind, required, default, flag })
    }
}

fn parse_flag(text: &str) -> Result<String, &'static str> {
    let name = text.strip_suffix('=').unwrap_or(text);
    if !name.starts_with('-') || name.contains(|c: char| c == '=' || c.is_whitespace()) {
        return Err("expected a flag such as `--title` or `--title=`");
    }
    Ok(text.to_owned())
}

fn read_default(entry: &Entry<'_>, kind: ArgumentType) -> Option<Value> {
    let fits = match (kind, entry.raw()) {
        (ArgumentType::Array, DeValue::Array(array)) => array.iter().all(|item| item.get_ref().is_str()),
        (ArgumentType::String, value) => value.is_str(),
        (ArgumentType::Integer, value) => value.is_integer(),
        (ArgumentType::Number, value) => value.is_integer() || value.is_float(),
        (ArgumentType::Boolean, value) => value.is_bool(),
        (ArgumentType::Array, _) => false,
    };
    if fits {
        json::value(entry)
    } else {
        entry.reject(format!("expected {}, as `type` says", describe(kind)))
    }
}

fn describe(kind: ArgumentType) -> &'static str {
    match kind {
        ArgumentType::String => "a string",
        ArgumentType::Integer => "a whole number",
        ArgumentType::Number => "a number",
        ArgumentType::Boolean => "`true` or `false`",
        ArgumentType::Array => "an array of strings",
    }
}

/// The reference form `program:p:t` and the exposed names both need the program's name.
pub(super) fn note_missing_program(root: &Section<'_>) {
    if root.has("tools") && !root.has("program") {
        root.reject(
            "tools",
            "command tools are called `program__<program>__<tool>`: name the program in `[program]`",
        );
    }
}
