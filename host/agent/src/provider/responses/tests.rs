use super::*;
use crate::provider::Stop;
use crate::provider::{Exchange, Message, Prompt, Reply};
use haft_core::call::{Attachment, ToolDef, ToolResult};
use haft_core::model::Effort;

fn ask<'a>(messages: &'a [Message], tools: &'a [&'a ToolDef]) -> Ask<'a> {
    Ask { model: "gpt-5", system: "be brief", messages, tools, output: None }
}

fn decode(body: &Value) -> Result<Turn, Failure> {
    Responses.decode(&ask(&[], &[]), body.clone())
}

fn response(output: &Value) -> Value {
    json!({ "status": "completed", "model": "gpt-5-2025", "output": output })
}

fn said(text: &str) -> Value {
    let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
    json!({ "id": "m", "type": "message", "role": "assistant", "status": "completed", "content": content })
}

fn call(id: &str, arguments: &Value) -> Value {
    json!({ "id": "fc", "type": "function_call", "call_id": id, "name": "t", "arguments": arguments })
}

fn thought() -> Value {
    json!({ "id": "rs", "type": "reasoning", "summary": [], "encrypted_content": "x" })
}

/// G01: a request has the published format of OpenAI's current models.
#[test]
fn a_request_has_the_published_shape() {
    let def = ToolDef {
        name: "read".into(),
        description: "d".into(),
        parameters: json!({ "type": "object" }),
        ..ToolDef::default()
    };
    let messages = [Message::User("hi".into())];
    let terms = Terms { stream: true, max_tokens: Some(9), effort: Some(Effort::Low), ..Terms::default() };
    let body = Value::from(Responses.request(&ask(&messages, &[&def]), &terms));
    let tool = json!({ "type": "function", "name": "read", "description": "d", "strict": false,
        "parameters": { "type": "object", "properties": {} } });
    let expected = json!({
        "model": "gpt-5", "instructions": "be brief", "input": [{ "role": "user", "content": "hi" }],
        "tools": [tool], "include": ["reasoning.encrypted_content"], "reasoning": { "effort": "low" },
        "max_output_tokens": 9, "store": false, "stream": true,
    });
    assert_eq!(body, expected);
    let ask = Ask { model: "gpt-4.1", system: "", messages: &messages, tools: &[], output: None };
    let plain = Value::from(Responses.request(&ask, &Terms::default()));
    let input = json!([{ "role": "user", "content": "hi" }]);
    assert_eq!(plain, json!({ "model": "gpt-4.1", "input": input, "store": false }));
}

/// G01: encrypted reasoning is sent back before its result, and the answers follow.
#[test]
fn a_turn_goes_back_as_it_came() {
    let output =
        json!([thought(), said("I look."), call("c1", &json!("{\"a\": 1}")), call("c2", &json!(""))]);
    let turn = decode(&response(&output)).unwrap();
    assert_eq!(
        (turn.reply.text.as_str(), turn.stop, turn.model.as_str()),
        ("I look.", Stop::Done, "gpt-5-2025")
    );
    assert_eq!(turn.reply.calls[0].call.arguments, json!({ "a": 1 }));
    let answers = [ToolResult::success("one"), ToolResult::error("two")];
    let messages = [Message::User("go".into()), Message::Turn(Exchange::new(turn.reply, answers))];
    let body = Responses.request(&ask(&messages, &[]), &Terms::default());
    let answer =
        |id: &str, text: &str| json!({ "type": "function_call_output", "call_id": id, "output": text });
    let mut expected = vec![json!({ "role": "user", "content": "go" })];
    expected.extend(output.as_array().unwrap().iter().cloned());
    expected.extend([answer("c1", "one"), answer("c2", "Error: two")]);
    assert_eq!(body["input"], Value::from(expected));
}

/// G09: pictures and documents are sent in prompts and in answers.
#[test]
fn files_are_parts_of_what_is_said_and_answered() {
    let output = json!([call("c1", &json!("{}"))]);
    let attachments = vec![
        Attachment::new("image/png", vec![0, 255]),
        Attachment { name: Some("a.pdf".into()), ..Attachment::new("application/pdf", vec![0, 255]) },
    ];
    let answer = ToolResult { attachments: attachments.clone(), ..ToolResult::error("two") };
    let said = Prompt { text: "look".into(), attachments };
    let turn = Exchange::new(decode(&response(&output)).unwrap().reply, [answer]);
    let messages = [Message::User(said), Message::Turn(turn)];
    let input = Value::from(Responses.request(&ask(&messages, &[]), &Terms::default()))["input"].clone();
    let parts = |text: &str| {
        json!([
            { "type": "input_text", "text": text },
            { "type": "input_image", "image_url": "data:image/png;base64,AP8=", "detail": "auto" },
            { "type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AP8=" },
        ])
    };
    assert_eq!(input[0], json!({ "role": "user", "content": parts("look") }));
    assert_eq!(input[2]["output"], parts("Error: two"));
}

/// Items that the vendor would reject are corrected or omitted.
#[test]
fn what_cannot_go_back_does_not() {
    let unkept = json!({ "id": "rs", "type": "reasoning", "summary": [], "encrypted_content": null });
    let turn =
        decode(&response(&json!([unkept, said("hi"), call("", &json!("{\"a\":")), thought()]))).unwrap();
    let raw = &turn.reply.raw["output"];
    assert_eq!(raw.as_array().unwrap().len(), 2, "{raw}");
    assert_eq!((&raw[1]["call_id"], &raw[1]["arguments"]), (&json!("haft00000"), &json!("{}")));
    assert!(turn.reply.calls[0].problem.as_ref().unwrap().starts_with("invalid arguments"));
}

