//! `[[tools]]`: command tools. The command is a list of words, never a shell command line. Runs nothing.

use std::time::Duration;

use serde_json::Value;
use toml::de::DeValue;

use super::entry::{Entry, Located};
use super::host_secret::{self, ProcessSecret, SECRETS, secrets};
use super::name::{Label, ToolName};
use super::process::{ProcessGrant, ProcessLimits, TOOL_GRANT};
use super::section::{Section, note_duplicates};
use super::table::{FromTable, FromValue, SHORTEST, choices, table};
use super::values::{VARIABLES, json_value};
use haft_core::limit::Limits;
use haft_core::words;

table! {
    /// A command tool: a program that the model may start, without a shell.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CommandTool = "[[tools]]" => checked {
        /// the model sees `program__<program>__<name>`
        pub name: Located<ToolName>,
        /// what it does, written for the model
        pub description: String,
        // At least one word. A program of the latter kind lies below the program's folder.
        /// split as a shell splits words and run without one, or an array of words;
        /// the program is a bare name on PATH, or begins with `./`
        #[read(Kind::Command, |entry| entry.located(command))]
        #[also("cmd", "run", "exec")]
        pub command: Located<Vec<String>>,
        /// the arguments that the model may pass
        #[read(Vec::<Argument>::KIND, arguments)]
        #[also("args", "parameters", "params")]
        pub arguments: Vec<Argument> = Vec::new(),
        /// whether the model may pass more words as `args`; default true without `arguments`, else false
        #[read(section Kind::Flag, extra_args)]
        #[also("any_args", "rest")]
        pub extra_args: bool = false,
        // Like `bash`. The whole process tree is stopped.
        /// time limit; default `120s`
        #[read(time SHORTEST..=Limits::MAX_TIME)]
        #[also("time", "time_limit")]
        pub timeout: Duration = Duration::from_mins(2),
        /// variables of haft's environment that it may read; default none
        #[read(VARIABLES, Entry::variables)]
        #[also("environment")]
        pub env: Vec<String> = Vec::new(),
        /// what it may do; default read everything that you may read, write the workspace, use the network
        #[read(Kind::Table(&TOOL_GRANT), |entry| entry.table::<ProcessGrant>(&TOOL_GRANT))]
        #[also("grants", "permissions", "allow", "capabilities", "sandbox")]
        pub grant: Option<ProcessGrant> = None,
        /// secrets that haft puts into its requests to single hosts, and that it never has
        #[read(SECRETS, secrets)]
        #[also("secret")]
        pub secrets: Vec<ProcessSecret> = Vec::new(),
        /// limits of its processes
        pub limits: ProcessLimits = ProcessLimits::default(),
        /// ask a person before every call; default false
        #[also("approve")]
        pub confirm: bool = false,
        /// labels of the workers that run it, `*` for any; default this machine
        #[also("labels", "workers")]
        pub on: Vec<Label> = Vec::new(),
    }
}

table! {
    /// An argument of a command tool.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Argument = "" {
        /// the argument's name in a call
        pub name: ToolName,
        /// what it means, written for the model
        pub description: String,
        /// default `string`
        #[read(section ArgumentType::KIND, kind)]
        #[key("type")]
        #[also("kind")]
        pub kind: ArgumentType = ArgumentType::String,
        /// default true, or false where there is a `default`
        #[read(section Kind::Flag, required)]
        #[also("optional")]
        pub required: bool = true,
        // Of type `kind`; absent where `required`.
        /// the value of an argument that is left out
        #[read(section Kind::Scalar, default)]
        pub default: Option<Value> = None,
        /// the flag before the value, such as `--title`, or `--title=` for one word; without a flag the
        /// argument is positional
        #[read(Kind::Pattern("^-[^\\s=]+=?$"), |entry| entry.parse_with(parse_flag))]
        #[also("option", "switch")]
        pub flag: Option<String> = None,
    }
}

fn checked(tool: CommandTool, section: &Section<'_>) -> CommandTool {
    let rights = tool.grant.as_ref().map(|grant| &grant.rights);
    let env: Vec<String> = rights.iter().flat_map(|rights| &rights.env).chain(&tool.env).cloned().collect();
    host_secret::check(section, &tool.secrets, rights.map_or(&[], |rights| &rights.hosts), &env);
    tool
}

/// The argument of a call that takes any further words.
pub const EXTRA_ARGS: &str = "args";

words! {
    /// What an argument's value must be, and how it becomes words. The types are called as in JSON Schema.
    #[derive(Default)]
    pub enum ArgumentType {
        /// One word.
        #[default]
        String = "string",
        /// A whole number, one word.
        Integer = "integer",
        /// Any number, one word.
        Number = "number",
        /// `true`: the flag alone, without a value; `false`: nothing. Always has a flag.
        Boolean = "boolean",
        /// Texts: a word each, each after the flag where there is one.
        Array = "array",
    }
}

choices! { ArgumentType }

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

fn arguments(entry: &Entry<'_>) -> Option<Vec<Argument>> {
    let sections = entry.sections(&Argument::TABLE)?;
    let names = sections.iter().filter_map(|section| Some((section.span_of("name"), section.name()?)));
    note_duplicates(entry.notes(), "arguments of one tool", names);
    let arguments: Vec<_> =
        sections.iter().filter_map(|section| Some((section, Argument::from_table(section)?))).collect();
    note_shifting(&arguments);
    Some(arguments.into_iter().map(|(_, argument)| argument).collect())
}

/// What is declared is all that a call may add, unless the program says otherwise.
fn extra_args(tool: &Section<'_>) -> bool {
    let extra = tool.get("extra_args", Entry::flag);
    if extra == Some(true) && has_argument(tool, EXTRA_ARGS) {
        tool.reject("extra_args", format!("an argument `{EXTRA_ARGS}` is already declared"));
    }
    extra.unwrap_or(!tool.has("arguments"))
}

fn has_argument(tool: &Section<'_>, name: &str) -> bool {
    let is_called = |argument: &DeValue<'_>| {
        argument.get("name").and_then(|found| found.get_ref().as_str()) == Some(name)
    };
    let arguments = tool.get("arguments", |entry| entry.raw().as_array());
    arguments.is_some_and(|arguments| arguments.iter().any(|argument| is_called(argument.get_ref())))
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
                    "if it is missing, `{}` would take its place: add a `flag` or a `default`, or put it \
                     last",
                    next.name
                ),
            );
        }
    }
}

fn kind(section: &Section<'_>) -> ArgumentType {
    let kind = section.get("type", ArgumentType::from_value).unwrap_or_default();
    if kind == ArgumentType::Boolean && !section.has("flag") {
        section.reject("type", "a boolean needs a `flag`, which is passed if the value is true");
    }
    kind
}

fn required(section: &Section<'_>) -> bool {
    let required = section.get("required", Entry::flag);
    if required == Some(true) && section.has("default") {
        section.reject("default", "never used: the argument is required");
    }
    required.unwrap_or(!section.has("default"))
}

fn default(section: &Section<'_>) -> Option<Value> {
    // A wrong type is reported by its own reader.
    let word = section.get("type", |entry| entry.raw().as_str()).unwrap_or_default();
    let kind = ArgumentType::ALL.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
    section.get("default", |entry| read_default(entry, kind.unwrap_or_default()))
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
        json_value(entry)
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
            "command tools are named `program__<program>__<tool>`: add `[program]` with a `name`",
        );
    }
}
