//! Random WIT types, and random values of a type.

use std::collections::BTreeSet;

use proptest::prelude::*;
use wasmtime::component::Val;

use super::super::model::{Case, Field, Integer, Name, Type};

/// A type that a component can have.
pub(super) fn ty() -> BoxedStrategy<Type> {
    simple()
        .prop_recursive(4, 24, 5, |inner| {
            prop_oneof![
                inner.clone().prop_map(list),
                (names(1..6), prop::collection::vec(inner.clone(), 6))
                    .prop_map(|(names, types)| record(names, types)),
                prop::collection::vec(inner.clone(), 1..5).prop_map(Type::Tuple),
                (names(1..6), prop::collection::vec(prop::option::of(inner.clone()), 6))
                    .prop_map(|(names, types)| variant(names, types)),
                inner.clone().prop_map(|ty| Type::Option(Box::new(ty))),
                (prop::option::of(inner.clone()), prop::option::of(inner))
                    .prop_map(|(ok, error)| Type::Result(ok.map(Box::new), error.map(Box::new))),
            ]
        })
        .boxed()
}

fn simple() -> BoxedStrategy<Type> {
    let integer = prop::sample::select(vec![
        Integer::S8,
        Integer::U8,
        Integer::S16,
        Integer::U16,
        Integer::S32,
        Integer::U32,
        Integer::S64,
        Integer::U64,
    ]);
    let other = prop::sample::select(vec![
        Type::Bool,
        Type::Float32,
        Type::Float64,
        Type::Char,
        Type::String,
        Type::Bytes,
    ]);
    let choice = |names: BTreeSet<String>| names.into_iter().map(|name| Name { name, docs: None }).collect();
    prop_oneof![
        2 => integer.prop_map(Type::Integer),
        3 => other,
        1 => names(1..6).prop_map(move |names| Type::Enum(choice(names))),
        1 => names(1..33).prop_map(move |names| Type::Flags(choice(names))),
    ]
    .boxed()
}

/// Names in one type. WIT requires that they differ in more than their hyphens.
fn names(count: std::ops::Range<usize>) -> impl Strategy<Value = BTreeSet<String>> + Clone {
    let names = prop::collection::btree_set("[a-z][a-z0-9]{0,4}(-[a-z][a-z0-9]{0,3})?", count);
    names.prop_filter("names that differ in hyphens alone", |names| {
        names.iter().map(|name| name.replace('-', "")).collect::<BTreeSet<_>>().len() == names.len()
    })
}

fn list(ty: Type) -> Type {
    match ty {
        Type::Integer(Integer::U8) => Type::Bytes,
        ty => Type::List(Box::new(ty)),
    }
}

fn record(names: BTreeSet<String>, types: Vec<Type>) -> Type {
    let field = |(name, ty)| Field { name, docs: None, ty };
    Type::Record(names.into_iter().zip(types).map(field).collect())
}

fn variant(names: BTreeSet<String>, types: Vec<Option<Type>>) -> Type {
    let case = |(name, ty)| Case { name, docs: None, ty };
    Type::Variant(names.into_iter().zip(types).map(case).collect())
}

/// A value of a type.
pub(super) fn value(ty: &Type) -> BoxedStrategy<Val> {
    match ty {
        Type::Bool => any_of(Val::Bool),
        Type::Integer(integer) => number(*integer),
        Type::Float32 => any::<u32>().prop_map(|bits| Val::Float32(f32::from_bits(bits))).boxed(),
        Type::Float64 => any::<u64>().prop_map(|bits| Val::Float64(f64::from_bits(bits))).boxed(),
        Type::Char => any_of(Val::Char),
        Type::String => ".{0,12}".prop_map(Val::String).boxed(),
        Type::Bytes => bytes(),
        // A stream begins as a list.
        Type::List(element) | Type::Stream(element) => {
            prop::collection::vec(value(element), 0..4).prop_map(Val::List).boxed()
        }
        Type::Future(item) => value(item),
        Type::Map(types) => {
            prop::collection::vec((value(&types.0), value(&types.1)), 0..4).prop_map(Val::Map).boxed()
        }
        Type::Record(fields) => {
            let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
            let values: Vec<_> = fields.iter().map(|field| value(&field.ty)).collect();
            values.prop_map(move |values| Val::Record(names.iter().cloned().zip(values).collect())).boxed()
        }
        Type::Tuple(types) => types.iter().map(value).collect::<Vec<_>>().prop_map(Val::Tuple).boxed(),
        Type::Variant(cases) => one_of(cases.iter().map(|case| {
            let name = case.name.clone();
            let named = move |held: Option<Val>| Val::Variant(name.clone(), held.map(Box::new));
            held(case.ty.as_ref()).prop_map(named).boxed()
        })),
        Type::Enum(names) => one_of(names.iter().map(|name| Just(Val::Enum(name.name.clone())).boxed())),
        Type::Flags(names) => {
            let names: Vec<String> = names.iter().map(|name| name.name.clone()).collect();
            let count = names.len();
            prop::sample::subsequence(names, 0..=count).prop_map(Val::Flags).boxed()
        }
        Type::Option(inner) => {
            prop::option::of(value(inner)).prop_map(|value| Val::Option(value.map(Box::new))).boxed()
        }
        Type::Result(ok, error) => {
            let ok = held(ok.as_deref()).prop_map(|value| Val::Result(Ok(value.map(Box::new))));
            let error = held(error.as_deref()).prop_map(|value| Val::Result(Err(value.map(Box::new))));
            prop_oneof![ok, error].boxed()
        }
    }
}

fn any_of<T: Arbitrary + 'static>(make: fn(T) -> Val) -> BoxedStrategy<Val> {
    any::<T>().prop_map(make).boxed()
}

fn held(ty: Option<&Type>) -> BoxedStrategy<Option<Val>> {
    ty.map_or_else(|| Just(None).boxed(), |ty| value(ty).prop_map(Some).boxed())
}

fn one_of(strategies: impl Iterator<Item = BoxedStrategy<Val>>) -> BoxedStrategy<Val> {
    prop::strategy::Union::new(strategies).boxed()
}

fn number(integer: Integer) -> BoxedStrategy<Val> {
    match integer {
        Integer::S8 => any_of(Val::S8),
        Integer::U8 => any_of(Val::U8),
        Integer::S16 => any_of(Val::S16),
        Integer::U16 => any_of(Val::U16),
        Integer::S32 => any_of(Val::S32),
        Integer::U32 => any_of(Val::U32),
        Integer::S64 => any_of(Val::S64),
        Integer::U64 => any_of(Val::U64),
    }
}

fn bytes() -> BoxedStrategy<Val> {
    let text = ".{0,8}".prop_map(String::into_bytes);
    let bytes = prop_oneof![text, prop::collection::vec(any::<u8>(), 0..8)];
    bytes.prop_map(|bytes| Val::List(bytes.into_iter().map(Val::U8).collect())).boxed()
}
