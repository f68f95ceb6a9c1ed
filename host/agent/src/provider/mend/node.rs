//! Walks a schema and rebuilds it keyword by keyword (JSON Schema 2020-12 and the keywords of older drafts).
//! Removes a keyword with an invalid value; the result accepts everything that the tool accepts.

use serde_json::{Map, Value, json};

use super::Renames;

/// The maximum number of values in an enumeration: OpenAI's limit.
const MAX_ENUM: usize = 1000;
/// The maximum depth of a schema: vendors reject deeper ones, and no model fills them.
const MAX_DEPTH: usize = 24;
/// The maximum number of nodes of a schema.
const MAX_NODES: usize = 4096;
/// The maximum number of changes that are listed for a schema; the rest is counted.
const MAX_CHANGES: usize = 16;

const TYPES: &[&str] = &["string", "number", "integer", "boolean", "object", "array", "null"];
/// Keywords with one schema.
const ONE: &[&str] = &[
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords that vendors also accept with `true` or `false`.
const ONE_OR_FLAG: &[&str] = &["additionalProperties", "unevaluatedItems", "unevaluatedProperties"];
/// Keywords with a list of schemas.
const SOME: &[&str] = &["allOf", "anyOf", "oneOf"];
/// Keywords with named schemas.
const NAMED: &[&str] = &["properties", "$defs", "definitions", "dependentSchemas", "patternProperties"];
const TEXTS: &[&str] =
    &["$comment", "contentEncoding", "contentMediaType", "description", "format", "pattern", "title"];
const FLAGS: &[&str] = &["deprecated", "readOnly", "uniqueItems", "writeOnly"];
const COUNTS: &[&str] = &[
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
];
const NUMBERS: &[&str] = &["exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"];
/// Keywords that identify a document or a dialect: a part of a request is neither.
const IDENTITIES: &[&str] =
    &["$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveRef", "$schema", "id"];

type Node = Map<String, Value>;

pub(super) struct Mending<'s> {
    whole: &'s Value,
    renames: Renames,
    changes: Vec<String>,
    untold: usize,
    nodes: usize,
    path: Vec<String>,
    /// The references that were followed to the current path.
    followed: Vec<&'s str>,
}

impl<'s> Mending<'s> {
    pub(super) fn new(whole: &'s Value) -> Self {
        let (changes, path, followed) = (Vec::new(), Vec::new(), Vec::new());
        Self { whole, renames: Renames::new(whole), changes, untold: 0, nodes: 0, path, followed }
    }

    /// Returns the changes and the replaced names.
    pub(super) fn finish(mut self) -> (Vec<String>, Renames) {
        if self.untold > 0 {
            self.changes.push(format!("and {} more", self.untold));
        }
        (self.changes, self.renames)
    }

    /// Returns a schema that every vendor accepts in place of `schema`.
    pub(super) fn schema(&mut self, schema: &'s Value) -> Value {
        self.nodes += 1;
        let node = match schema {
            Value::Object(node) => node,
            Value::Bool(true) => return json!({}),
            Value::Bool(false) => return json!({ "not": {} }),
            _ => return self.replaced("is not a schema"),
        };
        if self.path.len() > MAX_DEPTH || self.nodes > MAX_NODES {
            return self.replaced("is too deep or too large a schema");
        }
        if let Some(inlined) = self.inlined(node) {
            return inlined;
        }
        let mut mended = Node::new();
        for (key, value) in node {
            if let Some(value) = self.keyword(node, key, value) {
                mended.insert(key.clone(), value);
            }
        }
        self.complete(&mut mended, node);
        Value::Object(mended)
    }

    /// Returns the repaired value of a keyword; `None` removes it.
    fn keyword(&mut self, node: &Node, key: &str, value: &'s Value) -> Option<Value> {
        let keeps = |fits: bool| fits.then(|| value.clone());
        let kept = match key {
            "type" => return self.types(value),
            "required" => return self.required(value),
            "$ref" => keeps(self.leads_somewhere(value)),
            "items" if value.is_array() => return Some(self.tuple(value)),
            "enum" => keeps(value.as_array().is_some_and(|all| (1..=MAX_ENUM).contains(&all.len()))),
            "examples" => keeps(value.is_array()),
            "multipleOf" => keeps(value.as_f64().is_some_and(|number| number > 0.0)),
            "dependentRequired" | "dependencies" => None,
            // Becomes `items` in `complete`, which records the change.
            "prefixItems" => return None,
            key if ONE_OR_FLAG.contains(&key) && value.is_boolean() => Some(value.clone()),
            key if ONE.contains(&key) && (value.is_object() || value.is_boolean()) => {
                return Some(self.inside(key, value));
            }
            key if SOME.contains(&key) => return self.list(key, value),
            key if NAMED.contains(&key) => return self.named(key, value),
            key if TEXTS.contains(&key) => keeps(value.is_string()),
            key if FLAGS.contains(&key) => keeps(value.is_boolean()),
            key if COUNTS.contains(&key) => keeps(value.is_u64()),
            key if NUMBERS.contains(&key) => return self.bound(node, key, value),
            // A part of a request is no document: removing the identity loses nothing.
            key if IDENTITIES.contains(&key) => return None,
            key if ONE.contains(&key) => None,
            _ => Some(value.clone()),
        };
        if kept.is_none() {
            self.change(&format!("`{key}` is left out"));
        }
        kept
    }

