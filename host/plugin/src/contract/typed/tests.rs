//! Property tests with random types and values: the schema of answers accepts every encoded value, and `decode`
//! restores it; `decode` accepts everything that the schema of arguments accepts; and all values survive a real
//! component.

mod component;
mod json;
mod types;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use wasmtime::component::Val;

use self::component::Echo;
use super::model::{Field, Type};
use super::schema;
use super::{decode, encode};
use haft_core::tool::Schema;

/// Types with a value each, and types with JSON each. With the values that go through components,
/// 10,000 in all.
const CASES: u32 = 4000;

/// Components of [`Echo::TYPES`] functions, and values for each.
const COMPONENTS: u32 = 50;
const VALUES: usize = 4;

fn field(ty: &Type) -> Field {
    Field { name: "x".into(), docs: None, ty: ty.clone() }
}

fn compiled(ty: &Type) -> (Value, Schema) {
    let schema = schema::object_schema(&[field(ty)]);
    let compiled = Schema::compile(&schema).unwrap();
    (schema, compiled)
}

/// Returns whether two values are equal for a component. All `NaN` are equal.
fn is_same(one: &Val, other: &Val) -> bool {
    let all = |one: &[Val], other: &[Val]| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
    };
    let both = |one: &Option<Box<Val>>, other: &Option<Box<Val>>| match (one, other) {
        (Some(one), Some(other)) => is_same(one, other),
        (one, other) => one.is_none() && other.is_none(),
    };
    match (one, other) {
        (Val::Float32(one), Val::Float32(other)) => {
            one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
        }
        (Val::Float64(one), Val::Float64(other)) => {
            one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
        }
        (Val::List(one), Val::List(other)) | (Val::Tuple(one), Val::Tuple(other)) => all(one, other),
        (Val::Record(one), Val::Record(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| one.0 == other.0 && is_same(&one.1, &other.1))
        }
        (Val::Map(one), Val::Map(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| is_same(&one.0, &other.0) && is_same(&one.1, &other.1))
        }
        (Val::Variant(one, value), Val::Variant(other, held)) => one == other && both(value, held),
        (Val::Option(one), Val::Option(other)) => both(one, other),
        (Val::Result(Ok(one)), Val::Result(Ok(other))) | (Val::Result(Err(one)), Val::Result(Err(other))) => {
            both(one, other)
        }
        (Val::Flags(one), Val::Flags(other)) => {
            one.len() == other.len() && one.iter().all(|flag| other.contains(flag))
        }
        (one, other) => one == other,
    }
}

/// An encoded value is accepted and decoded to an equal value.
fn round_trip(ty: &Type, value: &Val) -> Result<(), TestCaseError> {
    let encoded = encode::json(ty, value).unwrap();
    let (schema, answers) = compiled(ty);
    let object = if encoded.is_null() && ty.is_nullable() { json!({}) } else { json!({ "x": encoded }) };
    prop_assert!(answers.check(&object).is_ok(), "{schema} refuses {object}");
    let decoded = decode::value(ty, &encoded);
    prop_assert!(decoded.as_ref().is_ok_and(|decoded| is_same(decoded, value)), "{encoded}: {decoded:?}");
    Ok(())
}

