//! The unmodified answer of an MCP server (specification 2025-11-25 and 2026-07-28): a result with its content
//! blocks, or an error with its code. Neither converts the answer to text nor sends it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Attachment;

/// The answer of an MCP server to the request that a call became.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpAnswer {
    /// The result. Base64 (`data` of images and audio, `blob` of resources) is replaced by the index of the
    /// attachment that has the bytes, so that each is stored once.
    Result(Value),
    /// An error of JSON-RPC 2.0.
    Error {
        /// The code; some have a special meaning, such as -32042 (a URL has to be visited first).
        code: i32,
        /// The server's message.
        message: String,
        /// Additional data of the error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
}

impl McpAnswer {
    /// Returns the content blocks and resource contents in a result: `content`, `contents`, and those of `messages`.
    pub fn blocks(result: &mut Value) -> Vec<&mut Map<String, Value>> {
        let mut found = Vec::new();
        for (key, value) in result.as_object_mut().into_iter().flatten() {
            match (key.as_str(), value) {
                ("content" | "contents", Value::Array(items)) => found.extend(items),
                ("messages", Value::Array(messages)) => {
                    for content in messages.iter_mut().filter_map(|message| message.get_mut("content")) {
                        match content {
                            Value::Array(items) => found.extend(items),
                            one => found.push(one),
                        }
                    }
                }
                _ => {}
            }
        }
        found.into_iter().filter_map(Value::as_object_mut).collect()
    }

    /// Calls `visit` with the media type and the place of each binary value in a result.
    pub fn each_binary(result: &mut Value, mut visit: impl FnMut(Option<&str>, &mut Value)) {
        for block in Self::blocks(result) {
            let kind = block.get("type").and_then(Value::as_str).map(str::to_owned);
            let (fields, key) = match kind.as_deref() {
                Some("image" | "audio") => (block, "data"),
                Some("resource") => match block.get_mut("resource").and_then(Value::as_object_mut) {
                    Some(resource) => (resource, "blob"),
                    None => continue,
                },
                Some(_) => continue,
                None => (block, "blob"),
            };
            let media_type = fields.get("mimeType").and_then(Value::as_str).map(str::to_owned);
            if let Some(place) = fields.get_mut(key) {
                visit(media_type.as_deref(), place);
            }
        }
    }

    /// Returns the result with the bytes of `attachments` where their indexes stand.
    pub fn with_data(mut result: Value, attachments: &[Attachment]) -> Value {
        Self::each_binary(&mut result, |_, place| {
            let index = place.as_u64().and_then(|index| usize::try_from(index).ok());
            if let Some(attachment) = index.and_then(|index| attachments.get(index)) {
                *place = BASE64_STANDARD.encode(&attachment.data).into();
            }
        });
        result
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_binary_value_is_found_and_no_other_one() {
        let mut result = json!({
            "content": [
                { "type": "text", "text": "a", "data": "x" },
                { "type": "image", "data": "AA==", "mimeType": "image/png" },
                { "type": "resource", "resource": { "uri": "a:b", "blob": "AQ==" } },
                { "type": "resource", "resource": { "uri": "a:b", "text": "t" } },
                7,
            ],
            "contents": [{ "uri": "a:c", "blob": "Ag==" }],
            "messages": [
                { "role": "user", "content": { "type": "audio", "data": "Aw==", "mimeType": "audio/wav" } },
                { "role": "user", "content": [{ "type": "image", "data": "BA==" }] },
            ],
            "structuredContent": { "data": "BQ==", "blob": 1 },
        });
        let whole = result.clone();
        let mut attachments = Vec::new();
        McpAnswer::each_binary(&mut result, |media_type, place| {
            let data = BASE64_STANDARD.decode(place.as_str().unwrap()).unwrap();
            *place = attachments.len().into();
            attachments.push(Attachment::new(media_type.unwrap_or_default(), data));
        });
        let found: Vec<u8> = attachments.iter().map(|file| file.data[0]).collect();
        assert_eq!(found, [0, 1, 2, 3, 4]);
        assert_ne!(result, whole);
        assert_eq!(McpAnswer::with_data(result, &attachments), whole);
    }
}
