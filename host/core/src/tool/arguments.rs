//! Checks a call's arguments against the tool's JSON Schema, so that a tool gets only declared arguments and the
//! model learns what to correct. Also checks a model's answer against the requested schema. Never fetches a schema.

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::{Draft, PatternOptions, ValidationError, ValidationOptions, Validator};
use serde_json::Value;

use self::work::Work;
use super::mistakes::{Mistakes, shorten};

mod work;

/// A tool's parameter schema, or that of an answer, compiled.
pub struct Schema {
    validator: Validator,
    /// The original schema, for error messages.
    written: Value,
    /// The cost of a check.
    work: Work,
    names: Names,
}

/// The name of a checked value, and of its parts.
type Names = (&'static str, &'static str);

const ARGUMENTS: Names = ("arguments", "argument");
const ANSWER: Names = ("answer", "property");
const CONFIGURATION: Names = ("configuration", "key");

/// The reason why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Vendors accept nothing but an object schema for a tool.
    #[error("the parameters must be a JSON Schema with `\"type\": \"object\"`")]
    NotAnObject,
    /// A schema so deep that checking it could exhaust the stack.
    #[error("the parameters are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The compilation would take too long.
    #[error(
        "the parameters have more than {MAX_PATTERNS} patterns, or more than {MAX_REFERENCES} references"
    )]
    TooLarge,
    /// The schema contradicts the JSON Schema specification.
    #[error("the parameters are not a valid JSON Schema: {0}")]
    Invalid(String),
}

/// The reason why a schema of answers cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerSchemaError {
    /// The check could exhaust the stack.
    #[error("the schema is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The compilation would take too long.
    #[error("the schema has more than {MAX_PATTERNS} patterns, or more than {MAX_REFERENCES} references")]
    TooLarge,
    /// The schema violates the JSON Schema specification, or refers to another document.
    #[error("not a valid JSON Schema{}: {reason}", place_of(.place))]
    Invalid {
        /// The place as a JSON pointer; empty for the complete schema.
        place: String,
        /// The reason.
        reason: String,
    },
}

fn place_of(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!(" at `{pointer}`") }
}

/// The errors in arguments, or in an answer: at most eight.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentsError(String);

/// Maximum number of errors, as many as a model can correct in one turn: an array of a million wrong items has a
/// million.
const MAX_MISTAKES: usize = 8;

/// Maximum number of patterns in a schema: the compilation of a pattern with repeated Unicode classes takes up to a
/// tenth of a second.
pub(super) const MAX_PATTERNS: usize = 300;

/// References of a schema: a chain of a hundred thousand takes minutes to compile.
pub(super) const MAX_REFERENCES: usize = 5000;

/// Maximum number of values in a schema that is compiled at once: some have a thousand.
const MAX_QUICK: usize = 2000;

/// Half of the limit of `serde_json`, and far more than a tool's arguments need.
pub(super) const MAX_DEPTH: usize = 64;

impl Schema {
    /// Compiles a tool's parameters.
    pub fn compile(parameters: &Value) -> Result<Self, SchemaError> {
        if parameters.get("type").and_then(Value::as_str) != Some("object") {
            return Err(SchemaError::NotAnObject);
        }
        if is_deeper(parameters, MAX_DEPTH) {
            return Err(SchemaError::TooDeep);
        }
        if is_too_large(parameters) {
            return Err(SchemaError::TooLarge);
        }
        // The meta-schema of draft 7 is compiled in a quarter of the time.
        let options = if is_plain(parameters) { options().with_draft(Draft::Draft7) } else { options() };
        let built = Self::build(parameters, &options, ARGUMENTS);
        built.map_err(|(_, reason)| SchemaError::Invalid(reason))
    }

    /// Compiles the schema of a model's answer, of any JSON type. Formats (`date`, `email`, …) are checked too; a
    /// reference to another document is an error.
    pub fn of_answer(schema: &Value) -> Result<Self, AnswerSchemaError> {
        if is_deeper(schema, MAX_DEPTH) {
            return Err(AnswerSchemaError::TooDeep);
        }
        if is_too_large(schema) {
            return Err(AnswerSchemaError::TooLarge);
        }
        let built = Self::build(schema, &options().should_validate_formats(true), ANSWER);
        built.map_err(|(place, reason)| AnswerSchemaError::Invalid { place, reason })
    }

    /// Compiles a schema. The error is the wrong place, and the reason.
    fn build(
        schema: &Value,
        options: &ValidationOptions<'_>,
        names: Names,
    ) -> Result<Self, (String, String)> {
        let invalid = |place: String, error: String| (place, shorten(&error));
        let validator = options.build(schema);
        let validator =
            validator.map_err(|error| invalid(error.instance_path().to_string(), error.to_string()))?;
        let work = Work::of(schema, patterns(schema));
        let work = work.map_err(|error| invalid(String::new(), error.to_string()))?;
        Ok(Self { validator, written: schema.clone(), work, names })
    }

