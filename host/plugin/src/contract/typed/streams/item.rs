//! The item types of streams and futures that haft supports, as Rust types.

use wasmtime::component::{ComponentType, Lift, Lower, Val};

use super::received::Received;

/// An item of a stream, or the value of a future.
pub(super) trait Item: ComponentType + Lift + Lower + Send + Sync + Unpin + 'static {
    /// Maximum number of items that are read at once.
    const AT_ONCE: usize = 64;
    /// Additional size of an item in bytes, which also bounds the number of empty items.
    const COST: u64 = 8;

    fn from_val(value: Val) -> Option<Self>;

    fn into_val(self) -> Val;

    /// Adds the item to the received ones.
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

/// Items that are separate values.
macro_rules! plain {
    ($($rust:ty: $case:ident),*) => {
        $(impl Item for $rust {
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

plain!(bool: Bool, i8: S8, i16: S16, u16: U16, i32: S32, u32: U32, i64: S64, u64: U64, f32: Float32, f64: Float64);

impl Item for u8 {
    /// The number of bytes of one read of a file.
    const AT_ONCE: usize = 64 << 10;
    const COST: u64 = 0;

    fn from_val(value: Val) -> Option<Self> {
        match value {
            Val::U8(value) => Some(value),
            _ => None,
        }
    }

    fn into_val(self) -> Val {
        Val::U8(self)
    }

    fn add_to(self, received: &mut Received) {
        received.add_bytes(&[self]);
    }
}

impl Item for char {
    fn from_val(value: Val) -> Option<Self> {
        match value {
            Val::Char(value) => Some(value),
            _ => None,
        }
    }

    fn into_val(self) -> Val {
        Val::Char(self)
    }

    fn add_to(self, received: &mut Received) {
        received.add_bytes(self.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

impl Item for String {
    fn from_val(value: Val) -> Option<Self> {
        match value {
            Val::String(value) => Some(value),
            _ => None,
        }
    }

    fn into_val(self) -> Val {
        Val::String(self)
    }

    fn add_to(self, received: &mut Received) {
        received.add_bytes(self.as_bytes());
    }
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
