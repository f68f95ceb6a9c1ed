//! Repairs the schemas of foreign tools, so that arguments can be checked against them. An invalid keyword is
//! repaired if only one meaning is possible, and removed otherwise: its check is omitted, and the tool stays
//! usable.

use serde_json::{Map, Value, json};

use super::arguments::{MAX_DEPTH, MAX_PATTERNS, MAX_REFERENCES, Schema, is_deeper, is_pattern, occurrences};

/// Maximum number of remarks about one schema. An error of a generated schema may occur a hundred times.
const MAX_NOTES: usize = 8;

/// A schema that arguments can be checked by.
#[derive(Clone, Debug, PartialEq)]
pub struct MendedSchema {
    /// JSON Schema of an object, which [`Schema::compile`] takes.
    pub schema: Value,
    /// Repairs and unchecked keywords: place and remedy in each.
    pub notes: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    Schema,
    Items,
    Schemas,
    NamedSchemas,
    Count,
    Number,
    Bound,
    Flag,
    Text,
    Pattern,
    Names,
    Type,
    Values,
    Reference,
    Dialect,
    Anything,
}

/// The keywords of JSON Schema 2020-12, and of the dialects before it, by their operands. Others are annotations, and stay.
#[rustfmt::skip]
const KEYWORDS: &[(Operand, &[&str])] = &[
    (Operand::Schema, &[
        "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "not",
        "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
    ]),
    (Operand::Items, &["items"]),
    (Operand::Schemas, &["allOf", "anyOf", "oneOf", "prefixItems"]),
    (Operand::NamedSchemas, &["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"]),
    (Operand::Count, &[
        "maxContains", "maxItems", "maxLength", "maxProperties", "minContains", "minItems", "minLength",
        "minProperties",
    ]),
    (Operand::Number, &["maximum", "minimum", "multipleOf"]),
    (Operand::Bound, &["exclusiveMaximum", "exclusiveMinimum"]),
    (Operand::Flag, &["deprecated", "readOnly", "uniqueItems", "writeOnly"]),
    (Operand::Text, &[
        "$comment", "$anchor", "$dynamicAnchor", "$id", "contentEncoding", "contentMediaType", "description",
        "format", "title",
    ]),
    (Operand::Pattern, &["pattern"]),
    (Operand::Names, &["required"]),
    (Operand::Type, &["type"]),
    (Operand::Values, &["enum", "examples"]),
    (Operand::Reference, &["$dynamicRef", "$recursiveRef", "$ref"]),
    (Operand::Dialect, &["$schema"]),
    (Operand::Anything, &["dependencies", "dependentRequired"]),
];

fn operand_of(keyword: &str) -> Option<Operand> {
    KEYWORDS.iter().find(|(_, keywords)| keywords.contains(&keyword)).map(|(operand, _)| *operand)
}

/// Returns a tool's repaired parameters. An error in one keyword never removes the others.
pub fn mend(schema: &Value) -> MendedSchema {
    let mut mending = Mending { root: schema, notes: Vec::new(), more: 0, patterns: 0, references: 0 };
    let mut mended = match mending.schema(schema, "", 1) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let is_object =
        |kind: &Value| kind == "object" || kind.as_array().is_some_and(|all| all.contains(&json!("object")));
    if mended.get("type").is_some_and(|kind| !is_object(kind)) {
        mending.note("/type", "arguments must be an object; read as `object`");
    }
    mended.insert("type".into(), "object".into());
    mended.entry("properties").or_insert_with(|| json!({}));
    let mut schema = Value::Object(mended);
    if let Err(error) = Schema::compile(&schema) {
        mending.note("", &format!("not checked at all: {error}"));
        schema = described(&schema);
    }
    if mending.more > 0 {
        mending.notes.push(format!("and {} more of the kind", mending.more));
    }
    MendedSchema { schema, notes: mending.notes }
}

/// Returns a schema's statements about its properties, and nothing else.
fn described(schema: &Value) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let properties: Map<String, Value> = properties
        .map(|(name, own)| {
            let description = own.get("description").filter(|text| text.is_string());
            (name.clone(), description.map_or_else(|| json!({}), |text| json!({ "description": text })))
        })
        .collect();
    json!({ "type": "object", "properties": properties })
}

struct Mending<'s> {
    root: &'s Value,
    notes: Vec<String>,
    more: usize,
    patterns: usize,
    references: usize,
}

