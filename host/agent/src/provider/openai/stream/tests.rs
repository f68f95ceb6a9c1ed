use super::*;

/// Returns the complete answer of chunks whose only choice has these deltas, and the visible pieces.
fn folded(deltas: &[Value]) -> (Value, Vec<Piece>) {
    let (mut fold, mut pieces) = (Box::<Completion>::default(), Vec::new());
    for delta in deltas {
        let frame = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
        fold.take(frame, &mut pieces).unwrap();
    }
    assert!(!fold.is_complete());
    fold.take(json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] }), &mut pieces).unwrap();
    assert!(fold.is_complete());
    fold.take(json!({ "choices": [], "usage": { "prompt_tokens": 1 }, "model": "m" }), &mut pieces).unwrap();
    (fold.body(), pieces)
}

fn message(deltas: &[Value]) -> Value {
    folded(deltas).0["choices"][0]["message"].clone()
}

fn delta(call: &Value) -> Value {
    json!({ "tool_calls": [call] })
}

/// PL01: texts are concatenated, and emitted as they arrive.
#[test]
fn text_and_thoughts_are_put_together_and_told() {
    let deltas = [
        json!({ "role": "assistant", "content": "" }),
        json!({ "reasoning_content": "h" }),
        json!({ "reasoning_content": "m", "content": null }),
        json!({ "content": "hel" }),
        json!({ "content": "lo" }),
    ];
    let (body, pieces) = folded(&deltas);
    let expected = json!({ "role": "assistant", "content": "hello", "reasoning_content": "hm" });
    assert_eq!(body["choices"][0]["message"], expected);
    assert_eq!((&body["usage"]["prompt_tokens"], &body["model"]), (&json!(1), &json!("m")));
    let pieces: Vec<_> = pieces.into_iter().filter(|piece| *piece != Piece::Text(String::new())).collect();
    let text = |text: &str| Piece::Text(text.into());
    let thought = |text: &str| Piece::Thought(text.into());
    assert_eq!(pieces, [thought("h"), thought("m"), text("hel"), text("lo")]);
}

/// PL03: interleaved calls are kept apart.
#[test]
fn parallel_calls_are_put_together_by_their_numbers() {
    let deltas = [
        delta(
            &json!({ "index": 0, "id": "a", "type": "function", "function": { "name": "one", "arguments": "" } }),
        ),
        delta(
            &json!({ "index": 1, "id": "b", "type": "function", "function": { "name": "two", "arguments": "{\"x\"" } }),
        ),
        delta(&json!({ "index": 0, "function": { "arguments": "{}" } })),
        delta(&json!({ "index": 1, "id": null, "function": { "name": null, "arguments": ":1}" } })),
    ];
    let expected = json!([
        { "id": "a", "type": "function", "function": { "name": "one", "arguments": "{}" } },
        { "id": "b", "type": "function", "function": { "name": "two", "arguments": "{\"x\":1}" } },
    ]);
    assert_eq!(message(&deltas)["tool_calls"], expected);
}

/// PL10: calls are distinguished if all indices are 0 or missing, and if names are repeated or split.
#[test]
fn calls_are_told_apart_however_they_are_numbered() {
    let whole = |index: Option<u64>, id: Option<&str>, name: &str| {
        delta(&json!({ "index": index, "id": id, "function": { "name": name, "arguments": "{}" } }))
    };
    let names = |deltas: &[Value]| -> Vec<String> {
        let message = message(deltas);
        let calls = message["tool_calls"].as_array().unwrap().iter();
        calls.map(|call| call["function"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&[whole(Some(0), Some("a"), "one"), whole(Some(0), Some("b"), "two")]), ["one", "two"]);
    assert_eq!(names(&[whole(None, Some("a"), "one"), whole(None, Some("b"), "two")]), ["one", "two"]);
    assert_eq!(names(&[whole(None, None, "one"), whole(None, None, "two")]), ["one", "two"]);
    assert_eq!(names(&[whole(Some(0), Some("a"), "one"), whole(Some(0), Some("a"), "one")]), ["one"]);
    assert_eq!(names(&[whole(Some(0), Some("a"), "on"), whole(Some(0), None, "e")]), ["one"]);
    let more = delta(&json!({ "function": { "arguments": " " } }));
    assert_eq!(names(&[whole(None, Some("a"), "one"), more]), ["one"]);
}

/// PL11: unknown keys are kept and concatenated.
#[test]
fn unknown_keys_are_put_together() {
    let detail =
        |text: &str| json!({ "reasoning_details": [{ "type": "reasoning.text", "index": 0, "text": text }] });
    let signed = json!({ "reasoning_details": [{ "type": "reasoning.text", "index": 0, "signature": "s" }] });
    let other = json!({ "reasoning_details": [{ "type": "reasoning.encrypted", "index": 1, "data": "d" }] });
    let details = &message(&[detail("a"), detail("b"), signed, other])["reasoning_details"];
    let expected = json!([
        { "type": "reasoning.text", "index": 0, "text": "ab", "signature": "s" },
        { "type": "reasoning.encrypted", "index": 1, "data": "d" },
    ]);
    assert_eq!(*details, expected);
    let parts = [
        json!({ "content": "a" }),
        json!({ "content": [{ "type": "text", "text": "b" }] }),
        json!({ "content": "c" }),
    ];
    assert_eq!(message(&parts)["content"], json!([{ "type": "text", "text": "abc" }]));
}

/// PL12: an error in a stream is an error with its code.
#[test]
fn an_error_in_a_stream_is_an_error() {
    let mut fold = Completion::default();
    let choice =
        json!({ "choices": [{ "delta": { "content": "" }, "error": { "message": "down", "code": 502 } }] });
    let mut ended = choice.clone();
    ended["choices"][0]["finish_reason"] = json!("stop");
    for frame in [json!({ "error": { "message": "down", "code": 502 } }), choice, ended] {
        let error = fold.take(frame, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, Failure::Reported { code: Some(502), .. }), "{error}");
        assert!(!fold.is_complete(), "an answer with an error has no end");
    }
    assert!(matches!(fold.take(json!([]), &mut Vec::new()), Err(Failure::Malformed(_))));
}

/// PL18: a stream without a choice has no body and no end.
#[test]
fn a_stream_without_a_choice_has_none() {
    let mut fold = Box::<Completion>::default();
    fold.take(json!({ "choices": [], "usage": null }), &mut Vec::new()).unwrap();
    assert_eq!((fold.is_complete(), fold.body()), (false, json!({})));
}