    /// Compiles the schema of a plugin's configuration, an object.
    pub fn of_configuration(schema: &Value) -> Result<Self, SchemaError> {
        Ok(Self { names: CONFIGURATION, ..Self::compile(schema)? })
    }

    /// Returns whether the compilation of a tool's parameters takes less time than the start of a thread.
    pub(super) fn compiles_quickly(parameters: &Value) -> bool {
        work::size(parameters) <= MAX_QUICK && !is_deeper(parameters, MAX_DEPTH) && is_plain(parameters)
    }

    /// Returns whether a check of `arguments` takes microseconds. Any other ends too, within seconds.
    pub(super) fn is_quick(&self, arguments: &Value) -> bool {
        self.work.is_little(arguments)
    }

    /// Checks `arguments`, or an answer; the error lists each mistake with its place.
    pub fn check(&self, arguments: &Value) -> Result<(), ArgumentsError> {
        self.check_hiding(arguments, &[])
    }

    /// Checks like [`Self::check`]; the error shows no value of the object keys `hidden`.
    pub fn check_hiding(&self, arguments: &Value, hidden: &[&str]) -> Result<(), ArgumentsError> {
        let (name, part) = self.names;
        if is_deeper(arguments, MAX_DEPTH) {
            return Err(ArgumentsError(format!(
                "the {name} must not be nested deeper than {MAX_DEPTH} levels"
            )));
        }
        let unchecked = |why| ArgumentsError(format!("the {name} cannot be checked: {why}"));
        self.work.admits(&self.written, arguments).map_err(unchecked)?;
        if self.validator.is_valid(arguments) {
            return Ok(());
        }
        let mistakes = Mistakes::new(&self.written, part);
        let all = self.validator.iter_errors(arguments).take(MAX_MISTAKES);
        let describe = |error: ValidationError<'_>| {
            let place = error.instance_path().to_string();
            // Unescaped, because JSON pointers escape names.
            let key = place.strip_prefix('/').and_then(|rest| rest.split('/').next()).unwrap_or_default();
            let key = key.replace("~1", "/").replace("~0", "~");
            // An error about the complete value may quote all of it.
            let names_keys =
                matches!(error.kind(), Kind::Required { .. } | Kind::AdditionalProperties { .. });
            match place.as_str() {
                "" if !hidden.is_empty() && !names_keys => {
                    format!("the schema does not accept the {name} as a whole")
                }
                _ if hidden.contains(&key.as_str()) => {
                    format!("at `{place}`: the value (a secret) does not match")
                }
                _ => mistakes.describe(&error),
            }
        };
        let problems: Vec<String> = all.map(describe).collect();
        Err(ArgumentsError(problems.join("; ")))
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

/// Returns options with backtracking patterns, within limits.
fn options<'i>() -> ValidationOptions<'i> {
    let patterns = PatternOptions::fancy_regex().backtrack_limit(10_000);
    jsonschema::options().with_pattern_options(patterns)
}

/// Returns whether a regular expression can be read.
pub(super) fn is_pattern(pattern: &str) -> bool {
    options().build(&serde_json::json!({ "pattern": pattern })).is_ok()
}

/// Returns whether a schema has only keywords that have one meaning in all drafts since draft 6, without patterns and
/// references.
fn is_plain(schema: &Value) -> bool {
    let Some(keywords) = schema.as_object() else { return schema.is_boolean() };
    keywords.iter().all(|(keyword, value)| match keyword.as_str() {
        "title" | "description" | "default" | "examples" | "type" | "enum" | "const" | "required"
        | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "minLength" | "maxLength"
        | "minItems" | "maxItems" | "uniqueItems" => true,
        "items" | "additionalProperties" => is_plain(value),
        "properties" => value.as_object().is_some_and(|properties| properties.values().all(is_plain)),
        "anyOf" | "oneOf" | "allOf" => value.as_array().is_some_and(|schemas| schemas.iter().all(is_plain)),
        _ => false,
    })
}

/// Returns whether compiling takes long, or memory.
fn is_too_large(schema: &Value) -> bool {
    patterns(schema) > MAX_PATTERNS
        || occurrences(schema, &|key, _| usize::from(matches!(key, "$ref" | "$dynamicRef" | "$recursiveRef")))
            > MAX_REFERENCES
}

/// Returns the number of patterns in a schema.
fn patterns(schema: &Value) -> usize {
    occurrences(schema, &|key, field| match key {
        "patternProperties" => field.as_object().map_or(0, serde_json::Map::len),
        key => usize::from(key == "pattern"),
    })
}

/// Returns the sum of `count` over all keys of a schema.
pub(super) fn occurrences(schema: &Value, count: &impl Fn(&str, &Value) -> usize) -> usize {
    match schema {
        Value::Array(items) => items.iter().map(|item| occurrences(item, count)).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(key, field)| count(key, field) + occurrences(field, count)).sum()
        }
        _ => 0,
    }
}

/// Returns whether a value nests deeper than `levels`.
pub(super) fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, below)),
        Value::Object(fields) => fields.values().any(|field| is_deeper(field, below)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
