//! The item types of streams and futures that haft supports, as Rust types, and the received items of a stream.

use serde_json::Value;
use wasmtime::component::{ComponentType, Lift, Lower, Val};

use super::super::encode::{self, Mismatch};
use super::super::model::{Integer, Type};
use crate::contract::guest::Output;
use haft_core::tool::ToolError;

pub(super) trait Item: ComponentType + Lift + Lower + Send + Sync + Unpin + 'static {
    /// Maximum number of items that are read at once.
    const AT_ONCE: usize = 64;
    /// Additional size of an item in bytes, which also bounds the number of empty items.
    const COST: u64 = 8;

    fn from_val(value: Val) -> Option<Self>;

    fn into_val(self) -> Val;

    fn add_to(self, received: &mut Received) {
        received.add_value(&self.into_val());
    }
}

/// Does something with the Rust type of an item.
macro_rules! with_item {
    ($item:expr, $T:ident => $work:expr) => {{
        use $crate::contract::typed::model::{Integer, Type};
        macro_rules! with {
            ($rust:ty) => {{
                type $T = $rust;
                $work
            }};
        }
        let item: &Type = $item;
        match item {
            Type::Bool => with!(bool),
            Type::Integer(Integer::S8) => with!(i8),
            Type::Integer(Integer::U8) => with!(u8),
            Type::Integer(Integer::S16) => with!(i16),
            Type::Integer(Integer::U16) => with!(u16),
            Type::Integer(Integer::S32) => with!(i32),
            Type::Integer(Integer::U32) => with!(u32),
            Type::Integer(Integer::S64) => with!(i64),
            Type::Integer(Integer::U64) => with!(u64),
            Type::Float32 => with!(f32),
            Type::Float64 => with!(f64),
            Type::Char => with!(char),
            Type::String => with!(String),
            Type::Bytes => with!(Vec<u8>),
            _ => return Err(Mismatch.into()),
        }
    }};
}

pub(super) use with_item;

/// Items whose values wasmtime has as they are; with braces, those that are joined to one text or one file.
macro_rules! plain {
    ($($rust:ty: $case:ident $({ $($joined:tt)* })?;)*) => {
        $(impl Item for $rust {
            $($($joined)*)?

            fn from_val(value: Val) -> Option<Self> {
                match value {
                    Val::$case(value) => Some(value),
                    _ => None,
                }
            }

            fn into_val(self) -> Val {
                Val::$case(self)
            }
        })*
    };
}

plain! {
    bool: Bool;
    i8: S8;
    i16: S16;
    u16: U16;
    i32: S32;
    u32: U32;
    i64: S64;
    u64: U64;
    f32: Float32;
    f64: Float64;
    u8: U8 {
        /// The number of bytes of one read of a file.
        const AT_ONCE: usize = 64 << 10;
        const COST: u64 = 0;

        fn add_to(self, received: &mut Received) {
            received.add_bytes(&[self]);
        }
    };
    char: Char {
        fn add_to(self, received: &mut Received) {
            received.add_bytes(self.encode_utf8(&mut [0; 4]).as_bytes());
        }
    };
    String: String {
        fn add_to(self, received: &mut Received) {
            received.add_bytes(self.as_bytes());
        }
    };
}

impl Item for Vec<u8> {
    fn from_val(value: Val) -> Option<Self> {
        match value {
            Val::List(items) => items.into_iter().map(u8::from_val).collect(),
            _ => None,
        }
    }

    fn into_val(self) -> Val {
        Val::List(self.into_iter().map(Val::U8).collect())
    }

    fn add_to(self, received: &mut Received) {
        received.add_bytes(&self);
    }
}

/// The received part of a stream.
#[derive(Default)]
pub(super) struct Received {
    /// The content of joined items.
    pub(super) bytes: Vec<u8>,
    /// All other items, as JSON.
    pub(super) values: Vec<Value>,
    /// Bytes of both, and what each item costs beside.
    pub(super) size: u64,
}

impl Received {
    fn add_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.size += bytes.len() as u64;
    }

    fn add_value(&mut self, value: &Val) {
        let value = encode::scalar(value).unwrap_or_default();
        self.size += value.to_string().len() as u64;
        self.values.push(value);
    }

    pub(super) fn output(self, item: &Type) -> Result<Output, Mismatch> {
        if !is_joined(item) {
            return Ok(Output::text(Value::Array(self.values).to_string()));
        }
        if matches!(item, Type::Char | Type::String) {
            return String::from_utf8(self.bytes).map(Output::text).map_err(|_| Mismatch);
        }
        Ok(encode::binary(self.bytes))
    }

    /// Returns the error of a stream that ended with `message`: it includes the text received before.
    pub(super) fn failed(self, message: String) -> ToolError {
        let received = encode::binary(self.bytes);
        let so_far = received.texts().map(str::to_owned);
        let values = self.values.iter().map(Value::to_string);
        let lines = so_far.chain(values).filter(|line| !line.is_empty()).chain([message]);
        ToolError::ExecutionFailed(lines.collect::<Vec<_>>().join("\n"))
    }
}

/// Returns whether the joined items are one text or the bytes of one file, rather than a list.
fn is_joined(item: &Type) -> bool {
    matches!(item, Type::Integer(Integer::U8) | Type::Char | Type::String | Type::Bytes)
}
