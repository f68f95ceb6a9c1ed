//! Encodes JSON as deterministic CBOR (RFC 8949, section 4.2), which components may rely on, and decodes any CBOR
//! of components to JSON.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ciborium::Value as Cbor;
use serde_json::{Map, Number, Value};

use crate::contract::floats;

/// Maximum nesting depth of CBOR from a component.
const MAX_DEPTH: usize = 64;

/// Up to this value every whole number equals its floating-point number.
const SAFE: f64 = 9_007_199_254_740_992.0;

/// Encodes JSON as deterministic CBOR: shortest forms, known lengths, keys in the order of their encoding.
pub(super) fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to a vector cannot fail.
    let _ = ciborium::into_writer(&deterministic(value), &mut bytes);
    bytes
}

fn deterministic(value: &Value) -> Cbor {
    match value {
        Value::Null => Cbor::Null,
        Value::Bool(value) => Cbor::Bool(*value),
        Value::Number(value) => number(value),
        Value::String(text) => Cbor::Text(text.clone()),
        Value::Array(items) => Cbor::Array(items.iter().map(deterministic).collect()),
        Value::Object(entries) => {
            let mut entries: Vec<(&String, &Value)> = entries.iter().collect();
            // A text's encoding begins with its length, so that shorter keys precede longer ones.
            entries.sort_by(|(one, _), (other, _)| (one.len(), one).cmp(&(other.len(), other)));
            let entry = |(name, value): (&String, &Value)| (Cbor::Text(name.clone()), deterministic(value));
            Cbor::Map(entries.into_iter().map(entry).collect())
        }
    }
}

/// Encodes a number: in JSON Schema `5.0` is a whole number, and a component's integer parameter requires one.
fn number(number: &Number) -> Cbor {
    if let Some(whole) = number.as_i64() {
        return Cbor::Integer(whole.into());
    }
    if let Some(whole) = number.as_u64() {
        return Cbor::Integer(whole.into());
    }
    let float = number.as_f64().unwrap_or(f64::NAN);
    if float.fract() == 0.0 && float.abs() <= SAFE && !(float == 0.0 && float.is_sign_negative()) {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        return Cbor::Integer((float as i64).into());
    }
    Cbor::Float(float)
}

pub(super) fn field<'a>(value: &'a Cbor, name: &str) -> Option<&'a Cbor> {
    let entries = value.as_map()?;
    entries.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value)
}

/// Decodes a component's CBOR: one value without trailing bytes.
pub(super) fn read(mut bytes: &[u8]) -> Option<Cbor> {
    let value = ciborium::de::from_reader_with_recursion_limit(&mut bytes, MAX_DEPTH).ok()?;
    bytes.is_empty().then_some(value)
}

/// Converts CBOR to JSON. Bytes become base64; keys other than text become their JSON; numbers beyond JSON's become
/// text.
pub(super) fn json(value: &Cbor) -> Value {
    match value {
        Cbor::Bool(value) => (*value).into(),
        Cbor::Integer(number) => integer(i128::from(*number)),
        Cbor::Float(number) => floats::json(*number),
        Cbor::Text(text) => text.as_str().into(),
        Cbor::Bytes(bytes) => BASE64_STANDARD.encode(bytes).into(),
        Cbor::Array(items) => items.iter().map(json).collect(),
        Cbor::Map(entries) => {
            let entry = |(key, value): &(Cbor, Cbor)| {
                let key = key.as_text().map_or_else(|| json(key).to_string(), str::to_owned);
                (key, json(value))
            };
            Value::Object(entries.iter().map(entry).collect::<Map<_, _>>())
        }
        Cbor::Tag(_, inner) => json(inner),
        _ => Value::Null,
    }
}

fn integer(number: i128) -> Value {
    Number::from_i128(number).map_or_else(|| number.to_string().into(), Value::Number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn hex(value: &Value) -> String {
        encode(value).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Numbers and keys have the form of RFC 8949, appendix A, and the order of section 4.2.1.
    #[test]
    fn numbers_and_keys_have_their_shortest_form_and_fixed_order() {
        for (value, expected) in [
            (json!(0), "00"),
            (json!(24), "1818"),
            (json!(1_000_000_000_000_u64), "1b000000e8d4a51000"),
            (json!(u64::MAX), "1bffffffffffffffff"),
            (json!(-1000), "3903e7"),
            (json!(1.1), "fb3ff199999999999a"),
            (json!(1.5), "f93e00"),
            (json!(100_000.0), "1a000186a0"),
            (json!(-0.0), "f98000"),
            (json!(1.0e300), "fb7e37e43c8800759c"),
            (json!(5.0), "05"),
            (json!(null), "f6"),
            (json!("ü"), "62c3bc"),
            (json!({ "aa": 1, "b": [true], "a": {} }), "a36161a06162 81f5 62616101"),
        ] {
            assert_eq!(hex(&value), expected.replace(' ', ""), "{value}");
        }
    }

    #[test]
    fn what_json_has_no_word_for_is_told_all_the_same() {
        let value = Cbor::Map(vec![
            (Cbor::Integer(1.into()), Cbor::Bytes(vec![0, 255])),
            (Cbor::Text("tagged".into()), Cbor::Tag(1, Box::new(Cbor::Float(f64::NAN)))),
            // C10: the form that typed functions write.
            (Cbor::Text("most".into()), Cbor::Float(f64::INFINITY)),
        ]);
        assert_eq!(json(&value), json!({ "1": "AP8=", "tagged": "NaN", "most": "Infinity" }));
        assert!(read(&[0x81; 100]).is_none() && read(b"\x01\x01").is_none() && read(b"").is_none());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |n| n.is_finite() && n.fract() != 0.0).prop_map(Value::from),
            ".{0,5}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
                prop::collection::hash_map(".{0,5}", inner, 0..5)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_comes_back_from_cbor(value in any_json()) {
            let bytes = encode(&value);
            prop_assert_eq!(json(&read(&bytes).unwrap()), value);
        }

        #[test]
        fn whatever_a_component_writes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(value) = read(&bytes) {
                json(&value);
            }
        }
    }
}
