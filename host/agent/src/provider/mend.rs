//! Repairs tool schemas that some vendor would reject, together with every request that contains the tool: invalid
//! JSON Schema 2020-12, property names that a vendor does not accept, arrays without `items`, references that are
//! dangling or endless. A schema that all vendors accept stays unmodified. Arguments are mapped back to the
//! original names.

mod node;
mod renames;

use serde_json::{Map, Value};

use self::node::Mending;
pub(super) use self::renames::Renames;
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
    /// The changes and their places, a sentence each.
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

#[cfg(test)]
mod tests;
