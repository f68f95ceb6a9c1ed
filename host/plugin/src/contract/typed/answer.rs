//! Converts the value that a typed function returned to a tool's answer: strings as they are, everything else as
//! JSON, and the error of a `result` as the tool's error.

use wasmtime::component::Val;

use super::encode::{self, Mismatch};
use super::model::{Returned, Type};
use crate::contract::answer::{Output, Piece, Structured};
use haft_core::call::{Attachment, media_type_of};
use haft_core::tool::ToolError;

/// The answer of a function that returns nothing.
const DONE: &str = "done";

/// The error message of a `result` whose error has no value.
pub(super) const FAILED: &str = "the function failed without a reason";

/// The media type of bytes without a known type.
const UNKNOWN_TYPE: &str = "application/octet-stream";

pub(super) fn from_returned(
    returned: &Returned,
    value: Option<Val>,
) -> Result<Result<Output, ToolError>, Mismatch> {
    match (returned, value) {
        (Returned::Nothing, None) => Ok(Ok(text_output(DONE.into()))),
        (Returned::Value(ty), Some(value)) => from_value(ty, &value).map(Ok),
        (Returned::Result(ok, _), Some(Val::Result(Ok(value)))) => match (ok, value) {
            (None, None) => Ok(Ok(text_output(DONE.into()))),
            (Some(ty), Some(value)) => from_value(ty, &value).map(Ok),
            _ => Err(Mismatch),
        },
        (Returned::Result(_, error), Some(Val::Result(Err(value)))) => {
            failure(error.as_ref(), value).map(Err)
        }
        _ => Err(Mismatch),
    }
}

/// Returns the error of a `result`.
pub(super) fn failure(error: Option<&Type>, value: Option<Box<Val>>) -> Result<ToolError, Mismatch> {
    match (error, value) {
        (None, None) => Ok(ToolError::ExecutionFailed(FAILED.into())),
        (Some(ty), Some(value)) => Ok(ToolError::ExecutionFailed(error_text(ty, &value)?)),
        _ => Err(Mismatch),
    }
}

pub(super) fn text_output(text: String) -> Output {
    Output { pieces: vec![Piece::Text(text)], structured: None }
}

pub(super) fn from_value(ty: &Type, value: &Val) -> Result<Output, Mismatch> {
    if let (Type::Bytes, Val::List(items)) = (ty, value) {
        return Ok(binary(encode::bytes(items)?));
    }
    if let Some(text) = plain(ty, value) {
        return Ok(text_output(text));
    }
    let json = encode::value(ty, value)?;
    let pieces = vec![Piece::Text(json.to_string())];
    let structured = matches!(ty, Type::Record(_) | Type::Map(_)).then_some(json);
    Ok(Output { pieces, structured: structured.filter(serde_json::Value::is_object).map(Structured::Value) })
}

/// Returns bytes as text if they are text, otherwise as a file.
pub(super) fn binary(bytes: Vec<u8>) -> Output {
    if let Some(text) = encode::as_text(&bytes) {
        return text_output(text.to_owned());
    }
    let attachment = Attachment::new(media_type_of(&bytes).unwrap_or(UNKNOWN_TYPE), bytes);
    Output { pieces: vec![Piece::Binary(attachment)], structured: None }
}

/// Returns a value that is written without JSON quotes: strings, names, and 64-bit numbers, which JSON quotes for
/// programs.
fn plain(ty: &Type, value: &Val) -> Option<String> {
    match (ty, value) {
        (_, Val::S64(number)) => Some(number.to_string()),
        (_, Val::U64(number)) => Some(number.to_string()),
        (_, Val::String(text) | Val::Enum(text)) => Some(text.clone()),
        (_, Val::Char(character)) => Some(character.to_string()),
        (Type::Option(inner), Val::Option(Some(value))) if !inner.is_nullable() => plain(inner, value),
        _ => None,
    }
}

/// Returns an error for a model to read: `not-found: no file of that name`.
fn error_text(ty: &Type, value: &Val) -> Result<String, Mismatch> {
    if let Some(text) = plain(ty, value) {
        return Ok(text);
    }
    if let (Type::Variant(cases), Val::Variant(tag, inner)) = (ty, value) {
        let case = cases.iter().find(|case| case.name == *tag).and_then(|case| case.ty.as_ref());
        return match (case, inner) {
            (Some(ty), Some(value)) => Ok(format!("{tag}: {}", error_text(ty, value)?)),
            _ => Ok(tag.clone()),
        };
    }
    Ok(encode::value(ty, value)?.to_string())
}
