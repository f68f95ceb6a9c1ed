use serde_json::json;

use super::*;

/// Returns the class of a failure: `busy` passes, `again` is retried some times, `long` is a conversation that is
/// too long, `no` does not pass. With the wait in seconds.
fn told(failure: &Failure) -> (&'static str, Option<f64>) {
    let kind = match failure.passing() {
        _ if failure.too_long().is_some() => "long",
        Some(Passing::Unavailable) => "busy",
        Some(_) => "again",
        None => "no",
    };
    (kind, failure.wait().map(|wait| wait.as_secs_f64()))
}

/// (A02, A05): an `error` as vendors write it, its HTTP status, and its class. In the body of a success and in a
/// stream, the object has this class too if its code is specific enough.
const ERRORS: &[(&str, u16, &str, Option<f64>)] = &[
    // OpenAI.
    (
        r#"{"code":"context_length_exceeded","type":"invalid_request_error","message":"Your input exceeds the context window"}"#,
        400,
        "long",
        None,
    ),
    (
        r#"{"code":"rate_limit_exceeded","type":"tokens","message":"Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 29000, Requested 5000. Please try again in 3s."}"#,
        429,
        "busy",
        Some(3.0),
    ),
    (r#"{"code":"rate_limit_exceeded","message":"Please try again in 250ms"}"#, 429, "busy", Some(0.25)),
    (r#"{"code":"rate_limit_exceeded","message":"Please try again in 1m2.5s."}"#, 429, "busy", Some(62.5)),
    (r#"{"code":"rate_limit_exceeded","message":"try again in 2 minutes"}"#, 429, "busy", Some(120.0)),
    (
        r#"{"code":"insufficient_quota","type":"insufficient_quota","message":"You exceeded your current quota"}"#,
        429,
        "no",
        None,
    ),
    (r#"{"code":"server_error","message":"sorry"}"#, 500, "busy", None),
    (r#"{"code":"invalid_api_key","message":"Incorrect API key"}"#, 401, "no", None),
    // Anthropic.
    (r#"{"type":"overloaded_error","message":"Overloaded"}"#, 529, "busy", None),
    (
        r#"{"type":"rate_limit_error","message":"too many tokens: your organization's limit of input tokens"}"#,
        429,
        "busy",
        None,
    ),
    (
        r#"{"type":"invalid_request_error","message":"prompt is too long: 212345 tokens > 200000 maximum"}"#,
        400,
        "long",
        None,
    ),
    (r#"{"type":"request_too_large","message":"Request exceeds the maximum size"}"#, 413, "long", None),
    (r#"{"type":"invalid_request_error","message":"messages: roles must alternate"}"#, 400, "no", None),
    (r#"{"type":"api_error","message":"Internal server error"}"#, 500, "busy", None),
    // Gemini.
    (
        r#"{"code":429,"message":"Resource exhausted","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3s"}]}"#,
        429,
        "busy",
        Some(3.0),
    ),
    (
        r#"{"code":429,"message":"Quota. Please retry in 17.5s.","status":"RESOURCE_EXHAUSTED"}"#,
        429,
        "busy",
        Some(17.5),
    ),
    (
        r#"{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}"#,
        400,
        "long",
        None,
    ),
    (r#"{"code":503,"message":"overloaded","status":"UNAVAILABLE"}"#, 503, "busy", None),
    (r#"{"code":403,"message":"context window","status":"PERMISSION_DENIED"}"#, 403, "no", None),
    // OpenRouter, which forwards upstream errors.
    (r#"{"code":429,"message":"Too many tokens, please wait before trying again."}"#, 429, "busy", None),
    (
        r#"{"code":400,"message":"This endpoint's maximum context length is 128000 tokens. However, you requested about 131072 tokens"}"#,
        400,
        "long",
        None,
    ),
    (
        r#"{"code":502,"message":"Provider returned error","metadata":{"headers":{"Retry-After":"7"}}}"#,
        502,
        "busy",
        Some(7.0),
    ),
    (
        r#"{"code":429,"message":"Provider returned error","metadata":{"retry_after_seconds":4}}"#,
        429,
        "busy",
        Some(4.0),
    ),
    (r#"{"code":402,"message":"no credit"}"#, 402, "no", None),
    // Gateways to Amazon Bedrock.
    (
        r#"{"__type":"com.amazon.coral#ThrottlingException","message":"Too many tokens, please wait before trying again."}"#,
        400,
        "busy",
        None,
    ),
    (r#"{"code":"400","message":"Too many tokens, please wait before trying again."}"#, 400, "busy", None),
    (
        r#"{"code":"ThrottlingException","message":"too many tokens","retry_after_ms":1500}"#,
        400,
        "busy",
        Some(1.5),
    ),
    // Local servers.
    (r#"{"code":500,"message":"the input length exceeds the context length"}"#, 500, "long", None),
    (
        r#"{"type":"exceed_context_size_error","message":"request (20480 tokens) exceeds it"}"#,
        400,
        "long",
        None,
    ),
];

#[test]
fn an_error_means_the_same_however_it_comes() {
    for &(error, status, kind, seconds) in ERRORS {
        let error: Value = serde_json::from_str(error).unwrap();
        let body = json!({ "error": error });
        let message = error["message"].as_str().unwrap().to_owned();
        assert_eq!(told(&refusal(status, &body, message)), (kind, seconds), "as {status}: {error}");
        let has_code = ["code", "type", "__type"].iter().any(|key| error.get(*key).is_some());
        assert!(has_code);
        assert_eq!(told(&reported_error(&body).unwrap_err()), (kind, seconds), "in a body: {error}");
    }
}

/// Without a code, the text determines the class of an error.
#[test]
fn errors_without_a_code_are_told_by_their_words() {
    for (error, expected) in [
        (json!("Too many tokens, please wait before trying again."), ("busy", None)),
        (json!("litellm.RateLimitError: rate limit, retry after 9 seconds"), ("busy", Some(9.0))),
        (json!({ "message": "prompt is too long" }), ("long", None)),
        (json!({ "message": "unexpected EOF" }), ("again", None)),
    ] {
        assert_eq!(told(&reported_error(&json!({ "error": error })).unwrap_err()), expected, "{error}");
    }
    assert_eq!(reported_error(&json!({ "error": null })), Ok(()));
    assert_eq!(told(&refusal(429, &Value::Null, "context length".into())).0, "busy");
    assert_eq!(told(&refusal(501, &Value::Null, String::new())).0, "no");
}

/// (HB6): the kind for telemetry is equal for all vendors.
#[test]
fn a_conversation_that_is_too_long_has_a_kind_of_its_own() {
    let error = json!({ "error": { "code": "context_length_exceeded", "message": "too long" } });
    for failure in [refusal(400, &error, "too long".into()), reported_error(&error).unwrap_err()] {
        assert_eq!(failure.kind(), "context_length_exceeded");
    }
    assert_eq!(refusal(429, &Value::Null, String::new()).kind(), "provider_error");
}
