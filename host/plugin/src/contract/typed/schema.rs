//! JSON Schemas of WIT types. A schema accepts everything that `encode` makes, and `decode` accepts everything that
//! a schema accepts. `decode` also reads numbers as text, which the schema omits: a pattern for them would be the
//! longest part of most schemas, in every prompt. Without `$ref` and `oneOf`, which some vendors do not support.

use serde_json::{Map, Value, json};

use super::model::{Case, Field, Integer, Name, Type};

const BYTES: &str = "text, or {\"base64\": …} for bytes that are not text";

/// Standard base64, with or without padding.
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}(==)?|[A-Za-z0-9+/]{3}=?)?$";

/// Returns the schema of an object with these fields, the one form of parameters that every vendor accepts.
pub(super) fn object_schema(fields: &[Field]) -> Value {
    Value::Object(record(fields))
}

pub(super) fn type_schema(ty: &Type) -> Map<String, Value> {
    let type_schema = |ty: &Type| Value::Object(type_schema(ty));
    match ty {
        Type::Bool => typed("boolean"),
        Type::Integer(integer) => number(*integer),
        // A list of types, which haft converts to `anyOf` for the one vendor that rejects a list.
        Type::Float32 | Type::Float64 => map(json!({ "type": ["number", "string"] })),
        Type::Char => map(json!({ "type": "string", "minLength": 1, "maxLength": 1 })),
        Type::String => typed("string"),
        Type::Bytes => bytes(),
        Type::Stream(item) if **item == Type::Integer(Integer::U8) => bytes(),
        Type::Future(item) => map(type_schema(item)),
        Type::List(element) | Type::Stream(element) => {
            map(json!({ "type": "array", "items": type_schema(element) }))
        }
        Type::Map(types) => dictionary(&types.0, &types.1),
        Type::Record(fields) => record(fields),
        Type::Tuple(types) => tuple(types),
        Type::Variant(cases) => variant(cases),
        Type::Enum(names) => choice(names),
        Type::Flags(names) => {
            let mut flags = map(json!({ "type": "array", "items": {}, "uniqueItems": true }));
            flags.insert("items".into(), Value::Object(choice(names)));
            flags
        }
        Type::Option(inner) => nullable(inner),
        Type::Result(ok, error) => {
            let branch = |name: &str, ty: Option<&Type>| {
                closed(
                    [(name.to_owned(), ty.map_or_else(|| json!({ "type": "null" }), type_schema))],
                    &[name],
                )
            };
            any_of([branch("ok", ok.as_deref()), branch("err", error.as_deref())])
        }
    }
}

