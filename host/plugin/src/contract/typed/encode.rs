//! Converts the value that a typed function returned to a tool's answer: strings as they are, everything else as JSON,
//! and the error of a `result` as the tool's error. The JSON is without loss: `decode` converts it back to an equal
//! value.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use wasmtime::component::Val;

use super::model::{Case, Field, Returned, Type};
use crate::contract::floats;
use crate::contract::guest::{Output, Piece, Structured};
use haft_core::call::{Attachment, media_type_of};
use haft_core::tool::ToolError;

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
        (Returned::Nothing, None) => Ok(Ok(Output::text(DONE.into()))),
        (Returned::Value(ty), Some(value)) => from_value(ty, &value).map(Ok),
        (Returned::Result(ok, _), Some(Val::Result(Ok(value)))) => match (ok, value) {
            (None, None) => Ok(Ok(Output::text(DONE.into()))),
            (Some(ty), Some(value)) => from_value(ty, &value).map(Ok),
            _ => Err(Mismatch),
        },
        (Returned::Result(_, error), Some(Val::Result(Err(value)))) => {
            failure(error.as_ref(), value).map(Err)
        }
        _ => Err(Mismatch),
    }
}

pub(super) fn failure(error: Option<&Type>, value: Option<Box<Val>>) -> Result<ToolError, Mismatch> {
    match (error, value) {
        (None, None) => Ok(ToolError::ExecutionFailed(FAILED.into())),
        (Some(ty), Some(value)) => Ok(ToolError::ExecutionFailed(error_text(ty, &value)?)),
        _ => Err(Mismatch),
    }
}

pub(super) fn from_value(ty: &Type, value: &Val) -> Result<Output, Mismatch> {
    if let (Type::Bytes, Val::List(items)) = (ty, value) {
        return Ok(binary(bytes(items)?));
    }
    if let Some(text) = plain(ty, value) {
        return Ok(Output::text(text));
    }
    let encoded = json(ty, value)?;
    let pieces = vec![Piece::Text(encoded.to_string())];
    let structured = matches!(ty, Type::Record(_) | Type::Map(_)).then_some(encoded);
    Ok(Output { pieces, structured: structured.filter(Value::is_object).map(Structured::Value) })
}

