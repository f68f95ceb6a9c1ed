//! Decodes JSON to the values that a component takes. Accepts everything that the schema accepts, numbers as text,
//! and slightly more where the schema is minimal; never guesses.

use std::fmt::Write;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};
use wasmtime::component::Val;

use super::model::{Case, Field, Integer, Name, Type};
use crate::contract::floats;

/// Maximum number of values of one call, with every byte and every element of a list. wasmtime stores each value
/// in some forty bytes before the guest gets it.
const MAX_VALUES: usize = 4 << 20;

/// Maximum number of bytes of a text that an error repeats: a number has fewer.
const MAX_QUOTE: usize = 40;

/// Base64 with or without padding, with any trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The error of a value, and its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// From the inside out.
    path: Vec<String>,
    what: String,
}

impl Wrong {
    fn new(what: impl Into<String>) -> Self {
        Self { path: Vec::new(), what: what.into() }
    }

    fn within(mut self, step: &(impl ToString + ?Sized)) -> Self {
        self.path.push(step.to_string());
        self
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.iter().rev().fold(String::new(), |mut path, step| {
            // Writing to a `String` cannot fail.
            let _ = write!(path, "/{step}");
            path
        });
        write!(f, "`{path}`: {}", self.what)
    }
}

/// Returns the values for parameters, of an object with their names.
pub(super) fn arguments(params: &[Field], arguments: &Value) -> Result<Vec<Val>, Wrong> {
    let mut decoder = Decoder { left: MAX_VALUES };
    let empty = Map::new();
    let object = match arguments {
        Value::Null => &empty,
        other => object(other)?,
    };
    Ok(decoder.fields(params, object)?.into_iter().map(|(_, value)| value).collect())
}

#[cfg(test)]
pub(super) fn value(ty: &Type, value: &Value) -> Result<Val, Wrong> {
    Decoder { left: MAX_VALUES }.value(ty, value)
}

struct Decoder {
    left: usize,
}

type Decoded = Result<Val, Wrong>;

impl Decoder {
    fn value(&mut self, ty: &Type, value: &Value) -> Decoded {
        self.count(1)?;
        match ty {
            Type::Bool => value.as_bool().map(Val::Bool).ok_or_else(|| expected("true or false", value)),
            Type::Integer(integer) => number(*integer, value),
            Type::Float32 => single(float(value)?).map(Val::Float32).ok_or_else(|| expected(SINGLE, value)),
            Type::Float64 => float(value).map(Val::Float64),
            Type::Char => character(value),
            Type::String => text(value).map(|text| Val::String(text.to_owned())),
            Type::Bytes => self.bytes(value),
            Type::Stream(item) if **item == Type::Integer(Integer::U8) => self.bytes(value),
            Type::Future(item) => self.value(item, value),
            Type::List(element) | Type::Stream(element) => {
                let items = array(value)?.iter().enumerate();
                let decode =
                    |(index, item)| self.value(element, item).map_err(|wrong: Wrong| wrong.within(&index));
                items.map(decode).collect::<Result<_, _>>().map(Val::List)
            }
            Type::Map(types) => self.map(&types.0, &types.1, value),
            Type::Record(fields) => self.fields(fields, object(value)?).map(Val::Record),
            Type::Tuple(types) => self.tuple(types, value),
            Type::Variant(cases) => self.variant(cases, object(value)?),
            Type::Enum(names) => name(names, value).map(Val::Enum),
            Type::Flags(names) => self.flags(names, value),
            Type::Option(inner) => self.option(inner, value),
            Type::Result(ok, error) => self.result(ok.as_deref(), error.as_deref(), object(value)?),
        }
    }

    fn count(&mut self, values: usize) -> Result<(), Wrong> {
        self.left = self
            .left
            .checked_sub(values)
            .ok_or_else(|| Wrong::new(format!("more than {MAX_VALUES} values in one call")))?;
        Ok(())
    }

    fn bytes(&mut self, value: &Value) -> Decoded {
        let bytes = match value {
            Value::String(text) => text.as_bytes().to_vec(),
            Value::Object(object) => {
                let encoded = only(object, "base64").and_then(Value::as_str);
                let encoded = encoded.ok_or_else(|| expected("text or {\"base64\": …}", value))?;
                BASE64.decode(encoded).map_err(|error| Wrong::new(format!("not base64: {error}")))?
            }
            other => return Err(expected("text or {\"base64\": …}", other)),
        };
        self.count(bytes.len())?;
        Ok(Val::List(bytes.into_iter().map(Val::U8).collect()))
    }

