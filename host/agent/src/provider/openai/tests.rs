use super::super::Prompt;
use super::*;
use crate::provider::Stop;
use haft_core::call::Attachment;

fn ask<'a>(messages: &'a [Message], tools: &'a [&'a ToolDef]) -> Ask<'a> {
    Ask { model: "asked-model", system: "be brief", messages, tools, output: None }
}

const OPENAI: OpenAi = OpenAi { vendor: NAME };

fn decode(body: &Value) -> Result<Turn, Failure> {
    OPENAI.decode(&ask(&[], &[]), body.clone())
}

/// Returns the turn of a response whose only choice has `message`.
fn turn(message: &Value, finish: &str) -> Turn {
    decode(&json!({ "choices": [{ "message": message, "finish_reason": finish }] })).unwrap()
}

fn call(id: &str, name: &str, arguments: &Value) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
}

/// Returns the parsed arguments of one call, or the problem.
fn understood(arguments: &Value) -> Result<Value, String> {
    let message = json!({ "role": "assistant", "tool_calls": [call("c", "t", arguments)] });
    let requested = turn(&message, "tool_calls").reply.calls.remove(0);
    requested.problem.map_or(Ok(requested.call.arguments), Err)
}

/// PL01: a turn has the text, the model and the tokens of the response.
#[test]
fn text_model_and_tokens_are_read() {
    let turn = decode(&json!({
        "model": "exact-model",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": "hello" }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": { "cached_tokens": 3 } },
    }))
    .unwrap();
    assert_eq!(
        (turn.reply.text.as_str(), turn.model.as_str(), &turn.stop),
        ("hello", "exact-model", &Stop::Done)
    );
    assert_eq!(turn.usage, Usage { input: 7, output: 2, cached: 3, ..Usage::default() });
}

/// PL04: without tools and system prompt, a request has no such keys.
#[test]
fn nothing_is_sent_for_no_tools_and_no_system() {
    let messages = [Message::User("hi".into())];
    let body = OPENAI.request(
        &Ask { model: "m", system: "", messages: &messages, tools: &[], output: None },
        &Terms::default(),
    );
    assert_eq!(Value::from(body), json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] }));
}

/// PL04: tools are sent in the published format.
#[test]
fn tools_have_the_published_shape() {
    let def = ToolDef {
        name: "read".into(),
        description: "d".into(),
        parameters: json!({ "type": "object" }),
        ..ToolDef::default()
    };
    let body = OPENAI.request(&ask(&[], &[&def]), &Terms::default());
    assert_eq!(
        body["tools"],
        json!([{ "type": "function", "function": { "name": "read", "description": "d", "parameters": { "type": "object", "properties": {} } } }])
    );
    assert_eq!(body["messages"], json!([{ "role": "system", "content": "be brief" }]));
}

/// PL07: a response that is not JSON is an error that quotes its start.
#[test]
fn what_is_not_json_fails_to_parse() {
    let error = crate::provider::reading::parse(b"<html>\n oops").unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("failed to parse response: "), "{text}");
    assert!(text.ends_with("it begins with `<html> oops`"), "{text}");
    assert!(matches!(decode(&json!({ "choices": [{}] })), Err(Failure::Malformed(_))));
}

/// PL10: arguments are accepted as JSON text, as an object, as null and as doubly encoded text.
#[test]
fn arguments_are_understood_in_every_form_that_is_sent() {
    for empty in [json!(""), json!(" \n"), json!("null"), json!("{}"), json!({}), Value::Null, json!("\"\"")]
    {
        assert_eq!(understood(&empty), Ok(json!({})), "{empty}");
    }
    for full in [json!("{\"a\":1}"), json!({ "a": 1 }), json!("\"{\\\"a\\\":1}\"")] {
        assert_eq!(understood(&full), Ok(json!({ "a": 1 })), "{full}");
    }
}

