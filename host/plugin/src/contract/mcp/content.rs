//! The content of a result: text as it is, binary data as attachments, and a line for everything else. A result that says
//! that it is an error is the tool's error.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::message::shown;
use crate::contract::answer::{Output, Piece, Structured};
use haft_core::call::Attachment;
use haft_core::tool::ToolError;

/// The answer in the result of `tools/call`.
pub(super) fn answer(result: &Value) -> Result<Output, ToolError> {
    if let Some(kind) = unfinished(result) {
        let why = format!("it answered with `{kind}`, and a plugin's call ends with its answer");
        return Err(ToolError::ExecutionFailed(why));
    }
    let blocks = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut pieces: Vec<Piece> = blocks.iter().flat_map(block).collect();
    let data = result.get("structuredContent").filter(|data| !data.is_null());
    if let Some(data) = data.filter(|data| !is_shown(&pieces, data)) {
        pieces.push(Piece::Text(data.to_string()));
    }
    if result.get("isError").and_then(Value::as_bool) == Some(true) {
        return Err(ToolError::ExecutionFailed(texts(pieces)));
    }
    let structured = data.filter(|data| data.is_object()).map(|data| Structured::Text(data.to_string()));
    Ok(Output { pieces, structured })
}

/// What the result is where it is no answer yet: a question, or a task.
fn unfinished(result: &Value) -> Option<String> {
    let kind = result.get("resultType").and_then(Value::as_str).filter(|kind| *kind != "complete");
    kind.map(shown)
}

/// Whether a text says the same as the data.
fn is_shown(pieces: &[Piece], data: &Value) -> bool {
    pieces.iter().any(|piece| match piece {
        Piece::Text(text) => serde_json::from_str::<Value>(text).is_ok_and(|shown| shown == *data),
        Piece::Binary(_) => false,
    })
}

fn texts(pieces: Vec<Piece>) -> String {
    let texts = pieces.into_iter().map(|piece| match piece {
        Piece::Text(text) => text,
        Piece::Binary(attachment) => attachment.mention(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn block(block: &Value) -> Vec<Piece> {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    match text("type") {
        Some("text") => vec![Piece::Text(text("text").unwrap_or_default().to_owned())],
        Some("image" | "audio") => vec![binary(block, "data")],
        Some("resource_link") => vec![Piece::Text(named(block))],
        Some("resource") => resource(block.get("resource").unwrap_or(&Value::Null)),
        kind => {
            let kind = shown(kind.unwrap_or("unknown"));
            vec![Piece::Text(format!("[content of type `{kind}`, which haft does not know]"))]
        }
    }
}

/// A resource within the answer.
fn resource(resource: &Value) -> Vec<Piece> {
    let name = Piece::Text(named(resource));
    match resource.get("text").and_then(Value::as_str) {
        Some(text) => vec![name, Piece::Text(text.to_owned())],
        None if resource.get("blob").is_some() => vec![name, binary(resource, "blob")],
        None => vec![name],
    }
}

fn binary(block: &Value, key: &str) -> Piece {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    let media_type = shown(text("mimeType").unwrap_or("application/octet-stream"));
    match BASE64_STANDARD.decode(text(key).unwrap_or_default()) {
        Ok(data) => Piece::Binary(Attachment::new(media_type, data)),
        Err(_) => Piece::Text(format!("[{media_type}: left out, since it is not valid base64]")),
    }
}

/// The line for a resource.
fn named(resource: &Value) -> String {
    let text = |key: &str| resource.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = text("title").or(text("name")).map(|name| format!("{name} ")).unwrap_or_default();
    let uri = text("uri").unwrap_or("without a URI");
    let rest = [text("mimeType"), text("description")].into_iter().flatten();
    shown(&format!(
        "[resource {}]",
        rest.fold(format!("{name}<{uri}>"), |line, more| format!("{line}, {more}"))
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_content_is_told() {
        let result = json!({ "content": [
            { "type": "text", "text": "one" },
            { "type": "image", "mimeType": "image/png", "data": "AP8=" },
            { "type": "audio", "mimeType": "audio/wav", "data": "!" },
            { "type": "resource_link", "uri": "file:///a", "name": "a" },
            { "type": "resource", "resource": { "uri": "x:1", "text": "inside" } },
            { "type": "hologram" },
        ], "structuredContent": { "a": 1 } });
        let output = answer(&result).unwrap_or_else(|error| panic!("{error}"));
        assert!(matches!(&output.structured, Some(Structured::Text(text)) if text == r#"{"a":1}"#));
        assert_eq!(
            texts(output.pieces),
            "one\n[image/png, 2 bytes]\n[audio/wav: left out, since it is not valid base64]\n\
             [resource a <file:///a>]\n[resource <x:1>]\ninside\n\
             [content of type `hologram`, which haft does not know]\n{\"a\":1}"
        );
    }

    #[test]
    fn an_error_is_the_tool_s_and_data_is_shown_once() {
        let failed = json!({ "isError": true, "content": [{ "type": "text", "text": "it broke" }] });
        assert_eq!(answer(&failed).err(), Some(ToolError::ExecutionFailed("it broke".into())));
        let twice = json!({ "content": [{ "type": "text", "text": "{ \"a\": 1 }" }], "structuredContent": { "a": 1 } });
        assert_eq!(answer(&twice).ok().map(|output| output.pieces.len()), Some(1));
        let asks = json!({ "resultType": "input_required", "inputRequests": {} });
        assert!(answer(&asks).err().is_some_and(|error| error.to_string().contains("input_required")));
    }
}
