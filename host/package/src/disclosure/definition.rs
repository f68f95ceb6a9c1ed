//! Renders a tool's definition as lines for a reader: everything that the model receives, common JSON Schema
//! keys in words and all others as JSON. Leaves nothing out.

use serde_json::{Map, Value};

use haft_core::call::{Hints, ToolDef};

/// The depth to which a schema is rendered in words; deeper levels are printed as JSON.
const MAX_DEPTH: usize = 12;

/// Keys of a schema that [`head`] renders.
const HEAD: &[&str] = &["type", "enum", "default"];

/// Keys that [`inner`] renders in words.
const TOLD: &[&str] = &["description", "properties", "required", "items"];

/// Renders all of a tool's definition except its name: description, parameters, output.
pub fn lines(def: &ToolDef) -> Vec<String> {
    let mut lines: Vec<String> =
        def.title.iter().map(|title| format!("title: {}", on_one_line(title))).collect();
    lines.extend(def.description.lines().map(str::to_owned));
    parameters(&def.parameters, &mut lines);
    let hints = def.hints;
    let hints = [
        (hints.read_only, "read-only"),
        (hints.destructive, "destructive"),
        (hints.idempotent, "idempotent"),
        (hints.open_world, "open-world"),
    ];
    let hints: Vec<&str> = hints.into_iter().filter_map(|(is_so, text)| is_so.then_some(text)).collect();
    // A missing hint means the worst case; the default values are not a statement of the tool.
    if !hints.is_empty() && def.hints != Hints::from_annotations(&Value::Null) {
        lines.push(format!("declares: {}", hints.join(", ")));
    }
    if let Some(output) = &def.output {
        one("answers", output, None, 0, &mut lines);
    }
    lines
}

/// Renders the schema of all parameters, which has no head line.
fn parameters(schema: &Value, lines: &mut Vec<String>) {
    let Some(object) = schema.as_object() else { return lines.push(format!("parameters: {schema}")) };
    for key in HEAD {
        // Every parameter schema has `"type": "object"`.
        let is_usual = |value: &&Value| *key == "type" && **value == "object";
        let written = object.get(*key).filter(|value| !is_usual(value));
        lines.extend(written.map(|value| format!("{key}: {value}")));
    }
    inner(schema, 0, lines);
}

/// Renders one named schema; `required` is `None` where the schema does not apply `required`.
fn one(name: &str, schema: &Value, required: Option<bool>, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let head = head(schema);
    let required = match required {
        Some(true) => ", required",
        Some(false) => ", optional",
        None => "",
    };
    lines.push(format!("{indent}{}: {head}{required}", on_one_line(name)));
    inner(schema, depth + 1, lines);
}

/// Returns the type, the default and the enum values of a schema.
fn head(schema: &Value) -> String {
    let mut text = match schema.get("type") {
        Some(Value::String(kind)) => on_one_line(kind),
        Some(other) => kinds(other).unwrap_or_else(|| other.to_string()),
        None if schema.is_object() => either(schema).unwrap_or_else(|| "any".to_owned()),
        None => schema.to_string(),
    };
    match schema.get("enum") {
        Some(Value::Array(values)) => {
            let values: Vec<_> = values.iter().map(ToString::to_string).collect();
            text = format!("{text}, one of {}", values.join(" "));
        }
        Some(value) => text = format!("{text}, one of {value}"),
        None => {}
    }
    if let Some(value) = schema.get("default") {
        text = format!("{text}, default {value}");
    }
    text
}

fn kinds(list: &Value) -> Option<String> {
    let kinds = list.as_array().filter(|kinds| !kinds.is_empty())?.iter();
    Some(kinds.map(|kind| kind.as_str().map(on_one_line)).collect::<Option<Vec<_>>>()?.join(" or "))
}

/// Renders the alternatives of a schema in words, if each consists of head keys only.
fn either(schema: &Value) -> Option<String> {
    let both = (schema.get("anyOf"), schema.get("oneOf"));
    let ((Some(alternatives), None) | (None, Some(alternatives))) = both else { return None };
    let is_head_only = |alternative: &Value| {
        let keys = alternative.as_object().filter(|keys| !keys.is_empty());
        keys.is_some_and(|keys| keys.keys().all(|key| HEAD.contains(&key.as_str())))
    };
    let alternatives =
        alternatives.as_array().filter(|all| !all.is_empty() && all.iter().all(is_head_only))?;
    Some(alternatives.iter().map(head).collect::<Vec<_>>().join(" or "))
}

fn inner(schema: &Value, depth: usize, lines: &mut Vec<String>) {
    let Some(object) = schema.as_object() else { return };
    let indent = "  ".repeat(depth);
    match object.get("description") {
        Some(Value::String(text)) => lines.extend(text.lines().map(|line| format!("{indent}{line}"))),
        Some(other) => lines.push(format!("{indent}description: {other}")),
        None => {}
    }
    if depth > MAX_DEPTH {
        let deeper =
            object.iter().filter(|(key, _)| matches!(key.as_str(), "properties" | "items" | "required"));
        lines.extend(deeper.map(|(key, value)| format!("{indent}{key}: {value}")));
    } else {
        properties(object, depth, lines);
        match object.get("items") {
            Some(items @ Value::Object(_)) => one("each", items, None, depth, lines),
            Some(other) => lines.push(format!("{indent}items: {other}")),
            None => {}
        }
    }
    // The value of `additionalProperties` is not relevant to a reader if it is a boolean.
    let is_rendered = |key: &str, value: &Value| {
        let is_either = matches!(key, "anyOf" | "oneOf") && !object.contains_key("type");
        [HEAD, TOLD].concat().contains(&key)
            || key == "additionalProperties" && value.is_boolean()
            || is_either && depth > 0 && either(schema).is_some()
    };
    let others = object.iter().filter(|(key, value)| !is_rendered(key, value));
    lines.extend(others.map(|(key, value)| format!("{indent}{}: {value}", on_one_line(key))));
}

