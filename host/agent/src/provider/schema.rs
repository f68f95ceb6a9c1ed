//! Translates JSON Schemas to the subsets that vendors support. Reports a schema that a subset cannot express, and
//! never makes a schema that rejects valid arguments of the tool.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// The maximum depth of a schema: a recursive schema has no end.
const MAX_DEPTH: usize = 24;
/// The maximum number of nodes of a schema: two references at every level expand a small schema exponentially.
const MAX_NODES: usize = 4096;
/// Combining keywords, which no vendor accepts at the root.
const COMBINED: &[&str] = &["allOf", "anyOf", "oneOf"];

/// The part of JSON Schema that a vendor supports.
pub(super) struct Subset {
    /// The supported keywords; others are removed.
    pub(super) keywords: &'static [&'static str],
    /// The supported formats, by type.
    pub(super) formats: &'static [(&'static str, &'static str)],
    /// Whether `nullable: true` allows null; otherwise null is removed, because an argument may be omitted.
    pub(super) nullable: bool,
    /// Whether every object must name its properties, every value must have a type, and only strings can be
    /// enumerated.
    pub(super) is_strict: bool,
}

/// Converts the schema of a tool to one plain object, which OpenAI and Anthropic require at the root: with
/// `properties`, and without combining keywords.
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

/// Merges the properties of `parts` into `root`. With `together`, a property required by any part is required;
/// otherwise a property required by all parts.
fn combine(root: &mut Map<String, Value>, parts: &[Value], whole: &Value, together: bool) {
    let parts: Vec<_> = parts.iter().filter_map(|part| resolve(part, whole)?.as_object()).collect();
    let merged = root.entry("properties").or_insert_with(|| json!({}));
    for part in &parts {
        let properties = part.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if let Value::Object(merged) = merged {
                merged.entry(name).or_insert_with(|| property.clone());
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

/// Follows `$ref`; returns the schema itself if it has none.
fn resolve<'s>(schema: &'s Value, whole: &'s Value) -> Option<&'s Value> {
    let mut schema = schema;
    for _ in 0..MAX_DEPTH {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return Some(schema) };
        schema = whole.pointer(reference.strip_prefix('#')?)?;
    }
    None
}

impl Subset {
    /// Translates `schema`; `None` if the subset cannot express it.
    pub(super) fn translate(&self, schema: &Value) -> Option<Map<String, Value>> {
        let root = plain_object(schema);
        Saying { subset: self, whole: schema, nodes: 0 }.node(&root, 0)
    }

    fn has(&self, keyword: &str) -> bool {
        self.keywords.contains(&keyword)
    }
}

struct Saying<'s> {
    subset: &'s Subset,
    whole: &'s Value,
    nodes: usize,
}

type Node = Map<String, Value>;

impl Saying<'_> {
    fn node(&mut self, schema: &Value, depth: usize) -> Option<Node> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return None;
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
        Some(node)
    }

    /// Resolves `$ref` and `allOf` into one schema.
    fn flat(&self, schema: &Value) -> Option<Node> {
        let siblings = schema.as_object().cloned().unwrap_or_default();
        let mut node = resolve(schema, self.whole)?.as_object().cloned().unwrap_or_default();
        // Keywords beside a `$ref`, such as a description, take precedence.
        node.extend(siblings.into_iter().filter(|(key, _)| key != "$ref"));
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
        Some(node)
    }

    /// Translates several types, and `anyOf`: a single alternative replaces the node, several stay alternatives.
    fn alternatives(&mut self, node: &mut Node, depth: usize) -> Option<()> {
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
        let Some(Value::Array(any)) = node.shift_remove("anyOf") else { return Some(()) };
        if let [only] = any.as_slice() {
            for (key, value) in self.node(only, depth + 1)? {
                node.entry(key).or_insert(value);
            }
        } else if self.subset.has("anyOf") {
            let any = any.iter().map(|part| Some(self.node(part, depth + 1)?.into()));
            let any = any.collect::<Option<Vec<Value>>>()?;
            node.insert("anyOf".into(), any.into());
        }
        Some(())
    }

    fn children(&mut self, node: &mut Node, depth: usize) -> Option<()> {
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
        Some(())
    }

    /// Translates enumerations and formats.
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

/// Removes null from a schema, and returns whether it was allowed.
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

/// Describes values that cannot be enumerated.
fn describe(node: &mut Node, values: &[Value]) {
    let values = values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
    let before = node.get("description").and_then(Value::as_str).map(|text| format!("{text} "));
    let text = format!("{}(one of: {values})", before.unwrap_or_default());
    node.insert("description".into(), text.into());
}

/// Adds the parts that a strict vendor requires, if they can be derived.
fn complete(node: &mut Node, depth: usize) -> Option<()> {
    if !node.contains_key("type") && !node.contains_key("anyOf") {
        let kind = if node.contains_key("properties") {
            "object"
        } else if node.contains_key("items") {
            "array"
        } else {
            return None;
        };
        node.insert("type".into(), kind.into());
    }
    let has_properties = node.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    match node.get("type").and_then(Value::as_str) {
        // The caller omits the parameters of a tool without arguments.
        Some("object") if !has_properties && depth > 0 => None,
        Some("array") if !node.contains_key("items") => None,
        _ => Some(()),
    }
}

#[cfg(test)]
mod tests;
