//! Parts of answers.

use super::bindings::act::core::types::LocalizedString;
use super::bindings::exports::act::tools::tool_provider::{ContentPart, Error, ToolEvent, ToolResult};
use super::bindings::wit_stream;

pub(crate) fn text(text: &str) -> ToolEvent {
    part(text.as_bytes(), Some("text/plain"))
}

fn part(data: &[u8], mime_type: Option<&str>) -> ToolEvent {
    let mime_type = mime_type.map(str::to_owned);
    ToolEvent::Content(ContentPart { data: data.to_vec(), mime_type, metadata: Vec::new() })
}

pub(crate) fn error(kind: &str, message: &str) -> ToolEvent {
    let message = LocalizedString::Plain(message.to_owned());
    ToolEvent::Error(Error { kind: kind.to_owned(), message, metadata: Vec::new() })
}

/// Text, data in CBOR, a picture.
pub(crate) fn mixed() -> Vec<ToolEvent> {
    vec![
        part("# Täxt".as_bytes(), Some("text/markdown")),
        part(b"\xa2aa\x01ab\x82\xf5\xf6", Some("application/cbor")),
        part(b"\x89PNG\r\n\x1a\n", Some("image/png")),
    ]
}

/// Numbers as text, each with its progress.
pub(crate) fn numbers(count: u8) -> Vec<ToolEvent> {
    let progress = |number: u8| ("std:progress".to_owned(), vec![number]);
    let total = ("std:progress-total".to_owned(), vec![count]);
    let number = |number: u8| {
        let metadata = vec![progress(number), total.clone()];
        let data = number.to_string().into_bytes();
        ToolEvent::Content(ContentPart { data, mime_type: Some("text/plain".to_owned()), metadata })
    };
    (1..=count).map(number).collect()
}

/// An answer that comes piece by piece.
pub(crate) fn streamed(events: Vec<ToolEvent>) -> ToolResult {
    let (mut writer, reader) = wit_stream::new();
    wit_bindgen::spawn_local(async move {
        for event in events {
            if writer.write_one(event).await.is_some() {
                return;
            }
        }
    });
    ToolResult::Streaming(reader)
}

/// An answer that never ends.
pub(crate) fn flood() -> ToolResult {
    let (mut writer, reader) = wit_stream::new();
    wit_bindgen::spawn_local(
        async move { while writer.write_one(text(&"x".repeat(10_000))).await.is_none() {} },
    );
    ToolResult::Streaming(reader)
}
