//! Encodes the values that a component returns as JSON, without loss: `decode` converts the JSON back to an equal
//! value.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use wasmtime::component::Val;

use super::model::{Case, Field, Type};
use crate::contract::floats;

/// The largest whole number that every JSON reader represents exactly.
const SAFE: u64 = 1 << 53;

/// A value that does not have its type. wasmtime made the value from this type, so that this is a bug in haft.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value of another type than the component has; this is a bug in haft")]
pub(super) struct Mismatch;

type Encoded = Result<Value, Mismatch>;

/// Returns the JSON of a value.
pub(super) fn value(ty: &Type, val: &Val) -> Encoded {
    match (ty, val) {
        (Type::Bytes, Val::List(items)) => bytes(items).map(|bytes| binary(&bytes)),
        (Type::List(element), Val::List(items)) => {
            items.iter().map(|item| value(element, item)).collect::<Result<_, _>>().map(Value::Array)
        }
        (Type::Map(types), Val::Map(entries)) => dictionary(&types.0, &types.1, entries),
        (Type::Record(fields), Val::Record(values)) => record(fields, values),
        (Type::Tuple(types), Val::Tuple(items)) if types.len() == items.len() => {
            let items = types.iter().zip(items).map(|(ty, item)| value(ty, item));
            items.collect::<Result<_, _>>().map(Value::Array)
        }
        (Type::Variant(cases), Val::Variant(tag, inner)) => variant(cases, tag, inner.as_deref()),
        (Type::Option(_), Val::Option(None)) => Ok(Value::Null),
        (Type::Option(inner), Val::Option(Some(val))) if inner.is_nullable() => {
            value(inner, val).map(|value| json!({ "some": value }))
        }
        (Type::Option(inner), Val::Option(Some(val))) => value(inner, val),
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

/// Returns the bytes of a `list<u8>`.
pub(super) fn bytes(items: &[Val]) -> Result<Vec<u8>, Mismatch> {
    let byte = |item: &Val| if let Val::U8(byte) = item { Ok(*byte) } else { Err(Mismatch) };
    items.iter().map(byte).collect()
}

/// Returns bytes as text if they are UTF-8 without control characters; `None` for others, which become base64.
pub(super) fn as_text(bytes: &[u8]) -> Option<&str> {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\t' | '\n' | '\r');
    str::from_utf8(bytes).ok().filter(|text| text.chars().all(is_plain))
}

fn binary(bytes: &[u8]) -> Value {
    as_text(bytes).map_or_else(|| json!({ "base64": BASE64_STANDARD.encode(bytes) }), Value::from)
}

fn simple(ty: &Type, val: &Val) -> Encoded {
    Ok(match (ty, val) {
        (Type::Bool, Val::Bool(value)) => (*value).into(),
        (Type::Integer(_), val) => integer(val)?,
        (Type::Float32, Val::Float32(number)) => single(*number),
        (Type::Float64, Val::Float64(number)) => floats::json(*number),
        (Type::Char, Val::Char(character)) => character.to_string().into(),
        (Type::String, Val::String(text)) => text.as_str().into(),
        (Type::Enum(_), Val::Enum(name)) => name.as_str().into(),
        (Type::Flags(_), Val::Flags(names)) => names.as_slice().into(),
        _ => return Err(Mismatch),
    })
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
        (Some(ty), Some(val)) => value(ty, val),
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
            object.insert(name.clone(), value(&field.ty, val)?);
        }
    }
    Ok(Value::Object(object))
}

fn variant(cases: &[Case], tag: &str, inner: Option<&Val>) -> Encoded {
    let case = cases.iter().find(|case| case.name == tag).ok_or(Mismatch)?;
    match (&case.ty, inner) {
        (None, None) => Ok(json!({ "tag": tag })),
        (Some(ty), Some(val)) => Ok(json!({ "tag": tag, "val": value(ty, val)? })),
        _ => Err(Mismatch),
    }
}

/// Encodes a map; the last value of a duplicate key counts, by the contract of maps.
fn dictionary(key: &Type, ty: &Type, entries: &[(Val, Val)]) -> Encoded {
    if *key == Type::String {
        let entry = |(name, val): &(Val, Val)| match name {
            Val::String(name) => Ok((name.clone(), value(ty, val)?)),
            _ => Err(Mismatch),
        };
        return entries.iter().map(entry).collect::<Result<_, _>>().map(Value::Object);
    }
    let entry = |(name, val): &(Val, Val)| Ok(json!({ "key": value(key, name)?, "value": value(ty, val)? }));
    entries.iter().map(entry).collect::<Result<_, _>>().map(Value::Array)
}
