//! Repairs tool schemas that some vendor would reject, together with every request that contains the tool: invalid
//! JSON Schema 2020-12, property names that a vendor does not accept, arrays without `items`, references that are
//! dangling or endless. A schema that all vendors accept stays unmodified. Arguments are mapped back to the
//! original names.

mod node;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use self::node::Mending;
use haft_core::call::ToolDef;

/// Dialects of JSON Schema whose keywords have the values of 2020-12.
const DIALECTS: &[&str] = &[
    "json-schema.org/draft-06/",
    "json-schema.org/draft-07/",
    "json-schema.org/draft/2019-09/",
    "json-schema.org/draft/2020-12/",
];

/// A tool in the form that every vendor accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Mended {
    /// The tool with the repaired schema.
    pub def: ToolDef,
    /// The changes and their places, one sentence each.
    pub changes: Vec<String>,
    renames: Renames,
}

impl Mended {
    /// Restores the original names in `arguments` of a call by the repaired schema.
    pub fn restore(&self, arguments: Value) -> Value {
        self.renames.restore(arguments)
    }
}

/// Repairs `def` for all vendors; `None` if no repair is needed.
pub fn mend(def: &ToolDef) -> Option<Mended> {
    let mut mending = Mending::new(&def.parameters);
    let parameters = mending.schema(&def.parameters);
    let parameters = if parameters.is_object() { parameters } else { Map::new().into() };
    if parameters == without_dialect(&def.parameters) {
        return None;
    }
    let (changes, renames) = mending.finish();
    Some(Mended { def: ToolDef { parameters, ..def.clone() }, changes, renames })
}

/// Repairs any schema for all vendors, and returns the replaced names.
pub(super) fn mend_schema(schema: &Value) -> (Value, Renames) {
    let mut mending = Mending::new(schema);
    let mended = mending.schema(schema);
    (mended, mending.finish().1)
}

/// Returns `schema` without its dialect if the dialect is equivalent: such a schema needs no repair.
fn without_dialect(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let named = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let is_known = DIALECTS.iter().any(|dialect| named.contains(dialect));
    if let Some(schema) = schema.as_object_mut().filter(|_| is_known) {
        schema.shift_remove("$schema");
    }
    schema
}

/// The maximum length of a property name for Anthropic; all other vendors accept it too.
const NAME_BYTES: usize = 64;

/// The original names of properties, by their new names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Renames {
    old_by_new: BTreeMap<String, String>,
    taken: BTreeSet<String>,
}

impl Renames {
    /// Starts without replacements, and reserves the property names of `schema`.
    fn new(schema: &Value) -> Self {
        let mut taken = BTreeSet::new();
        collect(schema, &mut taken, 0);
        Self { old_by_new: BTreeMap::new(), taken }
    }

    /// Returns the name for `old`: unchanged if every vendor accepts it.
    fn name(&mut self, old: &str) -> String {
        if is_taken_by_all(old) {
            return old.to_owned();
        }
        if let Some((new, _)) = self.old_by_new.iter().find(|(_, known)| *known == old) {
            return new.clone();
        }
        let new = self.unused(&plain(old));
        self.taken.insert(new.clone());
        self.old_by_new.insert(new.clone(), old.to_owned());
        new
    }

    fn unused(&self, wanted: &str) -> String {
        if !self.taken.contains(wanted) {
            return wanted.to_owned();
        }
        let numbered = |number: u32| format!("{wanted}_{number}");
        (2..=u32::MAX).map(numbered).find(|name| !self.taken.contains(name)).unwrap_or_default()
    }

    /// Restores the original names in `value`, at every depth.
    pub(super) fn restore(&self, value: Value) -> Value {
        if self.old_by_new.is_empty() {
            return value;
        }
        let old = |new: String| self.old_by_new.get(&new).cloned().unwrap_or(new);
        match value {
            Value::Object(members) => {
                members.into_iter().map(|(name, value)| (old(name), self.restore(value))).collect()
            }
            Value::Array(items) => items.into_iter().map(|item| self.restore(item)).collect(),
            other => other,
        }
    }
}

/// Anthropic's rule is `^[a-zA-Z0-9_.-]{1,64}$`; Gemini also requires a letter or an underscore first.
fn is_taken_by_all(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.len() <= NAME_BYTES && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

fn plain(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    let word: String = name.chars().map(fits).take(NAME_BYTES - 8).collect();
    let word = word.trim_matches('_');
    let begins = word.starts_with(|c: char| c.is_ascii_alphabetic());
    if begins { word.to_owned() } else { format!("arg_{word}").trim_end_matches('_').to_owned() }
}

/// The maximum depth of the search for names: no deeper schema is kept.
const MAX_DEPTH: usize = 128;

/// Collects the property names that every vendor accepts.
fn collect(schema: &Value, names: &mut BTreeSet<String>, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match schema {
        Value::Object(members) => {
            let properties = members.get("properties").and_then(Value::as_object);
            names.extend(
                properties.into_iter().flat_map(Map::keys).filter(|name| is_taken_by_all(name)).cloned(),
            );
            members.values().for_each(|value| collect(value, names, depth + 1));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names, depth + 1)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
