//! Floating-point numbers in JSON, which has no literal for NaN and the infinities: these become strings.

use serde_json::{Number, Value};

/// The strings for these, as in JavaScript and Protocol Buffers.
const NOT_A_NUMBER: &str = "NaN";
const INFINITE: &str = "Infinity";
const NEGATIVE: &str = "-Infinity";

pub(crate) fn json(number: f64) -> Value {
    match Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None if number.is_nan() => NOT_A_NUMBER.into(),
        None if number > 0.0 => INFINITE.into(),
        None => NEGATIVE.into(),
    }
}

pub(crate) fn number(value: &Value) -> Option<f64> {
    match value.as_str() {
        None => value.as_f64(),
        Some(NOT_A_NUMBER) => Some(f64::NAN),
        Some(INFINITE) => Some(f64::INFINITY),
        Some(NEGATIVE) => Some(f64::NEG_INFINITY),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C10: every number stays equal in both conversions.
    #[test]
    fn every_number_goes_there_and_back() {
        for (one, written) in
            [(1.5, "1.5"), (f64::INFINITY, "\"Infinity\""), (f64::NEG_INFINITY, "\"-Infinity\"")]
        {
            assert_eq!(json(one).to_string(), written);
            assert_eq!(number(&json(one)), Some(one));
        }
        assert_eq!(json(f64::NAN), "NaN");
        assert!(number(&json(f64::NAN)).is_some_and(f64::is_nan));
        assert_eq!([number(&"inf".into()), number(&"1".into()), number(&Value::Null)], [None; 3]);
    }
}
