//! Repairs the schemas of foreign tools, so that arguments can be checked against them. An invalid keyword is
//! repaired if only one meaning is possible, and removed otherwise: its check is omitted, and the tool stays
//! usable.

mod operands;

use serde_json::{Map, Value, json};

use self::operands::{canonical, count, flag, kinds, names, number, text};
use super::arguments::{MAX_DEPTH, MAX_PATTERNS, MAX_REFERENCES, Schema, is_deeper, is_pattern};

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

/// The keywords of JSON Schema 2020-12, and of the dialects before it. Others are annotations, and stay.
const KEYWORDS: &[(&str, Operand)] = &[
    ("additionalItems", Operand::Schema),
    ("additionalProperties", Operand::Schema),
    ("contains", Operand::Schema),
    ("contentSchema", Operand::Schema),
    ("else", Operand::Schema),
    ("if", Operand::Schema),
    ("not", Operand::Schema),
    ("propertyNames", Operand::Schema),
    ("then", Operand::Schema),
    ("unevaluatedItems", Operand::Schema),
    ("unevaluatedProperties", Operand::Schema),
    ("items", Operand::Items),
    ("allOf", Operand::Schemas),
    ("anyOf", Operand::Schemas),
    ("oneOf", Operand::Schemas),
    ("prefixItems", Operand::Schemas),
    ("$defs", Operand::NamedSchemas),
    ("definitions", Operand::NamedSchemas),
    ("dependentSchemas", Operand::NamedSchemas),
    ("patternProperties", Operand::NamedSchemas),
    ("properties", Operand::NamedSchemas),
    ("maxContains", Operand::Count),
    ("maxItems", Operand::Count),
    ("maxLength", Operand::Count),
    ("maxProperties", Operand::Count),
    ("minContains", Operand::Count),
    ("minItems", Operand::Count),
    ("minLength", Operand::Count),
    ("minProperties", Operand::Count),
    ("maximum", Operand::Number),
    ("minimum", Operand::Number),
    ("multipleOf", Operand::Number),
    ("exclusiveMaximum", Operand::Bound),
    ("exclusiveMinimum", Operand::Bound),
    ("deprecated", Operand::Flag),
    ("readOnly", Operand::Flag),
    ("uniqueItems", Operand::Flag),
    ("writeOnly", Operand::Flag),
    ("$comment", Operand::Text),
    ("$anchor", Operand::Text),
    ("$dynamicAnchor", Operand::Text),
    ("$id", Operand::Text),
    ("contentEncoding", Operand::Text),
    ("contentMediaType", Operand::Text),
    ("description", Operand::Text),
    ("format", Operand::Text),
    ("title", Operand::Text),
    ("pattern", Operand::Pattern),
    ("required", Operand::Names),
    ("type", Operand::Type),
    ("enum", Operand::Values),
    ("examples", Operand::Values),
    ("$dynamicRef", Operand::Reference),
    ("$recursiveRef", Operand::Reference),
    ("$ref", Operand::Reference),
    ("$schema", Operand::Dialect),
    ("dependencies", Operand::Anything),
    ("dependentRequired", Operand::Anything),
];

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
            let Some((_, operand)) = KEYWORDS.iter().find(|(name, _)| name == key) else {
                mended.insert(key.clone(), value.clone());
                continue;
            };
            if let Some(value) = self.operand(*operand, value, &own, level) {
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
            Some(anchor) => declares(self.root, &["$anchor", "$dynamicAnchor", "$id", "id"], &|own| {
                own.trim_start_matches('#') == anchor
            }),
            // Nothing is fetched: the reference names a part of the complete schema, or one of the specification's
            // own schemas.
            None => {
                let document = target.split('#').next().unwrap_or_default();
                document.contains("json-schema.org/")
                    || declares(self.root, &["$id", "id"], &|own| own.ends_with(document))
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
fn declares(schema: &Value, keys: &[&str], is_it: &dyn Fn(&str) -> bool) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(|item| declares(item, keys, is_it)),
        Value::Object(fields) => fields.iter().any(|(key, field)| {
            keys.contains(&key.as_str()) && field.as_str().is_some_and(is_it) || declares(field, keys, is_it)
        }),
        _ => false,
    }
}

fn holds_schemas(key: &str) -> bool {
    use Operand::{Items, NamedSchemas, Schema, Schemas};
    KEYWORDS
        .iter()
        .any(|(name, operand)| *name == key && matches!(operand, Schema | Items | Schemas | NamedSchemas))
}

#[cfg(test)]
mod tests;
