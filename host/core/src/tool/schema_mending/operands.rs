//! Reads the operand of a schema keyword in the forms that people and generators write; `None` if the keyword has
//! no valid operand.

use serde_json::Value;

/// Names that languages have for the types of JSON.
const TYPES: &[(&str, &[&str])] = &[
    ("string", &["str", "text", "char", "date", "datetime", "uuid", "url", "uri", "file", "path", "bytes"]),
    ("integer", &["int", "int32", "int64", "uint", "long", "short"]),
    ("number", &["float", "double", "decimal", "num", "numeric", "float32", "float64"]),
    ("boolean", &["bool"]),
    ("array", &["list", "tuple", "set", "sequence"]),
    ("object", &["dict", "map", "record", "struct", "hash"]),
    ("null", &["none", "nil", "void", "undefined"]),
];

/// Returns the type that a name means.
pub(super) fn canonical(name: &str) -> Option<&'static str> {
    let name = name.trim().to_ascii_lowercase();
    let found = TYPES.iter().find(|(own, others)| *own == name || others.contains(&name.as_str()));
    found.map(|(own, _)| *own)
}

pub(super) fn kinds(value: &Value) -> Option<Value> {
    match value {
        Value::String(name) => canonical(name).map(Value::from),
        Value::Array(names) => {
            let mut all: Vec<&str> = Vec::new();
            for kind in
                names.iter().map(|name| if name.is_null() { Some("null") } else { canonical(name.as_str()?) })
            {
                // An unknown type may be any.
                let kind = kind?;
                if !all.contains(&kind) {
                    all.push(kind);
                }
            }
            (!all.is_empty()).then(|| all.into())
        }
        _ => None,
    }
}

pub(super) fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => crate::json::read(text.trim().as_bytes()).ok().filter(Value::is_number),
        _ => None,
    }
}

pub(super) fn count(number: &Value) -> Option<Value> {
    let float = number.as_f64().filter(|float| (0.0..1e15).contains(float) && float.fract() == 0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked: it is a small count"
    )]
    let whole = float.map(|float| float as u64);
    if number.is_u64() { Some(number.clone()) } else { whole.map(Value::from) }
}

pub(super) fn flag(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(_) => Some(value.clone()),
        Value::String(text) => text.trim().to_ascii_lowercase().parse::<bool>().ok().map(Value::Bool),
        _ => None,
    }
}

pub(super) fn text(value: &Value) -> Option<Value> {
    match value {
        Value::String(_) => Some(value.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string().into()),
        _ => None,
    }
}

pub(super) fn names(value: &Value) -> Option<Value> {
    let one = [value.clone()];
    let all = if value.is_string() { &one[..] } else { value.as_array()?.as_slice() };
    let mut names: Vec<&Value> = Vec::new();
    for name in all.iter().filter(|name| name.is_string()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Some(names.into_iter().cloned().collect())
}