/// A reply of another vendor becomes items with valid ids.
#[test]
fn a_foreign_turn_is_told_in_items() {
    let function = json!({ "name": "fun.ction", "arguments": { "b": 2 } });
    let requested = calls::requested_call(Some(&json!("c1")), function.as_object(), "arguments", &[], 0);
    let reply = Reply {
        text: "let me".into(),
        calls: vec![requested],
        vendor: "anthropic".into(),
        ..Reply::default()
    };
    let messages = [Message::Turn(Exchange::new(reply, [ToolResult::success("done")]))];
    let body = Responses.request(&ask(&messages, &[]), &Terms::default());
    let items = body["input"].as_array().unwrap();
    assert_eq!(items[0], json!({ "role": "assistant", "content": "let me" }));
    assert_eq!((&items[1]["name"], &items[1]["arguments"]), (&json!("fun_ction"), &json!("{\"b\":2}")));
    assert_eq!((&items[1]["call_id"], &items[2]["call_id"]), (&json!("c1"), &json!("c1")));
}

#[test]
fn every_way_to_stop_is_told_apart() {
    let incomplete = |reason: &str, output: Value| json!({ "status": "incomplete", "incomplete_details": { "reason": reason }, "output": output });
    let cut = decode(&incomplete("max_output_tokens", json!([call("c", &json!("{\"a\":1}"))]))).unwrap();
    assert!(cut.stop == Stop::Length && cut.reply.calls[0].problem.is_some());
    assert_eq!(decode(&incomplete("max_output_tokens", json!([thought()]))).unwrap().stop, Stop::Length);
    assert_eq!(decode(&incomplete("content_filter", json!([]))).unwrap().stop, Stop::Filtered);
    let refusal = json!([{ "type": "message", "role": "assistant", "content": [{ "type": "refusal", "refusal": "no" }] }]);
    let refused = decode(&response(&refusal)).unwrap();
    assert_eq!((refused.stop, refused.reply.text.as_str()), (Stop::Refused, "no"));
    assert!(matches!(decode(&response(&json!([]))), Err(Failure::Empty(_))));
    assert!(matches!(decode(&json!({ "status": "completed" })), Err(Failure::Malformed(_))));
    let failed =
        json!({ "status": "failed", "error": { "code": "server_error", "message": "sorry" }, "output": [] });
    assert!(matches!(decode(&failed), Err(Failure::Reported { code: Some(500), .. })));
    assert!(decode(&json!({ "status": "failed", "output": [] })).unwrap_err().passing().is_some());
}

#[test]
fn tokens_are_counted_as_the_vendor_names_them() {
    let mut body = response(&json!([said("hi")]));
    body["usage"] = json!({ "input_tokens": 7, "input_tokens_details": { "cached_tokens": 3, "cache_write_tokens": 2 },
        "output_tokens": 5, "output_tokens_details": { "reasoning_tokens": 4 } });
    let usage = decode(&body).unwrap().usage;
    assert_eq!(usage, Usage { input: 7, output: 5, cached: 3, stored: 2, cost: None });
}

fn folded(frames: &[Value]) -> (Result<Value, Failure>, Vec<String>) {
    let mut fold = Responses.fold();
    let mut pieces = Vec::new();
    for frame in frames {
        if let Err(failure) = fold.take(frame.clone(), &mut pieces) {
            return (Err(failure), Vec::new());
        }
    }
    let told = pieces.into_iter().map(|piece| match piece {
        dialect::Piece::Text(text) => text,
        dialect::Piece::Thought(text) => format!("({text})"),
    });
    let told = told.collect();
    (if fold.is_complete() { Ok(fold.body()) } else { Err(Failure::Empty("unfinished".into())) }, told)
}

/// A remark and an answer are two messages; the end of a stream need not repeat the items.
#[test]
fn a_stream_becomes_the_same_body() {
    let delta = |kind: &str, index: u64, text: &str| json!({ "type": format!("response.{kind}.delta"), "output_index": index, "summary_index": 0, "delta": text });
    let done = |index: u64, item: Value| json!({ "type": "response.output_item.done", "output_index": index, "item": item });
    let end = json!({ "type": "response.completed", "response": { "status": "completed", "output": [] } });
    let frames = [
        json!({ "type": "response.created", "response": { "status": "in_progress", "error": null } }),
        delta("reasoning_summary_text", 0, "hm"),
        done(0, thought()),
        delta("output_text", 1, "Fir"),
        delta("output_text", 1, "st."),
        done(1, said("First.")),
        delta("output_text", 2, "Then."),
        done(2, said("Then.")),
        json!({ "type": "response.something.new", "error": null }),
        end,
    ];
    let (body, told) = folded(&frames);
    assert_eq!(told.concat(), "(hm)First.\n\nThen.");
    let turn = decode(&body.unwrap()).unwrap();
    assert_eq!(turn.reply.text, "First.\n\nThen.");
    assert!(folded(&frames[..9]).0.is_err());
}

#[test]
fn errors_of_a_stream_keep_their_status() {
    let own =
        json!({ "type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": null });
    assert!(matches!(folded(&[own]).0, Err(Failure::Reported { code: Some(429), .. })));
    let wrapped = json!({ "type": "error", "error": { "type": "server_error", "message": "sorry" } });
    assert!(matches!(folded(&[wrapped]).0, Err(Failure::Reported { code: Some(500), .. })));
    let error = json!({ "code": "server_error", "message": "sorry" });
    let failed = json!({ "type": "response.failed", "response": { "status": "failed", "error": error } });
    assert!(decode(&folded(&[failed]).0.unwrap()).is_err());
    let many: Vec<Value> = (0..2000)
        .map(|n| json!({ "type": "response.output_item.done", "output_index": n, "item": {} }))
        .collect();
    assert!(matches!(folded(&many).0, Err(Failure::Malformed(_))));
}
