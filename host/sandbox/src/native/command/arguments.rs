//! Converts the arguments of a call to words of a command line. Refuses values that the program would read as
//! an undeclared option.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::CommandError;
use crate::process::MAX_ARGUMENT;
use haft_manifest::{Argument, ArgumentType, EXTRA_ARGS};

pub(super) fn check_names(arguments: &[Argument]) -> Result<(), CommandError> {
    let mut names = BTreeSet::new();
    match arguments.iter().find(|argument| !names.insert(argument.name.as_str())) {
        Some(twice) => Err(CommandError::DuplicateArgument(twice.name.as_str().to_owned())),
        None => Ok(()),
    }
}

/// Returns the JSON Schema of a call's arguments. `extra`: whether `args` takes further words.
pub(super) fn schema(arguments: &[Argument], extra: bool) -> Value {
    let mut properties: Map<_, _> =
        arguments.iter().map(|argument| (argument.name.as_str().to_owned(), schema_of(argument))).collect();
    if extra {
        let rest = "More arguments, passed unchanged, without a shell";
        let options = if arguments.is_empty() { "" } else { "; none may begin with `-`" };
        let description = format!("{rest}{options}");
        properties.insert(
            EXTRA_ARGS.into(),
            json!({"type": "array", "items": {"type": "string"}, "description": description}),
        );
    }
    let is_needed = |argument: &&Argument| argument.required && argument.default.is_none();
    let required: Vec<_> =
        arguments.iter().filter(is_needed).map(|argument| argument.name.as_str()).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Returns the words that a call appends to the command line, in the order of declaration, `args` last.
///
/// `after_terminator`: the command itself ends its options with `--`, so that any value is safe. Without
/// declared arguments the caller writes the whole command line, including options.
pub(super) fn words(
    arguments: &[Argument],
    extra: bool,
    values: &Value,
    after_terminator: bool,
) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for argument in arguments {
        match values.get(argument.name.as_str()).filter(|value| !value.is_null()) {
            Some(value) => {
                let values = words_of(argument, value, after_terminator);
                words.extend(values.map_err(|problem| format!("`{}`: {problem}", argument.name.as_str()))?);
            }
            None => match &argument.default {
                // A default of the program may be any words.
                Some(default) => words.extend(words_of(argument, default, true)?),
                None if argument.required => return Err(format!("`{}` is required", argument.name.as_str())),
                None => {}
            },
        }
    }
    if let Some(rest) = values.get(EXTRA_ARGS).filter(|rest| extra && !rest.is_null()) {
        let any = after_terminator || arguments.is_empty();
        for text in texts(rest).map_err(|problem| format!("`{EXTRA_ARGS}`: {problem}"))? {
            words.push(positional(text, any).map_err(|problem| format!("`{EXTRA_ARGS}`: {problem}"))?);
        }
    }
    match words.iter().find(|word| word.len() > MAX_ARGUMENT) {
        Some(long) => {
            Err(format!("an argument of {} bytes; a command line takes {MAX_ARGUMENT}", long.len()))
        }
        None => Ok(words),
    }
}

fn schema_of(argument: &Argument) -> Value {
    let mut schema = json!({"type": argument.kind.as_str(), "description": argument.description});
    if let Some(schema) = schema.as_object_mut() {
        if argument.kind == ArgumentType::Array {
            schema.insert("items".into(), json!({"type": "string"}));
        }
        if let Some(default) = &argument.default {
            schema.insert("default".into(), default.clone());
        }
    }
    schema
}

fn words_of(argument: &Argument, value: &Value, any: bool) -> Result<Vec<String>, String> {
    let Some(flag) = &argument.flag else {
        return texts(value)?.into_iter().map(|text| positional(text, any)).collect();
    };
    match value {
        Value::Bool(on) => Ok(on.then(|| flag.clone()).into_iter().collect()),
        value => {
            let flagged: Result<Vec<_>, _> =
                texts(value)?.into_iter().map(|text| flagged(flag, text)).collect();
            flagged.map(|words| words.concat())
        }
    }
}

/// Converts a value, or every item of a list, to text.
fn texts(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(items) => items.iter().map(text).collect(),
        value => text(value).map(|text| vec![text]),
    }
}

fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) if text.contains('\0') => Err("a NUL character cannot be passed on".to_owned()),
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(format!("expected text, a number, a boolean or a list of them, not {value}"))
        }
    }
}

fn positional(text: String, any: bool) -> Result<String, String> {
    if any || !is_like_option(&text) {
        return Ok(text);
    }
    let way_out = "write a path as `./-…`; a tool whose `command` ends with `--` takes any value";
    Err(format!("starts with `-` and would be read as an option: `{text}`; {way_out}"))
}

