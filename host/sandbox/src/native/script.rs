//! The scripts of a skill as one tool: a call names the script and its arguments. A script runs with the grant of
//! the skill and never with that of `bash`, without a shell; no word is split or expanded.

use std::ffi::OsString;
use std::path::PathBuf;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::answer::{self, character_limit, limits};
use super::command::{DEFAULT_TIMEOUT, exposed_name};
use crate::confine::Confiner;
use crate::process::{MAX_ARGUMENT, Output, ProcessSpec};
use haft_core::call::{Hints, ToolCall, ToolDef, ToolResult};
use haft_core::grant::RightsTable;
use haft_core::limit::Limits;
use haft_core::lookup::{find_on_path, is_executable};
use haft_core::tool::{Context, Subject, Tool, ToolError};
use haft_manifest::ProcessLimits;

/// The interpreters of scripts, executable or not, by how their names end; of several, the first on `PATH`.
const INTERPRETERS: &[(&str, &[&str])] = &[
    ("py", &["python3", "python"]),
    ("sh", &["bash", "sh"]),
    ("bash", &["bash"]),
    ("js", &["node", "bun"]),
    ("mjs", &["node", "bun"]),
    ("cjs", &["node", "bun"]),
    ("ts", &["bun", "node"]),
    ("rb", &["ruby"]),
    ("pl", &["perl"]),
];

/// Arguments of one call at most.
const MAX_ARGUMENTS: usize = 1000;

/// Maximal size in bytes of one call's standard input: as much as a model may write as one argument.
const MAX_INPUT: usize = 1 << 20;

/// The scripts of one skill.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptsSpec {
    /// The name of the package.
    pub package: String,
    /// The name of the tool in it.
    pub tool: String,
    /// The name of the skill.
    pub skill: String,
    /// The skill's folder.
    pub folder: PathBuf,
    /// The scripts, by their paths in the folder.
    pub scripts: Vec<String>,
    /// The table of program.toml with their rights.
    pub table: RightsTable,
}

/// The tool that runs the scripts of one skill.
#[derive(Debug)]
pub struct ScriptsTool {
    def: ToolDef,
    spec: ScriptsSpec,
    confiner: Confiner,
}

/// Returns the interpreters for a file of this name; `None` for a file that is no script by its name.
pub fn interpreter(name: &str) -> Option<&'static [&'static str]> {
    let (stem, end) = name.rsplit_once('.')?;
    let is_meant = |(known, _): &&(&str, &[&str])| *known == end && !stem.is_empty();
    INTERPRETERS.iter().find(is_meant).map(|(_, names)| *names)
}

/// Returns the definition of the tool for models.
pub fn definition(spec: &ScriptsSpec) -> ToolDef {
    let description = format!(
        "Runs a script of the skill `{}`, in the workspace and with the skill's own rights; `bash` cannot run it.",
        spec.skill
    );
    let parameters = json!({
        "type": "object",
        "properties": {
            "script": {
                "type": "string",
                "enum": spec.scripts,
                "description": "Its path in the skill",
            },
            "args": {
                "type": "array",
                "items": { "type": "string" },
                "description": "Passed unchanged, without a shell",
            },
            "input": { "type": "string", "description": "Standard input" },
        },
        "required": ["script"],
        "additionalProperties": false,
    });
    // The effects of a script are unknown, so the worst is assumed.
    let hints = Hints { destructive: true, open_world: true, ..Hints::default() };
    ToolDef {
        name: exposed_name(&spec.package, &spec.tool),
        description,
        parameters,
        hints,
        ..ToolDef::default()
    }
}

impl ScriptsTool {
    /// Makes the tool. Every call looks up the interpreter.
    pub fn new(confiner: Confiner, spec: ScriptsSpec) -> Self {
        Self { def: definition(&spec), spec, confiner }
    }

    /// Returns the limits of one call: the time of the script and of stopping it.
    pub fn limits() -> Limits {
        limits(DEFAULT_TIMEOUT)
    }

    fn script(&self, arguments: &Value) -> Result<&str, ToolError> {
        let named = arguments.get("script").and_then(Value::as_str).unwrap_or_default();
        let named = named.trim_start_matches("./");
        let found = self.spec.scripts.iter().find(|script| *script == named);
        found.map(String::as_str).ok_or_else(|| {
            let all = self.spec.scripts.join("`, `");
            ToolError::InvalidArguments(format!("`script` is not one of the skill's scripts: `{all}`"))
        })
    }

