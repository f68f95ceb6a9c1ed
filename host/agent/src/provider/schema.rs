//! JSON Schemas as vendors take them: each knows less than the standard. Says so where a schema
//! cannot be said with fewer words, and never makes one that refuses what the tool takes.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// How deep a schema is followed: one that refers to itself has no end.
const MAX_DEPTH: usize = 24;
/// Parts of one schema: referring twice at every level makes a small text large.
const MAX_NODES: usize = 4096;
/// Words for "one of these schemas" at the root, which no vendor takes there.
const COMBINED: &[&str] = &["allOf", "anyOf", "oneOf"];

/// What a vendor understands of JSON Schema.
pub(super) struct Subset {
    /// The keywords that stay; all others go.
    pub(super) keywords: &'static [&'static str],
    /// Formats that stay, by type.
    pub(super) formats: &'static [(&'static str, &'static str)],
    /// `nullable: true` is how null is allowed; otherwise it is left out, as an argument may be.
    pub(super) nullable: bool,
    /// Every object has to name its properties, every value its type, and only texts can be
    /// enumerated.
    pub(super) is_strict: bool,
}

/// A schema that cannot be said in a [`Subset`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unsayable;

/// A tool's schema as the schema of one plain object, which is what OpenAI and Anthropic want at the
/// root: with `properties`, and without words that combine schemas.
pub(super) fn plain_object(schema: &Value) -> Value {
    let mut root = resolve(schema, schema).and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, value) in schema.as_object().into_iter().flatten().filter(|(key, _)| *key != "$ref") {
        root.entry(key).or_insert_with(|| value.clone());
    }
    for key in COMBINED {
        let Some(Value::Array(parts)) = root.shift_remove(*key) else { continue };
        combine(&mut root, &parts, schema, *key == "allOf");
    }
    root.insert("type".into(), "object".into());
    root.entry("properties").or_insert_with(|| json!({}));
    root.into()
}

/// Puts the properties of `parts` into `root`. What all of them require is required, or what any
/// does if all of them hold together.
fn combine(root: &mut Map<String, Value>, parts: &[Value], whole: &Value, together: bool) {
    let parts: Vec<_> = parts.iter().filter_map(|part| resolve(part, whole)?.as_object()).collect();
    let own = root.entry("properties").or_insert_with(|| json!({}));
    for part in &parts {
        let properties = part.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if let Value::Object(own) = own {
                own.entry(name).or_insert_with(|| property.clone());
            }
        }
    }
    let required: Vec<BTreeSet<String>> = parts.iter().map(|part| names(part.get("required"))).collect();
    let all = if together {
        required.into_iter().flatten().collect()
    } else {
        required.into_iter().reduce(|one, two| &one & &two).unwrap_or_default()
    };
    let all = &all | &names(root.get("required"));
    if !all.is_empty() {
        root.insert("required".into(), all.into_iter().collect());
    }
}

fn names(required: Option<&Value>) -> BTreeSet<String> {
    let required = required.and_then(Value::as_array).into_iter().flatten();
    required.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What a `$ref` leads to, or the schema itself.
fn resolve<'s>(schema: &'s Value, whole: &'s Value) -> Option<&'s Value> {
    let mut schema = schema;
    for _ in 0..MAX_DEPTH {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return Some(schema) };
        schema = whole.pointer(reference.strip_prefix('#')?)?;
    }
    None
}

impl Subset {
    /// `schema` in the words of this subset.
    pub(super) fn translate(&self, schema: &Value) -> Result<Map<String, Value>, Unsayable> {
        let root = plain_object(schema);
        Saying { subset: self, whole: schema, nodes: 0 }.node(&root, 0)
    }

    fn has(&self, keyword: &str) -> bool {
        self.keywords.contains(&keyword)
    }
}

/// A schema on its way to fewer words.
struct Saying<'s> {
    subset: &'s Subset,
    whole: &'s Value,
    nodes: usize,
}

type Node = Map<String, Value>;

