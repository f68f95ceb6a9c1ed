//! The types of a function, from which schemas, decoding and encoding follow. They are taken from the component itself;
//! only their documentation comes from WIT text.

use wasmtime::component::types;

use super::docs::{FunctionDocs, TypeDocs};

/// Maximum nesting of types. JSON has up to four levels for one type, and haft checks at most 64 levels; real
/// components have fewer than six.
const MAX_DEPTH: usize = 14;

/// Maximum number of types of one function, with every use counted: a type with one definition and ten uses occurs ten
/// times in a schema.
const MAX_TYPES: usize = 2000;

const ITEMS: &str = "texts, characters, bytes, numbers and truth values";

/// Maximum number of characters of a parameter's or field's name. One vendor refuses a prompt with a longer name.
const MAX_NAME: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Bool,
    Integer(Integer),
    Float32,
    Float64,
    Char,
    String,
    /// `list<u8>`.
    Bytes,
    List(Box<Type>),
    Map(Box<(Type, Type)>),
    Record(Vec<Field>),
    Tuple(Vec<Type>),
    Variant(Vec<Case>),
    Enum(Vec<Name>),
    Flags(Vec<Name>),
    Option(Box<Type>),
    Result(Option<Box<Type>>, Option<Box<Type>>),
    /// A parameter whose items are read from a stream.
    Stream(Box<Type>),
    /// A parameter whose value is read from a future.
    Future(Box<Type>),
}

/// An integer type, by the numbers it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integer {
    S8,
    U8,
    S16,
    U16,
    S32,
    U32,
    S64,
    U64,
}

/// A field of a record, or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) docs: Option<String>,
    pub(super) ty: Type,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) docs: Option<String>,
    pub(super) ty: Option<Type>,
}

/// A case of an enum, or a flag.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Name {
    pub(super) name: String,
    pub(super) docs: Option<String>,
}

/// A function's types.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Signature {
    pub(super) params: Vec<Field>,
    pub(super) returned: Returned,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Returned {
    Nothing,
    Value(Type),
    /// `result<ok, error>`, whose error is the tool's.
    Result(Option<Type>, Option<Type>),
    /// Values after the return of the function.
    Streamed(Later, Refusal),
}

/// Whether a function may fail before any part of its answer arrives.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Refusal {
    Never,
    /// The function returns a `result` with this error.
    Error(Option<Type>),
}

/// The delivery of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Later {
    /// `stream<item>`.
    Stream(Box<Type>),
    /// `tuple<stream<item>, future<result<_, error>>>`, as WASI has it.
    StreamAndEnd(Box<Type>, Option<Type>),
    /// `future<item>`.
    Future(Box<Type>),
}

impl Integer {
    pub(super) fn range(self) -> (i128, i128) {
        match self {
            Self::S8 => (i8::MIN.into(), i8::MAX.into()),
            Self::U8 => (0, u8::MAX.into()),
            Self::S16 => (i16::MIN.into(), i16::MAX.into()),
            Self::U16 => (0, u16::MAX.into()),
            Self::S32 => (i32::MIN.into(), i32::MAX.into()),
            Self::U32 => (0, u32::MAX.into()),
            Self::S64 => (i64::MIN.into(), i64::MAX.into()),
            Self::U64 => (0, u64::MAX.into()),
        }
    }

    /// Returns whether some values exceed the numbers that every JSON reader represents exactly.
    pub(super) fn is_wide(self) -> bool {
        matches!(self, Self::S64 | Self::U64)
    }
}

impl Type {
    fn is_item(&self) -> bool {
        matches!(
            self,
            Self::Bool
                | Self::Integer(_)
                | Self::Float32
                | Self::Float64
                | Self::Char
                | Self::String
                | Self::Bytes
        )
    }

    /// Returns whether `null` is a value of the type in JSON.
    pub(super) fn is_nullable(&self) -> bool {
        matches!(self, Self::Option(_))
    }
}

