//! The WIT documentation of authors, as models read it.

use std::fs;

use haft::call::Hints;
use haft::plugin::{Plugin, Source, WIT_SECTION};
use serde_json::{Value, json};

use super::made::{package, with_section};
use super::{load, types, wit};
use crate::common::hostile;

fn parameters<'a>(plugin: &'a Plugin, tool: &str) -> &'a Value {
    &plugin.tools().iter().find(|other| other.name == tool).unwrap().parameters
}

fn description<'a>(plugin: &'a Plugin, tool: &str) -> &'a str {
    &plugin.tools().iter().find(|other| other.name == tool).unwrap().description
}

fn report(plugin: &Plugin) {
    assert_eq!(description(plugin, "find"), "Finds a word in a text.");
    assert_eq!(description(plugin, "double"), "Doubles a number.");
    assert_eq!(description(plugin, "greet"), "Says good day.");
    assert_eq!(description(plugin, "values__area"), "The function `area` of `test:types/values@1.2.0`.");
    assert_eq!(
        *parameters(plugin, "find"),
        json!({
            "type": "object",
            "properties": {
                "text": { "type": "string", "description": "where to look" },
                "word": { "type": "string", "description": "what to look for" },
                "options": {
                    "type": "array",
                    "items": {
                        "type": "string",
                        "enum": ["ignore-case", "whole-words", "backwards"],
                        "description": "- ignore-case: Letters of both cases are the same.\n- whole-words: Whole words only.",
                    },
                    "uniqueItems": true,
                    "description": "What to look at.",
                },
                "limit": {
                    "type": ["integer", "null"],
                    "minimum": 0,
                    "maximum": 4_294_967_295_u32,
                    "description": "stop after so many",
                },
            },
            "additionalProperties": false,
            "required": ["text", "word", "options"],
        })
    );
    let shape = &parameters(plugin, "values__area")["properties"]["shape"];
    assert_eq!(shape["description"], "A shape.");
    assert_eq!(shape["anyOf"][1]["description"], "By its radius.");
    let point = &shape["anyOf"][2]["properties"]["val"]["items"]["properties"];
    assert_eq!(point["x"]["description"], "To the right.");
}

/// WA01: the descriptions for models come from the WIT section that packing adds.
#[tokio::test]
async fn words_come_from_the_component() {
    let component = fs::read(types()).unwrap();
    let packed = with_section(&component, WIT_SECTION, &package(&wit()));
    report(&load(Source::Embedded(packed.leak())).await.unwrap());
    // An unreadable section does not prevent the use of the functions.
    for broken in [&b"no WIT"[..], &fs::read(hostile()).unwrap()] {
        let broken = with_section(&component, WIT_SECTION, broken);
        let plugin = load(Source::Embedded(broken.leak())).await.unwrap();
        assert_eq!(description(&plugin, "find"), "The function `find` of `test:types/values@1.2.0`.");
    }
}

/// WA01: annotations in the comments set a function's title and hints, and are not part of its description.
#[tokio::test]
async fn annotations_come_from_the_same_comments() {
    let annotated = wit().replace(
        "/// Finds a word in a text.",
        "/// Finds a word in a text.\n/// @title Find a word\n/// @read-only @idempotent",
    );
    assert_ne!(annotated, wit());
    let packed = with_section(&fs::read(types()).unwrap(), WIT_SECTION, &package(&annotated));
    let plugin = load(Source::Embedded(packed.leak())).await.unwrap();
    report(&plugin);
    let tool = |name: &str| plugin.tools().iter().find(|tool| tool.name == name).unwrap();
    assert_eq!(tool("find").title.as_deref(), Some("Find a word"));
    let hints = Hints { read_only: true, idempotent: true, ..Hints::default() };
    assert_eq!((tool("find").hints, tool("double").hints), (hints, Hints::default()));
}

/// WA01: the descriptions also come from a WIT file beside the component, and haft reads a changed file again.
#[tokio::test]
async fn words_come_from_beside_the_component() {
    let directory = tempfile::tempdir().unwrap();
    let (component, words) = (directory.path().join("types.wasm"), directory.path().join("types.wit"));
    fs::copy(types(), &component).unwrap();
    let source = Source::File(component);
    let bare = load(source.clone()).await.unwrap();
    assert_eq!(description(&bare, "greet"), "The function `greet`.");
    fs::write(&words, wit()).unwrap();
    report(&load(source.clone()).await.unwrap());
    // A file of another version, with packages that are missing here.
    let other = wit()
        .replace("@1.2.0", "@1.9.0")
        .replace("world types {", "world types {\n import wasi:io/poll@0.2.0;\n");
    fs::write(&words, other.replace("Says good day.", "Greets.")).unwrap();
    let changed = load(source.clone()).await.unwrap();
    assert_eq!(description(&changed, "greet"), "Greets.");
    assert_eq!(description(&changed, "double"), "Doubles a number.");
    fs::write(&words, "no WIT").unwrap();
    assert_eq!(description(&load(source).await.unwrap(), "greet"), "The function `greet`.");
}
