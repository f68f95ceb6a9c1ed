//! The format of Gemini's `generateContent`, as strict as its newest models.

use serde_json::{Map, Value, json};

use super::format::{Check, echoed, ensure, event, known, list, name, object, properties_are_named, text};
use super::openai::words;
use super::server::{Request, Said, Vendor, Written};

pub(super) struct Gemini;

const KEYS: &[&str] = &[
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "cachedContent",
];
/// Keywords of the vendor's `Schema`.
const SCHEMA: &[&str] = &[
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "items",
    "minimum",
    "maximum",
];
const TYPES: &[&str] = &["string", "number", "integer", "boolean", "array", "object"];

impl Vendor for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn base_path(&self) -> &'static str {
        "/v1beta"
    }

    fn models(&self) -> &'static str {
        "/v1beta/models"
    }

    /// PL15: a request has the role `model`, `functionResponse` parts and a permitted configuration.
    fn check(&self, request: &Request<'_>) -> Result<bool, String> {
        let path = request.target.strip_prefix("POST /v1beta/models/").ok_or(request.target)?;
        let streams = match path.split_once(':') {
            Some((_, "generateContent")) => false,
            Some((_, "streamGenerateContent?alt=sse")) => true,
            _ => return Err(request.target.to_owned()),
        };
        let body = object(request.body, "the body")?;
        known(body, KEYS, "the body")?;
        if let Some(system) = body.get("systemInstruction") {
            known(object(system, "`systemInstruction`")?, &["parts"], "`systemInstruction`")?;
            list(system.get("parts"), "its parts")?
                .iter()
                .try_for_each(|part| text(object(part, "")?, "text").map(drop))?;
        }
        if let Some(tools) = body.get("tools") {
            for tool in list(Some(tools), "`tools`")? {
                list(tool.get("functionDeclarations"), "`functionDeclarations`")?
                    .iter()
                    .try_for_each(check_declaration)?;
            }
        }
        if let Some(config) = body.get("generationConfig") {
            let config = object(config, "`generationConfig`")?;
            known(
                config,
                &[
                    "maxOutputTokens",
                    "temperature",
                    "thinkingConfig",
                    "responseMimeType",
                    "responseJsonSchema",
                ],
                "`generationConfig`",
            )?;
            let is_json = config.get("responseMimeType") == Some(&"application/json".into());
            ensure(is_json == config.contains_key("responseJsonSchema"), "a schema and its media type")?;
            properties_are_named(config.get("responseJsonSchema").unwrap_or(&Value::Null))?;
        }
        let contents = list(body.get("contents"), "`contents`")?;
        check_contents(contents)?;
        echoed(
            &contents.iter().filter(|content| content["role"] == "model").collect::<Vec<_>>(),
            request.answers,
            request.moved,
        )?;
        Ok(streams)
    }

    fn write(&self, said: &Said, stream: bool) -> Written {
        let mut parts = Vec::new();
        if !said.thought.is_empty() {
            parts.push(json!({ "text": said.thought, "thought": true }));
        }
        if !said.text.is_empty() {
            parts.push(json!({ "text": said.text }));
        }
        // The first call of a step has a signature; only every second call has an id, because some models give none.
        for (index, (id, tool, arguments)) in said.calls.iter().enumerate() {
            let mut call = json!({ "name": tool, "args": arguments });
            if index % 2 == 1 {
                call["id"] = (*id).into();
            }
            let mut part = json!({ "functionCall": call });
            if index == 0 {
                part["thoughtSignature"] = "c2ln".into();
            }
            parts.push(part);
        }
        let message = json!({ "role": "model", "parts": parts });
        let usage = json!({ "promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 2,
            "cachedContentTokenCount": 4, "totalTokenCount": 15 });
        if stream {
            return Written { media_type: "text/event-stream", frames: chunks(&parts, &usage), message };
        }
        let candidate =
            json!({ "content": message, "finishReason": "STOP", "index": 0, "safetyRatings": [] });
        let body = json!({ "candidates": [candidate], "usageMetadata": usage, "modelVersion": "fake-model-1", "responseId": "r" });
        Written { media_type: "application/json; charset=UTF-8", frames: vec![body.to_string()], message }
    }

    fn error(&self, status: u16, message: &str) -> Value {
        let word = if status == 429 { "RESOURCE_EXHAUSTED" } else { "INVALID_ARGUMENT" };
        json!({ "error": { "code": status, "message": message, "status": word } })
    }

    fn empty(&self) -> Value {
        json!({ "usageMetadata": {}, "modelVersion": "m" })
    }

    fn error_frame(&self, message: &str) -> String {
        event(&self.error(503, message))
    }

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("x-goog-api-key", key.to_owned())
    }
}

fn check_declaration(declaration: &Value) -> Check {
    let declaration = object(declaration, "a declaration")?;
    known(declaration, &["name", "description", "parameters", "parametersJsonSchema"], "a declaration")?;
    name(declaration, "name")?;
    let both = declaration.contains_key("parameters") && declaration.contains_key("parametersJsonSchema");
    ensure(!both, "two schemas in one declaration")?;
    let schema = declaration.get("parameters").or_else(|| declaration.get("parametersJsonSchema"));
    schema.map_or(Ok(()), properties_are_named)?;
    declaration.get("parameters").map_or(Ok(()), check_schema)
}

