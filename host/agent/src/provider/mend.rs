//! Mends the schemas of tools that some vendor would refuse, and with them every request that mentions the tool: what
//! is no JSON Schema 2020-12, property names that are no names to a vendor, arrays that do not say of what, references
//! that lead nowhere or without end. A schema that all vendors take stays as it is. What the model then sends is mapped
//! back to the names that the tool knows.

mod node;
mod renames;

use serde_json::{Map, Value};

use self::node::Mending;
pub(super) use self::renames::Renames;
use haft_core::call::ToolDef;

/// Dialects of JSON Schema whose keywords have the values that those of 2020-12 have.
const DIALECTS: &[&str] = &[
    "json-schema.org/draft-06/",
    "json-schema.org/draft-07/",
    "json-schema.org/draft/2019-09/",
    "json-schema.org/draft/2020-12/",
];

/// A tool as every vendor takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mended {
    /// The tool with another schema.
    pub def: ToolDef,
    /// What had to be changed and where, a sentence each.
    pub changes: Vec<String>,
    renames: Renames,
}

impl Mended {
    /// `arguments` with the names that the tool knows, of a call by the mended schema.
    pub fn restore(&self, arguments: Value) -> Value {
        self.renames.restore(arguments)
    }
}

/// `def` as every vendor takes it; `None` where it is so already.
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

/// Any schema as every vendor takes one, and the names that were replaced in it.
pub(super) fn mend_schema(schema: &Value) -> (Value, Renames) {
    let mut mending = Mending::new(schema);
    let mended = mending.schema(schema);
    (mended, mending.finish().1)
}

/// `schema` without the name of its dialect, where that is one that says the same of what is not mended: such a schema
/// stays as its author wrote it.
fn without_dialect(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let named = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let is_known = DIALECTS.iter().any(|dialect| named.contains(dialect));
    if let Some(schema) = schema.as_object_mut().filter(|_| is_known) {
        schema.shift_remove("$schema");
    }
    schema
}

#[cfg(test)]
mod tests;
