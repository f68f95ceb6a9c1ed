use super::super::dialect::Piece;
use super::super::{Exchange, Message, Prompt, RequestedCall};
use super::*;
use crate::provider::Stop;
use haft_core::call::{Attachment, ToolCall, ToolDef, ToolResult};
use serde_json::json;

fn ask<'a>(messages: &'a [Message], tools: &'a [&'a ToolDef]) -> Ask<'a> {
    Ask { model: "asked-model", system: "be brief", messages, tools, output: None }
}

fn decode(body: &Value) -> Result<Turn, Failure> {
    Gemini.decode(&ask(&[], &[]), body.clone())
}

/// Returns the turn of a response whose only candidate has `parts`.
fn turn(parts: &Value, reason: &str) -> Turn {
    let content = json!({ "role": "model", "parts": parts });
    decode(&json!({ "candidates": [{ "content": content, "finishReason": reason }] })).unwrap()
}

fn sent(messages: &[Message]) -> Value {
    Gemini.request(&ask(messages, &[]), &Terms::default())["contents"].clone()
}

/// PL01: a turn has the text, the model and the tokens of the response, and no thoughts in its text.
#[test]
fn text_model_and_tokens_are_read_and_thoughts_are_not_said() {
    let turn = decode(&json!({
        "modelVersion": "exact",
        "candidates": [{ "finishReason": "STOP", "content": { "role": "model", "parts": [
            { "text": "thinking", "thought": true }, { "text": "hel" }, { "text": "lo" },
        ] } }],
        "usageMetadata": { "promptTokenCount": 7, "candidatesTokenCount": 2, "thoughtsTokenCount": 5, "cachedContentTokenCount": 3 },
    }))
    .unwrap();
    assert_eq!((turn.reply.text.as_str(), turn.model.as_str(), turn.stop), ("hello", "exact", Stop::Done));
    assert_eq!(turn.usage, Usage { input: 7, output: 7, cached: 3, ..Usage::default() });
}

/// PL04: without tools and system prompt, a request has no such keys.
#[test]
fn nothing_is_sent_for_no_tools_and_no_system() {
    let messages = [Message::User("hi".into())];
    let ask = Ask { model: "m", system: "", messages: &messages, tools: &[], output: None };
    let body = Value::from(Gemini.request(&ask, &Terms::default()));
    assert_eq!(body, json!({ "contents": [{ "role": "user", "parts": [{ "text": "hi" }] }] }));
    let limited = Gemini.request(&ask, &Terms { max_tokens: Some(9), ..Terms::default() });
    assert_eq!(limited["generationConfig"], json!({ "maxOutputTokens": 9 }));
}

/// PL15: the model is a part of the path.
#[test]
fn the_model_is_part_of_the_path() {
    assert_eq!(Gemini.path("gemini-x", false), "models/gemini-x:generateContent");
    assert_eq!(Gemini.path("models/gemini-x", true), "models/gemini-x:streamGenerateContent");
    assert_eq!((Gemini.query(false), Gemini.query(true)), (None, Some(("alt", "sse"))));
    assert_eq!(Gemini.api().key, ("x-goog-api-key", ""));
}

/// G09: files are parts of a prompt; they are inside an answer if the model accepts them there, otherwise after all
/// answers.
#[test]
fn files_stand_in_answers_or_after_them() {
    let parts = json!([{ "functionCall": { "name": "t" } }, { "functionCall": { "name": "u" } }]);
    let file = |media_type: &str| Attachment::new(media_type, vec![0, 255]);
    let data = |media_type: &str| json!({ "inlineData": { "mimeType": media_type, "data": "AP8=" } });
    let attachments = vec![file("image/png"), file("audio/wav")];
    let answers = [
        ToolResult { attachments: attachments.clone(), ..ToolResult::success("one") },
        ToolResult::success("two"),
    ];
    let messages = [
        Message::User(Prompt { text: "look".into(), attachments }),
        Message::Turn(Exchange::new(turn(&parts, "STOP").reply, answers)),
    ];
    for (model, inside) in [("gemini-2.5-pro", false), ("gemini-3-pro", true), ("gemini-flash-latest", true)]
    {
        let ask = Ask { model, ..ask(&messages, &[]) };
        let sent = Value::from(Gemini.request(&ask, &Terms::default()))["contents"].clone();
        assert_eq!(sent[0]["parts"], json!([{ "text": "look" }, data("image/png"), data("audio/wav")]));
        let answers = &sent[2]["parts"];
        let held = answers[0]["functionResponse"].get("parts").cloned();
        assert_eq!(held, inside.then(|| json!([data("image/png")])), "{model}");
        assert_eq!(answers[1]["functionResponse"]["name"], "u");
        assert_eq!(answers[2], json!({ "text": "[Files of the answer of `t`:]" }));
        assert_eq!(answers[answers.as_array().unwrap().len() - 1], data("audio/wav"));
        assert_eq!(answers.as_array().unwrap().len(), if inside { 4 } else { 5 });
    }
}