impl Signature {
    /// Returns the types of a function, or why nothing can call it: "takes a resource".
    pub(super) fn from_function(
        function: &types::ComponentFunc,
        docs: Option<&FunctionDocs<'_>>,
    ) -> Result<Self, String> {
        let mut builder = Builder { left: MAX_TYPES };
        let mut params = Vec::new();
        for (name, ty) in function.params() {
            let type_docs = docs.map_or(TypeDocs::none(), |docs| docs.parameter(name));
            short(name).map_err(|what| format!("takes {what}"))?;
            let ty = builder.parameter(&ty, type_docs).map_err(|what| format!("takes {what}"))?;
            params.push(Field { name: name.to_owned(), docs: type_docs.text(), ty });
        }
        let returned = match function.results().next() {
            None => Returned::Nothing,
            Some(ty) => {
                let type_docs = docs.map_or(TypeDocs::none(), FunctionDocs::returned);
                builder.returned(&ty, type_docs).map_err(|what| format!("returns {what}"))?
            }
        };
        Ok(Self { params, returned })
    }
}

struct Builder {
    left: usize,
}

/// A type, or the name of a type without JSON, such as "a resource".
type Built<T> = Result<T, String>;

impl Builder {
    fn parameter(&mut self, ty: &types::Type, docs: TypeDocs<'_>) -> Built<Type> {
        match ty {
            types::Type::Stream(stream) => self.item("stream", stream.ty()).map(Type::Stream),
            types::Type::Future(future) => self.item("future", future.ty()).map(Type::Future),
            ty => self.build(ty, docs, 0),
        }
    }

    fn item(&mut self, what: &str, ty: Option<types::Type>) -> Built<Box<Type>> {
        let ty = ty.ok_or_else(|| format!("a `{what}` of nothing"))?;
        let item = self.build(&ty, TypeDocs::none(), 0).ok().filter(Type::is_item);
        item.map(Box::new).ok_or_else(|| format!("a `{what}` of other items than {ITEMS}"))
    }