/// PL10: invalid arguments are a problem of the call, and are not sent back.
#[test]
fn bad_arguments_are_a_problem_and_are_not_echoed() {
    for bad in [json!("{\"a\":"), json!("[1]"), json!("7"), json!(7), json!("\"\\\"{}\\\"\"")] {
        let problem = understood(&bad).unwrap_err();
        assert!(problem.starts_with("invalid arguments: expected a JSON object"), "{problem}");
        let message = json!({ "tool_calls": [call("c", "t", &bad)] });
        let raw = turn(&message, "tool_calls").reply.raw;
        assert_eq!(raw.pointer("/tool_calls/0/function/arguments"), Some(&json!("{}")));
    }
    let huge = understood(&json!("x".repeat(1 << 20))).unwrap_err();
    assert!(huge.len() < 1000, "{}", huge.len());
}

/// PL10: missing and repeated ids are replaced by unique ones.
#[test]
fn missing_and_repeated_ids_are_made_up_and_unique() {
    let nameless = json!({ "function": { "name": "t" } });
    let message = json!({ "tool_calls": [nameless, call("same", "t", &json!("")), call("same", "t", &json!("")), call("", "t", &json!(""))] });
    let turn = turn(&message, "tool_calls");
    let ids: Vec<_> = turn.reply.calls.iter().map(|requested| requested.call.id.as_str()).collect();
    assert_eq!(ids, ["haft00000", "same", "haft00002", "haft00003"]);
    for (index, id) in ids.iter().enumerate() {
        let entry = &turn.reply.raw["tool_calls"][index];
        assert_eq!((&entry["id"], &entry["type"]), (&json!(id), &json!("function")));
    }
}

/// PL10: new ids continue the numbers of the conversation.
#[test]
fn made_up_ids_go_on_where_the_conversation_left_off() {
    let message = json!({ "tool_calls": [{ "function": { "name": "t", "arguments": "" } }] });
    let first = turn(&message, "tool_calls");
    let history = [Message::Turn(Exchange::new(first.reply, []))];
    let body = json!({ "choices": [{ "message": message }] });
    let second = OPENAI.decode(&ask(&history, &[]), body).unwrap();
    assert_eq!(second.reply.calls[0].call.id, "haft00001");
}

/// PL11: unknown keys are sent back, and nulls are not.
#[test]
fn unknown_keys_go_back_and_nulls_do_not() {
    let mut entry = call("c", "t", &json!("{\"a\": 1}"));
    entry["extra_content"] = json!({ "signature": "s" });
    let message = json!({
        "role": "assistant", "content": null, "refusal": null, "audio": null,
        "reasoning_content": "hm", "reasoning_details": [{ "data": "x" }], "tool_calls": [entry],
    });
    let raw = turn(&message, "tool_calls").reply.raw;
    let expected = json!({
        "role": "assistant", "content": null, "reasoning_content": "hm", "reasoning_details": [{ "data": "x" }],
        "tool_calls": [{ "id": "c", "type": "function", "extra_content": { "signature": "s" },
                         "function": { "name": "t", "arguments": "{\"a\": 1}" } }],
    });
    assert_eq!(raw, expected);
}

/// PL11: content may be null, missing or an array.
#[test]
fn content_may_be_null_missing_or_an_array() {
    let parts = json!([{ "type": "text", "text": "one " }, { "type": "thinking", "thinking": [] }, "two"]);
    let reply = turn(&json!({ "content": parts.clone(), "tool_calls": [] }), "stop").reply;
    assert_eq!(reply.text, "one two");
    assert_eq!(reply.raw, json!({ "content": parts, "role": "assistant" }));
    for message in [
        json!({ "tool_calls": [call("c", "t", &json!(""))] }),
        json!({ "content": null, "tool_calls": [call("c", "t", &json!(""))] }),
    ] {
        assert_eq!(turn(&message, "tool_calls").reply.raw["content"], Value::Null);
    }
}

