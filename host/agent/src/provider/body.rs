//! JSON bodies, for all vendors: parsing and merging. Refuses JSON that would need far more memory than its
//! size.

use serde_json::{Deserializer, Map, Value};

use super::error::{Failure, excerpt};
use haft_core::json::{read, whole_characters};

/// The maximum number of values in a body. A parsed value takes up to 100 bytes, even for a short text: a body of
/// brackets alone would take thirty times its size. The longest turns have some thousand values.
const MAX_VALUES: usize = 1 << 20;

/// Parses the JSON in `bytes`.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, Failure> {
    bound(bytes)?;
    read(bytes).map_err(|error| unreadable(&error.to_string(), bytes))
}

/// Parses all consecutive values in `bytes`: a body, or a stream without separators between its frames.
pub(super) fn parse_all(bytes: &[u8]) -> Result<Vec<Value>, Failure> {
    bound(bytes)?;
    let all: Result<Vec<_>, _> = Deserializer::from_slice(&whole_characters(bytes)).into_iter().collect();
    // Reports the error of parsing a single value, in haft's wording.
    all.or_else(|_| read(bytes).map(|value| vec![value]))
        .map_err(|error| unreadable(&error.to_string(), bytes))
}

fn bound(bytes: &[u8]) -> Result<(), Failure> {
    let is_within = values(bytes) <= MAX_VALUES;
    is_within.then_some(()).ok_or_else(|| Failure::Malformed(format!("more than {MAX_VALUES} values")))
}

/// Returns the failure for a body that is empty or no JSON.
pub(super) fn unreadable(why: &str, bytes: &[u8]) -> Failure {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Failure::Empty("the body has no content".into());
    }
    let start = String::from_utf8_lossy(bytes.get(..200).unwrap_or(bytes));
    Failure::Malformed(format!("{why}; it begins with `{}`", excerpt(&start)))
}

/// Estimates the number of JSON values in `bytes`: one for each comma and each opening bracket.
fn values(bytes: &[u8]) -> usize {
    let (mut count, mut in_text, mut escaped) = (0, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => count += 1,
            _ => {}
        }
    }
    count
}

/// Merges `over` into `under`: objects key by key, other values by replacement. The recursion is as deep as the
/// values, whose depth is bounded by the parser.
pub(super) fn lay_over(under: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => lay_over(below, above),
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// PL07: a body with too many values or too deep nesting is refused before it is parsed.
    #[test]
    fn a_body_of_nothing_but_brackets_is_refused_before_it_is_read() {
        let text = format!("[{}1]", "[],".repeat(MAX_VALUES));
        assert!(
            matches!(parse(text.as_bytes()), Err(Failure::Malformed(why)) if why.starts_with("more than"))
        );
        let words = json!({ "text": ",[{\\\"".repeat(MAX_VALUES) }).to_string();
        assert!(parse(words.as_bytes()).is_ok());
        let deep = "[".repeat(100_000);
        assert!(matches!(parse(deep.as_bytes()), Err(Failure::Malformed(_))));
    }

    #[test]
    fn objects_are_joined_and_everything_else_is_replaced() {
        let mut under = json!({ "a": { "b": 1, "c": [1] }, "d": 1 }).as_object().unwrap().clone();
        let over = json!({ "a": { "c": [2], "e": null }, "d": { "f": 1 } }).as_object().unwrap().clone();
        lay_over(&mut under, &over);
        assert_eq!(Value::from(under), json!({ "a": { "b": 1, "c": [2], "e": null }, "d": { "f": 1 } }));
    }
}
