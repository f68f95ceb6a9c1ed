use super::super::dialect::Piece;
use super::*;
use crate::provider::Stop;
use haft_core::call::{ToolCall, ToolResult};

fn ask<'a>(messages: &'a [Message], tools: &'a [&'a ToolDef]) -> Ask<'a> {
    Ask { model: "asked-model", system: "be brief", messages, tools, output: None }
}

fn turn(message: &Value, reason: &str) -> Turn {
    let body = json!({ "model": "exact", "message": message, "done": true, "done_reason": reason });
    Ollama.decode(&ask(&[], &[]), body).unwrap()
}

/// PL01: a turn has the text, the model and the tokens of the message.
#[test]
fn text_model_and_tokens_are_read() {
    let body = json!({
        "model": "exact", "message": { "role": "assistant", "content": "hello" }, "done": true,
        "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 2,
    });
    let turn = Ollama.decode(&ask(&[], &[]), body).unwrap();
    assert_eq!((turn.reply.text.as_str(), turn.model.as_str(), turn.stop), ("hello", "exact", Stop::Done));
    assert_eq!(turn.usage, Usage { input: 7, output: 2, ..Usage::default() });
    assert_eq!(self::turn(&json!({ "content": "ha" }), "length").stop, Stop::Length);
}

/// PL04, PL17: the request always states whether to stream.
#[test]
fn streaming_is_switched_off_in_words_and_nothing_else_is_sent() {
    let messages = [Message::User("hi".into())];
    let ask = Ask { model: "m", system: "", messages: &messages, tools: &[], output: None };
    let body = Value::from(Ollama.request(&ask, &Terms::default()));
    let user = json!({ "role": "user", "content": "hi" });
    assert_eq!(body, json!({ "model": "m", "messages": [user], "stream": false }));
    let terms = Terms { stream: true, max_tokens: Some(9), context_window: Some(16_384), ..Terms::default() };
    let body = Ollama.request(&ask, &terms);
    assert_eq!(body["options"], json!({ "num_predict": 9, "num_ctx": 16_384 }));
    assert_eq!(body["stream"], true);
}

/// PL17: calls need no ids; arguments are an object or text; each answer names its tool.
#[test]
fn calls_need_no_id_and_answers_name_the_tool() {
    let call = |arguments: Value| json!({ "function": { "name": "t", "arguments": arguments } });
    let with_id = json!({ "id": "call_9", "function": { "index": 2, "name": "t", "arguments": {} } });
    let message = json!({ "role": "assistant", "content": "", "thinking": "hm", "images": null,
        "tool_calls": [call(json!({ "a": 1 })), call(json!("{\"a\":2}")), call(json!("{")), with_id] });
    let turn = turn(&message, "stop");
    let arguments: Vec<_> =
        turn.reply.calls.iter().map(|requested| requested.call.arguments.clone()).collect();
    assert_eq!(arguments, [json!({ "a": 1 }), json!({ "a": 2 }), json!("{"), json!({})]);
    assert!(turn.reply.calls[2].problem.is_some());
    assert_eq!(turn.reply.calls[3].call.id, "call_9");
    let answers = (0..4).map(|n| if n == 1 { ToolResult::error("no") } else { ToolResult::success("yes") });
    let messages = [Message::User("go".into()), Message::Turn(Exchange::new(turn.reply, answers))];
    let sent = Ollama.request(&ask(&messages, &[]), &Terms::default())["messages"].clone();
    let echoed = json!({ "role": "assistant", "content": "", "thinking": "hm",
        "tool_calls": [call(json!({ "a": 1 })), call(json!({ "a": 2 })), call(json!({})), with_id] });
    assert_eq!(sent[2], echoed);
    assert_eq!(sent[3], json!({ "role": "tool", "tool_name": "t", "content": "yes" }));
    assert_eq!(sent[4]["content"], "Error: no");
    assert_eq!(sent[6]["tool_call_id"], "call_9");
}

/// G09: pictures are beside the text of their prompt or answer.
#[test]
fn pictures_are_in_images() {
    let message = json!({ "tool_calls": [{ "function": { "name": "t" } }] });
    let attachments = vec![Attachment::new("image/png", vec![0, 255])];
    let answer = ToolResult { attachments: attachments.clone(), ..ToolResult::success("done") };
    let said = crate::provider::Prompt { text: "look".into(), attachments };
    let messages =
        [Message::User(said), Message::Turn(Exchange::new(turn(&message, "stop").reply, [answer]))];
    let sent = Ollama.request(&ask(&messages, &[]), &Terms::default())["messages"].clone();
    assert_eq!(sent[1], json!({ "role": "user", "content": "look", "images": ["AP8="] }));
    assert_eq!(sent[3], json!({ "role": "tool", "tool_name": "t", "content": "done", "images": ["AP8="] }));
}

