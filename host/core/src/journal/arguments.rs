//! A call's arguments as the journal keeps them: in full up to a bound, and beyond it what tells
//! whether they were those, their SHA-256. Refuses to keep the beginning of a long one: a file that
//! was written does not belong into the journal.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Bytes of all arguments, as JSON. Any command and any path fit; whole files do not.
const MAX_ARGUMENTS: usize = 16 << 10;

/// Bytes of one argument that stays readable where all together are too long.
const MAX_ARGUMENT: usize = 1 << 10;

/// The arguments, and the names of those that were replaced by `{"sha256": …, "bytes": …}`; all of
/// them are one such object where that is not enough.
pub(super) fn bounded(arguments: &Value) -> (Value, Vec<String>) {
    let size = size(arguments);
    let Value::Object(fields) = arguments else {
        return if size <= MAX_ARGUMENTS { (arguments.clone(), Vec::new()) } else { whole(arguments) };
    };
    if size <= MAX_ARGUMENTS {
        return (arguments.clone(), Vec::new());
    }
    let mut digested = Vec::new();
    let mut kept = Map::new();
    for (name, value) in fields {
        let is_long = self::size(value) > MAX_ARGUMENT;
        if is_long {
            digested.push(name.clone());
        }
        kept.insert(name.clone(), if is_long { digest(value) } else { value.clone() });
    }
    let kept = Value::Object(kept);
    if self::size(&kept) <= MAX_ARGUMENTS { (kept, digested) } else { whole(arguments) }
}

fn whole(arguments: &Value) -> (Value, Vec<String>) {
    (digest(arguments), vec!["*".to_owned()])
}

/// Of a text its own bytes, so that they can be compared with a file's; of all else its JSON.
fn digest(value: &Value) -> Value {
    let json = if value.is_string() { String::new() } else { value.to_string() };
    let bytes = value.as_str().unwrap_or(&json).as_bytes();
    json!({ "sha256": sha256(bytes), "bytes": bytes.len() })
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn size(value: &Value) -> usize {
    // Shorter than its text, so that a file's content is not written out to be measured.
    match value {
        Value::String(text) if text.len() > MAX_ARGUMENTS => text.len(),
        Value::Object(fields) if fields.values().any(|field| size(field) > MAX_ARGUMENTS) => usize::MAX,
        value => value.to_string().len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_arguments_are_kept_in_full() {
        let arguments = json!({ "command": "x".repeat(10_000), "timeout": 3 });
        assert_eq!(bounded(&arguments), (arguments, vec![]));
    }

    #[test]
    fn of_long_arguments_the_short_ones_stay_readable() {
        let content = "y".repeat(100_000);
        let (kept, digested) = bounded(&json!({ "file_path": "a.txt", "content": content }));
        assert_eq!(digested, ["content"]);
        assert_eq!(kept["file_path"], "a.txt");
        assert_eq!(kept["content"], json!({ "sha256": sha256(content.as_bytes()), "bytes": 100_000 }));
    }

    #[test]
    fn arguments_that_are_long_in_many_ways_become_one_digest() {
        let many: Map<_, _> = (0..2000).map(|n| (format!("field{n}"), json!("x".repeat(100)))).collect();
        for arguments in [Value::Object(many), json!([vec!["x"; 10_000]]), json!("x".repeat(20_000))] {
            let (kept, digested) = bounded(&arguments);
            assert_eq!((kept["bytes"].is_u64(), digested), (true, vec!["*".to_owned()]));
        }
    }
}