impl Mending<'_> {
    fn note(&mut self, place: &str, what: &str) {
        if self.notes.len() == MAX_NOTES {
            self.more += 1;
        } else if place.is_empty() {
            self.notes.push(what.to_owned());
        } else {
            self.notes.push(format!("`{place}`: {what}"));
        }
    }

    /// Repairs a schema. `level` is its depth.
    fn schema(&mut self, schema: &Value, place: &str, level: usize) -> Value {
        match schema {
            Value::Bool(_) => schema.clone(),
            Value::Object(fields) if level + 1 < MAX_DEPTH => self.keywords(fields, place, level),
            Value::Object(fields) if fields.is_empty() => json!({}),
            Value::Object(_) => {
                self.note(place, "not checked: too deep");
                json!({})
            }
            Value::Array(items) if items.is_empty() => json!({}),
            Value::String(name) if canonical(name).is_some() => {
                self.note(place, "text instead of a schema; read as the type");
                json!({ "type": canonical(name) })
            }
            _ => {
                self.note(place, "not checked: not a schema");
                json!({})
            }
        }
    }

    fn keywords(&mut self, fields: &Map<String, Value>, place: &str, level: usize) -> Value {
        let mut mended = Map::new();
        for (key, value) in fields {
            let own = format!("{place}/{key}");
            if !holds_schemas(key) && is_deeper(value, MAX_DEPTH - level) {
                self.note(&own, "left out: it is too deep");
                continue;
            }
            let Some(operand) = operand_of(key) else {
                mended.insert(key.clone(), value.clone());
                continue;
            };
            if let Some(value) = self.operand(operand, value, &own, level) {
                mended.insert(key.clone(), value);
            }
        }
        self.older(fields, &mut mended, place);
        Value::Object(mended)
    }

    /// Forms of older dialects that mean something else, or nothing, today.
    fn older(&mut self, fields: &Map<String, Value>, mended: &mut Map<String, Value>, place: &str) {
        for (bound, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            if fields.get(bound) == Some(&Value::Bool(true))
                && let Some(value) = mended.remove(limit)
            {
                mended.insert(bound.into(), value);
            }
        }
        if mended.get("items").is_some_and(Value::is_array)
            && !self.is_older()
            && let Some(first) = mended.remove("items")
        {
            mended.insert("prefixItems".into(), first);
            if let Some(rest) = mended.remove("additionalItems") {
                mended.insert("items".into(), rest);
            }
        }
        let properties = fields.get("properties").and_then(Value::as_object).into_iter().flatten();
        let required = properties.filter(|(_, own)| own.get("required") == Some(&Value::Bool(true)));
        let required: Vec<Value> = required.map(|(name, _)| name.as_str().into()).collect();
        if !required.is_empty() {
            self.note(place, "`required: true` of a property; read as `required` of the object");
            let all = mended.entry("required").or_insert_with(|| json!([]));
            if let Some(all) = all.as_array_mut() {
                let new: Vec<_> = required.into_iter().filter(|name| !all.contains(name)).collect();
                all.extend(new);
            }
        }
    }

    /// Returns whether `items` may be a list in the dialect of the complete schema.
    fn is_older(&self) -> bool {
        let dialect = self.root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        dialect.contains("draft-0") || dialect.contains("2019-09")
    }

    /// Returns the usable operand; `None` if the keyword is removed.
    fn operand(&mut self, operand: Operand, value: &Value, place: &str, level: usize) -> Option<Value> {
        let mended = match operand {
            Operand::Anything => Some(value.clone()),
            Operand::Schema if value.is_null() => None,
            Operand::Items if value.is_array() => return self.schemas(value, place, level),
            Operand::Schema | Operand::Items => return Some(self.schema(value, place, level + 1)),
            Operand::Schemas => return self.schemas(value, place, level),
            Operand::NamedSchemas => return self.named(value, place, level),
            Operand::Pattern => return self.pattern(value, place),
            Operand::Reference => return self.reference(value, place),
            Operand::Bound | Operand::Names if value.is_boolean() => return None,
            Operand::Number | Operand::Bound => {
                number(value).filter(|number| !place.ends_with("multipleOf") || number.as_f64() > Some(0.0))
            }
            Operand::Count => number(value).and_then(|number| count(&number)),
            Operand::Flag => flag(value),
            Operand::Text => text(value),
            Operand::Names => names(value),
            Operand::Type => kinds(value),
            Operand::Values => value
                .as_array()
                .filter(|all| !all.is_empty() || place.ends_with("examples"))
                .map(|_| value.clone()),
            Operand::Dialect => {
                value.as_str().filter(|text| text.contains("json-schema.org/")).map(Value::from)
            }
        };
        match &mended {
            None if value.is_null() => {}
            None => self.note(place, "not checked: the keyword does not accept this value"),
            Some(mended) if mended != value => {
                self.note(place, &format!("read as `{}`", crate::report::shortened(&mended.to_string(), 60)));
            }
            Some(_) => {}
        }
        mended
    }

    fn schemas(&mut self, value: &Value, place: &str, level: usize) -> Option<Value> {
        match value {
            Value::Array(all) if !all.is_empty() => {
                let all = all.iter().enumerate();
                Some(
                    all.map(|(index, own)| self.schema(own, &format!("{place}/{index}"), level + 2))
                        .collect(),
                )
            }
            Value::Object(_) => {
                self.note(place, "one schema instead of a list; read as a list with this schema");
                Some(json!([self.schema(value, place, level + 2)]))
            }
            _ => {
                self.note(place, "not checked: the list has no schema");
                None
            }
        }
    }

    fn named(&mut self, value: &Value, place: &str, level: usize) -> Option<Value> {
        let is_patterns = place.ends_with("/patternProperties");
        match value {
            Value::Object(all) => {
                let mut mended = Map::new();
                for (name, own) in all {
                    let own_place = format!("{place}/{name}");
                    if is_patterns && self.pattern(&Value::from(name.as_str()), &own_place).is_none() {
                        continue;
                    }
                    mended.insert(name.clone(), self.schema(own, &own_place, level + 2));
                }
                Some(Value::Object(mended))
            }
            Value::Array(all) if all.is_empty() => Some(json!({})),
            Value::Null => None,
            _ => {
                self.note(place, "not checked: not an object of schemas");
                None
            }
        }
    }

    fn pattern(&mut self, value: &Value, place: &str) -> Option<Value> {
        self.patterns += 1;
        let why = match value.as_str() {
            Some(_) if self.patterns > MAX_PATTERNS => "the limit of patterns is reached",
            Some(pattern) if is_pattern(pattern) => return Some(value.clone()),
            Some(_) => "haft cannot read this regular expression",
            None => "it is not text",
        };
        self.note(place, &format!("not checked: {why}"));
        None
    }

    fn reference(&mut self, value: &Value, place: &str) -> Option<Value> {
        self.references += 1;
        let leads = |target: &str| match target.strip_prefix('#') {
            Some("") => true,
            Some(pointer) if pointer.starts_with('/') => self.has(pointer),
            Some(anchor) => declares(self.root, &["$anchor", "$dynamicAnchor", "$id", "id"], |own| {
                own.trim_start_matches('#') == anchor
            }),
            // Nothing is fetched: the reference names a part of the complete schema, or one of the specification's
            // own schemas.
            None => {
                let document = target.split('#').next().unwrap_or_default();
                document.contains("json-schema.org/")
                    || declares(self.root, &["$id", "id"], |own| own.ends_with(document))
            }
        };
        let why = match value.as_str() {
            Some(_) if self.references > MAX_REFERENCES => "the limit of references is reached",
            Some(target) if leads(target) => return Some(value.clone()),
            Some(_) => "the reference has no target",
            None => "it is not text",
        };
        self.note(place, &format!("not checked: {why}"));
        None
    }

    /// Returns whether a JSON pointer, possibly percent-encoded, leads to a schema.
    fn has(&self, pointer: &str) -> bool {
        let plain = pointer.replace("%24", "$").replace("%2F", "~1").replace("%20", " ").replace("%25", "%");
        let found = self.root.pointer(pointer).or_else(|| self.root.pointer(&plain));
        found.is_some_and(|found| found.is_object() || found.is_boolean())
    }
}

