//! Checks a call's arguments against the tool's JSON Schema, so that a tool never sees what it
//! did not declare and the model is told what to change. Never fetches a schema from anywhere.

use jsonschema::Validator;
use serde_json::Value;

use crate::report::nearest;

/// A tool's parameter schema, compiled.
pub struct Schema {
    validator: Validator,
    /// The names of the tool's arguments.
    names: Vec<String>,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Vendors accept nothing but an object schema for a tool.
    #[error("the parameters must be a JSON Schema with `\"type\": \"object\"`")]
    NotAnObject,
    /// A schema so deep that checking it could exhaust the stack.
    #[error("the parameters nest deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The schema contradicts the JSON Schema specification.
    #[error("the parameters are not a valid JSON Schema: {0}")]
    Invalid(String),
}

/// What is wrong with arguments: one line a mistake, at most eight.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentsError(String);

/// As many as a model can mend at once; an array of a million wrong items has a million.
const MAX_MISTAKES: usize = 8;

/// Half of what `serde_json` accepts, and far more than a tool's arguments ever need.
const MAX_DEPTH: usize = 64;

/// Characters of a mistake's text: it quotes the value, which may be a whole file.
const MAX_MISTAKE: usize = 300;

impl Schema {
    /// Compiles a tool's parameters.
    pub fn compile(parameters: &Value) -> Result<Self, SchemaError> {
        if parameters.get("type").and_then(Value::as_str) != Some("object") {
            return Err(SchemaError::NotAnObject);
        }
        if is_deeper(parameters, MAX_DEPTH) {
            return Err(SchemaError::TooDeep);
        }
        let validator = jsonschema::options().build(parameters);
        let validator = validator.map_err(|error| SchemaError::Invalid(shorten(error.to_string())))?;
        let names = parameters.get("properties").and_then(Value::as_object);
        let names = names.map(|names| names.keys().cloned().collect()).unwrap_or_default();
        Ok(Self { validator, names })
    }

    /// Checks `arguments`; the error lists what is wrong and where.
    pub fn check(&self, arguments: &Value) -> Result<(), ArgumentsError> {
        if is_deeper(arguments, MAX_DEPTH) {
            return Err(ArgumentsError(format!("the arguments nest deeper than {MAX_DEPTH} levels")));
        }
        if self.validator.is_valid(arguments) {
            return Ok(());
        }
        let errors = self.validator.iter_errors(arguments).take(MAX_MISTAKES);
        let mistakes: Vec<String> = errors.map(|error| self.mistake(&error)).collect();
        Err(ArgumentsError(mistakes.join("; ")))
    }

    fn mistake(&self, error: &jsonschema::ValidationError<'_>) -> String {
        use jsonschema::error::ValidationErrorKind as Kind;
        match error.kind() {
            Kind::AdditionalProperties { unexpected } if error.instance_path().as_str().is_empty() => {
                let unknown = unexpected.iter().take(MAX_MISTAKES).map(|name| self.unknown(name));
                shorten(unknown.collect::<Vec<_>>().join("; "))
            }
            _ => describe(error),
        }
    }

