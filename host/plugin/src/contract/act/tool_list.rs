//! Converts the tool definitions of an `act:tools` component to haft's.

use std::fmt::Write;

use ciborium::Value as Cbor;
use serde_json::{Value, json};

use super::shapes::{Definition, Metadata};
use super::{cbor, shapes};
use crate::component::listing::ListedTool;
use haft_core::call::Hints;

/// Examples in a description.
const MAX_EXAMPLES: usize = 3;

/// A tool as listed.
pub(super) fn tool(definition: Definition) -> ListedTool {
    let hints = Hints {
        read_only: flag(&definition.metadata, "std:read-only"),
        destructive: flag(&definition.metadata, "std:destructive"),
        idempotent: flag(&definition.metadata, "std:idempotent"),
        open_world: false,
    };
    ListedTool {
        description: description(&definition),
        parameters: parameters(&definition.parameters),
        name: definition.name,
        title: None,
        output: None,
        hints,
    }
}

/// The value of an annotation.
pub(super) fn annotation(metadata: &Metadata, name: &str) -> Option<Cbor> {
    metadata.iter().find(|(other, _)| other == name).and_then(|(_, value)| cbor::read(value))
}

fn flag(metadata: &Metadata, name: &str) -> bool {
    annotation(metadata, name) == Some(Cbor::Bool(true))
}

/// The description with the author's usage hints and examples.
fn description(definition: &Definition) -> String {
    let mut all = shapes::localized_text(&definition.description).trim().to_owned();
    let more = [("std:usage-hints", "When to use it"), ("std:anti-usage-hints", "When not to use it")];
    for (name, heading) in more {
        if let Some(hint) = annotation(&definition.metadata, name).and_then(|value| localized(&value)) {
            // Writing to a `String` cannot fail.
            let _ = write!(all, "\n{heading}: {hint}");
        }
    }
    let examples = annotation(&definition.metadata, "std:examples");
    let examples = examples.as_ref().and_then(Cbor::as_array).map(Vec::as_slice).unwrap_or_default();
    let example = |value: &Cbor| Some(cbor::json(&cbor::read(value.as_bytes()?)?));
    for example in examples.iter().filter_map(example).take(MAX_EXAMPLES) {
        let _ = write!(all, "\nExample: {example}");
    }
    all
}

fn localized(value: &Cbor) -> Option<String> {
    if let Some(text) = value.as_text() {
        return Some(text.to_owned());
    }
    let texts = value.as_map()?.iter().filter_map(|(tag, text)| Some((tag.as_text()?, text.as_text()?)));
    shapes::choose_language(&texts.collect::<Vec<_>>(), None).map(str::to_owned)
}

/// A schema that says nothing of its type is an object's all the same: arguments are nothing else.
fn parameters(schema: &str) -> String {
    match serde_json::from_str(schema) {
        Ok(Value::Object(mut object)) if !object.contains_key("type") => {
            object.insert("type".into(), json!("object"));
            Value::Object(object).to_string()
        }
        _ => schema.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::shapes::Localized;
    use super::*;

    #[test]
    fn what_the_author_says_to_a_model_is_in_the_description() {
        let cbor = |value: Value| cbor::encode(&value);
        let example = Cbor::Array(vec![Cbor::Bytes(cbor(json!({ "id": 1 })))]);
        let mut examples = Vec::new();
        ciborium::into_writer(&example, &mut examples).unwrap();
        let tool = tool(Definition {
            name: "delete".into(),
            description: Localized::In(vec![("de".into(), "Löscht".into()), ("en".into(), "Deletes".into())]),
            parameters: "{\"properties\":{}}".into(),
            metadata: vec![
                ("std:destructive".into(), cbor(json!(true))),
                ("std:idempotent".into(), cbor(json!("yes"))),
                ("std:anti-usage-hints".into(), cbor(json!({ "en": "to deactivate" }))),
                ("std:examples".into(), examples),
                ("acme:other".into(), vec![0xff]),
            ],
        });
        assert_eq!(tool.description, "Deletes\nWhen not to use it: to deactivate\nExample: {\"id\":1}");
        assert_eq!(tool.hints, Hints { destructive: true, ..Hints::default() });
        assert_eq!(tool.parameters, "{\"properties\":{},\"type\":\"object\"}");
    }
}