/// PL15: signatures and ids are sent back; answers have the names and ids of the calls, in one content.
#[test]
fn signatures_and_ids_go_back() {
    let parts = json!([
        { "text": "hm", "thought": true },
        { "text": "", "thoughtSignature": "empty but signed" },
        { "functionCall": { "id": "f1", "name": "t", "args": { "a": 1 } }, "thoughtSignature": "sig" },
        { "functionCall": { "name": "t" } },
        { "newKind": 1 },
    ]);
    let turn = turn(&parts, "STOP");
    assert_eq!(turn.reply.text, "");
    let ids: Vec<_> = turn.reply.calls.iter().map(|requested| requested.call.id.as_str()).collect();
    assert_eq!(ids, ["f1", "haft00001"]);
    let answers = [ToolResult::success("one"), ToolResult::error("two")];
    let sent = sent(&[Message::User("go".into()), Message::Turn(Exchange::new(turn.reply, answers))]);
    let mut echoed = parts;
    echoed[3]["functionCall"]["args"] = json!({});
    assert_eq!(sent[1], json!({ "role": "model", "parts": echoed }));
    let expected = json!([
        { "functionResponse": { "name": "t", "response": { "output": "one" }, "id": "f1" } },
        { "functionResponse": { "name": "t", "response": { "error": "two" } } },
    ]);
    assert_eq!(sent[2], json!({ "role": "user", "parts": expected }));
}

/// PL15: newer models require a signature on every call, also on calls of another vendor's model.
#[test]
fn a_turn_of_another_vendor_is_written_anew() {
    let tool_call = ToolCall { id: "call_1".into(), tool: "t".into(), arguments: json!({ "a": 1 }) };
    let calls = vec![RequestedCall { call: tool_call, problem: None }];
    let reply = Reply { calls, vendor: "openai".into(), raw: json!({}), ..Reply::default() };
    let sent = sent(&[Message::User("go".into()), Message::Turn(Exchange::new(reply, []))]);
    let call = json!({ "functionCall": { "name": "t", "args": { "a": 1 } }, "thoughtSignature": "skip_thought_signature_validator" });
    assert_eq!(sent[1], json!({ "role": "model", "parts": [call] }));
    assert_eq!(sent[2]["parts"][0]["functionResponse"].get("id"), None);
}

/// PL16: a schema is sent in the vendor's subset, or as JSON Schema if the subset cannot express it.
#[test]
fn schemas_are_shaped() {
    let declared = |parameters: Value| {
        let def = ToolDef { name: "t".into(), description: "d".into(), parameters, ..ToolDef::default() };
        let body = Gemini.request(&ask(&[], &[&def]), &Terms::default());
        body["tools"][0]["functionDeclarations"][0].clone()
    };
    let sdk = json!({
        "$schema": "x", "type": "object", "additionalProperties": false, "required": ["path"],
        "properties": { "path": { "type": "string" }, "limit": { "type": ["integer", "null"], "format": "uint32" } },
    });
    let expected = json!({
        "type": "object", "required": ["path"],
        "properties": { "path": { "type": "string" }, "limit": { "type": "integer", "nullable": true } },
    });
    assert_eq!(declared(sdk), json!({ "name": "t", "description": "d", "parameters": expected }));
    let free = json!({ "type": "object", "properties": { "any": { "type": "object" } } });
    let declaration = declared(free.clone());
    assert_eq!((&declaration["parametersJsonSchema"], declaration.get("parameters")), (&free, None));
    assert_eq!(declared(json!({ "type": "object" })), json!({ "name": "t", "description": "d" }));
}

/// PL16: a candidate without parts is a turn, and a blocked prompt is a final error.
#[test]
fn content_without_parts_is_read() {
    for content in [json!({ "role": "model" }), json!({}), Value::Null] {
        let body = json!({ "candidates": [{ "content": content, "finishReason": "MAX_TOKENS" }] });
        let turn = decode(&body).unwrap();
        assert_eq!((turn.stop, turn.reply.is_empty()), (Stop::Length, true));
        let held = json!({ "candidates": [{ "content": content, "finishReason": "SAFETY" }] });
        assert_eq!(decode(&held).unwrap().stop, Stop::Filtered);
    }
    let blocked = json!({ "promptFeedback": { "blockReason": "PROHIBITED_CONTENT" } });
    let error = decode(&blocked).unwrap_err();
    assert_eq!(error.to_string(), "the prompt was blocked: PROHIBITED_CONTENT");
    assert_eq!(error.passing(), None);
}