    /// What to write in the place of an argument that there is not.
    fn unknown(&self, name: &str) -> String {
        let names = || self.names.iter().map(String::as_str);
        let way_out = match nearest(name, names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if self.names.is_empty() => "it takes none".to_owned(),
            None => {
                format!("expected {}", names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
            }
        };
        format!("unknown argument `{name}`: {way_out}")
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    use jsonschema::error::ValidationErrorKind as Kind;
    let place = error.instance_path().to_string();
    let message = match error.kind() {
        Kind::Required { property } => {
            format!("`{}` is required", property.as_str().unwrap_or_default())
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => return alternatives(error, context),
        _ => shorten(error.to_string()),
    };
    if place.is_empty() { message } else { format!("at `{place}`: {message}") }
}

/// What is wrong by the alternatives that were most likely meant: not those of another type, then not
/// those of another tag.
fn alternatives(
    error: &jsonschema::ValidationError<'_>,
    branches: &[Vec<jsonschema::ValidationError<'_>>],
) -> String {
    let distance = |branch: &[jsonschema::ValidationError<'_>]| {
        branch.iter().map(|inner| misses(error, inner)).max().unwrap_or(2)
    };
    let nearest = branches.iter().map(|branch| distance(branch)).min();
    let meant = branches.iter().filter(|branch| Some(distance(branch)) == nearest).take(MAX_MISTAKES);
    let texts: Vec<String> =
        meant.map(|branch| branch.iter().map(describe).collect::<Vec<_>>().join("; ")).collect();
    shorten(texts.join(", or "))
}

/// How far a mistake says that its alternative was not meant.
fn misses(outer: &jsonschema::ValidationError<'_>, inner: &jsonschema::ValidationError<'_>) -> u8 {
    use jsonschema::error::ValidationErrorKind as Kind;
    match inner.kind() {
        Kind::Type { .. } if inner.instance_path() == outer.instance_path() => 2,
        Kind::Enum { .. } | Kind::Constant { .. } => 1,
        _ => 0,
    }
}

fn shorten(text: String) -> String {
    match text.char_indices().nth(MAX_MISTAKE) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, below)),
        Value::Object(fields) => fields.values().any(|field| is_deeper(field, below)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, arguments: &Value) -> String {
        let schema = Schema::compile(schema).unwrap();
        schema.check(arguments).map_or_else(|error| error.to_string(), |()| "ok".into())
    }

    #[test]
    fn mistakes_name_the_place() {
        let schema = json!({
            "type": "object",
            "properties": { "path": { "type": "string" }, "lines": { "type": "array", "items": { "type": "integer" } } },
            "required": ["path"],
            "additionalProperties": false
        });
        assert_eq!(check(&schema, &json!({ "path": "x" })), "ok");
        assert_eq!(check(&schema, &json!({})), "`path` is required");
        assert_eq!(check(&schema, &json!({ "path": 1 })), "at `/path`: 1 is not of type \"string\"");
        assert!(check(&schema, &json!({ "path": "x", "lines": [1, "2"] })).starts_with("at `/lines/1`: "));
        assert_eq!(
            check(&schema, &json!({ "path": "x", "pth": 1 })),
            "unknown argument `pth`: did you mean `path`?"
        );
        assert_eq!(
            check(&schema, &json!({ "path": "x", "args": [] })),
            "unknown argument `args`: expected `path`, `lines`"
        );
    }

    #[test]
    fn of_alternatives_the_one_meant_is_told() {
        let tag = |tag: &str, val: Value| json!({ "type": "object", "properties": { "tag": { "enum": [tag] }, "val": val } });
        let schema = json!({ "type": "object", "properties": {
            "n": { "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": "^[0-9]+$" }] },
            "v": { "oneOf": [tag("a", json!({ "type": "string" })), tag("b", json!({ "type": "integer" }))] },
        } });
        assert_eq!(check(&schema, &json!({ "n": -1 })), "at `/n`: -1 is less than the minimum of 0");
        assert!(check(&schema, &json!({ "n": "x" })).starts_with("at `/n`: \"x\" does not match"));
        assert!(check(&schema, &json!({ "n": null })).contains("\"integer\", or at `/n`"));
        assert_eq!(
            check(&schema, &json!({ "v": { "tag": "b", "val": "c" } })),
            "at `/v/val`: \"c\" is not of type \"integer\""
        );
    }

    #[test]
    fn a_schema_must_be_one() {
        assert_eq!(Schema::compile(&json!({})).unwrap_err(), SchemaError::NotAnObject);
        assert!(matches!(
            Schema::compile(&json!({ "type": "object", "properties": 1 })),
            Err(SchemaError::Invalid(_))
        ));
        assert!(matches!(
            Schema::compile(&json!({ "type": "object", "$ref": "https://example.com/schema" })),
            Err(SchemaError::Invalid(_))
        ));
    }

    #[test]
    fn depth_is_bounded() {
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "a": inner }));
        assert!(check(&json!({ "type": "object" }), &deep).contains("deeper than 64"));
    }

    #[test]
    fn a_whole_file_is_not_quoted() {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        assert!(check(&schema, &json!({ "n": "x".repeat(100_000) })).len() < 1000);
    }
}
