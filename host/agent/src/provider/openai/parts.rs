//! The content of user messages: a string, or a list of parts if there are files. Pure.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::provider::files::DOCUMENTS;
use haft_core::call::Attachment;

/// The name of an unnamed document, since the API requires one.
const UNNAMED: &str = "document.pdf";

/// Returns the parts of a message.
pub(super) fn of(text: &str, attachments: &[Attachment]) -> Vec<Value> {
    let text = json!({ "type": "text", "text": text });
    std::iter::once(text).chain(attachments.iter().map(part)).collect()
}

/// Adds a user message. Consecutive user messages are joined: many templates require alternating roles.
pub(super) fn push_user(messages: &mut Vec<Value>, mut parts: Vec<Value>) {
    let last = messages.last_mut().filter(|last| last.get("role") == Some(&"user".into()));
    if let Some(content) = last.and_then(|last| last.get_mut("content")) {
        let mut all = match content.take() {
            Value::Array(all) => all,
            text => vec![json!({ "type": "text", "text": text })],
        };
        all.append(&mut parts);
        *content = all.into();
        return;
    }
    let content = match parts.as_slice() {
        [only] => only.get("text").cloned().unwrap_or_else(|| json!([only])),
        _ => parts.into(),
    };
    messages.push(json!({ "role": "user", "content": content }));
}

/// Returns the part of a file, with its bytes in a data URL.
fn part(attachment: &Attachment) -> Value {
    if DOCUMENTS.contains(&attachment.media_type.as_str()) {
        let file = json!({ "filename": file_name(attachment), "file_data": data_url(attachment) });
        return json!({ "type": "file", "file": file });
    }
    json!({ "type": "image_url", "image_url": { "url": data_url(attachment) } })
}

pub(in super::super) fn file_name(attachment: &Attachment) -> &str {
    attachment.name.as_deref().unwrap_or(UNNAMED)
}

pub(in super::super) fn data_url(attachment: &Attachment) -> String {
    format!("data:{};base64,{}", attachment.media_type, BASE64_STANDARD.encode(&attachment.data))
}
