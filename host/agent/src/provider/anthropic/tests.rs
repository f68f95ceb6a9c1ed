use super::super::Prompt;
use super::super::dialect::Piece;
use super::super::{Exchange, Message, Reply, RequestedCall};
use super::*;
use crate::provider::Stop;
use haft_core::call::{Attachment, ToolCall, ToolDef, ToolResult};
use serde_json::json;

fn ask<'a>(messages: &'a [Message], tools: &'a [&'a ToolDef]) -> Ask<'a> {
    Ask { model: "asked-model", system: "be brief", messages, tools, output: None }
}

/// Returns the turn of a message with `content`.
fn turn(content: &Value, reason: &str) -> Turn {
    let body = json!({ "type": "message", "role": "assistant", "content": content, "stop_reason": reason });
    Anthropic.decode(&ask(&[], &[]), body).unwrap()
}

fn call(id: &str, input: &Value) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "t", "input": input })
}

fn sent(messages: &[Message]) -> Value {
    Anthropic.request(&ask(messages, &[]), &Terms::default())["messages"].clone()
}

/// PL01: a turn has the text, the model and the tokens of the message.
#[test]
fn text_model_and_tokens_are_read() {
    let body = json!({
        "type": "message", "role": "assistant", "model": "exact", "stop_reason": "end_turn",
        "content": [{ "type": "text", "text": "hel" }, { "type": "text", "text": "lo" },
                    { "type": "thinking", "thinking": "", "signature": "s" }, { "type": "text", "text": "you" }],
        "usage": { "input_tokens": 7, "output_tokens": 2, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 5 },
    });
    let turn = Anthropic.decode(&ask(&[], &[]), body).unwrap();
    assert_eq!(
        (turn.reply.text.as_str(), turn.model.as_str(), turn.stop),
        ("hello\n\nyou", "exact", Stop::Done)
    );
    assert_eq!(turn.usage, Usage { input: 42, output: 2, cached: 30, stored: 5, cost: None });
}

/// PL04: without tools and system prompt, a request has no such keys.
#[test]
fn nothing_is_sent_for_no_tools_and_no_system() {
    let messages = [Message::User("hi".into())];
    let ask = Ask { model: "m", system: "", messages: &messages, tools: &[], output: None };
    let body = Value::from(Anthropic.request(&ask, &Terms::default()));
    let cached = json!({ "type": "text", "text": "hi", "cache_control": { "type": "ephemeral" } });
    assert_eq!(
        body,
        json!({ "model": "m", "max_tokens": 8192, "messages": [{ "role": "user", "content": [cached] }] })
    );
}

/// G10: a long file fits one call; no request exceeds the output limit of its model.
#[test]
fn the_default_limit_is_that_of_the_model() {
    let rows = [
        ("claude-sonnet-4-5", 32_000),
        ("claude-opus-4-1-20250805", 32_000),
        ("anthropic.claude-haiku-4-5-v1:0", 32_000),
        ("claude-3-5-haiku-latest", 8192),
        ("claude-3-haiku-20240307", 4096),
        ("other", 8192),
    ];
    for (model, most) in rows {
        let body = Anthropic.request(&Ask { model, ..ask(&[], &[]) }, &Terms::default());
        assert_eq!(body["max_tokens"], most, "{model}");
        let own = Terms { max_tokens: Some(9), ..Terms::default() };
        assert_eq!(Anthropic.request(&Ask { model, ..ask(&[], &[]) }, &own)["max_tokens"], 9);
    }
}

/// PL13: the constant prefix is marked as cacheable.
#[test]
fn the_system_prompt_and_the_last_messages_are_marked() {
    let def = ToolDef { name: "t".into(), parameters: json!({ "type": "object" }), ..ToolDef::default() };
    let messages = [Message::User("hi".into())];
    let body =
        Anthropic.request(&ask(&messages, &[&def]), &Terms { max_tokens: Some(9), ..Terms::default() });
    assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
    assert_eq!(
        body["tools"][0],
        json!({ "name": "t", "description": "", "input_schema": { "type": "object", "properties": {} } })
    );
    assert_eq!((&body["max_tokens"], body.get("stream")), (&json!(9), None));
    let bare = Ask { system: "", ..ask(&messages, &[]) };
    let with_tool =
        Anthropic.request(&Ask { tools: &[&def], ..bare }, &Terms { stream: true, ..Terms::default() });
    assert!(with_tool["tools"][0]["cache_control"].is_object());
    assert_eq!(with_tool["stream"], true);
    let marks = Value::from(body).to_string().matches("cache_control").count();
    assert!((1..=4).contains(&marks), "{marks}");
}

