//! The schema of an agent's answer: a JSON Schema in a file or in program.toml. The error for an unusable schema
//! names the place in the schema and the reason. Prompts nobody.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::Program;
use haft_agent::provider::{OutputSchema, OutputSchemaError};
use haft_core::report::Problem;
use haft_manifest::AnswerForm;

/// Maximum number of bytes read of a file. The limit of a schema is a sixteenth of that.
const MAX_FILE: u64 = 1 << 20;

const EXAMPLE: &str = "expected a JSON Schema such as `{\"type\": \"object\", \"properties\": {\"count\": \
     {\"type\": \"integer\"}}, \"required\": [\"count\"]}`";

impl Program {
    /// Returns the schema of `[agent] output`, if set.
    pub fn output(&self) -> Result<Option<Arc<OutputSchema>>, Problem> {
        let Some(form) = &self.manifest.agent.output else { return Ok(None) };
        let read = match &form.value {
            AnswerForm::File(path) => read_output(&self.manifest.resolve(path, &self.dirs.home)),
            AnswerForm::Table(schema) => compiled(schema, "`[agent] output`"),
        };
        read.map(|schema| Some(Arc::new(schema))).map_err(|problem| problem.at(form.span, "this schema"))
    }
}

/// Returns the schema in a file.
pub fn read_output(path: &Path) -> Result<OutputSchema, Problem> {
    let name = format!("`{}`", path.display());
    let text = text(path).map_err(|error| {
        Problem::new(format!("cannot read the schema of the answer {name}: {error}")).hint(EXAMPLE)
    })?;
    let schema: Value = serde_json::from_str(&text).map_err(|error| {
        Problem::new(format!("the schema of the answer {name} is not JSON: {error}")).hint(EXAMPLE)
    })?;
    compiled(&schema, &name)
}

fn compiled(schema: &Value, name: &str) -> Result<OutputSchema, Problem> {
    OutputSchema::new(schema).map_err(|error| {
        let way_out = match error {
            OutputSchemaError::TooLarge(_) => {
                "write recurring parts once, in `$defs`, and refer to them with `$ref`"
            }
            OutputSchemaError::Invalid(_) => "a `$ref` may only refer to the schema's own `$defs`",
        };
        Problem::new(format!("the schema of the answer {name} cannot be used: {error}")).hint(way_out)
    })
}

fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("it is longer than {MAX_FILE} bytes")));
    }
    Ok(text)
}
