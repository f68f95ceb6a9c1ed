//! A tool's parameters as a signature: `count(path: string, unit?: "lines" | "words")`. For reading; what a schema
//! says beyond that is left out, and nothing is checked.

use serde_json::Value;

use haft_core::call::ToolDef;
use haft_core::report::{plain, shortened};

/// How deep types are written out: below that a reader is lost anyway.
const MAX_DEPTH: usize = 3;
/// Choices or fields that are written out.
const MAX_PARTS: usize = 6;
/// Characters of a name or of one choice.
const MAX_WORD: usize = 40;

/// The tool's name with its parameters, and what it answers where it says so.
pub(super) fn signature(name: &str, def: &ToolDef) -> String {
    let answer = def.output.as_ref().map(|output| format!(" → {}", kind(output, 0))).unwrap_or_default();
    format!("{}({}){answer}", word(name), fields(&def.parameters, 0).join(", "))
}

/// The properties of an object, the optional ones marked.
fn fields(schema: &Value, depth: usize) -> Vec<String> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten().map(|(name, own)| {
        let (name, required, kind) = (word(name), is_required(name), kind(own, depth));
        match kind.strip_suffix(" | null").filter(|_| !required) {
            Some(kind) => format!("{name}?: {kind}"),
            None if required => format!("{name}: {kind}"),
            None => format!("{name}?: {kind}"),
        }
    });
    properties.collect()
}

/// The type that a schema means.
fn kind(schema: &Value, depth: usize) -> String {
    if depth > MAX_DEPTH {
        return "…".to_owned();
    }
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(value) = schema.get("const") {
        return literal(value);
    }
    if let Some(values) = list("enum") {
        return choice(values.iter().map(literal).collect());
    }
    if let Some(either) = list("anyOf").or_else(|| list("oneOf")) {
        return choice(either.iter().map(|schema| kind(schema, depth + 1)).collect());
    }
    match schema.get("type") {
        Some(Value::String(name)) => named(name, schema, depth),
        Some(Value::Array(names)) => {
            choice(names.iter().filter_map(Value::as_str).map(|name| named(name, schema, depth)).collect())
        }
        _ => "any".to_owned(),
    }
}

fn named(name: &str, schema: &Value, depth: usize) -> String {
    match name {
        "array" => {
            let items = schema.get("items").or_else(|| schema.pointer("/prefixItems/0"));
            let item = items.map_or_else(|| "any".to_owned(), |items| kind(items, depth + 1));
            if item.contains(' ') { format!("({item})[]") } else { format!("{item}[]") }
        }
        "object" if schema.get("properties").is_some() && depth < MAX_DEPTH => {
            format!("{{ {} }}", joined(fields(schema, depth + 1), ", "))
        }
        other => word(other),
    }
}

fn choice(mut kinds: Vec<String>) -> String {
    kinds.dedup();
    joined(kinds, " | ")
}

fn joined(mut parts: Vec<String>, between: &str) -> String {
    if parts.len() > MAX_PARTS {
        parts.truncate(MAX_PARTS);
        parts.push("…".to_owned());
    }
    parts.join(between)
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", word(text)),
        other => word(&other.to_string()),
    }
}

/// A stranger's word: on one line, without what a terminal would obey, not too long.
fn word(text: &str) -> String {
    shortened(&plain(text), MAX_WORD)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(parameters: Value, output: Option<Value>) -> String {
        signature("count", &ToolDef { parameters, output, ..ToolDef::default() })
    }

    #[test]
    fn parameters_are_written_as_somebody_would() {
        let parameters = json!({ "type": "object", "required": ["path"], "properties": {
            "path": { "type": "string" },
            "unit": { "enum": ["lines", "words"] },
            "deep": { "type": ["boolean", "null"] },
            "sizes": { "type": "array", "items": { "anyOf": [{ "type": "integer" }, { "type": "string" }] } },
            "at": { "type": "object", "properties": { "x": { "type": "number" } }, "required": ["x"] },
        } });
        assert_eq!(
            written(parameters, Some(json!({ "type": "array", "items": { "type": "string" } }))),
            "count(path: string, unit?: \"lines\" | \"words\", deep?: boolean, \
             sizes?: (integer | string)[], at?: { x: number }) → string[]"
        );
        assert_eq!(written(json!({ "type": "object" }), None), "count()");
    }

    #[test]
    fn what_is_odd_deep_or_long_stays_short() {
        let mut deep = json!({ "type": "string" });
        for _ in 0..50 {
            deep = json!({ "type": "array", "items": deep });
        }
        let many: Vec<_> = (0..50).map(|at| json!(format!("choice {at}"))).collect();
        let parameters = json!({ "properties": { "a\u{1b}[2J": deep, "b": { "enum": many }, "c": 3 } });
        let text = written(parameters, Some(json!("x".repeat(5000))));
        assert!(text.len() < 300 && !text.contains('\u{1b}'), "{text}");
    }
}