/// PL13: all answers are in one message, failures are flagged, and the next prompt follows them.
#[test]
fn answers_are_one_message_in_order() {
    let reply = turn(&json!([call("a", &json!({ "x": 1 })), call("b", &json!({}))]), "tool_use").reply;
    let answers = [ToolResult::success("one"), ToolResult::error("two")];
    let messages = [
        Message::User("go".into()),
        Message::Turn(Exchange::new(reply, answers)),
        Message::User("and now".into()),
    ];
    let sent = sent(&messages);
    assert_eq!(sent.as_array().unwrap().len(), 3);
    let expected = json!([
        { "type": "tool_result", "tool_use_id": "a", "content": "one" },
        { "type": "tool_result", "tool_use_id": "b", "content": "two", "is_error": true },
        { "type": "text", "text": "and now", "cache_control": { "type": "ephemeral" } },
    ]);
    assert_eq!(sent[2], json!({ "role": "user", "content": expected }));
}

/// PL13, G09: pictures and documents are sent, in answers and in prompts.
#[test]
fn pictures_are_sent_as_pictures() {
    let picture = Attachment::new("image/png", vec![0, 255]);
    let document =
        Attachment { name: Some("a.pdf".into()), ..Attachment::new("application/pdf", vec![0, 255]) };
    let attachments = vec![picture, document];
    let result = ToolResult { attachments: attachments.clone(), ..ToolResult::success("see") };
    let reply = turn(&json!([call("a", &json!({}))]), "tool_use").reply;
    let said = Prompt { text: "look".into(), attachments };
    let sent = sent(&[Message::User(said), Message::Turn(Exchange::new(reply, [result]))]);
    let source = |media_type: &str| json!({ "type": "base64", "media_type": media_type, "data": "AP8=" });
    let image = json!({ "type": "image", "source": source("image/png") });
    let document = json!({ "type": "document", "source": source("application/pdf"), "title": "a.pdf" });
    let cached = json!({ "type": "text", "text": "look", "cache_control": { "type": "ephemeral" } });
    assert_eq!(sent[0]["content"], json!([image, document, cached]));
    let text = json!({ "type": "text", "text": "see" });
    assert_eq!(sent[2]["content"][0]["content"], json!([image, document, text]));
}

/// The API rejects a failure without text, and a failure with files.
#[test]
fn a_failure_has_words_and_no_mark_beside_files() {
    let picture = || vec![Attachment::new("image/png", vec![0, 255])];
    let answer = |result: ToolResult| {
        let reply = turn(&json!([call("a", &json!({}))]), "tool_use").reply;
        let sent = sent(&[Message::User("go".into()), Message::Turn(Exchange::new(reply, [result]))]);
        sent[2]["content"][0].clone()
    };
    for blank in ["", " \n"] {
        let sent = answer(ToolResult::error(blank));
        assert_eq!((&sent["content"], &sent["is_error"]), (&json!("(no output)"), &json!(true)));
        let sent = answer(ToolResult { attachments: picture(), ..ToolResult::error(blank) });
        assert_eq!(sent["content"][1], json!({ "type": "text", "text": "[The call failed.]" }));
    }
    let sent = answer(ToolResult { attachments: picture(), ..ToolResult::error("no such page") });
    assert_eq!((&sent["content"][0]["type"], sent.get("is_error")), (&json!("image"), None));
    assert_eq!(sent["content"][1]["text"], "[The call failed.]\nno such page");
    assert_eq!(answer(ToolResult::success(""))["content"], "");
}

/// PL14: thinking and unknown blocks are sent back unmodified; rejected blocks are not.
#[test]
fn blocks_go_back_unmodified() {
    let content = json!([
        { "type": "thinking", "thinking": "hm", "signature": "sig==" },
        { "type": "redacted_thinking", "data": "xyz" },
        { "type": "server_tool_use", "id": "s", "name": "web_search", "input": { "q": 1 } },
        { "type": "new_kind", "anything": [1, null] },
        { "type": "text", "text": "so", "citations": [{ "type": "x" }] },
        call("a", &json!({ "k": [1] })),
    ]);
    let turn = turn(&content, "tool_use");
    assert_eq!(turn.reply.raw, json!({ "role": "assistant", "content": content }));
    assert_eq!((turn.reply.text.as_str(), turn.reply.calls.len()), ("so", 1));
    let refused = json!([{ "type": "thinking", "thinking": "unsigned" }, { "type": "text", "text": " " }, { "type": "text", "text": "x" }]);
    let kept = json!([{ "type": "text", "text": "x" }]);
    assert_eq!(self::turn(&refused, "end_turn").reply.raw["content"], kept);
}

