//! A command tool: one program with declared arguments, run without a shell. It refuses to let
//! a value become anything but one argument: no word is split, no `$(…)` is run, and what would
//! be taken for an option is turned away.

mod arguments;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::answer::{answer, character_limit, limits};
use crate::confine::Confiner;
use crate::process::{self, Output, ProcessSpec};
use haft_core::call::{Hints, ToolCall, ToolDef, ToolResult};
use haft_core::limit::Limits;
use haft_core::lookup::{find_on_path, is_executable};
use haft_core::tool::{Context, Subject, Tool, ToolError};
use haft_manifest::Argument;

/// How long a command may take where its program says nothing.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);

/// What a program says of one of its commands.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandSpec {
    /// The program's name.
    pub program: String,
    /// The tool's name within the program.
    pub tool: String,
    /// What it does, for the model.
    pub description: String,
    /// The words of the command line: the name of a binary on `PATH`, or `./…` for one below
    /// `folder`; then the arguments that are always there.
    pub command: Vec<String>,
    /// The folder that the program came in.
    pub folder: PathBuf,
    /// What a call may add, in this order.
    pub arguments: Vec<Argument>,
    /// Whether a call may add any further words, after those.
    pub extra_args: bool,
    /// Binaries without which it cannot work, besides its own.
    pub required: Vec<String>,
    /// Binaries that it makes use of.
    pub optional: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
}

/// Why a [`CommandSpec`] makes no tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No words.
    #[error("the command is empty: expected the name of a program and its arguments")]
    Empty,
    /// A path in place of a name.
    #[error(
        "expected the bare name of a program on PATH, or `./…` for one that the program brings along: `{0}`"
    )]
    NotABareName(String),
    /// Two arguments of one name.
    #[error("the argument `{0}` is declared twice")]
    DuplicateArgument(String),
}

/// A tool that runs a program's command.
#[derive(Debug)]
pub struct CommandTool {
    def: ToolDef,
    spec: CommandSpec,
    confiner: Confiner,
    binary: Binary,
}

/// What is run.
#[derive(Debug)]
enum Binary {
    /// A name on `PATH`, looked up by every call.
    Named(String),
    /// A file that the program brings along.
    Own(PathBuf),
}

/// The name under which a command of a program is exposed.
pub fn exposed_name(program: &str, tool: &str) -> String {
    haft_core::tool::exposed_name(&["program", program, tool])
}

/// What a model is told of a command.
pub fn definition(spec: &CommandSpec) -> ToolDef {
    ToolDef {
        name: exposed_name(&spec.program, &spec.tool),
        title: None,
        description: description(spec),
        parameters: arguments::schema(&spec.arguments, spec.extra_args),
        // Nothing is known of the program, so the worst is said.
        hints: Hints { destructive: true, open_world: true, ..Hints::default() },
        output: None,
    }
}

impl CommandTool {
    /// Makes the tool. Whether its binary is there is looked up by every call.
    pub fn new(confiner: Confiner, spec: CommandSpec) -> Result<Self, CommandError> {
        let binary = Binary::of(&spec)?;
        arguments::check_names(&spec.arguments)?;
        Ok(Self { def: definition(&spec), spec, confiner, binary })
    }

    /// What one call may use; its time is that of the command and of stopping it.
    pub fn limits(&self) -> Limits {
        limits(self.spec.timeout)
    }

    /// The tool's name within its program.
    pub fn name(&self) -> &str {
        &self.spec.tool
    }

    /// The command line that a call with `arguments` comes to, quoted as for a shell.
    pub fn line(&self, arguments: &Value) -> String {
        let words = self.words(arguments).unwrap_or_else(|_| vec![arguments.to_string()]);
        shell_words::join(self.spec.command.iter().chain(&words))
    }

    /// What a call adds to the words of the command.
    fn words(&self, arguments: &Value) -> Result<Vec<String>, String> {
        let any = self.spec.command.iter().skip(1).any(|word| word == "--");
        arguments::words(&self.spec.arguments, self.spec.extra_args, arguments, any)
    }

    fn job(&self, call: &ToolCall, limit: usize) -> Result<ProcessSpec, ToolError> {
        let fixed = self.spec.command.get(1..).unwrap_or_default();
        let words = self.words(&call.arguments).map_err(ToolError::InvalidArguments)?;
        let program = self.binary.find().filter(|_| missing(&self.spec.required).is_empty());
        let program = program.ok_or_else(|| ToolError::ExecutionFailed(self.missing()))?;
        let arguments = fixed.iter().chain(&words).map(Into::into).collect();
        let (output, timeout) = (Output::Separate, self.spec.timeout);
        let (environment, input) = (Vec::new(), Vec::new());
        Ok(ProcessSpec { program, arguments, environment, input, output, limit, timeout })
    }

    /// Names everything that is missing, so that it can be installed in one go.
    fn missing(&self) -> String {
        let program = &self.spec.program;
        let own = match &self.binary {
            Binary::Own(path) if self.binary.find().is_none() => {
                let path = path.display();
                return format!(
                    "`{path}`, which the program `{program}` should bring along, is not an executable file"
                );
            }
            Binary::Own(_) => None,
            Binary::Named(name) => Some(name),
        };
        let others = self.spec.required.iter().filter(|name| Some(*name) != own);
        let names = missing(own.into_iter().chain(others)).join(", ");
        format!("the program `{program}` requires what is not on PATH: {names}; install it, then call again")
    }
}

impl Binary {
    fn of(spec: &CommandSpec) -> Result<Self, CommandError> {
        let word = spec.command.first().filter(|word| !word.is_empty()).ok_or(CommandError::Empty)?;
        match word.strip_prefix("./") {
            Some(own) if !own.split('/').any(|part| part == "..") => Ok(Self::Own(spec.folder.join(own))),
            None if !word.contains('/') => Ok(Self::Named(word.clone())),
            _ => Err(CommandError::NotABareName(word.clone())),
        }
    }

    fn find(&self) -> Option<PathBuf> {
        match self {
            Self::Named(name) => find_on_path(name),
            Self::Own(path) => is_executable(path).then(|| path.clone()),
        }
    }
}

#[async_trait]
impl Tool for CommandTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn has_fixed_rights(&self) -> bool {
        self.confiner.is_open()
    }

    fn subject(&self, arguments: &Value) -> Subject {
        Subject::Command(self.line(arguments))
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let limit = character_limit(context.limits);
        let job = self.job(call, context.whole.room(limit))?;
        let finished = process::run(&self.confiner, &job, &call.id, context).await;
        let finished = finished.map_err(|error| ToolError::ExecutionFailed(error.to_string()))?;
        Ok(answer(finished, job.timeout, limit, (context.whole, context.grant, context.notes)))
    }
}

/// The names, in backticks, of those that are not on `PATH`.
fn missing<'n>(names: impl IntoIterator<Item = &'n String>) -> Vec<String> {
    names.into_iter().filter(|name| find_on_path(name).is_none()).map(|name| format!("`{name}`")).collect()
}

/// The program's own words, and which of its optional binaries are there.
fn description(spec: &CommandSpec) -> String {
    let purpose = match spec.description.as_str() {
        "" => format!("Run `{}`", spec.command.join(" ")),
        purpose => purpose.to_owned(),
    };
    let found = |name: &String| if find_on_path(name).is_some() { "available" } else { "not available" };
    let optional: Vec<_> = spec.optional.iter().map(|name| format!("`{name}` {}", found(name))).collect();
    if optional.is_empty() {
        purpose
    } else {
        format!("{purpose}\nOptional programs: {}", optional.join(", "))
    }
}