fn properties(object: &Map<String, Value>, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let properties = object.get("properties").and_then(Value::as_object);
    let required = object.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|listed| listed == name));
    for (name, schema) in properties.into_iter().flatten() {
        one(name, schema, Some(is_required(name)), depth, lines);
    }
    // A required name without a property is mentioned only here.
    let is_known = |name: &Value| {
        name.as_str().is_some_and(|name| properties.is_some_and(|properties| properties.contains_key(name)))
    };
    let unknown = required.into_iter().flatten().filter(|name| !is_known(name));
    lines.extend(unknown.map(|name| format!("{indent}requires {name}")));
    for key in ["properties", "required"] {
        let is_rendered =
            |value: &&Value| if key == "required" { value.is_array() } else { value.is_object() };
        let odd = object.get(key).filter(|value| !is_rendered(value));
        lines.extend(odd.map(|value| format!("{indent}{key}: {value}")));
    }
}

fn on_one_line(text: &str) -> String {
    if text.contains(char::is_control) { Value::from(text).to_string() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Keys of JSON Schema, and one unknown key.
    const KEYS: &str = "$comment $defs $id $ref additionalProperties allOf anyOf const contains default \
        definitions dependentRequired deprecated description else enum examples format if items \
        maxLength not oneOf pattern patternProperties prefixItems properties propertyNames \
        readOnly required then title type x-other";

    /// S03: every word of a schema is disclosed, under any key.
    #[test]
    fn no_word_of_a_schema_is_left_out() {
        const WORD: &str = "send ~/.ssh";
        let values = [
            json!(WORD),
            json!([WORD]),
            json!([[WORD]]),
            json!({ WORD: true }),
            json!({ "a": WORD }),
            json!({ "a": { "default": WORD } }),
            json!([{ "description": WORD }]),
            json!({ "enum": [WORD] }),
        ];
        let is_shown = |parameters: Value| {
            let def = ToolDef { name: "t".into(), parameters, ..ToolDef::default() };
            lines(&def).iter().any(|line| line.contains(WORD))
        };
        for (key, value) in KEYS.split(' ').flat_map(|key| values.iter().map(move |value| (key, value))) {
            let mut schema = json!({ key: value });
            for depth in 0..MAX_DEPTH + 3 {
                assert!(is_shown(schema.clone()), "{key}, {depth} deep: {schema}");
                let mut typed = schema.clone();
                typed.as_object_mut().unwrap().entry("type").or_insert("object".into());
                assert!(is_shown(typed.clone()), "{key}, {depth} deep: {typed}");
                schema = match depth % 3 {
                    0 => json!({ "type": "object", "properties": { "p": schema } }),
                    1 => json!({ "type": "array", "items": schema }),
                    _ => json!({ "anyOf": [schema] }),
                };
            }
        }
    }

    /// S03: every part of a definition is rendered.
    #[test]
    fn all_of_a_definition_is_there_to_read() {
        let def = ToolDef {
            name: "t".into(),
            description: "First.\n\nSecond paragraph.".into(),
            parameters: json!({ "type": "object", "additionalProperties": false, "required": ["path", "gone"],
            "title": "a title", "properties": {
                "path": { "type": "string", "description": "What to read.\n\nAnd more.", "pattern": "^a$" },
                "unit": { "enum": ["lines", "ignore what was hints"], "default": "lines" },
                "deep": { "type": "array", "items": { "type": "object", "properties": {
                    "inner": { "type": ["string", "null"], "description": "innermost", "examples": ["an example"] },
                } } },
                "odd": { "anyOf": [{ "description": "either" }] },
                "size": { "anyOf": [{ "type": "integer" }, { "type": "null" }], "description": "how large" },
            } }),
            output: Some(json!({ "type": "object", "description": "what comes back" })),
            ..ToolDef::default()
        };
        let expected = "First.\n\nSecond paragraph.\npath: string, required\n  What to read.\n  \n  And more.\n  \
            pattern: \"^a$\"\nunit: any, one of \"lines\" \"ignore what was hints\", default \"lines\", optional\n\
            deep: array, optional\n  each: object\n    inner: string or null, optional\n      innermost\n      \
            examples: [\"an example\"]\nodd: any, optional\n  anyOf: [{\"description\":\"either\"}]\n\
            size: integer or null, optional\n  how large\n\
            requires \"gone\"\ntitle: \"a title\"\nanswers: object\n  what comes back";
        assert_eq!(lines(&def).join("\n"), expected);
    }

    /// S03: a schema with values of unexpected types hides no text.
    #[test]
    fn a_schema_of_odd_values_hides_nothing() {
        let hints = |parameters: Value| lines(&ToolDef { parameters, ..ToolDef::default() }).join("\n");
        assert_eq!(hints(json!({ "properties": ["do x"] })), "properties: [\"do x\"]");
        assert_eq!(hints(json!({ "required": "do y" })), "required: \"do y\"");
        assert_eq!(hints(json!({ "description": { "a": "do z" } })), "description: {\"a\":\"do z\"}");
        let mut deep = json!({ "type": "string", "description": "at the bottom" });
        for _ in 0..40 {
            deep = json!({ "properties": { "a": deep } });
        }
        assert!(hints(deep).contains("at the bottom"));
    }
}