/// G10: a full context window differs from the limit of output tokens: the conversation must be shortened.
#[test]
fn a_full_context_window_is_told_apart() {
    let body = json!({ "content": [{ "type": "text", "text": "half" }], "stop_reason": "model_context_window_exceeded" });
    let ask = Ask { model: "m", system: "", messages: &[], tools: &[], output: None };
    let failure = Anthropic.decode(&ask, body).unwrap_err();
    assert!(failure.too_long().is_some() && failure.passing().is_none(), "{failure}");
}

/// PL14: each stop reason has its own end, and the last call of a cut message is not run.
#[test]
fn stop_reasons_are_told_apart() {
    let text = json!([{ "type": "text", "text": "half" }]);
    for (reason, stop) in [
        ("end_turn", Stop::Done),
        ("stop_sequence", Stop::Done),
        ("max_tokens", Stop::Length),
        ("refusal", Stop::Refused),
        ("pause_turn", Stop::Paused),
    ] {
        assert_eq!(turn(&text, reason).stop, stop, "{reason}");
    }
    let cut = turn(&json!([call("a", &json!({})), call("b", &json!({}))]), "max_tokens").reply;
    assert_eq!(cut.calls[0].problem, None);
    assert!(cut.calls[1].problem.as_deref().unwrap().contains("output limit"));
    let refused = turn(&json!([]), "refusal");
    assert_eq!((refused.stop, refused.reply.is_empty()), (Stop::Refused, true));
}

/// PL14: an interrupted turn is stored regardless of its content, and sent back unmodified.
#[test]
fn an_interrupted_turn_goes_back_as_it_is() {
    let content = json!([{ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} }]);
    let paused = turn(&content, "pause_turn").reply;
    assert!(!paused.is_empty());
    let messages = [Message::User("go".into()), Message::Turn(Exchange::new(paused, []))];
    assert_eq!(sent(&messages)[1], json!({ "role": "assistant", "content": content }));
}

/// PL10: the input of a call is accepted as an object, as JSON text or as null; broken JSON is a problem of the call.
#[test]
fn input_is_an_object_or_a_problem() {
    for (input, understood) in [
        (json!({ "a": 1 }), json!({ "a": 1 })),
        (json!("{\"a\":1}"), json!({ "a": 1 })),
        (Value::Null, json!({})),
    ] {
        assert_eq!(turn(&json!([call("a", &input)]), "tool_use").reply.calls[0].call.arguments, understood);
    }
    let broken = turn(&json!([call("a", &json!("{\"a\":"))]), "tool_use").reply;
    assert!(broken.calls[0].problem.as_deref().unwrap().starts_with("invalid arguments: "));
    assert_eq!(broken.raw["content"][0]["input"], json!({}));
}

/// PL12: an error without a status gets the status of its type.
#[test]
fn an_error_has_the_status_of_its_type() {
    let body = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "busy" } });
    let error = Anthropic.decode(&ask(&[], &[]), body).unwrap_err();
    assert!(matches!(error, Failure::Reported { code: Some(529), .. }), "{error}");
    assert!(error.passing().is_some());
}

/// PL18: a message without text and calls is an empty response.
#[test]
fn nothing_said_is_an_empty_response() {
    let body = json!({ "content": [], "stop_reason": "end_turn" });
    let error = Anthropic.decode(&ask(&[], &[]), body).unwrap_err().to_string();
    assert_eq!(error, "empty response: neither text nor a call (it ended with `end_turn`)");
    assert!(matches!(Anthropic.decode(&ask(&[], &[]), json!({})), Err(Failure::Malformed(_))));
}

/// A turn of another vendor becomes blocks with valid ids and names.
#[test]
fn a_turn_of_another_vendor_is_written_anew() {
    let tool_call =
        ToolCall { id: "call_1".into(), tool: "functions.t".into(), arguments: json!({ "a": 1 }) };
    let reply = Reply {
        text: "hm".into(),
        calls: vec![RequestedCall { call: tool_call, problem: None }],
        raw: json!({ "role": "assistant", "tool_calls": [] }),
        vendor: "openai".into(),
        ..Reply::default()
    };
    let sent = sent(&[Message::User("go".into()), Message::Turn(Exchange::new(reply, []))]);
    let expected = json!([
        { "type": "text", "text": "hm" },
        { "type": "tool_use", "id": "call_1", "name": "functions_t", "input": { "a": 1 } },
    ]);
    assert_eq!(sent[1]["content"], expected);
    assert_eq!(sent[2]["content"][0]["tool_use_id"], "call_1");
}