    fn job(&self, call: &ToolCall, limit: usize) -> Result<ProcessSpec, ToolError> {
        let script = self.script(&call.arguments)?;
        let (program, first) = launch(&self.spec.folder.join(script), script)?;
        let words = words(&call.arguments)?;
        let arguments = first.into_iter().chain(words.into_iter().map(OsString::from)).collect();
        let input = call.arguments.get("input").and_then(Value::as_str).unwrap_or_default();
        if input.len() > MAX_INPUT {
            return Err(ToolError::InvalidArguments(format!("`input` has more than {MAX_INPUT} bytes")));
        }
        Ok(ProcessSpec {
            program,
            arguments,
            environment: Vec::new(),
            input: input.as_bytes().to_vec(),
            output: Output::Separate,
            limit,
            timeout: DEFAULT_TIMEOUT,
            limits: ProcessLimits::default(),
        })
    }
}

/// Returns the program that runs the script `file`, and its first argument: the interpreter of its extension with
/// the script, even if the script is executable. A script without such an extension is run itself, and has to be
/// executable.
fn launch(file: &std::path::Path, script: &str) -> Result<(PathBuf, Option<OsString>), ToolError> {
    let name = script.rsplit('/').next().unwrap_or_default();
    let names = interpreter(name);
    if let Some(program) = names.into_iter().flatten().find_map(|name| find_on_path(name)) {
        return Ok((program, Some(file.into())));
    }
    match names {
        None if is_executable(file) => Ok((file.to_owned(), None)),
        None => Err(ToolError::ExecutionFailed(format!("`{script}` is not executable"))),
        Some(names) => Err(ToolError::ExecutionFailed(format!(
            "`{script}` needs `{}`, which is not on PATH",
            names.join("` or `")
        ))),
    }
}

fn words(arguments: &Value) -> Result<Vec<String>, ToolError> {
    let all = arguments.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let word = |value: &Value| value.as_str().map(str::to_owned).filter(|word| !word.contains('\0'));
    let words = all.iter().map(word).collect::<Option<Vec<_>>>();
    let words =
        words.filter(|all| all.len() <= MAX_ARGUMENTS && all.iter().all(|word| word.len() <= MAX_ARGUMENT));
    words.ok_or_else(|| {
        let most = format!("at most {MAX_ARGUMENTS}, each of at most {MAX_ARGUMENT} bytes and without NUL");
        ToolError::InvalidArguments(format!("expected `args` to be strings, {most}"))
    })
}

#[async_trait]
impl Tool for ScriptsTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn has_fixed_rights(&self) -> bool {
        self.confiner.is_open()
    }

    fn subject(&self, arguments: &Value) -> Subject {
        let script = arguments.get("script").and_then(Value::as_str).unwrap_or_default().to_owned();
        let words = words(arguments).unwrap_or_default();
        Subject::Command(shell_words::join(std::iter::once(script).chain(words)))
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let job = self.job(call, context.whole.room(character_limit(context.limits)))?;
        answer::run(&self.confiner, &job, call, &self.spec.table, context).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_names_a_script_of_the_skill_and_nothing_else() {
        let spec = ScriptsSpec {
            package: "p".into(),
            tool: "pdf".into(),
            skill: "pdf".into(),
            folder: "/nowhere".into(),
            scripts: vec!["scripts/fill.py".into()],
            table: RightsTable::None,
        };
        let tool = ScriptsTool::new(Confiner::default(), spec);
        assert_eq!(tool.def().name, "program__p__pdf");
        assert_eq!(tool.script(&json!({ "script": "./scripts/fill.py" })).unwrap(), "scripts/fill.py");
        for other in ["scripts/../../x.py", "/bin/sh", "", "fill.py"] {
            assert!(tool.script(&json!({ "script": other })).is_err(), "{other}");
        }
        for arguments in [json!({ "args": [1] }), json!({ "args": ["a\0b"] })] {
            assert!(words(&arguments).is_err(), "{arguments}");
        }
        assert_eq!(words(&json!({ "args": ["$(x)", "a b"] })).unwrap(), ["$(x)", "a b"]);
        for (name, first) in
            [("a.py", Some("python3")), ("x.sh", Some("bash")), (".py", None), ("a.md", None)]
        {
            assert_eq!(interpreter(name).and_then(|names| names.first().copied()), first, "{name}");
        }
    }
}
