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
    subject: Subject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Arguments,
    Answer,
    Configuration,
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::Arguments => "arguments",
            Self::Answer => "answer",
            Self::Configuration => "configuration",
        }
    }

    fn part(self) -> &'static str {
        match self {
            Self::Arguments => "argument",
            Self::Answer => "property",
            Self::Configuration => "key",
        }
    }
}

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
        let validator = options.build(parameters);
        let validator = validator.map_err(|error| SchemaError::Invalid(shorten(&error.to_string())))?;
        let work = Work::of(parameters, patterns(parameters))
            .map_err(|error| SchemaError::Invalid(shorten(&error.to_string())))?;
        Ok(Self { validator, written: parameters.clone(), work, subject: Subject::Arguments })
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
        let invalid = |place, reason: String| AnswerSchemaError::Invalid { place, reason: shorten(&reason) };
        let validator = options().should_validate_formats(true).build(schema);
        let validator =
            validator.map_err(|error| invalid(error.instance_path().to_string(), error.to_string()))?;
        let work =
            Work::of(schema, patterns(schema)).map_err(|error| invalid(String::new(), error.to_string()))?;
        Ok(Self { validator, written: schema.clone(), work, subject: Subject::Answer })
    }

    /// Compiles the schema of a plugin's configuration, an object.
    pub fn of_configuration(schema: &Value) -> Result<Self, SchemaError> {
        Ok(Self { subject: Subject::Configuration, ..Self::compile(schema)? })
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
        if is_deeper(arguments, MAX_DEPTH) {
            let name = self.subject.name();
            return Err(ArgumentsError(format!(
                "the {name} must not be nested deeper than {MAX_DEPTH} levels"
            )));
        }
        let unchecked = |why| ArgumentsError(format!("the {} cannot be checked: {why}", self.subject.name()));
        self.work.admits(&self.written, arguments).map_err(unchecked)?;
        if self.validator.is_valid(arguments) {
            return Ok(());
        }
        let mistakes = Mistakes::new(&self.written, self.subject.part());
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
                    format!("the schema does not accept the {} as a whole", self.subject.name())
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
fn occurrences(schema: &Value, count: &impl Fn(&str, &Value) -> usize) -> usize {
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
        assert_eq!(
            check(&schema, &json!({ "n": null })),
            "at `/n`: null is not one of: an integer of at least 0; a string"
        );
        assert_eq!(
            check(&schema, &json!({ "v": { "tag": "b", "val": "c" } })),
            "at `/v/val`: \"c\" is not of type \"integer\""
        );
    }

    /// A keyword that depends on the draft, and a schema whose compilation may take long, need more than draft 7.
    #[test]
    fn a_plain_schema_means_the_same_in_every_draft() {
        let of = |property: Value| json!({ "type": "object", "properties": { "p": property }, "additionalProperties": false });
        for plain in
            [json!({}), json!(true), json!({ "anyOf": [{ "enum": [1] }, { "items": { "type": "string" } }] })]
        {
            assert!(Schema::compiles_quickly(&of(plain.clone())), "{plain}");
        }
        let others = [
            json!({ "format": "date" }),
            json!({ "pattern": "^a*$" }),
            json!({ "prefixItems": [{}] }),
            json!({ "items": [{}] }),
            json!({ "not": { "$ref": "#" } }),
            json!({ "properties": [] }),
            json!({ "enum": vec![0; MAX_QUICK] }),
        ];
        for other in others {
            assert!(!Schema::compiles_quickly(&of(other.clone())), "{other}");
        }
    }

    /// C09: the error for a wrong choice lists the choices.
    #[test]
    fn all_choices_are_told_within_a_bound() {
        let schema = |count: usize| {
            let names: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
            json!({ "type": "object", "properties": { "e": { "enum": names } } })
        };
        assert_eq!(
            check(&schema(9), &json!({ "e": "x" })),
            r#"at `/e`: "x" is not one of "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8""#
        );
        let many = check(&schema(1000), &json!({ "e": "x" }));
        assert!(many.ends_with(r#""n59" and 940 more (see the schema)"#), "{many}");
        let long = json!({ "type": "object", "properties": { "e": { "enum": vec!["x".repeat(900); 5] } } });
        let long = check(&long, &json!({ "e": "y" }));
        assert!(long.len() < 2500 && long.ends_with("and 3 more (see the schema)"), "{long}");
        assert!(check(&schema(9), &json!({ "e": "x".repeat(5000) })).contains("\"n8\""), "the choices stay");
    }

    /// C09: the error for a value that is no case of a variant lists all cases, once.
    #[test]
    fn the_wanted_form_is_told_once() {
        let case = |tag: &str, val: Value| {
            json!({ "type": "object", "additionalProperties": false, "required": ["tag", "val"],
            "properties": { "tag": { "type": "string", "enum": [tag] }, "val": val } })
        };
        let empty = json!({ "type": "object", "additionalProperties": false, "required": ["tag"],
            "properties": { "tag": { "type": "string", "enum": ["empty", "all"] } } });
        let shape = json!({ "anyOf": [
            empty, case("circle", json!({ "type": "number" })), case("named", json!({ "type": "string" })),
        ] });
        let schema = json!({ "type": "object", "properties": { "shape": shape } });
        let expected = r#"is not one of: {"tag": "empty" | "all"}; {"tag": "circle", "val": a number}; {"tag": "named", "val": a string}"#;
        for wrong in [json!({ "tag": "x" }), json!({ "circle": 1 }), json!("circle"), json!(null)] {
            assert_eq!(
                check(&schema, &json!({ "shape": wrong })),
                format!("at `/shape`: {wrong} {expected}")
            );
        }
        assert_eq!(
            check(&schema, &json!({ "shape": { "tag": "circle", "val": "c" } })),
            "at `/shape/val`: \"c\" is not of type \"number\""
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

    /// An answer may be of any type, and is checked for its formats too.
    #[test]
    fn an_answer_is_checked_by_a_schema_of_any_type() {
        let check = |schema: Value, answer: Value| {
            let checked = Schema::of_answer(&schema).unwrap().check(&answer);
            checked.map_or_else(|error| error.to_string(), |()| "ok".into())
        };
        assert_eq!(check(json!({ "type": "array", "items": { "type": "integer" } }), json!([1])), "ok");
        assert_eq!(check(json!({ "enum": ["a", "b"] }), json!("c")), r#""c" is not one of "a", "b""#);
        let date = json!({ "type": "string", "format": "date" });
        assert_eq!(check(date.clone(), json!("2026-02-28")), "ok");
        assert!(check(date, json!("2026-02-31")).contains("date"));
        let closed = json!({ "type": "object", "properties": { "name": {} }, "additionalProperties": false });
        assert_eq!(check(closed, json!({ "nam": 1 })), "unknown property `nam`: did you mean `name`?");
    }

    #[test]
    fn a_schema_of_answers_names_the_place_that_is_wrong() {
        let error = |schema: Value| Schema::of_answer(&schema).unwrap_err();
        let wrong = error(json!({ "type": "object", "properties": { "n": { "type": "int" } } }));
        assert!(
            matches!(&wrong, AnswerSchemaError::Invalid { place, .. } if place == "/properties/n/type"),
            "{wrong}"
        );
        let far = error(json!({ "$ref": "https://example.com/schema" }));
        assert!(matches!(far, AnswerSchemaError::Invalid { .. }), "{far}");
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "items": inner }));
        assert_eq!(error(deep), AnswerSchemaError::TooDeep);
    }

    #[test]
    fn depth_is_bounded() {
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "a": inner }));
        assert!(check(&json!({ "type": "object" }), &deep).contains("deeper than 64"));
    }

    /// CL04: a secret is not quoted, regardless of the part that does not match.
    #[test]
    fn what_is_hidden_is_not_quoted() {
        let schema = json!({ "type": "object", "additionalProperties": false, "required": ["region"], "properties": {
            "region": { "type": "string", "enum": ["eu", "us"] }, "a/b~": { "type": "string", "pattern": "^k" },
        }, "not": { "properties": { "a/b~": { "const": "kkk" } }, "required": ["a/b~"] } });
        let schema = Schema::of_configuration(&schema).unwrap();
        let check = |value: Value| {
            schema.check_hiding(&value, &["a/b~"]).map_or_else(|error| error.to_string(), |()| "ok".into())
        };
        assert_eq!(check(json!({ "region": "eu", "a/b~": "key" })), "ok");
        assert_eq!(
            check(json!({ "region": "eu", "a/b~": "hunter2" })),
            "at `/a~1b~0`: the value (a secret) does not match"
        );
        assert_eq!(
            check(json!({ "region": "eu", "a/b~": "kkk" })),
            "the schema does not accept the configuration as a whole"
        );
        assert_eq!(
            check(json!({ "region": "de", "a/b~": "k" })),
            "at `/region`: \"de\" is not one of \"eu\", \"us\""
        );
        assert_eq!(
            check(json!({ "regin": "eu", "a/b~": "k" })),
            "unknown key `regin`: did you mean `region`?; `region` is required"
        );
    }

    #[test]
    fn a_whole_file_is_not_quoted() {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        assert!(check(&schema, &json!({ "n": "x".repeat(100_000) })).len() < 1000);
    }
}
