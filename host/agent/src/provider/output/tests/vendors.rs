//! Tests that each vendor gets the schema of an answer in its published parameter.

use serde_json::{Value, json};

use crate::provider::OutputSchema;
use crate::provider::dialect::{Dialect, Terms};
use crate::provider::{Ask, Message, anthropic, gemini, ollama, openai, openrouter, responses};
use haft_core::call::ToolDef;

const CHAT: openai::OpenAi = openai::OpenAi { vendor: openai::NAME };

fn body(dialect: &dyn Dialect, model: &str, is_vendor: bool, schema: &Value, tools: &[&ToolDef]) -> Value {
    let output = OutputSchema::new(schema).unwrap();
    let messages = [Message::User("hi".into())];
    let ask = Ask { model, messages: &messages, tools, output: Some(&output), ..Ask::default() };
    dialect.request(&ask, &Terms { is_vendor, ..Terms::default() }).into()
}

fn strict() -> Value {
    json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false })
}

/// Each vendor's published parameter, together with tools if the model supports both.
#[test]
fn every_vendor_is_told_the_form_in_its_own_parameter() {
    let tool = ToolDef { name: "t".into(), parameters: json!({ "type": "object" }), ..ToolDef::default() };
    let rows: [(&dyn Dialect, &str, bool, &str, bool); 13] = [
        (&responses::Responses, "gpt-5", true, "/text/format/schema", true),
        (&responses::Responses, "local", false, "/text/format/schema", false),
        (&CHAT, "gpt-5", true, "/response_format/json_schema/schema", true),
        (&CHAT, "local", false, "/response_format/json_schema/schema", false),
        (&openrouter::OpenRouter, "openai/gpt-5", true, "/response_format/json_schema/schema", true),
        (&openrouter::OpenRouter, "qwen/qwen3", true, "/response_format/json_schema/schema", false),
        (&anthropic::Anthropic, "claude-sonnet-4-5", true, "/output_config/format/schema", true),
        (&anthropic::Anthropic, "claude-opus-5", true, "/output_config/format/schema", true),
        (&gemini::Gemini, "gemini-flash-latest", true, "/generationConfig/responseJsonSchema", true),
        (&gemini::Gemini, "gemini-3-pro-preview", true, "/generationConfig/responseJsonSchema", true),
        (&gemini::Gemini, "gemini-2.5-flash", true, "/generationConfig/responseJsonSchema", false),
        (&ollama::Ollama, "qwen3", true, "/format", false),
        (&ollama::Ollama, "qwen3", false, "/format", false),
    ];
    for (dialect, model, is_vendor, place, beside_tools) in rows {
        let alone = body(dialect, model, is_vendor, &strict(), &[]);
        assert_eq!(alone.pointer(place), Some(&strict()), "{model}: {alone}");
        let both = body(dialect, model, is_vendor, &strict(), &[&tool]);
        assert_eq!(both.pointer(place).is_some(), beside_tools, "{model}: {both}");
    }
    for model in ["claude-3-7-sonnet-latest", "claude-sonnet-4-20250514", "local"] {
        let none = body(&anthropic::Anthropic, model, true, &strict(), &[]);
        assert_eq!(none.get("output_config"), None, "{model}");
    }
}

#[test]
fn strict_is_asked_for_where_the_schema_qualifies() {
    let loose = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    for (schema, expected) in [(strict(), true), (loose, false), (json!({ "type": "boolean" }), true)] {
        let chat = body(&CHAT, "gpt-5", true, &schema, &[]);
        assert_eq!(chat["response_format"]["type"], "json_schema");
        assert_eq!(chat["response_format"]["json_schema"]["strict"], expected, "{schema}");
        assert_eq!(chat["response_format"]["json_schema"]["schema"]["type"], "object");
        let format = &body(&responses::Responses, "gpt-5", true, &schema, &[])["text"]["format"];
        assert_eq!((&format["type"], &format["name"]), (&json!("json_schema"), &json!("answer")));
        assert_eq!(format["strict"], expected, "{schema}");
    }
}

/// Local servers convert any schema to a grammar, except for patterns without one.
#[test]
fn a_server_of_ones_own_gets_the_schema_as_it_is() {
    let list = json!({ "type": "array", "items": { "type": "string", "pattern": "^a+$" }, "minItems": 2 });
    let sent = body(&CHAT, "local", false, &list, &[]);
    assert_eq!(sent["response_format"]["json_schema"]["schema"], list);
    assert_eq!(body(&ollama::Ollama, "local", false, &list, &[])["format"], list);
    let open = json!({ "type": "string", "pattern": "a" });
    let sent = body(&CHAT, "local", false, &open, &[]);
    assert_eq!(sent["response_format"]["json_schema"]["schema"], json!({ "type": "string" }));
}

#[test]
fn the_form_stands_beside_what_else_the_same_key_says() {
    let output = OutputSchema::new(&strict()).unwrap();
    let messages = [Message::User("hi".into())];
    let ask = Ask { model: "claude-opus-4-7", messages: &messages, output: Some(&output), ..Ask::default() };
    let terms =
        Terms { effort: Some(haft_core::model::Effort::Low), max_tokens: Some(9), ..Terms::default() };
    let config = Value::from(anthropic::Anthropic.request(&ask, &terms))["output_config"].clone();
    assert_eq!(config, json!({ "effort": "low", "format": { "type": "json_schema", "schema": strict() } }));
    let ask = Ask { model: "gemini-3-pro", ..ask };
    let config = Value::from(gemini::Gemini.request(&ask, &terms))["generationConfig"].clone();
    assert_eq!(
        (&config["maxOutputTokens"], &config["responseMimeType"]),
        (&json!(9), &json!("application/json"))
    );
}

/// A schema that Anthropic does not support is given in the prompt alone; a supported part is sent.
#[test]
fn anthropic_is_told_what_it_can_say() {
    let bounded = json!({ "type": "object", "properties": { "n": { "type": "integer", "minimum": 1 } }, "required": ["n"] });
    let sent = body(&anthropic::Anthropic, "claude-opus-5", true, &bounded, &[]);
    assert_eq!(sent["output_config"]["format"]["schema"], strict());
    let map = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
    let more =
        json!({ "type": "object", "properties": { "more": { "type": "string" } }, "required": ["more"] });
    let sum = json!({ "allOf": [bounded, more] });
    let mut beside = bounded.clone();
    beside["allOf"] = json!([more]);
    let inner = json!({ "type": "object", "properties": { "one": sum }, "required": ["one"] });
    for unsayable in [&map, &sum, &beside, &inner] {
        let sent = body(&anthropic::Anthropic, "claude-opus-5", true, unsayable, &[]);
        assert_eq!(sent.get("output_config"), None, "{unsayable}");
    }
    let single =
        json!({ "type": "object", "properties": { "one": { "allOf": [bounded] } }, "required": ["one"] });
    let sent = body(&anthropic::Anthropic, "claude-opus-5", true, &single, &[]);
    assert_eq!(sent.pointer("/output_config/format/schema/properties/one/allOf/0"), Some(&strict()));
}
