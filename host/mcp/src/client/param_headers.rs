//! Checks the arguments of a tool that are also sent as headers of HTTP (`x-mcp-header`, SEP-2243): a client leaves out
//! a tool whose annotations are invalid. `rmcp` checks lists of its own type, and haft reads lists as JSON.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// The keyword that names the header of an argument.
const ANNOTATION: &str = "x-mcp-header";
/// The types of values that a header can have.
const TYPES: [&str; 3] = ["string", "integer", "boolean"];
/// Characters of a header's name besides letters and digits (RFC 9110, `token`).
const TOKEN: &[u8] = b"!#$%&'*+-.^_`|~";
/// Keywords whose values are no schemas.
const DATA: [&str; 4] = ["enum", "const", "default", "examples"];

/// Checks the annotations of a tool's `inputSchema`.
///
/// # Errors
/// The reason why an annotation is invalid.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    schema.as_object().map_or(Ok(()), |schema| within(schema, false, &mut HashSet::new()))
}

/// Checks a schema that only `properties` lead to.
fn within(
    schema: &Map<String, Value>,
    is_argument: bool,
    headers: &mut HashSet<String>,
) -> Result<(), String> {
    for (keyword, value) in schema {
        match keyword.as_str() {
            ANNOTATION if is_argument => header(schema, value, headers)?,
            "properties" => {
                for property in value.as_object().into_iter().flat_map(Map::values) {
                    property.as_object().map_or(Ok(()), |property| within(property, true, headers))?;
                }
            }
            keyword if DATA.contains(&keyword) => {}
            ANNOTATION => return Err(misplaced()),
            _ if is_annotated(value) => return Err(misplaced()),
            _ => {}
        }
    }
    Ok(())
}

fn misplaced() -> String {
    format!("`{ANNOTATION}` may stand in arguments only, which `properties` lead to")
}

/// Returns whether a value has an annotation anywhere. A property of that name has a schema.
fn is_annotated(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(is_annotated),
        Value::Object(fields) => {
            fields.get(ANNOTATION).is_some_and(Value::is_string) || fields.values().any(is_annotated)
        }
        _ => false,
    }
}

fn header(schema: &Map<String, Value>, value: &Value, headers: &mut HashSet<String>) -> Result<(), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || TOKEN.contains(&byte);
    let name = value.as_str().filter(|name| !name.is_empty() && name.bytes().all(is_token));
    let name = name.ok_or_else(|| format!("`{ANNOTATION}` must be the name of a header, not {value}"))?;
    if !schema.get("type").and_then(Value::as_str).is_some_and(|kind| TYPES.contains(&kind)) {
        return Err(format!("`{ANNOTATION}: {name}` needs a type of {}", TYPES.join(", ")));
    }
    if headers.insert(name.to_ascii_lowercase()) {
        Ok(())
    } else {
        Err(format!("two arguments have `{ANNOTATION}: {name}`"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_are_names_of_headers_of_single_arguments() {
        let tool = |properties: Value| json!({ "type": "object", "properties": properties });
        let one = |kind: &str, header: Value| json!({ "type": kind, ANNOTATION: header });
        let good = [
            tool(
                json!({ "a": one("string", json!("A")), "b": tool(json!({ "c": one("integer", json!("C")) })) }),
            ),
            tool(json!({ ANNOTATION: { "type": "number" }, "d": { "default": { ANNOTATION: "x" } } })),
        ];
        for good in good {
            assert_eq!(check(&good), Ok(()), "{good}");
        }
        let mut bad = vec![
            tool(json!({ "a": one("string", json!("A")), "b": one("string", json!("a")) })),
            tool(json!({ "a": { "type": "array", "items": one("string", json!("A")) } })),
            json!({ "type": "object", ANNOTATION: "A" }),
        ];
        for header in [json!(""), json!("a b"), json!("a:"), json!("ä"), json!("a\u{7}"), json!(null)] {
            bad.push(tool(json!({ "a": one("string", header) })));
        }
        for kind in ["number", "object", "array", "null"] {
            bad.push(tool(json!({ "a": one(kind, json!("A")) })));
        }
        for bad in bad {
            assert!(check(&bad).is_err(), "{bad}");
        }
    }
}