/// PL16: a call that the vendor could not parse is retried.
#[test]
fn a_malformed_call_is_reported_and_worth_another_try() {
    let candidate = json!({ "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "print(x" });
    let error = decode(&json!({ "candidates": [candidate] })).unwrap_err();
    assert_eq!(error.to_string(), "the model's answer is invalid: MALFORMED_FUNCTION_CALL: print(x");
    assert!(error.passing().is_some());
}

/// G04: a turn without its call or its end is not a success, even with text.
#[test]
fn a_botched_turn_with_text_is_no_success() {
    let ends = |parts: Value, reason: &str| {
        decode(&json!({ "candidates": [{ "content": { "parts": parts }, "finishReason": reason }] }))
    };
    for reason in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER", "TOO_MANY_TOOL_CALLS"] {
        let error = ends(json!([{ "text": "I will now read" }]), reason).unwrap_err();
        assert!(matches!(&error, Failure::Botched(why) if why == reason), "{error}");
    }
    let call = json!([{ "functionCall": { "name": "t", "args": {} } }]);
    assert_eq!(ends(call, "UNEXPECTED_TOOL_CALL").unwrap().reply.calls.len(), 1);
}

/// PL10: the last call of a cut turn is not run.
#[test]
fn the_last_call_of_a_cut_turn_has_a_problem() {
    let call = json!({ "functionCall": { "name": "t", "args": {} } });
    let calls = turn(&json!([call, call]), "MAX_TOKENS").reply.calls;
    assert_eq!(calls[0].problem, None);
    assert!(calls[1].problem.as_deref().unwrap().contains("output limit"));
}

/// PL12: an error in a successful response is an error.
#[test]
fn an_error_in_a_success_is_an_error() {
    let body = json!({ "error": { "code": 503, "message": "overloaded", "status": "UNAVAILABLE" } });
    let failure = decode(&body).unwrap_err();
    assert!(matches!(&failure, Failure::Reported { code: Some(503), .. }), "{failure}");
}

/// PL18: a response without candidates, or without text and calls, is an empty response.
#[test]
fn nothing_said_is_an_empty_response() {
    assert_eq!(decode(&json!({})).unwrap_err().to_string(), "empty response: no candidates");
    let body =
        json!({ "candidates": [{ "content": { "parts": [{ "text": "" }] }, "finishReason": "STOP" }] });
    let error = decode(&body).unwrap_err().to_string();
    assert_eq!(error, "empty response: neither text nor a call (it ended with `STOP`)");
}

/// PL15: the parts of a stream are concatenated, and each signature stays with its part.
#[test]
fn a_streamed_content_is_put_together() {
    let chunk = |parts: Value| json!({ "candidates": [{ "content": { "role": "model", "parts": parts } }] });
    let mut fold = Gemini.fold();
    let mut pieces = Vec::new();
    let last = json!({
        "candidates": [{ "content": { "parts": [{ "text": "", "thoughtSignature": "end" }] }, "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 4, "candidatesTokenCount": 2 }, "modelVersion": "exact",
    });
    for frame in [
        chunk(json!([{ "text": "h", "thought": true }])),
        chunk(json!([{ "text": "m", "thought": true }])),
        chunk(json!([{ "text": "hel" }])),
        chunk(json!([{ "text": "lo" }, { "text": "" }])),
        chunk(json!([{ "functionCall": { "name": "t", "args": {} }, "thoughtSignature": "sig" }])),
        json!({ "usageMetadata": { "promptTokenCount": 4 } }),
        last,
    ] {
        assert!(!fold.is_complete());
        fold.take(frame, &mut pieces).unwrap();
    }
    assert!(fold.is_complete());
    let text = |text: &str| Piece::Text(text.into());
    let thought = |text: &str| Piece::Thought(text.into());
    assert_eq!(pieces, [thought("h"), thought("m"), text("hel"), text("lo"), text(""), text("")]);
    let turn = decode(&fold.body()).unwrap();
    let expected = json!([
        { "text": "hm", "thought": true },
        { "text": "hello" },
        { "functionCall": { "name": "t", "args": {} }, "thoughtSignature": "sig" },
        { "text": "", "thoughtSignature": "end" },
    ]);
    assert_eq!(turn.reply.raw["parts"], expected);
    assert_eq!((turn.usage.input, turn.model.as_str()), (4, "exact"));
}