impl Saying<'_> {
    fn node(&mut self, schema: &Value, depth: usize) -> Result<Node, Unsayable> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return Err(Unsayable);
        }
        let mut node = self.flat(schema)?;
        let allows_null = take_null(&mut node);
        self.alternatives(&mut node, depth)?;
        self.children(&mut node, depth)?;
        self.values(&mut node);
        if self.subset.is_strict {
            complete(&mut node, depth)?;
        }
        if allows_null && self.subset.nullable {
            node.insert("nullable".into(), true.into());
        }
        node.retain(|key, _| self.subset.has(key));
        Ok(node)
    }

    /// The schema with what it refers to and what all must hold in one object.
    fn flat(&self, schema: &Value) -> Result<Node, Unsayable> {
        let own = schema.as_object().cloned().unwrap_or_default();
        let mut node = resolve(schema, self.whole).ok_or(Unsayable)?.as_object().cloned().unwrap_or_default();
        // What stands beside a `$ref` (a description) is closer to the matter.
        node.extend(own.into_iter().filter(|(key, _)| key != "$ref"));
        if let Some(Value::Array(parts)) = node.shift_remove("allOf") {
            combine(&mut node, &parts, self.whole, true);
            for part in parts.iter().filter_map(|part| resolve(part, self.whole)?.as_object()) {
                part.iter().for_each(|(key, value)| {
                    node.entry(key).or_insert_with(|| value.clone());
                });
            }
            let is_object =
                node.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
            if !is_object && node.get("type") != Some(&"object".into()) {
                node.shift_remove("properties");
            }
        }
        if let Some(one_of) = node.shift_remove("oneOf") {
            node.entry("anyOf").or_insert(one_of);
        }
        if let Some(only) = node.shift_remove("const") {
            node.entry("enum").or_insert_with(|| vec![only].into());
        }
        Ok(node)
    }

    /// Several types, and `anyOf`: one of them is what it is, more stay alternatives.
    fn alternatives(&mut self, node: &mut Node, depth: usize) -> Result<(), Unsayable> {
        if let Some(Value::Array(types)) = node.get("type").cloned() {
            match types.as_slice() {
                [only] => drop(node.insert("type".into(), only.clone())),
                [first, ..] if !self.subset.has("anyOf") => drop(node.insert("type".into(), first.clone())),
                [] => drop(node.shift_remove("type")),
                several => {
                    let of_type = |kind: &Value| json!({ "type": kind });
                    node.shift_remove("type");
                    node.insert("anyOf".into(), several.iter().map(of_type).collect());
                }
            }
        }
        let Some(Value::Array(any)) = node.shift_remove("anyOf") else { return Ok(()) };
        if let [only] = any.as_slice() {
            for (key, value) in self.node(only, depth + 1)? {
                node.entry(key).or_insert(value);
            }
        } else if self.subset.has("anyOf") {
            let any = any.iter().map(|part| Ok(self.node(part, depth + 1)?.into()));
            let any = any.collect::<Result<Vec<Value>, Unsayable>>()?;
            node.insert("anyOf".into(), any.into());
        }
        Ok(())
    }

    fn children(&mut self, node: &mut Node, depth: usize) -> Result<(), Unsayable> {
        if let Some(Value::Object(properties)) = node.get("properties").cloned() {
            let mut translated = Map::new();
            for (name, property) in &properties {
                translated.insert(name.clone(), self.node(property, depth + 1)?.into());
            }
            let required: Vec<_> = names(node.get("required"))
                .into_iter()
                .filter(|name| translated.contains_key(name))
                .collect();
            node.shift_remove("required");
            if !required.is_empty() {
                node.insert("required".into(), required.into());
            }
            node.insert("properties".into(), translated.into());
        }
        if let Some(items) = node.get("items").filter(|items| items.is_object()).cloned() {
            node.insert("items".into(), self.node(&items, depth + 1)?.into());
        } else {
            // A list of schemas, or `true`.
            node.shift_remove("items");
        }
        Ok(())
    }

    /// Enumerations and formats.
    fn values(&self, node: &mut Node) {
        if let Some(Value::Array(values)) = node.get("enum").cloned() {
            let are_texts = values.iter().all(Value::is_string);
            if are_texts {
                node.entry("type").or_insert_with(|| "string".into());
            } else if self.subset.is_strict {
                node.shift_remove("enum");
                describe(node, &values);
            }
        }
        let kind = node.get("type").and_then(Value::as_str).unwrap_or_default();
        let format = node.get("format").and_then(Value::as_str).unwrap_or_default();
        if !self.subset.formats.contains(&(kind, format)) {
            node.shift_remove("format");
        }
    }
}

/// Takes null out of what a schema allows, and says whether it was there.
fn take_null(node: &mut Node) -> bool {
    let is_null = |schema: &Value| schema.get("type") == Some(&"null".into());
    let mut found = false;
    let mut without = |key: &str, is_null: &dyn Fn(&Value) -> bool| {
        if let Some(Value::Array(all)) = node.get_mut(key) {
            let before = all.len();
            all.retain(|item| !is_null(item));
            found |= all.len() < before;
        }
    };
    without("type", &|kind| kind == "null");
    without("anyOf", &is_null);
    without("enum", &Value::is_null);
    found
}

/// What cannot be enumerated is at least described.
fn describe(node: &mut Node, values: &[Value]) {
    let values = values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
    let before = node.get("description").and_then(Value::as_str).map(|text| format!("{text} "));
    let text = format!("{}(one of: {values})", before.unwrap_or_default());
    node.insert("description".into(), text.into());
}

/// What a strict vendor misses, where it can be known.
fn complete(node: &mut Node, depth: usize) -> Result<(), Unsayable> {
    if !node.contains_key("type") && !node.contains_key("anyOf") {
        let kind = if node.contains_key("properties") {
            "object"
        } else if node.contains_key("items") {
            "array"
        } else {
            return Err(Unsayable);
        };
        node.insert("type".into(), kind.into());
    }
    let has_properties = node.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    match node.get("type").and_then(Value::as_str) {
        // The root of a tool without arguments is left out by the caller.
        Some("object") if !has_properties && depth > 0 => Err(Unsayable),
        Some("array") if !node.contains_key("items") => Err(Unsayable),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
