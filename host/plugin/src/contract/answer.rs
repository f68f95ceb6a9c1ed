//! Turns a guest's answer into a tool result, within the result limit and checked against the tool's output schema. The
//! content is passed on unchanged.

use serde_json::Value;

use crate::failure::{End, bytes};
use haft_core::call::{Attachment, ToolResult};
use haft_core::limit::Limits;
use haft_core::tool::Schema;

/// A guest's answer, independent of its contract.
pub(crate) struct Output {
    /// The answer for the model, in order.
    pub(crate) pieces: Vec<Piece>,
    /// The answer as data.
    pub(crate) structured: Option<Structured>,
}

pub(crate) enum Piece {
    Text(String),
    Binary(Attachment),
}

/// An answer as data.
pub(crate) enum Structured {
    /// JSON text, as the guest wrote it.
    Text(String),
    /// A value that haft decoded; the model gets it as text.
    Value(Value),
}

/// Returns the tool result of an answer. Its data must fit `schema`, if given.
///
/// # Errors
/// The answer is longer than the limit, or its data is malformed or does not fit.
pub(crate) fn to_tool_result(
    output: Output,
    schema: Option<&Schema>,
    limits: &Limits,
) -> Result<ToolResult, End> {
    let structured_size = match &output.structured {
        Some(Structured::Text(text)) => text.len(),
        _ => 0,
    };
    let structured = match output.structured {
        Some(Structured::Text(text)) => Some(parse_object(&text, schema)?),
        Some(Structured::Value(value)) => Some(value),
        None => None,
    };
    let mut result = ToolResult { structured, ..ToolResult::default() };
    let mut texts = Vec::new();
    for piece in output.pieces {
        match piece {
            Piece::Text(text) => texts.push(text),
            Piece::Binary(attachment) => {
                texts.push(attachment.mention());
                result.attachments.push(attachment);
            }
        }
    }
    // A single text, the usual case, is not copied: it may have many megabytes.
    result.content = if texts.len() == 1 { texts.remove(0) } else { texts.join("\n") };
    let attached = |attachment: &Attachment| attachment.media_type.len() + attachment.data.len();
    let size =
        result.content.len() + structured_size + result.attachments.iter().map(attached).sum::<usize>();
    if size as u64 > limits.result {
        let (shown, limit) = (bytes(size as u64), bytes(limits.result));
        let line = format!("returned {shown}, more than its result limit of {limit}");
        return Err(End::too_long(line, size as u64));
    }
    Ok(result)
}

fn parse_object(text: &str, schema: Option<&Schema>) -> Result<Value, End> {
    let wrong = |what: String| End::new(format!("returned structured content that {what}"));
    let value =
        haft_core::json::read(text.as_bytes()).map_err(|error| wrong(format!("is not JSON: {error}")))?;
    if !value.is_object() {
        return Err(wrong("is not a JSON object".into()));
    }
    schema
        .map_or(Ok(()), |schema| schema.check(&value))
        .map_err(|error| wrong(format!("does not fit its output schema: {error}")))?;
    Ok(value)
}