/// Returns a flag with its value. Only a long option with `=` is certain to be followed by a value.
fn flagged(flag: &str, text: String) -> Result<Vec<String>, String> {
    match flag {
        _ if flag.ends_with('=') => Ok(vec![format!("{flag}{text}")]),
        _ if !is_like_option(&text) => Ok(vec![flag.to_owned(), text]),
        _ if flag.starts_with("--") => Ok(vec![format!("{flag}={text}")]),
        _ => Err(format!("starts with `-` and would be read as an option after `{flag}`: `{text}`")),
    }
}

/// `-` alone is standard input by convention.
fn is_like_option(text: &str) -> bool {
    text.starts_with('-') && text != "-"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(name: &str, flag: Option<&str>, default: Option<Value>) -> Argument {
        let flag = flag.map(str::to_owned);
        let kind = match &default {
            Some(Value::Bool(_)) => ArgumentType::Boolean,
            Some(Value::Number(_)) => ArgumentType::Integer,
            Some(Value::Array(_)) => ArgumentType::Array,
            _ => ArgumentType::String,
        };
        let (name, description) = (name.parse().unwrap(), format!("the {name}"));
        Argument { name, description, kind, required: true, default, flag }
    }

    fn declared() -> [Argument; 5] {
        [
            argument("title", Some("--title"), None),
            argument("draft", Some("--draft"), Some(json!(false))),
            argument("label", Some("-l"), Some(json!([]))),
            argument("depth", Some("depth="), Some(json!(1))),
            argument("path", None, Some(json!("."))),
        ]
    }

    /// PR04: declared arguments appear in the schema, with their types.
    #[test]
    fn the_schema_is_that_of_the_declaration() {
        let expected = json!({
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "the title"},
                "draft": {"type": "boolean", "description": "the draft", "default": false},
                "label": {"type": "array", "description": "the label", "items": {"type": "string"}, "default": []},
                "depth": {"type": "integer", "description": "the depth", "default": 1},
                "path": {"type": "string", "description": "the path", "default": "."},
                "args": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "More arguments, passed unchanged, without a shell; none may begin with \
                        `-`",
                },
            },
            "required": ["title"],
            "additionalProperties": false,
        });
        assert_eq!(schema(&declared(), true), expected);
    }

    /// S05: an undeclared argument appears neither in the schema nor on the command line.
    #[test]
    fn declared_arguments_are_all_there_are() {
        assert!(schema(&declared(), false)["properties"].get("args").is_none());
        let values = json!({"title": "t", "args": ["--version"]});
        assert_eq!(words(&declared(), false, &values, true).unwrap(), ["--title", "t", "depth=1", "."]);
    }

    #[test]
    fn an_argument_called_args_is_the_program_s_own() {
        let arguments = [argument("args", Some("--args"), None)];
        assert_eq!(schema(&arguments, false)["properties"]["args"]["type"], "string");
        assert_eq!(words(&arguments, false, &json!({"args": "x"}), false).unwrap(), ["--args", "x"]);
    }

    #[test]
    fn values_of_every_kind_become_words() {
        let values = json!({"title": "a b", "draft": true, "label": ["x", "y"], "depth": 2.5, "args": ["z"]});
        let expected = ["--title", "a b", "--draft", "-l", "x", "-l", "y", "depth=2.5", ".", "z"];
        assert_eq!(words(&declared(), true, &values, false).unwrap(), expected);
        let values = json!({"title": "", "draft": null});
        assert_eq!(words(&declared(), true, &values, false).unwrap(), ["--title", "", "depth=1", "."]);
    }

    /// PR05: no value becomes an option.
    #[test]
    fn a_value_never_becomes_an_option() {
        let values = |name: &str, value: Value| json!({"title": "t", name: value});
        let title = words(&declared(), true, &json!({"title": "--web"}), false).unwrap();
        assert_eq!(title.first().unwrap(), "--title=--web");
        for (name, value) in
            [("path", json!("-rf")), ("label", json!(["-x"])), ("args", json!(["--output=x"]))]
        {
            let problem = words(&declared(), true, &values(name, value), false).unwrap_err();
            assert!(problem.starts_with(&format!("`{name}`: starts with `-`")), "{problem}");
        }
        assert!(
            words(&declared(), true, &values("path", json!("-rf")), true)
                .unwrap()
                .contains(&"-rf".to_owned())
        );
        assert!(words(&declared(), true, &values("path", json!("-")), false).is_ok());
        assert_eq!(words(&[], true, &json!({"args": ["--all"]}), false).unwrap(), ["--all"]);
    }

    #[test]
    fn what_cannot_be_a_word_is_refused() {
        let problem = |value: Value| words(&declared(), true, &json!({"title": value}), false).unwrap_err();
        assert_eq!(problem(Value::Null), "`title` is required");
        assert!(problem(json!({})).starts_with("`title`: expected text"));
        assert!(problem(json!("a\0b")).contains("NUL"));
        assert!(problem(json!("x".repeat(MAX_ARGUMENT + 1))).contains("131072 bytes"));
    }
}