/// PL16: a schema has only the keywords of the vendor.
fn check_schema(schema: &Value) -> Check {
    let schema = object(schema, "a schema")?;
    known(schema, SCHEMA, "a schema")?;
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    ensure(
        TYPES.contains(&kind) || schema.contains_key("anyOf"),
        format!("a schema of type {:?}", schema.get("type")),
    )?;
    let properties = schema.get("properties").and_then(Value::as_object);
    ensure(
        kind != "object" || properties.is_some_and(|all| !all.is_empty()),
        "an object without properties",
    )?;
    ensure(kind != "array" || schema.contains_key("items"), "an array without items")?;
    let texts = schema.get("enum").and_then(Value::as_array).into_iter().flatten().all(Value::is_string);
    ensure(texts && (kind == "string" || !schema.contains_key("enum")), "an enumeration of something else")?;
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required {
        let is_there = properties.is_some_and(|all| all.contains_key(name.as_str().unwrap_or_default()));
        ensure(is_there, format!("`required` names {name}, which is not a property"))?;
    }
    let parts = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let inner = properties.into_iter().flat_map(Map::values).chain(schema.get("items")).chain(parts);
    inner.into_iter().try_for_each(check_schema)
}

fn check_contents(contents: &[Value]) -> Check {
    // The calls of the model's last content without answers yet: name and id.
    let mut open: Vec<(String, Option<String>)> = Vec::new();
    for content in contents {
        let content = object(content, "a content")?;
        known(content, &["role", "parts"], "a content")?;
        let role = text(content, "role")?;
        let parts = list(content.get("parts"), "`parts`")?;
        parts.iter().try_for_each(|part| check_part(part, role))?;
        let named = |key: &str| -> Vec<(String, Option<String>)> {
            let all = parts.iter().filter_map(|part| part.get(key));
            all.map(|part| {
                (part["name"].as_str().unwrap_or_default().to_owned(), part["id"].as_str().map(str::to_owned))
            })
            .collect()
        };
        let answers = named("functionResponse");
        ensure(answers == open, format!("calls {open:?} are answered by {answers:?}"))?;
        open = named("functionCall");
        let first = parts.iter().find(|part| part.get("functionCall").is_some());
        ensure(
            first.is_none_or(|part| part["thoughtSignature"].is_string()),
            "Function call is missing a thought_signature",
        )?;
    }
    ensure(contents.last().is_some_and(|last| last["role"] == "user"), "the last content is not the user's")
}

fn check_part(part: &Value, role: &str) -> Check {
    let part = object(part, "a part")?;
    let (data, keys): (&[&str], &[&str]) = match role {
        "user" => (&["text", "functionResponse", "inlineData"], &["text", "functionResponse", "inlineData"]),
        "model" => (&["text", "functionCall"], &["text", "functionCall", "thought", "thoughtSignature"]),
        other => return Err(format!("unknown role `{other}`")),
    };
    known(part, keys, "a part")?;
    ensure(
        data.iter().filter(|key| part.contains_key(**key)).count() == 1,
        "a part with none or several kinds of data",
    )?;
    let is_blank = part.get("text").is_some_and(|text| text == "") && !part.contains_key("thoughtSignature");
    ensure(!is_blank, "a text part without text")?;
    if let Some(answer) = part.get("functionResponse") {
        let answer = object(answer, "`functionResponse`")?;
        known(answer, &["id", "name", "response", "parts"], "`functionResponse`")?;
        for part in answer.get("parts").and_then(Value::as_array).into_iter().flatten() {
            known(object(part, "a part of an answer")?, &["inlineData"], "a part of an answer")?;
        }
        name(answer, "name")?;
        object(answer.get("response").unwrap_or(&Value::Null), "`response`")?;
    }
    Ok(())
}

/// A chunk for each piece of a text; a call is one chunk.
fn chunks(parts: &[Value], usage: &Value) -> Vec<String> {
    let chunk = |part: Value| {
        let candidate = json!({ "content": { "role": "model", "parts": [part] }, "index": 0 });
        event(
            &json!({ "candidates": [candidate], "usageMetadata": { "promptTokenCount": 10 }, "modelVersion": "fake-model-1" }),
        )
    };
    let mut frames = Vec::new();
    for part in parts {
        match part.get("text").and_then(Value::as_str) {
            Some(text) => frames.extend(words(text).map(|word| {
                let mut piece = part.clone();
                piece["text"] = word.into();
                chunk(piece)
            })),
            None => frames.push(chunk(part.clone())),
        }
    }
    let last = json!({ "content": { "role": "model" }, "finishReason": "STOP", "index": 0 });
    frames.push(event(
        &json!({ "candidates": [last], "usageMetadata": usage, "modelVersion": "fake-model-1" }),
    ));
    frames
}
