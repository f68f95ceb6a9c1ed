//! Names of properties that were replaced, and the way back. A new name is used for one old name and is the name of no
//! other property of the schema, so that it can be mapped back wherever it comes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// What Anthropic takes for a property's name, at most, and all others do.
const NAME_BYTES: usize = 64;

/// New names of properties, with the old ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::provider) struct Renames {
    old_by_new: BTreeMap<String, String>,
    taken: BTreeSet<String>,
}

impl Renames {
    /// None yet, where `schema` has names of its own.
    pub(super) fn new(schema: &Value) -> Self {
        let mut taken = BTreeSet::new();
        collect(schema, &mut taken, 0);
        Self { old_by_new: BTreeMap::new(), taken }
    }

    /// The name for `old`: itself where every vendor takes it.
    pub(super) fn name(&mut self, old: &str) -> String {
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

    /// `value` with the old names in the place of the new ones, at every depth.
    pub(in crate::provider) fn restore(&self, value: Value) -> Value {
        if self.old_by_new.is_empty() {
            return value;
        }
        match value {
            Value::Object(members) => Value::Object(self.restore_members(members)),
            Value::Array(items) => items.into_iter().map(|item| self.restore(item)).collect(),
            other => other,
        }
    }

    fn restore_members(&self, members: Map<String, Value>) -> Map<String, Value> {
        let old = |new: String| self.old_by_new.get(&new).cloned().unwrap_or(new);
        members.into_iter().map(|(name, value)| (old(name), self.restore(value))).collect()
    }
}

/// `^[a-zA-Z0-9_.-]{1,64}$` is Anthropic's rule; Gemini's names begin with a letter or an underscore besides.
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

/// How deep names are looked for: no schema that is kept is deeper.
const MAX_DEPTH: usize = 128;

/// The names of all properties that are fit to stay.
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
