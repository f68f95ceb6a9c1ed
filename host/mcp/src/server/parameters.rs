//! Headers of HTTP that repeat what a request says, for whatever stands between client and server (2026-07-28): each says
//! the same as the request, or the request is refused.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::HeaderMap;
use rmcp::ErrorData;
use rmcp::model::JsonObject;
use serde_json::Value;

/// What the names of headers begin with that repeat an argument.
const PARAMETER: &str = "mcp-param-";

/// The key of a schema that names the header which repeats the argument.
const REPEATED: &str = "x-mcp-header";

/// Those of `headers` that repeat arguments.
pub(super) fn of(headers: &HeaderMap) -> HeaderMap {
    let own = headers.iter().filter(|(name, _)| name.as_str().starts_with(PARAMETER));
    own.map(|(name, value)| (name.clone(), value.clone())).fold(HeaderMap::new(), |mut all, (name, value)| {
        all.append(name, value);
        all
    })
}

/// Checks that `headers` repeat the arguments that `schema` says they repeat.
///
/// # Errors
/// One is missing, says something else, or repeats what is not there.
pub(super) fn check(
    headers: &HeaderMap,
    schema: &JsonObject,
    arguments: Option<&JsonObject>,
) -> Result<(), ErrorData> {
    let Some(Value::Object(properties)) = schema.get("properties") else { return Ok(()) };
    for (name, schema) in properties {
        let Some(schema) = schema.as_object() else { continue };
        let argument = arguments.and_then(|arguments| arguments.get(name));
        if let Some(header) = schema.get(REPEATED).and_then(Value::as_str).filter(|name| !name.is_empty()) {
            repeats(headers, &format!("{PARAMETER}{header}"), argument.and_then(text).as_deref())?;
        }
        check(headers, schema, argument.and_then(Value::as_object))?;
    }
    Ok(())
}

/// Checks that the one header `name` says `expected`, or is not there where that is `None`.
///
/// # Errors
/// It does not.
pub(super) fn repeats(headers: &HeaderMap, name: &str, expected: Option<&str>) -> Result<(), ErrorData> {
    let wrong = |why: String| Err(ErrorData::header_mismatch(why, None));
    let mut values = headers.get_all(name).iter();
    let (first, more) = (values.next(), values.next());
    let Some((value, expected)) = first.zip(expected) else {
        return match (first, expected) {
            (None, Some(_)) => wrong(format!("missing required {name} header")),
            (Some(_), None) => wrong(format!("unexpected {name} header: the request says nothing of it")),
            _ => Ok(()),
        };
    };
    if more.is_some() {
        return wrong(format!("duplicate {name} header"));
    }
    match value.to_str().ok().and_then(decoded) {
        Some(said) if said == expected => Ok(()),
        Some(said) => {
            wrong(format!("{name} header `{said}` does not match the request, which says `{expected}`"))
        }
        None => wrong(format!("{name} header contains invalid characters or is not valid Base64")),
    }
}

/// What a header says, which is in Base64 where it could not be sent otherwise.
fn decoded(value: &str) -> Option<String> {
    let Some(inner) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Some(value.to_owned());
    };
    String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok()
}

/// An argument as a header repeats it.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_header_repeats_an_argument_at_any_depth() {
        let schema = object(&json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "A"},
            "b": {"properties": {"c": {"type": "integer", "x-mcp-header": "C"}}},
        }}));
        for (fits, headers, arguments) in [
            (true, vec![], json!({})),
            (true, vec![("mcp-param-a", "x")], json!({"a": "x"})),
            (
                true,
                vec![("mcp-param-a", "=?base64?w6Q=?="), ("mcp-param-c", "7")],
                json!({"a": "ä", "b": {"c": 7}}),
            ),
            (false, vec![], json!({"a": "x"})),
            (false, vec![("mcp-param-a", "y")], json!({"a": "x"})),
            (false, vec![("mcp-param-a", "x")], json!({})),
            (false, vec![("mcp-param-a", "x"), ("mcp-param-a", "x")], json!({"a": "x"})),
            (false, vec![("mcp-param-c", "8")], json!({"b": {"c": 7}})),
            (false, vec![("mcp-param-a", "=?base64?!?=")], json!({"a": "x"})),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(name, HeaderValue::from_static(value));
            }
            map.append("mcp-method", HeaderValue::from_static("tools/call"));
            let checked = check(&of(&map), &schema, Some(&object(&arguments)));
            assert_eq!(checked.is_ok(), fits, "{arguments}: {checked:?}");
        }
    }
}
