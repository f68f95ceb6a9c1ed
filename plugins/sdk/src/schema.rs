//! JSON Schemas in the form that models and vendors accept: one self-contained object, without noise. Adds no text:
//! every word in them was written by the author of the tool.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The schema of `T`: nothing referred to, no titles, no Rust integer formats, unknown properties
/// refused, doc comments unwrapped.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    RecursiveTransform(tidy).transform(&mut schema);
    schema.to_value()
}

/// The description of a tool and the schema of its arguments.
pub(crate) fn of_arguments<T: JsonSchema>() -> (String, Value) {
    let mut schema = of::<T>();
    let mut description = String::new();
    if let Value::Object(object) = &mut schema {
        if let Some(Value::String(text)) = object.shift_remove("description") {
            description = text;
        }
        // A schema without them is legal JSON Schema, and some vendors refuse it.
        object.insert("type".into(), "object".into());
        object.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
        object.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    (description, schema)
}

/// What a schema is made of when further schemas extend it: then it cannot say alone which
/// properties there are.
const EXTENSIONS: [&str; 4] = ["oneOf", "anyOf", "allOf", "$ref"];

fn tidy(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("title");
    if is_number(object.get("type")) {
        object.remove("format");
    }
    if let Some(Value::String(description)) = object.get_mut("description") {
        *description = unwrap_lines(description);
    }
    let closed = object.contains_key("properties") && !EXTENSIONS.iter().any(|key| object.contains_key(*key));
    if closed {
        object.entry("additionalProperties").or_insert(Value::Bool(false));
    }
}

fn is_number(kind: Option<&Value>) -> bool {
    let number = |value: &Value| matches!(value.as_str(), Some("integer" | "number"));
    kind.is_some_and(|kind| number(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(number)))
}

/// Joins the lines of a paragraph, which a doc comment breaks to fit the source. A line that
/// begins with anything but a word (a list item, an indented example) stays a line of its own.
fn unwrap_lines(text: &str) -> String {
    let mut unwrapped = String::with_capacity(text.len());
    for line in text.lines() {
        let continues = !unwrapped.is_empty() && !unwrapped.ends_with('\n') && begins_with_word(line);
        if continues {
            unwrapped.push(' ');
        } else if !unwrapped.is_empty() {
            unwrapped.push('\n');
        }
        unwrapped.push_str(line);
    }
    unwrapped
}

fn begins_with_word(line: &str) -> bool {
    line.starts_with(|first: char| first.is_alphabetic() || "`\"'(".contains(first))
        && !line.starts_with("```")
}