/// PL17: a schema has only the keywords that the server reads, and one type per property.
#[test]
fn schemas_have_one_type() {
    let parameters =
        json!({ "type": "object", "properties": { "n": { "type": ["integer", "null"], "minimum": 1 } } });
    let def = ToolDef { name: "t".into(), parameters, ..ToolDef::default() };
    let body = Ollama.request(&ask(&[], &[&def]), &Terms::default());
    let text = body["tools"][0]["function"]["parameters"].clone();
    assert_eq!(text, json!({ "type": "object", "properties": { "n": { "type": "integer" } } }));
}

/// PL12, PL18: an empty message is an empty response, and an error in a successful response is an error.
#[test]
fn nothing_said_and_errors_in_successes_are_errors() {
    let decode = |body: Value| Ollama.decode(&ask(&[], &[]), body).unwrap_err().to_string();
    assert_eq!(decode(json!({})), "empty response: no message");
    let empty = decode(json!({ "message": { "content": "" }, "done_reason": "stop" }));
    assert_eq!(empty, "empty response: neither text nor a call (it ended with `stop`)");
    assert_eq!(decode(json!({ "error": "out of memory" })), "reported an error: out of memory");
}

/// PL17: the lines of a stream become one turn.
#[test]
fn a_streamed_chat_is_put_together() {
    let line = |message: Value| json!({ "model": "exact", "message": message, "done": false });
    let call = json!({ "function": { "name": "t", "arguments": {} } });
    let (mut fold, mut pieces) = (Ollama.fold(), Vec::new());
    for frame in [
        line(json!({ "role": "assistant", "content": "", "thinking": "h" })),
        line(json!({ "role": "assistant", "content": "", "thinking": "m" })),
        line(json!({ "role": "assistant", "content": "hel" })),
        line(json!({ "role": "assistant", "content": "lo", "tool_calls": [call] })),
        line(json!({ "role": "assistant", "content": "", "tool_calls": [call] })),
        json!({ "model": "exact", "message": { "role": "assistant", "content": "" }, "done": true, "done_reason": "stop", "eval_count": 3 }),
    ] {
        assert!(!fold.is_complete());
        fold.take(frame, &mut pieces).unwrap();
    }
    assert!(fold.is_complete());
    let text: String =
        pieces.iter().map(|piece| if let Piece::Text(text) = piece { text.as_str() } else { "" }).collect();
    let turn = Ollama.decode(&ask(&[], &[]), fold.body()).unwrap();
    assert_eq!((text.as_str(), turn.reply.text.as_str(), turn.usage.output), ("hello", "hello", 3));
    assert_eq!((turn.reply.calls.len(), &turn.reply.raw["thinking"]), (2, &json!("hm")));
    assert!(matches!(Ollama.fold().take(json!(1), &mut Vec::new()), Err(Failure::Malformed(_))));
}

/// A turn of another vendor becomes a message without its ids.
#[test]
fn a_turn_of_another_vendor_is_written_anew() {
    let tool_call = ToolCall { id: "toolu_1".into(), tool: "t".into(), arguments: json!({ "a": 1 }) };
    let calls = vec![RequestedCall { call: tool_call, problem: None }];
    let reply =
        Reply { calls, vendor: "anthropic".into(), raw: json!({ "content": [] }), ..Reply::default() };
    let messages = [Message::Turn(Exchange::new(reply, []))];
    let sent = Ollama.request(&ask(&messages, &[]), &Terms::default())["messages"].clone();
    let call = json!({ "function": { "name": "t", "arguments": { "a": 1 } } });
    assert_eq!(sent[1], json!({ "role": "assistant", "content": "", "tool_calls": [call] }));
    assert_eq!(sent[2].get("tool_call_id"), None);
}

#[test]
fn ollama_is_where_its_own_variable_says() {
    let at = |address: &str| {
        let (scheme, host, port) = host(address);
        format!("{scheme} {host} {port}")
    };
    assert_eq!(at(""), "http 127.0.0.1 11434");
    assert_eq!(at("0.0.0.0"), "http 127.0.0.1 11434");
    assert_eq!(at(":8080"), "http 127.0.0.1 8080");
    assert_eq!(at("box"), "http box 11434");
    assert_eq!(at("https://ada:pw@box:1/v1?x"), "https box 1");
    assert_eq!(at("https://box"), "https box 443");
    assert_eq!(at("[::1]:2"), "http ::1 2");
    assert_eq!(at("::1"), "http ::1 11434");
    assert_eq!(at("[::]"), "http 127.0.0.1 11434");
}
