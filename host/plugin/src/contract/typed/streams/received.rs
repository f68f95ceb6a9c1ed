//! The items received from a stream, and their conversion to an answer.

use serde_json::Value;
use wasmtime::component::Val;

use super::super::answer;
use super::super::encode::{self, Mismatch};
use super::super::model::{Integer, Type};
use crate::contract::answer::{Output, Piece};
use haft_core::tool::ToolError;

/// The received part of a stream.
#[derive(Default)]
pub(super) struct Received {
    /// The content of joined items.
    bytes: Vec<u8>,
    /// All other items, as JSON.
    values: Vec<Value>,
    /// Bytes of both, and what each item costs beside.
    size: u64,
}

impl Received {
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.size += bytes.len() as u64;
    }

    pub(super) fn add_value(&mut self, value: &Val) {
        let value = json(value).unwrap_or_default();
        self.size += value.to_string().len() as u64;
        self.values.push(value);
    }

    pub(super) fn add_cost(&mut self, bytes: u64) {
        self.size += bytes;
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn values(&self) -> &[Value] {
        &self.values
    }

    /// Returns the complete answer.
    pub(super) fn output(self, item: &Type) -> Result<Output, Mismatch> {
        if !is_joined(item) {
            return Ok(answer::text_output(Value::Array(self.values).to_string()));
        }
        if matches!(item, Type::Char | Type::String) {
            return String::from_utf8(self.bytes).map(answer::text_output).map_err(|_| Mismatch);
        }
        Ok(answer::binary(self.bytes))
    }

    /// Returns the error of a stream that ended with `message`: it includes the text received before.
    pub(super) fn failed(self, message: String) -> ToolError {
        let so_far = answer::binary(self.bytes).pieces.into_iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text),
            Piece::Binary(_) => None,
        });
        let values = self.values.iter().map(Value::to_string);
        let lines = so_far.chain(values).filter(|line| !line.is_empty()).chain([message]);
        ToolError::ExecutionFailed(lines.collect::<Vec<_>>().join("\n"))
    }
}

/// Returns whether the joined items are one text or the bytes of one file, rather than a list.
fn is_joined(item: &Type) -> bool {
    matches!(item, Type::Integer(Integer::U8) | Type::Char | Type::String | Type::Bytes)
}

/// Returns the JSON of an item that is a separate value.
fn json(value: &Val) -> Option<Value> {
    let ty = match value {
        Val::Bool(_) => Type::Bool,
        Val::S8(_) => Type::Integer(Integer::S8),
        Val::S16(_) => Type::Integer(Integer::S16),
        Val::U16(_) => Type::Integer(Integer::U16),
        Val::S32(_) => Type::Integer(Integer::S32),
        Val::U32(_) => Type::Integer(Integer::U32),
        Val::S64(_) => Type::Integer(Integer::S64),
        Val::U64(_) => Type::Integer(Integer::U64),
        Val::Float32(_) => Type::Float32,
        Val::Float64(_) => Type::Float64,
        _ => return None,
    };
    encode::value(&ty, value).ok()
}