    /// Returns the later delivery of an answer that is incomplete when its function returns.
    fn later(&mut self, ty: &types::Type) -> Option<Built<Later>> {
        match ty {
            types::Type::Stream(stream) => Some(self.item("stream", stream.ty()).map(Later::Stream)),
            types::Type::Future(future) => Some(self.item("future", future.ty()).map(Later::Future)),
            types::Type::Tuple(tuple) => {
                let mut parts = tuple.types();
                match (parts.next()?, parts.next()?, parts.next()) {
                    (types::Type::Stream(stream), types::Type::Future(end), None) => {
                        let item = self.item("stream", stream.ty());
                        Some(item.and_then(|item| Ok(Later::StreamAndEnd(item, end_error(end.ty())?))))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn returned(&mut self, ty: &types::Type, docs: TypeDocs<'_>) -> Built<Returned> {
        if let Some(what) = self.later(ty) {
            return what.map(|what| Returned::Streamed(what, Refusal::Never));
        }
        if let types::Type::Result(result) = ty
            && let Some(what) = result.ok().and_then(|ok| self.later(&ok))
        {
            let error = result.err().map(|ty| self.build(&ty, docs.error(), 0)).transpose()?;
            return what.map(|what| Returned::Streamed(what, Refusal::Error(error)));
        }
        let types::Type::Result(result) = ty else { return self.build(ty, docs, 0).map(Returned::Value) };
        let ok = result.ok().map(|ty| self.build(&ty, docs.ok(), 0)).transpose()?;
        let error = result.err().map(|ty| self.build(&ty, docs.error(), 0)).transpose()?;
        Ok(Returned::Result(ok, error))
    }

    fn build(&mut self, ty: &types::Type, docs: TypeDocs<'_>, depth: usize) -> Built<Type> {
        self.left = self.left.checked_sub(1).ok_or_else(|| format!("more than {MAX_TYPES} types"))?;
        if depth > MAX_DEPTH {
            return Err(format!("types nested deeper than {MAX_DEPTH} levels"));
        }
        if let Some(simple) = simple(ty) {
            return Ok(simple);
        }
        self.compound(ty, docs, depth + 1)
    }

    fn compound(&mut self, ty: &types::Type, docs: TypeDocs<'_>, depth: usize) -> Built<Type> {
        match ty {
            types::Type::List(list) => match list.ty() {
                types::Type::U8 => Ok(Type::Bytes),
                element => self.boxed(&element, docs.element(), depth).map(Type::List),
            },
            types::Type::Map(map) => {
                let key = self.build(&map.key(), TypeDocs::none(), depth)?;
                let value = self.build(&map.value(), docs.element(), depth)?;
                Ok(Type::Map(Box::new((key, value))))
            }
            types::Type::Record(record) => self.record(record, docs, depth),
            types::Type::Tuple(tuple) => {
                let elements = tuple.types().enumerate();
                let build = elements.map(|(index, ty)| self.build(&ty, docs.nth(index), depth));
                build.collect::<Built<_>>().map(Type::Tuple)
            }
            types::Type::Variant(variant) => self.variant(variant, docs, depth),
            types::Type::Enum(choice) => Ok(Type::Enum(names(choice.names(), docs))),
            types::Type::Flags(flags) => Ok(Type::Flags(names(flags.names(), docs))),
            types::Type::Option(option) => self.boxed(&option.ty(), docs.element(), depth).map(Type::Option),
            types::Type::Result(result) => {
                let ok = result.ok().map(|ty| self.boxed(&ty, docs.ok(), depth)).transpose()?;
                let error = result.err().map(|ty| self.boxed(&ty, docs.error(), depth)).transpose()?;
                Ok(Type::Result(ok, error))
            }
            other => Err(unsupported(other).to_owned()),
        }
    }

    fn boxed(&mut self, ty: &types::Type, docs: TypeDocs<'_>, depth: usize) -> Built<Box<Type>> {
        self.build(ty, docs, depth).map(Box::new)
    }

    fn record(&mut self, record: &types::Record, docs: TypeDocs<'_>, depth: usize) -> Built<Type> {
        let field = |field: types::Field<'_>| {
            let type_docs = docs.part(field.name);
            short(field.name)?;
            let ty = self.build(&field.ty, type_docs, depth)?;
            Ok(Field { name: field.name.to_owned(), docs: type_docs.text(), ty })
        };
        record.fields().map(field).collect::<Built<_>>().map(Type::Record)
    }

    fn variant(&mut self, variant: &types::Variant, docs: TypeDocs<'_>, depth: usize) -> Built<Type> {
        let case = |case: types::Case<'_>| {
            let type_docs = docs.part(case.name);
            let ty = case.ty.map(|ty| self.build(&ty, type_docs, depth)).transpose()?;
            Ok(Case { name: case.name.to_owned(), docs: type_docs.own_text(), ty })
        };
        variant.cases().map(case).collect::<Built<_>>().map(Type::Variant)
    }
}

/// Returns the error type of the future at the end of a stream: none, or a text.
fn end_error(ty: Option<types::Type>) -> Built<Option<Type>> {
    match ty {
        Some(types::Type::Result(result)) if result.ok().is_none() => match result.err() {
            None => Ok(None),
            Some(types::Type::String) => Ok(Some(Type::String)),
            Some(_) => Err("a `future` of a result whose error is not text".to_owned()),
        },
        _ => Err("a `future` with a `stream` that is not a result without a value".to_owned()),
    }
}

fn short(name: &str) -> Built<()> {
    match name.len() {
        0..=MAX_NAME => Ok(()),
        _ => Err(format!("a field whose name has more than {MAX_NAME} characters")),
    }
}

fn names<'a>(names: impl Iterator<Item = &'a str>, docs: TypeDocs<'_>) -> Vec<Name> {
    names.map(|name| Name { name: name.to_owned(), docs: docs.part(name).own_text() }).collect()
}

fn simple(ty: &types::Type) -> Option<Type> {
    Some(match ty {
        types::Type::Bool => Type::Bool,
        types::Type::S8 => Type::Integer(Integer::S8),
        types::Type::U8 => Type::Integer(Integer::U8),
        types::Type::S16 => Type::Integer(Integer::S16),
        types::Type::U16 => Type::Integer(Integer::U16),
        types::Type::S32 => Type::Integer(Integer::S32),
        types::Type::U32 => Type::Integer(Integer::U32),
        types::Type::S64 => Type::Integer(Integer::S64),
        types::Type::U64 => Type::Integer(Integer::U64),
        types::Type::Float32 => Type::Float32,
        types::Type::Float64 => Type::Float64,
        types::Type::Char => Type::Char,
        types::Type::String => Type::String,
        _ => return None,
    })
}

/// Returns the name of a type without JSON, for a line about the function.
fn unsupported(ty: &types::Type) -> &'static str {
    match ty {
        types::Type::Own(_) | types::Type::Borrow(_) => {
            "a handle to a resource; nothing in a plugin outlives a call"
        }
        types::Type::Future(_) => "a `future` within another type",
        types::Type::Stream(_) => "a `stream` within another type",
        types::Type::ErrorContext => "an `error-context`, which has no JSON form",
        types::Type::FixedLengthList(_) => "a list of a fixed length, which this haft does not support",
        _ => "a type that this haft does not support",
    }
}