/// Returns whether any part of a schema has one of `keys` with a text that satisfies `is_it`.
fn declares(schema: &Value, keys: &[&str], is_it: impl Fn(&str) -> bool) -> bool {
    let is_declared = |key: &str, field: &Value| keys.contains(&key) && field.as_str().is_some_and(&is_it);
    occurrences(schema, &|key, field| usize::from(is_declared(key, field))) > 0
}

fn holds_schemas(key: &str) -> bool {
    use Operand::{Items, NamedSchemas, Schema, Schemas};
    matches!(operand_of(key), Some(Schema | Items | Schemas | NamedSchemas))
}

// The operand of a keyword in the forms that people and generators write; `None` if the keyword has no valid operand.

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
fn canonical(name: &str) -> Option<&'static str> {
    let name = name.trim().to_ascii_lowercase();
    let found = TYPES.iter().find(|(own, others)| *own == name || others.contains(&name.as_str()));
    found.map(|(own, _)| *own)
}

fn kinds(value: &Value) -> Option<Value> {
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

fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => crate::json::read(text.trim().as_bytes()).ok().filter(Value::is_number),
        _ => None,
    }
}

fn count(number: &Value) -> Option<Value> {
    let float = number.as_f64().filter(|float| (0.0..1e15).contains(float) && float.fract() == 0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked: it is a small count"
    )]
    let whole = float.map(|float| float as u64);
    if number.is_u64() { Some(number.clone()) } else { whole.map(Value::from) }
}

fn flag(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(_) => Some(value.clone()),
        Value::String(text) => text.trim().to_ascii_lowercase().parse::<bool>().ok().map(Value::Bool),
        _ => None,
    }
}

fn text(value: &Value) -> Option<Value> {
    match value {
        Value::String(_) => Some(value.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string().into()),
        _ => None,
    }
}

fn names(value: &Value) -> Option<Value> {
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

#[cfg(test)]
mod tests;