    fn fields(&mut self, fields: &[Field], object: &Map<String, Value>) -> Result<Vec<(String, Val)>, Wrong> {
        if let Some(unknown) = object.keys().find(|key| !fields.iter().any(|field| field.name == **key)) {
            return Err(Wrong::new(format!("no field `{unknown}`")));
        }
        let decode = |field: &Field| {
            let value = match (object.get(&field.name), &field.ty) {
                (Some(value), ty) => self.value(ty, value),
                (None, Type::Option(_)) => Ok(Val::Option(None)),
                (None, _) => return Err(Wrong::new(format!("`{}` is missing", field.name))),
            };
            Ok((field.name.clone(), value.map_err(|wrong| wrong.within(&field.name))?))
        };
        fields.iter().map(decode).collect()
    }

    fn map(&mut self, key: &Type, value: &Type, json: &Value) -> Decoded {
        if *key == Type::String {
            let entries = object(json)?.iter().map(|(name, item)| {
                let item = self.value(value, item).map_err(|wrong| wrong.within(name))?;
                Ok((Val::String(name.clone()), item))
            });
            return entries.collect::<Result<_, Wrong>>().map(Val::Map);
        }
        let entry = |(index, item): (usize, &Value)| {
            let (first, second) = entry(item).ok_or_else(|| expected("{\"key\": …, \"value\": …}", item))?;
            let first = self.value(key, first).map_err(|wrong| wrong.within("key").within(&index))?;
            let second = self.value(value, second).map_err(|wrong| wrong.within("value").within(&index))?;
            Ok((first, second))
        };
        array(json)?.iter().enumerate().map(entry).collect::<Result<_, Wrong>>().map(Val::Map)
    }

    fn tuple(&mut self, types: &[Type], value: &Value) -> Decoded {
        let items = array(value)?;
        if items.len() != types.len() {
            return Err(Wrong::new(format!("expected {} elements, got {}", types.len(), items.len())));
        }
        let decode = |(index, (ty, item)): (usize, (&Type, &Value))| {
            self.value(ty, item).map_err(|wrong| wrong.within(&index))
        };
        types.iter().zip(items).enumerate().map(decode).collect::<Result<_, _>>().map(Val::Tuple)
    }

    fn variant(&mut self, cases: &[Case], object: &Map<String, Value>) -> Decoded {
        let tag = object.get("tag").and_then(Value::as_str).ok_or_else(|| Wrong::new("`tag` is missing"))?;
        let case = cases.iter().find(|case| case.name == tag);
        let case = case.ok_or_else(|| Wrong::new(format!("no case `{tag}`")))?;
        let (ty, value) = match (&case.ty, object.get("val")) {
            (None, None) if object.len() == 1 => return Ok(Val::Variant(tag.to_owned(), None)),
            (Some(ty), Some(value)) if object.len() == 2 => (ty, value),
            (None, Some(_)) => return Err(Wrong::new(format!("the case `{tag}` has no `val`"))),
            (Some(_), None) => return Err(Wrong::new(format!("the case `{tag}` needs a `val`"))),
            _ => return Err(Wrong::new("expected `tag`, and `val` for cases that hold a value")),
        };
        let value = self.value(ty, value).map_err(|wrong| wrong.within("val"))?;
        Ok(Val::Variant(tag.to_owned(), Some(Box::new(value))))
    }

    fn flags(&mut self, names: &[Name], value: &Value) -> Decoded {
        let items = array(value)?;
        self.count(items.len())?;
        let mut flags: Vec<String> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let flag = name(names, item).map_err(|wrong| wrong.within(&index))?;
            if !flags.contains(&flag) {
                flags.push(flag);
            }
        }
        Ok(Val::Flags(flags))
    }

    fn option(&mut self, inner: &Type, value: &Value) -> Decoded {
        let value = match value {
            Value::Null => return Ok(Val::Option(None)),
            Value::Object(object) if inner.is_nullable() => {
                only(object, "some").ok_or_else(|| Wrong::new("expected null or {\"some\": …}"))?
            }
            value => value,
        };
        Ok(Val::Option(Some(Box::new(self.value(inner, value)?))))
    }

    fn result(&mut self, ok: Option<&Type>, error: Option<&Type>, object: &Map<String, Value>) -> Decoded {
        let mut side = |name: &str, ty: Option<&Type>, value: &Value| match (ty, value) {
            (None, Value::Null) => Ok(None),
            (None, other) => Err(expected("null", other).within(name)),
            (Some(ty), value) => {
                self.value(ty, value).map(|value| Some(Box::new(value))).map_err(|wrong| wrong.within(name))
            }
        };
        match (only(object, "ok"), only(object, "err")) {
            (Some(value), _) => side("ok", ok, value).map(|value| Val::Result(Ok(value))),
            (_, Some(value)) => side("err", error, value).map(|value| Val::Result(Err(value))),
            _ => Err(Wrong::new("expected {\"ok\": …} or {\"err\": …}")),
        }
    }
}

