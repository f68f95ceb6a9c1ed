use serde_json::json;

use super::*;

fn named(name: &str, context_window: Option<u32>) -> ListedModel {
    ListedModel { name: name.into(), context_window, prices: None }
}

/// The lists of vendors, as documented.
#[test]
fn lists_are_read_as_vendors_publish_them() {
    let page = (OPENAI.read)(&json!({ "object": "list", "data": [
        { "id": "gpt-5", "object": "model", "created": 1, "owned_by": "openai" },
        { "id": "local", "object": "model", "max_model_len": 32768 },
        { "id": "" }, { "object": "model" }, { "id": "x".repeat(300) },
    ] }));
    assert_eq!(page.unwrap().models, [named("gpt-5", None), named("local", Some(32_768))]);
    let claude = json!({ "type": "model", "id": "claude-opus-5", "display_name": "Claude Opus 5",
        "created_at": "2026-01-01T00:00:00Z", "max_input_tokens": 1_000_000, "max_tokens": 64_000 });
    let page = (ANTHROPIC.read)(
        &json!({ "data": [claude], "has_more": true, "first_id": "claude-opus-5", "last_id": "claude-opus-5" }),
    );
    let page = page.unwrap();
    assert_eq!(page.models, [named("claude-opus-5", Some(1_000_000))]);
    assert_eq!(page.next, [("after_id", "claude-opus-5".to_owned())]);
    let last = (ANTHROPIC.read)(&json!({ "data": [], "has_more": false, "first_id": null, "last_id": "x" }));
    assert_eq!(last.unwrap(), Page::default());
    let page = (GEMINI.read)(&json!({ "models": [
        { "name": "models/gemini-3-pro", "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
          "supportedGenerationMethods": ["generateContent", "countTokens"] },
        { "name": "models/embedding-001", "supportedGenerationMethods": ["embedContent"] },
    ], "nextPageToken": "abc" }));
    let page = page.unwrap();
    assert_eq!(
        (page.models, page.next),
        (vec![named("gemini-3-pro", Some(1_048_576))], vec![("pageToken", "abc".to_owned())])
    );
    assert_eq!((GEMINI.read)(&json!({})).unwrap(), Page::default());
    let page = (OLLAMA.read)(&json!({ "models": [
        { "name": "qwen3:4b", "model": "qwen3:4b", "size": 1, "digest": "d", "details": { "family": "qwen3" } },
    ] }));
    assert_eq!(page.unwrap().models, [named("qwen3:4b", None)]);
}

#[test]
fn openrouter_tells_prices_and_pages() {
    let page = (OPENROUTER.read)(&json!({
        "data": [
            { "id": "a/b", "name": "A: B", "context_length": 8192,
              "pricing": { "prompt": "0.00003", "completion": "0.00006", "input_cache_read": "0.000003" } },
            { "id": "openrouter/auto", "context_length": 2_000_000, "pricing": { "prompt": "-1", "completion": "-1" } },
        ],
        "links": { "next": "/api/v1/models?offset=500&limit=500" },
    }));
    let page = page.unwrap();
    let prices = Prices { input: 30.0, output: 60.0, cached: Some(3.0), stored: None };
    assert_eq!(page.models[0], ListedModel { prices: Some(prices), ..named("a/b", Some(8192)) });
    assert_eq!(page.models[1], named("openrouter/auto", Some(2_000_000)));
    assert_eq!(page.next, [("offset", "500".to_owned()), ("limit", "500".to_owned())]);
    let elsewhere =
        (OPENROUTER.read)(&json!({ "data": [], "links": { "next": "http://evil/?offset=a&x=1" } }));
    assert_eq!(elsewhere.unwrap(), Page::default());
}

#[test]
fn what_is_no_list_is_said_to_be_none() {
    for listing in [OPENAI, ANTHROPIC, OLLAMA, OPENROUTER] {
        assert!(
            matches!((listing.read)(&json!({ "x": 1 })), Err(Failure::Malformed(why)) if why.contains("no list"))
        );
    }
}