/// PL11: an invalid tool name is sent back in a valid form.
#[test]
fn invented_names_are_echoed_in_a_form_that_is_taken_back() {
    for (name, echoed) in [("functions.read", "functions_read"), ("", "unnamed"), ("lés", "l_s")] {
        let reply = turn(&json!({ "tool_calls": [call("c", name, &json!("{}"))] }), "tool_calls").reply;
        assert_eq!(reply.raw.pointer("/tool_calls/0/function/name"), Some(&json!(echoed)));
        assert_eq!(reply.calls[0].call.tool, name);
    }
}

/// PL12: an error in a successful response is an error with its code.
#[test]
fn an_error_in_a_success_is_an_error() {
    let cases = [
        (json!({ "error": { "message": "no credit", "code": 402 } }), Some(402), "no credit"),
        (json!({ "error": "plain" }), None, "plain"),
        (
            json!({ "choices": [{ "message": { "content": "" }, "error": { "message": "down", "code": "502" } }] }),
            Some(502),
            "down",
        ),
    ];
    for (body, code, message) in cases {
        let failure = decode(&body).unwrap_err();
        assert!(matches!(&failure, Failure::Reported { code: told, .. } if *told == code), "{failure}");
        assert!(failure.to_string().ends_with(message), "{failure}");
    }
    assert!(decode(&json!({ "error": null, "choices": [{ "message": { "content": "fine" }, "finish_reason": "stop" }] })).is_ok());
}

/// PL18: a response without text and calls is an empty response.
#[test]
fn nothing_said_is_an_empty_response() {
    for body in [
        json!({}),
        json!({ "choices": [] }),
        json!({ "choices": null }),
        json!({ "choices": [{ "message": { "content": null }, "finish_reason": "stop" }] }),
    ] {
        let error = decode(&body).unwrap_err();
        assert!(error.to_string().starts_with("empty response: "), "{error}");
    }
    assert!(matches!(crate::provider::reading::parse(b" \n"), Err(Failure::Empty(_))));
}

#[test]
fn finish_reasons_are_told_apart() {
    assert_eq!(turn(&json!({ "content": "half a sen" }), "length").stop, Stop::Length);
    assert_eq!(turn(&json!({ "content": null }), "length").stop, Stop::Length);
    assert_eq!(turn(&json!({ "content": "" }), "content_filter").stop, Stop::Filtered);
    let refused = turn(&json!({ "content": null, "refusal": "I cannot" }), "stop");
    assert_eq!((refused.stop, refused.reply.text.as_str()), (Stop::Refused, "I cannot"));
    assert_eq!(
        refused.reply.raw,
        json!({ "content": "I cannot", "refusal": "I cannot", "role": "assistant" })
    );
    // Some servers finish calls with `stop`, too.
    let turn = turn(&json!({ "tool_calls": [call("c", "t", &json!("{}"))] }), "stop");
    assert_eq!((turn.stop, turn.reply.calls.len()), (Stop::Done, 1));
}

/// A call that the output limit may have cut is not run, even if it parses.
#[test]
fn the_last_call_of_a_cut_turn_has_a_problem() {
    let message = json!({ "tool_calls": [call("a", "t", &json!("{}")), call("b", "t", &json!("{}"))] });
    let calls = turn(&message, "length").reply.calls;
    assert_eq!(calls[0].problem, None);
    assert!(calls[1].problem.as_deref().unwrap().contains("output limit"));
}

#[test]
fn answers_say_that_they_failed_and_what_they_leave_out() {
    assert_eq!(content(&ToolResult::success("fine")), "fine");
    assert_eq!(content(&ToolResult::error("no such file")), "Error: no such file");
    assert_eq!(content(&ToolResult::error("Error reading x")), "Error reading x");
    assert_eq!(content(&ToolResult::error("érr")), "Error: érr");
    // C12: the prefix of a haft error is not repeated.
    let failed = haft_core::tool::ToolError::ExecutionFailed("no".into()).to_string();
    assert_eq!(content(&ToolResult::error(failed.clone())), failed);
    assert_eq!(content(&ToolResult::error("Tool erratum")), "Error: Tool erratum");
}