    /// Repairs keywords that depend on each other.
    fn complete(&mut self, mended: &mut Node, node: &'s Node) {
        if let Some(parts) = node.get("prefixItems").filter(|parts| parts.is_array()) {
            let items = self.tuple(parts);
            mended.insert("items".into(), items);
        }
        let is_array = |kind: &Value| {
            kind == "array" || kind.as_array().is_some_and(|all| all.contains(&"array".into()))
        };
        if mended.get("type").is_some_and(is_array) && !mended.contains_key("items") {
            self.change("`items` is added: the array has no item type");
            mended.insert("items".into(), json!({}));
        }
    }

    fn types(&mut self, value: &Value) -> Option<Value> {
        let is_type = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
        let mended = match value {
            Value::Array(all) => {
                let known = distinct(all.iter().filter(|kind| is_type(kind)).cloned());
                (!known.is_empty()).then(|| known.into())
            }
            kind => is_type(kind).then(|| kind.clone()),
        };
        if mended.as_ref() != Some(value) {
            self.change(&format!("`type` was {value}"));
        }
        mended
    }

    fn required(&mut self, value: &Value) -> Option<Value> {
        let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        let required = distinct(names.map(|name| self.renames.name(name)));
        let fits = value.as_array().is_some_and(|all| all.len() == required.len());
        if !fits {
            self.change("`required` was not a list of names");
        }
        value.is_array().then(|| required.into())
    }

    /// Returns whether a reference names a part of this schema that keeps its path.
    fn leads_somewhere(&self, reference: &Value) -> bool {
        let in_place = |path: &&str| ["/$defs/", "/definitions/"].iter().any(|start| path.starts_with(start));
        let mut reference = reference;
        for _ in 0..MAX_DEPTH {
            let path = reference.as_str().and_then(|text| text.strip_prefix('#')).filter(in_place);
            let Some(Value::Object(target)) = path.and_then(|path| self.whole.pointer(path)) else {
                return false;
            };
            match target.get("$ref") {
                Some(next) => reference = next,
                None => return true,
            }
        }
        false
    }

    /// Returns the target of a reference in its place, if the target may change or move.
    fn inlined(&mut self, node: &'s Node) -> Option<Value> {
        let reference = node.get("$ref")?;
        if self.leads_somewhere(reference) {
            return None;
        }
        let reference = reference.as_str()?;
        let target = self.whole.pointer(reference.strip_prefix('#')?)?;
        if self.followed.contains(&reference) {
            return Some(self.replaced("refers to itself without end"));
        }
        self.change(&format!("`{reference}` is written out"));
        self.followed.push(reference);
        self.path.push("$ref".to_owned());
        let mended = self.schema(target);
        self.path.pop();
        self.followed.pop();
        Some(mended)
    }

    /// Converts a list with a schema for each position to one schema for all positions.
    fn tuple(&mut self, parts: &'s Value) -> Value {
        let places = parts.as_array().map(Vec::as_slice).unwrap_or_default();
        self.change(&format!("a list of {} different items is one of any of them", places.len()));
        let mut schemas = distinct(places.iter().map(|part| self.inside("items", part)));
        match schemas.len() {
            0 => json!({}),
            1 => schemas.remove(0),
            _ => json!({ "anyOf": schemas }),
        }
    }

    fn list(&mut self, key: &str, value: &'s Value) -> Option<Value> {
        let parts = value.as_array().filter(|parts| !parts.is_empty());
        let Some(parts) = parts else {
            self.change(&format!("`{key}` is left out"));
            return None;
        };
        Some(parts.iter().map(|part| self.inside(key, part)).collect())
    }

    fn named(&mut self, key: &str, value: &'s Value) -> Option<Value> {
        let Some(schemas) = value.as_object() else {
            self.change(&format!("`{key}` is left out"));
            return None;
        };
        let mut mended = Node::new();
        for (name, schema) in schemas {
            let new = if key == "properties" { self.property(name) } else { name.clone() };
            let schema = self.inside(name, schema);
            mended.insert(new, schema);
        }
        Some(mended.into())
    }

    fn property(&mut self, name: &str) -> String {
        let new = self.renames.name(name);
        if new != name {
            self.change(&format!("`{name}` is called `{new}`"));
        }
        new
    }

    /// Repairs a bound; in older drafts, the exclusive bounds were flags beside the inclusive ones.
    fn bound(&mut self, node: &Node, key: &str, value: &Value) -> Option<Value> {
        if value.is_number() {
            return Some(value.clone());
        }
        self.change(&format!("`{key}` was {value}"));
        let inclusive = match key {
            "exclusiveMinimum" => "minimum",
            "exclusiveMaximum" => "maximum",
            _ => return None,
        };
        node.get(inclusive).filter(|bound| bound.is_number() && *value == Value::Bool(true)).cloned()
    }

    fn inside(&mut self, key: &str, schema: &'s Value) -> Value {
        self.path.push(key.to_owned());
        let schema = self.schema(schema);
        self.path.pop();
        schema
    }

    fn replaced(&mut self, why: &str) -> Value {
        self.change(&format!("the schema at this place {why}"));
        json!({})
    }

    fn change(&mut self, description: &str) {
        if self.changes.len() >= MAX_CHANGES {
            self.untold += 1;
            return;
        }
        let place = if self.path.is_empty() { "the schema".to_owned() } else { self.path.join(".") };
        self.changes.push(format!("{place}: {description}"));
    }
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.fold(Vec::new(), |mut distinct, item| {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
        distinct
    })
}
