//! A command tool: one program with declared arguments, run without a shell. A value is always exactly one
//! argument: no word is split, no `$(…)` is executed, and a value that looks like an option is refused.

mod arguments;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::answer::{self, character_limit, limits};
use crate::confine::Confiner;
use crate::process::{Output, ProcessSpec};
use haft_core::call::{Hints, ToolCall, ToolDef, ToolResult};
use haft_core::grant::RightsTable;
use haft_core::limit::Limits;
use haft_core::lookup::{find_on_path, is_executable};
use haft_core::tool::{Context, Subject, Tool, ToolError};
use haft_manifest::{Argument, ProcessLimits};

/// The default time limit of a command.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);

/// The declaration of a command in a program.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandSpec {
    /// The program's name.
    pub program: String,
    /// The tool's name within the program.
    pub tool: String,
    /// The description, for the model.
    pub description: String,
    /// The words of the command line: the name of a binary on `PATH`, or `./…` for one below `folder`; then the
    /// fixed arguments.
    pub command: Vec<String>,
    /// The program's folder.
    pub folder: PathBuf,
    /// The arguments of a call, in this order.
    pub arguments: Vec<Argument>,
    /// Whether a call may append further words.
    pub extra_args: bool,
    /// Required binaries, besides the command itself.
    pub required: Vec<String>,
    /// Optional binaries.
    pub optional: Vec<String>,
    /// The time limit.
    pub timeout: Duration,
    /// The limits of its processes.
    pub limits: ProcessLimits,
    /// The table of program.toml with its rights.
    pub table: RightsTable,
}

/// Reasons why a [`CommandSpec`] is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The command has no words.
    #[error("the command is empty: expected the name of a program and its arguments")]
    Empty,
    /// The command is a path instead of a name.
    #[error("expected the bare name of a program on PATH, or `./…` for a file of the program: `{0}`")]
    NotABareName(String),
    /// Two arguments have one name.
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

#[derive(Debug)]
enum Binary {
    /// A name on `PATH`, which every call looks up.
    Named(String),
    /// A file of the program's folder.
    Own(PathBuf),
}

/// Returns the name under which a program's command is exposed.
pub fn exposed_name(program: &str, tool: &str) -> String {
    haft_core::tool::exposed_name(&["program", program, tool])
}

/// Returns the definition of a command for models.
pub fn definition(spec: &CommandSpec) -> ToolDef {
    ToolDef {
        name: exposed_name(&spec.program, &spec.tool),
        title: None,
        description: description(spec),
        parameters: arguments::schema(&spec.arguments, spec.extra_args),
        // The program's behaviour is unknown, so the worst is assumed.
        hints: Hints { destructive: true, open_world: true, ..Hints::default() },
        output: None,
    }
}

impl CommandTool {
    /// Creates the tool. Every call looks up the binary.
    pub fn new(confiner: Confiner, spec: CommandSpec) -> Result<Self, CommandError> {
        let binary = Binary::of(&spec)?;
        arguments::check_names(&spec.arguments)?;
        Ok(Self { def: definition(&spec), spec, confiner, binary })
    }

    /// Returns the limits of one call: the time of the command and of stopping it.
    pub fn limits(&self) -> Limits {
        limits(self.spec.timeout)
    }

    /// Returns the tool's name within its program.
    pub fn name(&self) -> &str {
        &self.spec.tool
    }

    /// Returns the command line of a call with `arguments`, quoted for a shell.
    pub fn line(&self, arguments: &Value) -> String {
        let words = self.words(arguments).unwrap_or_else(|_| vec![arguments.to_string()]);
        shell_words::join(self.spec.command.iter().chain(&words))
    }

    /// Returns the words that a call appends to the command.
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
        let (environment, input, limits) = (Vec::new(), Vec::new(), self.spec.limits);
        Ok(ProcessSpec { program, arguments, environment, input, output, limit, timeout, limits })
    }

    /// Names all missing programs, so that they can be installed at once.
    fn missing(&self) -> String {
        let program = &self.spec.program;
        let named = match &self.binary {
            Binary::Own(path) if self.binary.find().is_none() => {
                let path = path.display();
                return format!("`{path}` of the program `{program}` is not an executable file");
            }
            Binary::Own(_) => None,
            Binary::Named(name) => Some(name),
        };
        let others = self.spec.required.iter().filter(|name| Some(*name) != named);
        let listed = missing(named.into_iter().chain(others)).join(", ");
        format!(
            "the program `{program}` requires programs that are not on PATH: {listed}; install them, \
            then call again"
        )
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
        let job = self.job(call, context.whole.room(character_limit(context.limits)))?;
        answer::run(&self.confiner, &job, call, &self.spec.table, context).await
    }
}

/// Returns the names that are not on `PATH`, in backticks.
fn missing<'n>(names: impl IntoIterator<Item = &'n String>) -> Vec<String> {
    names.into_iter().filter(|name| find_on_path(name).is_none()).map(|name| format!("`{name}`")).collect()
}

/// Returns the declared description, and the available optional binaries.
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