/// G10: reasoning models require the new name of the limit at every server.
#[test]
fn the_limit_has_the_name_that_the_model_takes() {
    let at = |vendor, model: &str, is_vendor| {
        let terms = Terms { max_tokens: Some(9), is_vendor, ..Terms::default() };
        let body = OpenAi { vendor }.request(&Ask { model, ..ask(&[], &[]) }, &terms);
        let named = |key: &str| body.get(key) == Some(&json!(9));
        (named("max_completion_tokens"), named("max_tokens"))
    };
    for model in ["o1", "o3-mini", "o4-mini", "gpt-5", "gpt-5.1-codex", "openai/gpt-5-mini"] {
        assert_eq!(at(NAME, model, false), (true, false), "{model}");
    }
    for model in ["gpt-4o", "qwen3", "olmo-2", "oss", "gpt-oss-20b"] {
        assert_eq!(at(NAME, model, false), (false, true), "{model}");
        assert_eq!(at(NAME, model, true), (true, false), "{model}");
    }
    assert_eq!(at("openrouter", "openai/gpt-5", true), (false, true));
}

/// G09: a tool message accepts text only, so the files of the answers follow in a user message, which the next
/// prompt joins.
#[test]
fn files_follow_the_answers() {
    let picture = Attachment::new("image/png", vec![0, 255]);
    let document =
        Attachment { name: Some("a.pdf".into()), ..Attachment::new("application/pdf", vec![0, 255]) };
    let message = json!({ "tool_calls": [call("a", "t", &json!("{}")), call("b", "t", &json!("{}"))] });
    let answers = [
        ToolResult { attachments: vec![picture.clone()], ..ToolResult::success("one") },
        ToolResult::success("two"),
    ];
    let messages = [
        Message::User(Prompt { text: "look".into(), attachments: vec![picture, document] }),
        Message::Turn(Exchange::new(turn(&message, "stop").reply, answers)),
        Message::User("and now".into()),
    ];
    let ask = Ask { model: "m", system: "", messages: &messages, tools: &[], output: None };
    let sent = Value::from(OpenAi { vendor: NAME }.request(&ask, &Terms::default()))["messages"].clone();
    let image = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AP8=" } });
    let file = json!({ "filename": "a.pdf", "file_data": "data:application/pdf;base64,AP8=" });
    let text = |text: &str| json!({ "type": "text", "text": text });
    assert_eq!(sent[0]["content"], json!([text("look"), image, { "type": "file", "file": file }]));
    let roles: Vec<_> = sent.as_array().unwrap().iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "user"]);
    let about = text("[Files of the answer to the call `a` of `t`:]");
    assert_eq!(sent[4]["content"], json!([about, image, text("and now")]));
}

proptest::proptest! {
    /// PL11: any message of a server can be read, and every call can be sent back.
    #[test]
    fn anything_is_read(
        id in ".{0,3}", name in ".{0,8}", arguments in ".{0,12}", content in "[\\[\\]{}\":a-z0-9,]{0,12}", finish in "[a-z_]{0,8}",
    ) {
        let content = serde_json::from_str(&content).unwrap_or(Value::String(content));
        let message = json!({ "content": content, "tool_calls": [call(&id, &name, &json!(arguments)), content, call(&id, "t", &content)] });
        let reply = turn(&message, &finish).reply;
        proptest::prop_assert!(reply.calls.len() >= 2);
        for (index, requested) in reply.calls.iter().enumerate() {
            let echoed = &reply.raw["tool_calls"][index];
            proptest::prop_assert_eq!(&echoed["id"], &json!(requested.call.id));
            let arguments = echoed["function"]["arguments"].as_str().unwrap();
            proptest::prop_assert!(serde_json::from_str::<Map<String, Value>>(arguments).is_ok());
        }
    }
}
