//! What bodies of all vendors have in common: they are JSON. Refuses JSON that would take far more memory than it has bytes.

use serde_json::{Deserializer, Value};

use super::error::{Failure, excerpt};
use haft_core::json::{read, whole_characters};

/// Values in one body. Each takes up to 100 bytes once read, however short it is written: a body of
/// nothing but brackets would take thirty times its size. The longest turn has some thousands.
const MAX_VALUES: usize = 1 << 20;

/// The JSON in `bytes`.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, Failure> {
    bound(bytes)?;
    read(bytes).map_err(|error| unreadable(&error.to_string(), bytes))
}

/// All values in `bytes`, one after the other: a body, or a stream whose frames are told apart by nothing.
pub(super) fn parse_all(bytes: &[u8]) -> Result<Vec<Value>, Failure> {
    bound(bytes)?;
    let all: Result<Vec<_>, _> = Deserializer::from_slice(&whole_characters(bytes)).into_iter().collect();
    // The complaint is that about one value, in haft's own words.
    all.or_else(|_| read(bytes).map(|value| vec![value]))
        .map_err(|error| unreadable(&error.to_string(), bytes))
}

fn bound(bytes: &[u8]) -> Result<(), Failure> {
    let is_within = values(bytes) <= MAX_VALUES;
    is_within.then_some(()).ok_or_else(|| Failure::Malformed(format!("more than {MAX_VALUES} values")))
}

/// Something that is no JSON, or nothing at all.
pub(super) fn unreadable(why: &str, bytes: &[u8]) -> Failure {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Failure::Empty("the body has no content".into());
    }
    let start = String::from_utf8_lossy(bytes.get(..200).unwrap_or(bytes));
    Failure::Malformed(format!("{why}; it begins with `{}`", excerpt(&start)))
}

/// How many values the JSON in `bytes` has, about: one before each comma and after each bracket.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// PL07.
    #[test]
    fn pl07_a_body_of_nothing_but_brackets_is_refused_before_it_is_read() {
        let text = format!("[{}1]", "[],".repeat(MAX_VALUES));
        assert!(
            matches!(parse(text.as_bytes()), Err(Failure::Malformed(why)) if why.starts_with("more than"))
        );
        let words = json!({ "text": ",[{\\\"".repeat(MAX_VALUES) }).to_string();
        assert!(parse(words.as_bytes()).is_ok());
        let deep = "[".repeat(100_000);
        assert!(matches!(parse(deep.as_bytes()), Err(Failure::Malformed(_))));
    }
}