/// Returns bytes as text if they are text, otherwise as a file.
pub(super) fn binary(bytes: Vec<u8>) -> Output {
    if let Some(text) = as_text(&bytes) {
        return Output::text(text.to_owned());
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
    Ok(json(ty, value)?.to_string())
}

/// The largest whole number that every JSON reader represents exactly.
const SAFE: u64 = 1 << 53;

/// A value that does not have its type. wasmtime made the value from this type, so that this is a bug in haft.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value of another type than the component has; this is a bug in haft")]
pub(super) struct Mismatch;

type Encoded = Result<Value, Mismatch>;

pub(super) fn json(ty: &Type, val: &Val) -> Encoded {
    match (ty, val) {
        (Type::Bytes, Val::List(items)) => bytes(items).map(|bytes| bytes_json(&bytes)),
        (Type::List(element), Val::List(items)) => {
            items.iter().map(|item| json(element, item)).collect::<Result<_, _>>().map(Value::Array)
        }
        (Type::Map(types), Val::Map(entries)) => dictionary(&types.0, &types.1, entries),
        (Type::Record(fields), Val::Record(values)) => record(fields, values),
        (Type::Tuple(types), Val::Tuple(items)) if types.len() == items.len() => {
            let items = types.iter().zip(items).map(|(ty, item)| json(ty, item));
            items.collect::<Result<_, _>>().map(Value::Array)
        }
        (Type::Variant(cases), Val::Variant(tag, inner)) => variant(cases, tag, inner.as_deref()),
        (Type::Option(_), Val::Option(None)) => Ok(Value::Null),
        (Type::Option(inner), Val::Option(Some(val))) if inner.is_nullable() => {
            json(inner, val).map(|value| json!({ "some": value }))
        }
        (Type::Option(inner), Val::Option(Some(val))) => json(inner, val),
        (Type::Result(ok, error), Val::Result(result)) => {
            let (name, ty, val) = match result {
                Ok(val) => ("ok", ok, val),
                Err(val) => ("err", error, val),
            };
            let inner = optional(ty.as_deref(), val.as_deref())?;
            Ok(json!({ name: inner }))
        }
        (ty, val) => simple(ty, val),
    }
}

pub(super) fn bytes(items: &[Val]) -> Result<Vec<u8>, Mismatch> {
    let byte = |item: &Val| if let Val::U8(byte) = item { Ok(*byte) } else { Err(Mismatch) };
    items.iter().map(byte).collect()
}

/// Returns bytes as text if they are UTF-8 without control characters; `None` for others, which become base64.
pub(super) fn as_text(bytes: &[u8]) -> Option<&str> {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\t' | '\n' | '\r');
    str::from_utf8(bytes).ok().filter(|text| text.chars().all(is_plain))
}

fn bytes_json(bytes: &[u8]) -> Value {
    as_text(bytes).map_or_else(|| json!({ "base64": BASE64_STANDARD.encode(bytes) }), Value::from)
}

fn simple(ty: &Type, val: &Val) -> Encoded {
    Ok(match (ty, val) {
        (Type::Integer(_), val) => integer(val)?,
        (Type::Bool, Val::Bool(_)) | (Type::Float32, Val::Float32(_)) | (Type::Float64, Val::Float64(_)) => {
            scalar(val)?
        }
        (Type::Char, Val::Char(character)) => character.to_string().into(),
        (Type::String, Val::String(text)) => text.as_str().into(),
        (Type::Enum(_), Val::Enum(name)) => name.as_str().into(),
        (Type::Flags(_), Val::Flags(names)) => names.as_slice().into(),
        _ => return Err(Mismatch),
    })
}

/// Returns the JSON of a truth value or a number.
pub(super) fn scalar(val: &Val) -> Encoded {
    match val {
        Val::Bool(value) => Ok((*value).into()),
        Val::Float32(number) => Ok(single(*number)),
        Val::Float64(number) => Ok(floats::json(*number)),
        val => integer(val),
    }
}

fn integer(val: &Val) -> Encoded {
    Ok(match *val {
        Val::S8(number) => number.into(),
        Val::U8(number) => number.into(),
        Val::S16(number) => number.into(),
        Val::U16(number) => number.into(),
        Val::S32(number) => number.into(),
        Val::U32(number) => number.into(),
        Val::S64(number) if number.unsigned_abs() <= SAFE => number.into(),
        Val::U64(number) if number <= SAFE => number.into(),
        Val::S64(number) => number.to_string().into(),
        Val::U64(number) => number.to_string().into(),
        _ => return Err(Mismatch),
    })
}

/// Returns the shortest digits that round-trip: `0.1`, not `0.10000000149011612`.
fn single(number: f32) -> Value {
    floats::json(number.to_string().parse().unwrap_or(f64::from(number)))
}

fn optional(ty: Option<&Type>, val: Option<&Val>) -> Encoded {
    match (ty, val) {
        (None, None) => Ok(Value::Null),
        (Some(ty), Some(val)) => json(ty, val),
        _ => Err(Mismatch),
    }
}

/// Fields that hold nothing are omitted.
fn record(fields: &[Field], values: &[(String, Val)]) -> Encoded {
    if fields.len() != values.len() {
        return Err(Mismatch);
    }
    let mut object = Map::new();
    for (field, (name, val)) in fields.iter().zip(values) {
        if field.name != *name {
            return Err(Mismatch);
        }
        if *val != Val::Option(None) {
            object.insert(name.clone(), json(&field.ty, val)?);
        }
    }
    Ok(Value::Object(object))
}

fn variant(cases: &[Case], tag: &str, inner: Option<&Val>) -> Encoded {
    let case = cases.iter().find(|case| case.name == tag).ok_or(Mismatch)?;
    match (&case.ty, inner) {
        (None, None) => Ok(json!({ "tag": tag })),
        (Some(ty), Some(val)) => Ok(json!({ "tag": tag, "val": json(ty, val)? })),
        _ => Err(Mismatch),
    }
}

/// Encodes a map; the last value of a duplicate key counts, by the contract of maps.
fn dictionary(key: &Type, ty: &Type, entries: &[(Val, Val)]) -> Encoded {
    if *key == Type::String {
        let entry = |(name, val): &(Val, Val)| match name {
            Val::String(name) => Ok((name.clone(), json(ty, val)?)),
            _ => Err(Mismatch),
        };
        return entries.iter().map(entry).collect::<Result<_, _>>().map(Value::Object);
    }
    let entry = |(name, val): &(Val, Val)| Ok(json!({ "key": json(key, name)?, "value": json(ty, val)? }));
    entries.iter().map(entry).collect::<Result<_, _>>().map(Value::Array)
}
