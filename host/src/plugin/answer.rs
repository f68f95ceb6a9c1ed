//! A guest's answer as haft's: within the limit, and what the tool said it would be. Changes
//! nothing of what the guest said.

use serde_json::Value;

use super::bindings::exports::haft::plugin::tools;
use super::failure::End;
use super::state::bytes;
use crate::call::{Attachment, ToolResult};
use crate::limit::Limits;
use crate::tool::Schema;

/// The answer, or why it is of no use. Its data must fit `schema`, where there is one.
pub(super) fn of(
    output: tools::ToolOutput,
    schema: Option<&Schema>,
    limits: &Limits,
) -> Result<ToolResult, End> {
    let structured_size = output.structured.as_ref().map_or(0, String::len);
    let structured = output.structured.as_deref().map(|text| object(text, schema)).transpose()?;
    let mut result = ToolResult { structured, ..ToolResult::default() };
    let mut texts = Vec::new();
    for content in output.content {
        match content {
            tools::Content::Text(text) => texts.push(text),
            tools::Content::Binary(tools::Blob { media_type, data }) => {
                texts.push(format!("[{media_type}, {} bytes]", data.len()));
                result.attachments.push(Attachment { media_type, data });
            }
        }
    }
    result.content = texts.join("\n");
    let attached = |attachment: &Attachment| attachment.media_type.len() + attachment.data.len();
    let size =
        result.content.len() + structured_size + result.attachments.iter().map(attached).sum::<usize>();
    if size as u64 > limits.result {
        let (size, limit) = (bytes(size as u64), bytes(limits.result));
        return Err(End::too_long(format!("returned {size}, more than its result limit of {limit}")));
    }
    Ok(result)
}

fn object(text: &str, schema: Option<&Schema>) -> Result<Value, End> {
    let wrong = |what: String| End::new(format!("returned structured content that {what}"));
    let value: Value = serde_json::from_str(text).map_err(|error| wrong(format!("is not JSON: {error}")))?;
    if !value.is_object() {
        return Err(wrong("is not a JSON object".into()));
    }
    schema
        .map_or(Ok(()), |schema| schema.check(&value))
        .map_err(|error| wrong(format!("does not fit its output schema: {error}")))?;
    Ok(value)
}
