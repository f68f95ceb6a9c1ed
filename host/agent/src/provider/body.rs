//! What bodies of all vendors have in common: they are JSON, and may report an error instead of an
//! answer. Refuses JSON that would take far more memory than it has bytes.

use serde_json::Value;

use super::error::{Failure, excerpt};

/// Values in one body. Each takes up to 100 bytes once read, however short it is written: a body of
/// nothing but brackets would take thirty times its size. The longest turn has some thousands.
const MAX_VALUES: usize = 1 << 20;

/// What vendors call their errors where they give no number, and the status that means the same.
const KINDS: &[(&str, u16)] = &[
    ("invalid_request_error", 400),
    ("authentication_error", 401),
    ("billing_error", 402),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("request_too_large", 413),
    ("rate_limit_error", 429),
    ("rate_limit_exceeded", 429),
    ("RESOURCE_EXHAUSTED", 429),
    ("api_error", 500),
    ("internal_error", 500),
    ("internal_server_error", 500),
    ("INTERNAL", 500),
    ("server_error", 500),
    ("engine_overloaded", 503),
    ("overloaded", 503),
    ("server_is_overloaded", 503),
    ("service_unavailable", 503),
    ("service_unavailable_error", 503),
    ("slow_down", 503),
    ("unavailable", 503),
    ("UNAVAILABLE", 503),
    ("timeout_error", 504),
    ("DEADLINE_EXCEEDED", 504),
    ("overloaded_error", 529),
];

/// The JSON in `bytes`.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, Failure> {
    if values(bytes) > MAX_VALUES {
        return Err(Failure::Malformed(format!("more than {MAX_VALUES} values")));
    }
    haft_core::json::read(bytes).map_err(|error| unreadable(&error.to_string(), bytes))
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

/// An `error` in the body of a success: gateways answer so when what stands behind them fails, and
/// every vendor does in the middle of a stream.
pub(super) fn reported_error(value: &Value) -> Result<(), Failure> {
    let error = match value.get("error") {
        None | Some(Value::Null) => return Ok(()),
        Some(error) => error,
    };
    let message = error.get("message").unwrap_or(error);
    let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
    Err(Failure::Reported { code: code(error), message: excerpt(&message) })
}

/// The status that an error in a body stands for.
fn code(error: &Value) -> Option<u16> {
    let own = error.get("code");
    let number = own.and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
    let kind = || {
        [error.get("type"), own, error.get("status")]
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .find_map(known)
    };
    number.and_then(|number| u16::try_from(number).ok()).or_else(kind)
}

fn known(kind: &str) -> Option<u16> {
    KINDS.iter().find(|(name, _)| *name == kind).map(|(_, status)| *status)
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

    /// PL12.
    #[test]
    fn pl12_errors_have_a_status_however_it_is_written() {
        let code = |error: Value| match reported_error(&json!({ "error": error })) {
            Err(Failure::Reported { code, .. }) => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(json!({ "message": "m", "code": 502 })), Some(502));
        assert_eq!(code(json!({ "message": "m", "code": "429" })), Some(429));
        assert_eq!(code(json!({ "message": "m", "type": "overloaded_error" })), Some(529));
        assert_eq!(
            code(json!({ "message": "m", "code": "rate_limit_exceeded", "type": "tokens" })),
            Some(429)
        );
        assert_eq!(code(json!("plain")), None);
        assert_eq!(reported_error(&json!({ "error": null })), Ok(()));
    }
}