/// Returns the result of a stream of `events`, and the visible text and thinking.
fn folded(events: &[Value]) -> (Value, String, String) {
    let (mut fold, mut pieces) = (Anthropic.fold(), Vec::new());
    for event in events {
        assert!(!fold.is_over());
        fold.take(event.clone(), &mut pieces).unwrap();
    }
    assert!(fold.is_complete() && fold.is_over());
    let (mut spoken, mut thought) = (String::new(), String::new());
    for piece in pieces {
        match piece {
            Piece::Text(text) => spoken.push_str(&text),
            Piece::Thought(text) => thought.push_str(&text),
        }
    }
    (fold.body(), spoken, thought)
}

/// PL02, PL14: a streamed message equals an unstreamed one.
#[test]
fn a_streamed_message_is_put_together() {
    let start = |index: u64, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let delta =
        |index: u64, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let stop = |index: u64| json!({ "type": "content_block_stop", "index": index });
    let (body, text, thought) = folded(&[
        json!({ "type": "message_start", "message": { "role": "assistant", "model": "exact", "content": [], "stop_reason": null,
            "usage": { "input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 2 } } }),
        json!({ "type": "ping" }),
        start(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "h" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "m" })),
        delta(0, json!({ "type": "signature_delta", "signature": "sig==" })),
        stop(0),
        start(1, json!({ "type": "text", "text": "" })),
        delta(1, json!({ "type": "text_delta", "text": "hel" })),
        delta(1, json!({ "type": "text_delta", "text": "lo" })),
        delta(1, json!({ "type": "citations_delta", "citation": { "type": "c" } })),
        stop(1),
        start(2, json!({ "type": "tool_use", "id": "a", "name": "t", "input": {} })),
        delta(2, json!({ "type": "input_json_delta", "partial_json": "" })),
        delta(2, json!({ "type": "input_json_delta", "partial_json": "{\"x\"" })),
        delta(2, json!({ "type": "input_json_delta", "partial_json": ": 1}" })),
        stop(2),
        start(3, json!({ "type": "tool_use", "id": "b", "name": "t", "input": {} })),
        stop(3),
        start(4, json!({ "type": "text", "text": "bye" })),
        json!({ "type": "unheard_of" }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 9, "input_tokens": null } }),
        json!({ "type": "message_stop" }),
    ]);
    assert_eq!((text.as_str(), thought.as_str()), ("hello\n\nbye", "hm"));
    let turn = Anthropic.decode(&ask(&[], &[]), body).unwrap();
    assert_eq!(turn.reply.text, text);
    assert_eq!(turn.usage, Usage { input: 9, output: 9, cached: 2, ..Usage::default() });
    let expected = json!([
        { "type": "thinking", "thinking": "hm", "signature": "sig==" },
        { "type": "text", "text": "hello", "citations": [{ "type": "c" }] },
        { "type": "tool_use", "id": "a", "name": "t", "input": { "x": 1 } },
        { "type": "tool_use", "id": "b", "name": "t", "input": {} },
        { "type": "text", "text": "bye" },
    ]);
    assert_eq!(turn.reply.raw["content"], expected);
}

proptest::proptest! {
    /// PL14: no stream fails, except by its own error.
    #[test]
    fn any_event_is_read(
        kinds in proptest::collection::vec(0_usize..6, 0..12), index in 0_u64..5, text in "[\\[\\]{}\":a-z0-9,]{0,12}",
    ) {
        let mut fold = Anthropic.fold();
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text.clone()));
        for kind in kinds {
            let name = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "x"][kind];
            let delta = json!({ "type": "input_json_delta", "partial_json": text, "text": value, "citation": value, "usage": value });
            let frame = json!({ "type": name, "index": index, "delta": delta, "content_block": value, "message": value, "usage": value });
            proptest::prop_assert!(fold.take(frame, &mut Vec::new()).is_ok());
        }
        let body = fold.body();
        let _ = Anthropic.decode(&ask(&[], &[]), body);
    }
}