/// Returns the schema with the documentation of its use before its own.
pub(super) fn described(mut schema: Map<String, Value>, docs: Option<&str>) -> Map<String, Value> {
    let Some(docs) = docs else { return schema };
    let text = match schema.get("description").and_then(Value::as_str) {
        Some(own) => format!("{docs}\n{own}"),
        None => docs.to_owned(),
    };
    schema.insert("description".into(), text.into());
    schema
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn typed(name: &str) -> Map<String, Value> {
    map(json!({ "type": name }))
}

fn any_of(schemas: impl IntoIterator<Item = Value>) -> Map<String, Value> {
    map(json!({ "anyOf": schemas.into_iter().collect::<Vec<_>>() }))
}

fn closed(properties: impl IntoIterator<Item = (String, Value)>, required: &[&str]) -> Value {
    let properties: Map<String, Value> = properties.into_iter().collect();
    let mut object =
        map(json!({ "type": "object", "properties": properties, "additionalProperties": false }));
    if !required.is_empty() {
        object.insert("required".into(), json!(required));
    }
    Value::Object(object)
}

fn number(integer: Integer) -> Map<String, Value> {
    if integer.is_wide() {
        return map(json!({ "type": ["integer", "string"] }));
    }
    let (minimum, maximum) = integer.range();
    let bound = |bound: i128| i64::try_from(bound).unwrap_or_default();
    map(json!({ "type": "integer", "minimum": bound(minimum), "maximum": bound(maximum) }))
}

fn bytes() -> Map<String, Value> {
    let base64 = json!({ "type": "string", "pattern": BASE64 });
    let encoded = closed([("base64".to_owned(), base64)], &["base64"]);
    described(any_of([json!({ "type": "string" }), encoded]), Some(BYTES))
}

fn record(fields: &[Field]) -> Map<String, Value> {
    let properties = fields.iter().map(|field| {
        let schema = described(type_schema(&field.ty), field.docs.as_deref());
        (field.name.clone(), Value::Object(schema))
    });
    let required: Vec<&str> =
        fields.iter().filter(|field| !field.ty.is_nullable()).map(|field| field.name.as_str()).collect();
    map(closed(properties, &required))
}

/// Returns the schema of a map: of `map<string, V>` an object, of any other map a list of its entries.
fn dictionary(key: &Type, value: &Type) -> Map<String, Value> {
    let values = Value::Object(type_schema(value));
    if *key == Type::String {
        return map(json!({ "type": "object", "additionalProperties": values }));
    }
    let keys = Value::Object(type_schema(key));
    let entry = closed([("key".to_owned(), keys), ("value".to_owned(), values)], &["key", "value"]);
    map(json!({ "type": "array", "items": entry }))
}

/// Returns an array of exactly these types. `items` accompanies `prefixItems` for vendors that support only
/// `items`.
fn tuple(types: &[Type]) -> Map<String, Value> {
    let schemas: Vec<Value> = types.iter().map(|ty| Value::Object(type_schema(ty))).collect();
    let mut different: Vec<Value> = Vec::new();
    for schema in &schemas {
        if !different.contains(schema) {
            different.push(schema.clone());
        }
    }
    let count = schemas.len();
    match <[Value; 1]>::try_from(different) {
        Ok([same]) => map(json!({ "type": "array", "items": same, "minItems": count, "maxItems": count })),
        Err(different) => map(json!({
            "type": "array",
            "prefixItems": schemas,
            "items": { "anyOf": different },
            "minItems": count,
            "maxItems": count,
        })),
    }
}

/// Returns one schema `{"tag": …}` for all cases without a value, and one schema `{"tag": …, "val": …}` for each
/// other case.
fn variant(cases: &[Case]) -> Map<String, Value> {
    let (full, empty): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| case.ty.is_some());
    let mut branches: Vec<Value> = Vec::new();
    if !empty.is_empty() {
        let names: Vec<Name> =
            empty.iter().map(|case| Name { name: case.name.clone(), docs: case.docs.clone() }).collect();
        branches.push(closed([("tag".to_owned(), Value::Object(choice(&names)))], &["tag"]));
    }
    for case in full {
        let Some(ty) = &case.ty else { continue };
        let tag = json!({ "type": "string", "enum": [case.name] });
        let value = Value::Object(type_schema(ty));
        // An optional value may be `null` here: the tag alone would not show the intention.
        let branch = closed([("tag".to_owned(), tag), ("val".to_owned(), value)], &["tag", "val"]);
        branches.push(Value::Object(described(map(branch), case.docs.as_deref())));
    }
    match <[Value; 1]>::try_from(branches) {
        Ok([only]) => map(only),
        Err(branches) => any_of(branches),
    }
}

fn choice(names: &[Name]) -> Map<String, Value> {
    let all: Vec<&str> = names.iter().map(|name| name.name.as_str()).collect();
    let line = |name: &Name| Some(format!("- {}: {}", name.name, name.docs.as_deref()?));
    let docs: Vec<String> = names.iter().filter_map(line).collect();
    let schema = map(json!({ "type": "string", "enum": all }));
    described(schema, (!docs.is_empty()).then(|| docs.join("\n")).as_deref())
}

/// Returns `null` or the value; if the value may be `null` itself, `{"some": value}`.
fn nullable(inner: &Type) -> Map<String, Value> {
    let mut schema = type_schema(inner);
    if inner.is_nullable() {
        let some = closed([("some".to_owned(), Value::Object(schema))], &["some"]);
        return any_of([some, json!({ "type": "null" })]);
    }
    if let Some(Value::Array(branches)) = schema.get_mut("anyOf") {
        branches.push(json!({ "type": "null" }));
        return schema;
    }
    if let Some(Value::Array(names)) = schema.get_mut("type") {
        names.push("null".into());
        return schema;
    }
    let Some(Value::String(name)) = schema.get("type").cloned() else { return schema };
    if schema.contains_key("enum") {
        let docs = schema.remove("description");
        let choice = any_of([Value::Object(schema), json!({ "type": "null" })]);
        return described(choice, docs.as_ref().and_then(Value::as_str));
    }
    schema.insert("type".into(), json!([name, "null"]));
    schema
}