/// The decoder accepts all arguments that the schema accepts, or reports that a text is not the expected number.
fn accepted(ty: &Type, arguments: &Value) -> Result<bool, TestCaseError> {
    let (schema, compiled) = compiled(ty);
    if compiled.check(arguments).is_err() {
        return Ok(false);
    }
    let decoded = decode::arguments(&[field(ty)], arguments);
    let is_no_number = decoded.as_ref().is_err_and(|wrong| {
        ["expected an integer between ", "expected a number"]
            .iter()
            .any(|form| wrong.to_string().contains(form))
    });
    prop_assert!(decoded.is_ok() || is_no_number, "{schema} accepts {arguments}: {decoded:?}");
    Ok(true)
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

/// WA01: random values of random types stay equal through JSON.
#[test]
fn values_of_every_type_come_through_json() {
    let strategy = types::ty().prop_flat_map(|ty| {
        let value = types::value(&ty);
        (Just(ty), value)
    });
    runner(CASES).run(&strategy, |(ty, value)| round_trip(&ty, &value)).unwrap();
}

/// WA01: random JSON from a schema, unchanged and mutated: the decoder accepts all JSON that the schema accepts, and
/// the schema accepts all unchanged JSON.
#[test]
fn what_the_schema_accepts_is_decoded() {
    let strategy = types::ty().prop_flat_map(|ty| {
        let (schema, _) = compiled(&ty);
        let json = json::accepted(&schema);
        (Just(ty), json.clone(), json::mutated(json))
    });
    let survived = Cell::new(0);
    let run = runner(CASES).run(&strategy, |(ty, json, mutated)| {
        prop_assert!(accepted(&ty, &json)?, "{:?} refused {json}", compiled(&ty).0);
        survived.set(survived.get() + u32::from(accepted(&ty, &mutated)?));
        Ok(())
    });
    run.unwrap();
    // Else the mutations test nothing.
    assert!((CASES / 50..CASES).contains(&survived.get()), "{} of {CASES}", survived.get());
}

/// WA01: values are equal after the way through a real component: from JSON to the guest's memory and back.
#[test]
fn values_of_every_type_come_through_a_component() {
    let strategy = prop::collection::vec(types::ty(), Echo::TYPES).prop_flat_map(|types| {
        let values: Vec<_> = types.iter().map(|ty| prop::collection::vec(types::value(ty), VALUES)).collect();
        (Just(types), values)
    });
    runner(COMPONENTS)
        .run(&strategy, |(types, values)| {
            let mut echo = Echo::new(&types);
            for (index, (ty, values)) in types.iter().zip(&values).enumerate() {
                prop_assert_eq!(&echo.model(index), ty, "{}", echo.wit);
                for value in values {
                    let json = encode::json(ty, value).unwrap();
                    let decoded = decode::value(ty, &json).unwrap();
                    let returned = echo.call(index, decoded);
                    prop_assert!(is_same(&returned, value), "{ty:?}: {json} came back as {returned:?}");
                    round_trip(ty, &returned)?;
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn numbers_that_not_every_reader_keeps_are_text() {
    use super::model::Integer::{S64, U64};
    let cases: [(Type, Val, Value); 8] = [
        (Type::Integer(U64), Val::U64(1 << 53), json!(9_007_199_254_740_992_u64)),
        (Type::Integer(U64), Val::U64((1 << 53) + 1), json!("9007199254740993")),
        (Type::Integer(U64), Val::U64(u64::MAX), json!("18446744073709551615")),
        (Type::Integer(S64), Val::S64(i64::MIN), json!("-9223372036854775808")),
        (Type::Integer(S64), Val::S64(i64::MAX), json!("9223372036854775807")),
        (Type::Float32, Val::Float32(0.1), json!(0.1)),
        (Type::Float64, Val::Float64(f64::NEG_INFINITY), json!("-Infinity")),
        (Type::Bytes, Val::List(vec![Val::U8(0), Val::U8(255)]), json!({ "base64": "AP8=" })),
    ];
    for (ty, value, expected) in cases {
        assert_eq!(encode::json(&ty, &value).unwrap(), expected);
        round_trip(&ty, &value).unwrap();
    }
}

fn number(ty: &Type, text: &str) -> Result<Val, String> {
    let (_, schema) = compiled(ty);
    let arguments = json!({ "x": text });
    schema.check(&arguments).unwrap();
    let decoded = decode::arguments(&[field(ty)], &arguments).map_err(|wrong| wrong.to_string())?;
    Ok(decoded.into_iter().next().unwrap())
}

/// C09: 64-bit numbers as text are accepted exactly within their range.
#[test]
fn numbers_as_text_end_where_the_numbers_do() {
    use super::model::Integer::{S64, U64};
    for (integer, most) in [(U64, i128::from(u64::MAX)), (S64, i128::from(i64::MAX))] {
        let (lowest, _) = integer.range();
        for exponent in 0..20 {
            let step = 10_i128.pow(exponent);
            for digit in -9..=9 {
                for nudge in [-1, 0, 1] {
                    let number = most / step * step + digit * step + nudge;
                    let decoded = super::tests::number(&Type::Integer(integer), &number.to_string());
                    assert_eq!(decoded.is_ok(), (lowest..=most).contains(&number), "{number}");
                }
            }
        }
    }
    for (integer, refused, expectation) in [
        (U64, "18446744073709551616", "0 and 18446744073709551615"),
        (U64, "-1", "0 and 18446744073709551615"),
        (U64, "1e3", "0 and 18446744073709551615"),
        (S64, "", "-9223372036854775808 and 9223372036854775807"),
        (S64, "--1", "-9223372036854775808 and 9223372036854775807"),
    ] {
        let expected = format!(
            "`/x`: expected an integer between {expectation}, as a number or a decimal string, got {refused:?}"
        );
        assert_eq!(number(&Type::Integer(integer), refused), Err(expected));
    }
}

/// C09, C10: schemas of numbers need few tokens: a tool that adds two numbers had 247, most of them patterns.
#[test]
fn schemas_of_numbers_are_short() {
    use super::model::Integer::{S64, U64};
    for (ty, most) in [
        (Type::Integer(S64), 40),
        (Type::Integer(U64), 40),
        (Type::Float32, 60),
        (Type::Float64, 60),
        (Type::Option(Box::new(Type::Integer(U64))), 50),
    ] {
        let schema = Value::Object(schema::type_schema(&ty)).to_string();
        assert!(schema.len() <= most, "{schema}");
    }
    let two = [("a", S64), ("b", S64)];
    let fields =
        two.map(|(name, integer)| Field { name: name.into(), docs: None, ty: Type::Integer(integer) });
    let schema = schema::object_schema(&fields).to_string();
    assert!(schema.len() <= 160, "{} characters: {schema}", schema.len());
}

/// C10: numbers encoded as text are decoded from text, and no other text is a number.
#[test]
fn numbers_that_are_none_go_in_as_they_come_out() {
    for ty in [Type::Float32, Type::Float64] {
        for name in ["NaN", "Infinity", "-Infinity"] {
            let value = number(&ty, name).unwrap();
            assert_eq!(encode::json(&ty, &value).unwrap(), json!(name));
        }
        let expectation = "`/x`: expected a number, or \"NaN\", \"Infinity\" or \"-Infinity\", got \"1.5\"";
        assert_eq!(number(&ty, "1.5"), Err(expectation.to_owned()));
    }
    let large = decode::value(&Type::Float32, &json!(1e39)).unwrap_err().to_string();
    assert!(large.contains("expected a number between -3.4028235e38 and 3.4028235e38"), "{large}");
}

#[test]
fn nested_options_lose_nothing() {
    let inner = Type::Option(Box::new(Type::Bool));
    let outer = Type::Option(Box::new(Type::Option(Box::new(inner.clone()))));
    let some = |value: Val| Val::Option(Some(Box::new(value)));
    let values = [
        (Val::Option(None), json!(null)),
        (some(Val::Option(None)), json!({ "some": null })),
        (some(some(Val::Option(None))), json!({ "some": { "some": null } })),
        (some(some(some(Val::Bool(true)))), json!({ "some": { "some": true } })),
    ];
    for (value, expected) in values {
        assert_eq!(encode::json(&outer, &value).unwrap(), expected);
        round_trip(&outer, &value).unwrap();
    }
}

#[test]
fn a_mistake_is_named_with_its_place() {
    let point = Type::Record(vec![field(&Type::Integer(super::model::Integer::U8))]);
    let list = Type::List(Box::new(point));
    let wrong = decode::arguments(&[field(&list)], &json!({ "x": [{ "x": 1 }, { "x": 256 }] })).unwrap_err();
    assert_eq!(wrong.to_string(), "`/x/1/x`: expected an integer between 0 and 255, got 256");
    let wrong = decode::arguments(&[field(&list)], &json!({ "x": [{}] })).unwrap_err();
    assert_eq!(wrong.to_string(), "`/x/0`: `x` is missing");
}