fn expected(what: &str, value: &Value) -> Wrong {
    let got = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.len() <= MAX_QUOTE => value.to_string(),
        Value::String(_) => "text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    Wrong::new(format!("expected {what}, got {got}"))
}

fn object(value: &Value) -> Result<&Map<String, Value>, Wrong> {
    value.as_object().ok_or_else(|| expected("an object", value))
}

fn array(value: &Value) -> Result<&[Value], Wrong> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| expected("a list", value))
}

fn text(value: &Value) -> Result<&str, Wrong> {
    value.as_str().ok_or_else(|| expected("text", value))
}

fn only<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|_| object.len() == 1)
}

fn entry(value: &Value) -> Option<(&Value, &Value)> {
    let object = value.as_object().filter(|object| object.len() == 2)?;
    Some((object.get("key")?, object.get("value")?))
}

fn name(names: &[Name], value: &Value) -> Result<String, Wrong> {
    let text = text(value)?;
    let found = names.iter().find(|name| name.name == text);
    found.map(|name| name.name.clone()).ok_or_else(|| Wrong::new(format!("`{text}` is not one of its names")))
}

fn character(value: &Value) -> Decoded {
    let mut characters = text(value)?.chars();
    match (characters.next(), characters.next()) {
        (Some(character), None) => Ok(Val::Char(character)),
        _ => Err(Wrong::new("expected one character")),
    }
}

fn number(integer: Integer, value: &Value) -> Decoded {
    let number = match value {
        Value::Number(number) => whole(number),
        Value::String(text) if integer.is_wide() => text.parse().ok(),
        _ => None,
    };
    let fitted = number.and_then(|number| fitted(integer, number));
    fitted.ok_or_else(|| {
        let (minimum, maximum) = integer.range();
        let written = if integer.is_wide() { ", as a number or a decimal string" } else { "" };
        expected(&format!("an integer between {minimum} and {maximum}{written}"), value)
    })
}

fn fitted(integer: Integer, number: i128) -> Option<Val> {
    let fitted = match integer {
        Integer::S8 => i8::try_from(number).map(Val::S8),
        Integer::U8 => u8::try_from(number).map(Val::U8),
        Integer::S16 => i16::try_from(number).map(Val::S16),
        Integer::U16 => u16::try_from(number).map(Val::U16),
        Integer::S32 => i32::try_from(number).map(Val::S32),
        Integer::U32 => u32::try_from(number).map(Val::U32),
        Integer::S64 => i64::try_from(number).map(Val::S64),
        Integer::U64 => u64::try_from(number).map(Val::U64),
    };
    fitted.ok()
}

/// Returns a whole number in any notation: in JSON Schema `5.0` is a whole number.
fn whole(number: &serde_json::Number) -> Option<i128> {
    if let Some(number) = number.as_i128() {
        return Some(number);
    }
    let number = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 2e19)?;
    #[expect(clippy::cast_possible_truncation, reason = "whole, and far smaller than 2^127")]
    let whole = number as i128;
    Some(whole)
}

fn float(value: &Value) -> Result<f64, Wrong> {
    let expectation = "a number, or \"NaN\", \"Infinity\" or \"-Infinity\"";
    floats::number(value).ok_or_else(|| expected(expectation, value))
}

/// The range of 32-bit numbers, for people.
const SINGLE: &str = "a number between -3.4028235e38 and 3.4028235e38, or \"Infinity\" or \"-Infinity\"";

/// Returns the nearest number of half the size, if it has any but the infinite.
fn single(number: f64) -> Option<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what is meant")]
    let single = number as f32;
    (single.is_finite() || !number.is_finite()).then_some(single)
}
