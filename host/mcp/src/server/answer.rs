//! Converts a tool result to MCP content blocks: text, images, audio and files in the tool's order, and structured data
//! where the client knows its schema.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use haft_core::call::{Attachment, ToolResult};

/// The MCP result of a tool's. `has_schema`: the tool was listed with an output schema.
pub(super) fn call_result(result: ToolResult, has_schema: bool) -> CallToolResult {
    let ToolResult { content, is_error, attachments, structured } = result;
    let is_missing = has_schema && structured.is_none() && !is_error;
    let has_text = !content.is_empty();
    let mut blocks = blocks(content, attachments);
    if is_missing {
        // Clients refuse such an answer unless it is an error; the model should see it all the same.
        blocks.push(ContentBlock::text("(the tool gave no data, although its definition promises some)"));
    }
    if blocks.is_empty() || (!has_text && structured.is_some()) {
        let text = structured.as_ref().map(ToString::to_string).unwrap_or_default();
        blocks.push(ContentBlock::text(text));
    }
    let mut answer = CallToolResult::success(blocks);
    answer.is_error = Some(is_error || is_missing);
    // Before 2026-07-28 data is an object.
    answer.structured_content = structured.filter(serde_json::Value::is_object);
    answer
}

/// The text with the attachments where it mentions them, or after it.
fn blocks(content: String, attachments: Vec<Attachment>) -> Vec<ContentBlock> {
    let (mut blocks, mut unmentioned) = (Vec::new(), Vec::new());
    if attachments.is_empty() {
        // Not copied: it may have many megabytes.
        blocks.extend((!content.is_empty()).then(|| ContentBlock::text(content)));
        return blocks;
    }
    let mut rest = content.as_str();
    for (index, attachment) in attachments.into_iter().enumerate() {
        if let Some((before, after)) = split_at_line(rest, &attachment.mention()) {
            push_text(&mut blocks, before);
            blocks.push(block(attachment, index));
            rest = after;
        } else {
            unmentioned.push(block(attachment, index));
        }
    }
    push_text(&mut blocks, rest);
    blocks.append(&mut unmentioned);
    blocks
}

fn push_text(blocks: &mut Vec<ContentBlock>, text: &str) {
    if !text.is_empty() {
        blocks.push(ContentBlock::text(text));
    }
}

/// What stands before and after the first line that is `line`.
fn split_at_line<'t>(text: &'t str, line: &str) -> Option<(&'t str, &'t str)> {
    let mut at = 0;
    for piece in text.split_inclusive('\n') {
        let end = at + piece.len();
        if piece.strip_suffix('\n').unwrap_or(piece) == line {
            let before = text.get(..at)?;
            return Some((before.strip_suffix('\n').unwrap_or(before), text.get(end..)?));
        }
        at = end;
    }
    None
}

pub(super) fn block(attachment: Attachment, index: usize) -> ContentBlock {
    let encoded = BASE64_STANDARD.encode(&attachment.data);
    match attachment.media_type.split_once('/').map(|(kind, _)| kind) {
        Some("image") => ContentBlock::image(encoded, attachment.media_type),
        Some("audio") => ContentBlock::audio(encoded, attachment.media_type),
        _ => ContentBlock::resource(resource(&attachment, encoded, index)),
    }
}

/// A file as an embedded resource. The protocol requires a URI; this one cannot be fetched.
fn resource(attachment: &Attachment, encoded: String, index: usize) -> ResourceContents {
    let uri = format!("attachment:{}", index + 1);
    let contents = match attachment.text() {
        Some(text) => ResourceContents::text(text, uri),
        None => ResourceContents::blob(encoded, uri),
    };
    contents.with_mime_type(&attachment.media_type)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn attachment(media_type: &str, data: &[u8]) -> Attachment {
        Attachment::new(media_type, data.to_vec())
    }

    fn converted(result: ToolResult, has_schema: bool) -> Value {
        let mut answer = serde_json::to_value(call_result(result, has_schema)).unwrap();
        answer.as_object_mut().unwrap().remove("resultType");
        answer
    }

    /// MC03, from the other side: every kind of content arrives as what it is.
    #[test]
    fn mc03_attachments_stand_where_the_text_mentions_them() {
        let attachments = vec![attachment("image/png", b"ab"), attachment("audio/wav", b"c")];
        let content = "before\n[image/png, 2 bytes]\nbetween\nlines\n[audio/wav, 1 bytes]".to_owned();
        let answer = converted(ToolResult { content, attachments, ..ToolResult::default() }, false);
        assert_eq!(
            answer["content"],
            json!([
                {"type": "text", "text": "before"},
                {"type": "image", "data": "YWI=", "mimeType": "image/png"},
                {"type": "text", "text": "between\nlines"},
                {"type": "audio", "data": "Yw==", "mimeType": "audio/wav"},
            ])
        );
    }

    #[test]
    fn mc03_files_are_resources() {
        let attachments = vec![attachment("text/csv", b"a,b"), attachment("application/pdf", b"%PDF")];
        let answer = converted(
            ToolResult { content: "two files".into(), attachments, ..ToolResult::default() },
            false,
        );
        assert_eq!(
            answer["content"],
            json!([
                {"type": "text", "text": "two files"},
                {"type": "resource", "resource": {"uri": "attachment:1", "mimeType": "text/csv", "text": "a,b"}},
                {"type": "resource", "resource": {"uri": "attachment:2", "mimeType": "application/pdf", "blob": "JVBERg=="}},
            ])
        );
    }

    #[test]
    fn data_is_told_as_text_too_where_there_is_no_other() {
        let structured = Some(json!({"a": 1}));
        let answer = converted(ToolResult { structured, ..ToolResult::default() }, true);
        assert_eq!(answer["structuredContent"], json!({"a": 1}));
        assert_eq!(answer["content"], json!([{"type": "text", "text": "{\"a\":1}"}]));
        assert_eq!(answer["isError"], json!(false));
    }

    /// Clients throw an answer away that lacks the data they were promised.
    #[test]
    fn data_that_was_promised_and_is_missing_is_an_error_that_can_be_read() {
        let answer = converted(ToolResult::success("text"), true);
        assert_eq!(answer["isError"], json!(true));
        assert_eq!(answer["content"][0]["text"], "text");
        assert_eq!(converted(ToolResult::error("no"), true)["content"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn an_empty_answer_has_a_block() {
        assert_eq!(converted(ToolResult::default(), false)["content"], json!([{"type": "text", "text": ""}]));
    }
}
