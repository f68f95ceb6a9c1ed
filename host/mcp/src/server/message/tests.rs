use hyper::header::HeaderValue;

use super::*;

/// S11: each invalid message has the error code of JSON-RPC 2.0, section 5.1.
#[test]
fn what_is_wrong_is_told_by_its_code() {
    for (body, id, code) in [
        ("{", None, -32700),
        ("", None, -32700),
        ("\u{feff}x", None, -32700),
        ("[]", None, -32600),
        ("7", None, -32600),
        (r#"{"id": 7}"#, Some(RequestId::Number(7)), -32600),
        (
            r#"{"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": 1}"#,
            Some(RequestId::Number(7)),
            -32602,
        ),
    ] {
        let body = body.as_bytes();
        let Err(invalid) = parse(body, &Scan::from_message(body)) else { panic!("{body:?}") };
        assert_eq!((invalid.id, invalid.error.code.0), (id, code), "{body:?}");
    }
    let bytes = b"{\"a\": \"\xff\"}";
    assert!(parse(bytes, &Scan::from_message(bytes)).is_err_and(|invalid| invalid.error.code.0 == -32600));
}

const KEY: &str = "io.modelcontextprotocol/protocolVersion";

fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
    pairs.collect()
}

fn call(meta: &Value) -> ClientJsonRpcMessage {
    let params = json!({"name": "x", "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    serde_json::from_value(call).unwrap()
}

#[test]
fn a_request_is_of_the_revision_that_it_names() {
    let later = json!({KEY: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    for (expected, named, meta) in [
        (Some(true), None, json!({})),
        (Some(true), Some("2025-11-25"), json!({})),
        (Some(true), Some("2024-11-05"), json!({})),
        (Some(false), Some("2026-07-28"), later.clone()),
        (
            Some(false),
            Some("1999-01-01"),
            json!({KEY: "1999-01-01", "io.modelcontextprotocol/clientCapabilities": {}}),
        ),
        (None, Some("1999-01-01"), json!({})),
        (Some(false), Some("2026-07-28"), json!({})),
        (None, Some("2025-11-25"), later.clone()),
        (None, None, later),
    ] {
        let own: Vec<_> = named.into_iter().map(|named| (VERSION, named)).collect();
        let found = is_of_session(&headers(&own), Some(&call(&meta)));
        assert_eq!(found.ok(), expected, "{named:?} {meta}");
    }
}

fn attachment(media_type: &str, data: &[u8]) -> Attachment {
    Attachment::new(media_type, data.to_vec())
}

fn converted(result: ToolResult, has_schema: bool) -> Value {
    let mut answer = serde_json::to_value(call_result(result, has_schema)).unwrap();
    answer.as_object_mut().unwrap().remove("resultType");
    answer
}

/// MC03, for a client: each kind of content arrives as its own kind, at its place in the text.
#[test]
fn attachments_stand_where_the_text_mentions_them() {
    let attachments = vec![attachment("image/png", b"ab"), attachment("audio/wav", b"c")];
    let content = "before\n[image/png, 2 bytes]\nbetween\nlines\n[audio/wav, 1 bytes]".to_owned();
    let answer = converted(ToolResult { content, attachments, ..ToolResult::default() }, false);
    assert_eq!(
        answer["content"],
        json!([
            {"type": "text", "text": "before"},
            {"type": "image", "data": "YWI=", "mimeType": "image/png"},
            {"type": "text", "text": "between\nlines"},
            {"type": "audio", "data": "Yw==", "mimeType": "audio/wav"},
        ])
    );
}

/// MC03: files are embedded resources.
#[test]
fn files_are_resources() {
    let attachments = vec![attachment("text/csv", b"a,b"), attachment("application/pdf", b"%PDF")];
    let answer =
        converted(ToolResult { content: "two files".into(), attachments, ..ToolResult::default() }, false);
    assert_eq!(
        answer["content"],
        json!([
            {"type": "text", "text": "two files"},
            {"type": "resource", "resource": {"uri": "attachment:1", "mimeType": "text/csv", "text": "a,b"}},
            {"type": "resource", "resource": {"uri": "attachment:2", "mimeType": "application/pdf", "blob": "JVBERg=="}},
        ])
    );
}

#[test]
fn data_is_told_as_text_too_where_there_is_no_other() {
    let structured = Some(json!({"a": 1}));
    let answer = converted(ToolResult { structured, ..ToolResult::default() }, true);
    assert_eq!(answer["structuredContent"], json!({"a": 1}));
    assert_eq!(answer["content"], json!([{"type": "text", "text": "{\"a\":1}"}]));
    assert_eq!(answer["isError"], json!(false));
}

/// An answer without the promised data is an error, because clients reject such an answer.
#[test]
fn data_that_was_promised_and_is_missing_is_an_error_that_can_be_read() {
    let answer = converted(ToolResult::success("text"), true);
    assert_eq!(answer["isError"], json!(true));
    assert_eq!(answer["content"][0]["text"], "text");
    assert_eq!(converted(ToolResult::error("no"), true)["content"].as_array().unwrap().len(), 1);
}

#[test]
fn an_empty_answer_has_a_block() {
    assert_eq!(converted(ToolResult::default(), false)["content"], json!([{"type": "text", "text": ""}]));
}

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
        let checked = check_parameters(&parameters(&map), &schema, Some(&object(&arguments)));
        assert_eq!(checked.is_ok(), fits, "{arguments}: {checked:?}");
    }
}
