//! The reactions of the loop to the turns of a model.

use haft::agent::{End, History};
use haft::event::{Event, Events};
use haft::provider::{Message, Usage};
use tokio_util::sync::CancellationToken;

use super::fake::{Answer, calls, completion, says};
use super::*;
use crate::common::wait::within;

/// PL01: the outcome of an answer without calls has the text, the model, the token usage and the elapsed time.
#[tokio::test]
async fn text_only_answer_has_model_tokens_and_time() {
    let fake = Fake::start([says("hello")]).await;
    let outcome = run(&agent(&fake, Toolbox::default())).await.unwrap();
    assert_eq!((outcome.end, outcome.text.as_str(), outcome.turns), (End::Final, "hello", 1));
    assert_eq!(outcome.model, "fake-model-1");
    assert_eq!(outcome.usage, Usage { input: 10, output: 5, ..Usage::default() });
    assert!(!outcome.elapsed.is_zero());
    fake.assert_done();
}

/// PL02: the loop runs a call and sends its result in the next request.
#[tokio::test]
async fn two_turns_with_a_tool() {
    let fake = Fake::start([calls(&[("call_1", "echo", r#"{"text":"4711"}"#)]), says("it said 4711")]).await;
    let (toolbox, log) = toolbox(&[ECHO]);
    let outcome = run(&agent(&fake, toolbox)).await.unwrap();
    assert_eq!((outcome.text.as_str(), outcome.turns, outcome.usage.total()), ("it said 4711", 2, 30));
    assert_eq!(log.lock().unwrap()[0].arguments, json!({ "text": "4711" }));
    let roles: Vec<_> = fake.requests()[1]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
    assert_eq!(answers(&fake.requests()[1]), pairs(&[("call_1", "4711")]));
    fake.assert_done();
}

/// PL02: each request starts with the earlier request unchanged, as a prompt cache requires.
#[tokio::test]
async fn each_request_begins_with_the_one_before() {
    let turn = |id| calls(&[(id, "echo", r#"{"text":"x"}"#)]);
    let fake = Fake::start([turn("a"), turn("b"), says("done")]).await;
    run(&agent(&fake, toolbox(&[ECHO, BROKEN]).0)).await.unwrap();
    for pair in fake.requests().windows(2) {
        let [before, after] = pair else { panic!() };
        assert_eq!(before["tools"].to_string(), after["tools"].to_string());
        let (before, after) = (before["messages"].as_array().unwrap(), after["messages"].as_array().unwrap());
        assert_eq!(before[..], after[..before.len()]);
    }
}

/// PL03: the calls of a turn run in order, and each answer has its call's id.
#[tokio::test]
async fn parallel_calls_run_in_order_and_are_answered_by_id() {
    let turn =
        calls(&[("b", "echo", r#"{"text":"1"}"#), ("a", "broken", "{}"), ("c", "echo", r#"{"text":"3"}"#)]);
    let fake = Fake::start([turn, says("done")]).await;
    let (toolbox, log) = toolbox(&[ECHO, BROKEN]);
    run(&agent(&fake, toolbox)).await.unwrap();
    let ran: Vec<_> = log.lock().unwrap().iter().map(|call| call.id.clone()).collect();
    assert_eq!(ran, ["b", "a", "c"]);
    let expected = pairs(&[("b", "1"), ("a", "Tool error: out of order"), ("c", "3")]);
    assert_eq!(answers(&fake.requests()[1]), expected);
    fake.assert_done();
}

/// PL04: a request without tools has no key `tools`, and a request without a system text has no system message.
#[tokio::test]
async fn no_tools_key_without_tools_and_no_system_message_without_text() {
    let fake = Fake::start([says("hi")]).await;
    let quiet = AgentSettings { system: String::new(), ..AgentSettings::default() };
    run(&Agent::new(provider(settings(&fake)), Toolbox::default(), quiet)).await.unwrap();
    let expected = json!({ "model": "fake-model", "messages": [{ "role": "user", "content": "do it" }] });
    assert_eq!(fake.requests(), [expected]);
}

/// PL05: the limit of turns is an end of its own, whose outcome has the text so far; the conversation can continue.
#[tokio::test]
async fn the_turn_cap_is_an_end_of_its_own_that_keeps_what_was_said() {
    let message = |id: &str, text: &str| {
        let call = json!({ "id": id, "type": "function", "function": { "name": "echo", "arguments": "{}" } });
        completion(&json!({ "role": "assistant", "content": text, "tool_calls": [call] }), "tool_calls")
    };
    let fake = Fake::start([message("a", "first"), message("b", "second"), says("third")]).await;
    let (toolbox, log) = toolbox(&[ECHO]);
    let capped = AgentSettings { max_turns: 2, ..AgentSettings::default() };
    let agent = Agent::new(provider(settings(&fake)), toolbox, capped);
    let mut history = History::default();
    let outcome = agent.run(&mut history, "do it", &Session::default()).await.unwrap();
    assert_eq!((outcome.end, outcome.turns, outcome.text.as_str()), (End::TurnCap, 2, "first\n\nsecond"));
    assert_eq!(outcome.shortfall().unwrap(), "reached max turns (2) without final response");
    assert_eq!(log.lock().unwrap().len(), 2);
    // In the continued run the model sees all earlier turns.
    assert_eq!(agent.run(&mut history, "go on", &Session::default()).await.unwrap().text, "third");
    fake.assert_done();
}

/// PL08: the model receives a tool's error, and the loop continues.
#[tokio::test]
async fn a_failing_tool_is_reported_and_the_loop_goes_on() {
    let fake = Fake::start([calls(&[("a", "broken", "{}")]), says("it is broken")]).await;
    let outcome = run(&agent(&fake, toolbox(&[BROKEN]).0)).await.unwrap();
    assert_eq!(outcome.text, "it is broken");
    assert_eq!(answers(&fake.requests()[1]), pairs(&[("a", "Tool error: out of order")]));
}

/// G06: after three empty answers the loop asks in other words, and after nine empty answers it fails.
#[tokio::test]
async fn an_empty_turn_does_not_end_a_task() {
    let empty = || (0..3).map(|_| says(""));
    let script =
        std::iter::once(calls(&[("a", "echo", "{}")])).chain(empty()).chain([says("it printed nothing")]);
    let fake = Fake::start(script).await;
    let outcome = run(&agent(&fake, toolbox(&[ECHO]).0)).await.unwrap();
    assert_eq!((outcome.end, outcome.text.as_str()), (End::Final, "it printed nothing"));
    fake.assert_done();
    let requests = fake.requests();
    let last = |request: &Value| request["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last(&requests[3])["role"], "tool", "at first the same is asked again");
    let words = last(&requests[4])["content"].as_str().unwrap().to_owned();
    assert!(words.starts_with("[Your last turn was empty."), "{words}");
    let fake = Fake::start(empty().chain(empty()).chain(empty())).await;
    let error = run(&agent(&fake, toolbox(&[ECHO]).0)).await.unwrap_err();
    assert!(error.to_string().contains("empty response"), "{error}");
    fake.assert_done();
}

/// G02: if a vendor refuses a result of megabytes as too long, the loop sends less of the result, and the task
/// succeeds.
#[tokio::test]
async fn an_answer_larger_than_the_window_does_not_end_a_task() {
    let huge: (&str, Act) = ("huge", |_| Ok(ToolResult::success("0123456789 ".repeat(300_000))));
    let refusal = |limit: u32| {
        let words = format!(
            "This model's maximum context length is {limit} tokens. However, you requested 990000 tokens"
        );
        let body = json!({ "error": { "message": words, "type": "invalid_request_error", "code": "context_length_exceeded" } });
        Answer::Http(400, &[], body.to_string().into_bytes())
    };
    let script = [calls(&[("a", "huge", "{}")]), refusal(16_384), refusal(16_384), says("it is large")];
    let fake = Fake::start(script).await;
    let unbounded = AgentSettings { history_budget: None, ..AgentSettings::default() };
    let agent = Agent::new(provider(settings(&fake)), toolbox(&[huge]).0, unbounded);
    let mut history = History::default();
    let outcome = agent.run(&mut history, "how large is it?", &Session::default()).await.unwrap();
    assert_eq!((outcome.end, outcome.text.as_str()), (End::Final, "it is large"));
    fake.assert_done();
    let sizes: Vec<_> = fake
        .requests()
        .iter()
        .map(|request| answers(request).iter().map(|(_, text)| text.len()).sum())
        .collect();
    let [0, whole, told, less]: [usize; 4] = sizes.try_into().unwrap() else {
        panic!("an answer in the first request")
    };
    assert!(whole == 3_300_000 && told < 16_384 * 4 && less < told, "{whole} {told} {less}");
    // The conversation itself has the complete result.
    let Message::Turn(exchange) = &history.messages()[1] else { panic!() };
    assert_eq!(exchange.answered().next().unwrap().1.content.len(), 3_300_000);
}

/// PL09: the model receives an error for an unknown tool, and the loop continues.
#[tokio::test]
async fn an_unknown_tool_is_reported_and_the_loop_goes_on() {
    let fake = Fake::start([calls(&[("a", "functions.launch", "{}")]), says("sorry")]).await;
    let outcome = run(&agent(&fake, toolbox(&[ECHO]).0)).await.unwrap();
    assert_eq!(outcome.end, End::Final);
    assert_eq!(answers(&fake.requests()[1]), pairs(&[("a", "Error: Unknown tool: functions.launch")]));
    fake.assert_done();
}

/// TE08: a tool that is not selected is neither offered nor run.
#[tokio::test]
async fn allowed_tools_are_all_that_is_offered_and_run() {
    let fake = Fake::start([calls(&[("a", "broken", "{}")]), says("done"), says("nothing to use")]).await;
    let (toolbox, log) = toolbox(&[ECHO, BROKEN]);
    run(&agent(&fake, toolbox.select(&["echo".parse().unwrap()], None))).await.unwrap();
    let request = &fake.requests()[0];
    assert_eq!(request["tools"].as_array().unwrap().len(), 1);
    assert_eq!(request.pointer("/tools/0/function/name"), Some(&json!("echo")));
    assert!(answers(&fake.requests()[1])[0].1.contains("Unknown tool: broken"));
    assert_eq!(log.lock().unwrap().len(), 0);
    run(&agent(&fake, toolbox.select(&[], None))).await.unwrap();
    assert_eq!(fake.requests()[2].get("tools"), None);
    fake.assert_done();
}

/// PL10: a call with invalid arguments is answered without running; empty arguments count as no arguments.
#[tokio::test]
async fn bad_arguments_are_answered_without_running_and_empty_ones_are_none() {
    let turn = calls(&[("a", "echo", r#"{"text": "#), ("b", "echo", ""), ("c", "echo", r#"{"text": 7}"#)]);
    let fake = Fake::start([turn, says("done")]).await;
    let (toolbox, log) = toolbox(&[ECHO]);
    run(&agent(&fake, toolbox)).await.unwrap();
    assert_eq!(log.lock().unwrap().len(), 1);
    let answers = answers(&fake.requests()[1]);
    assert!(
        answers[0].1.starts_with("Error: invalid arguments: expected a JSON object: it ends in the middle"),
        "{answers:?}"
    );
    assert_eq!(answers[1], ("b".into(), "nothing".into()));
    assert!(answers[2].1.starts_with("Error: invalid arguments: "), "{answers:?}");
    fake.assert_done();
}

/// PL11: the next request contains the assistant message with all its known keys.
#[tokio::test]
async fn the_assistant_message_goes_back_with_all_that_was_in_it() {
    let call = json!({ "id": "a", "type": "function", "function": { "name": "echo", "arguments": "{}" } });
    let message = json!({
        "role": "assistant", "content": null, "refusal": null, "annotations": [],
        "reasoning_content": "let me see", "tool_calls": [call],
    });
    let fake = Fake::start([completion(&message, "tool_calls"), says("done")]).await;
    run(&agent(&fake, toolbox(&[ECHO]).0)).await.unwrap();
    let echoed = &fake.requests()[1]["messages"][2];
    assert_eq!((&echoed["reasoning_content"], &echoed["content"]), (&json!("let me see"), &Value::Null));
    assert_eq!(echoed["tool_calls"], json!([call]));
    fake.assert_done();
}

/// If a turn with calls reached the length limit, its last call does not run, because it may be incomplete.
#[tokio::test]
async fn a_turn_that_was_cut_off_is_told_so() {
    let call =
        |id: &str| json!({ "id": id, "type": "function", "function": { "name": "echo", "arguments": "{}" } });
    let cut = completion(&json!({ "content": null, "tool_calls": [call("a"), call("b")] }), "length");
    let fake = Fake::start([cut, completion(&json!({ "content": "half a sen" }), "length")]).await;
    let (toolbox, log) = toolbox(&[ECHO]);
    let outcome = run(&agent(&fake, toolbox)).await.unwrap();
    assert_eq!(log.lock().unwrap().len(), 1);
    assert!(answers(&fake.requests()[1])[1].1.contains("output limit"));
    assert_eq!((outcome.end, outcome.text.as_str()), (End::Length, "half a sen"));
    fake.assert_done();
}

#[tokio::test]
async fn refusals_and_filters_are_ends_of_their_own_and_leave_a_valid_history() {
    let refused = completion(&json!({ "role": "assistant", "content": null, "refusal": "I cannot" }), "stop");
    let filtered = completion(&json!({ "role": "assistant", "content": "" }), "content_filter");
    let fake = Fake::start([refused, filtered, says("fine")]).await;
    let agent = agent(&fake, Toolbox::default());
    let (mut history, session) = (History::default(), Session::default());
    let outcome = agent.run(&mut history, "one", &session).await.unwrap();
    assert_eq!((outcome.end, outcome.text.as_str()), (End::Refused, "I cannot"));
    assert_eq!(agent.run(&mut history, "two", &session).await.unwrap().end, End::Filtered);
    assert_eq!(agent.run(&mut history, "three", &session).await.unwrap().end, End::Final);
    fake.assert_done();
}

/// PL20: a cancellation ends a run that waits for the model, and the conversation can continue.
#[tokio::test]
async fn cancelled_while_the_model_thinks() {
    let session = Session::default();
    let fake = Fake::start([Answer::Never(session.cancel.clone()), says("here again")]).await;
    let agent = agent(&fake, toolbox(&[ECHO]).0);
    let mut history = History::default();
    let run = agent.run(&mut history, "one", &session);
    let outcome = within("the run ends", run).await.unwrap();
    assert_eq!((outcome.end, outcome.turns), (End::Cancelled, 0));
    let again = agent.run(&mut history, "two", &Session::default()).await.unwrap();
    assert_eq!(again.text, "here again");
    fake.assert_done();
}

/// A tool that runs until it is cancelled, and reports its end.
struct Endless(ToolDef, CancellationToken);

#[async_trait]
impl Tool for Endless {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    async fn call(&self, _: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let _stopped = self.1.clone().drop_guard();
        context.cancel.cancelled().await;
        Err(ToolError::ExecutionFailed("stopped half way".into()))
    }
}

/// PL20: a cancellation stops the running tool, and later calls of the turn do not run.
#[tokio::test]
async fn cancelled_while_a_tool_works() {
    let turn = calls(&[("a", "echo", "{}"), ("b", "endless", "{}"), ("c", "echo", "{}")]);
    let fake = Fake::start([turn, says("here again")]).await;
    let (mut toolbox, log) = toolbox(&[ECHO]);
    let stopped = CancellationToken::new();
    let endless = Arc::new(Endless(def("endless"), stopped.clone()));
    toolbox.insert(endless, Grant::none(), Limits::default(), "the test").unwrap();
    let agent = agent(&fake, toolbox);
    let cancel = CancellationToken::new();
    let trigger = cancel.clone();
    let events = Events::to(move |event| {
        if matches!(event, Event::Started(call) if call.id == "b") {
            trigger.cancel();
        }
    });
    let mut history = History::default();
    let outcome =
        agent.run(&mut history, "one", &Session { events, cancel, ..Session::default() }).await.unwrap();
    assert_eq!((outcome.end, outcome.turns), (End::Cancelled, 1));
    assert!(stopped.is_cancelled());
    assert_eq!(log.lock().unwrap().len(), 1, "what comes after a cancellation is not run");
    // Every call has an answer, so that the conversation can continue.
    assert_eq!(agent.run(&mut history, "two", &Session::default()).await.unwrap().text, "here again");
    let expected = pairs(&[
        ("a", "nothing"),
        ("b", "Tool error: stopped half way"),
        ("c", "Error: the call was not run: cancelled by the user"),
    ]);
    assert_eq!(answers(&fake.requests()[1]), expected);
    fake.assert_done();
}

/// PL20: a dropped run leaves the conversation as it was after its last complete turn.
#[tokio::test]
async fn a_dropped_run_leaves_a_valid_history() {
    let fake = Fake::start([calls(&[("a", "endless", "{}")]), says("here again")]).await;
    let (mut toolbox, _) = toolbox(&[]);
    let stopped = CancellationToken::new();
    let endless = Arc::new(Endless(def("endless"), stopped.clone()));
    toolbox.insert(endless, Grant::none(), Limits::default(), "the test").unwrap();
    let agent = agent(&fake, toolbox);
    let (mut history, started) = (History::default(), CancellationToken::new());
    let trigger = started.clone();
    let events = Events::to(move |event| {
        if matches!(event, Event::Running { .. }) {
            trigger.cancel();
        }
    });
    let session = Session { events, ..Session::default() };
    tokio::select! {
        _ = agent.run(&mut history, "one", &session) => panic!("the tool never ends"),
        () = started.cancelled() => {}
    }
    assert!(stopped.is_cancelled());
    assert_eq!(history.messages(), [Message::User("one".into())]);
    agent.run(&mut history, "two", &Session::default()).await.unwrap();
    fake.assert_done();
}

/// PL21: an identical call that has failed three times does not run again.
#[tokio::test]
async fn an_identical_failing_call_is_not_run_a_fourth_time() {
    let turn = |id| calls(&[(id, "broken", r#"{"text":"x"}"#)]);
    let fake = Fake::start([turn("a"), turn("b"), turn("c"), turn("d"), says("I give up")]).await;
    let (toolbox, log) = toolbox(&[BROKEN]);
    run(&agent(&fake, toolbox)).await.unwrap();
    assert_eq!(log.lock().unwrap().len(), 3);
    assert!(answers(&fake.requests()[4])[3].1.contains("has failed 3 times already"));
    fake.assert_done();
}

#[tokio::test]
async fn events_tell_what_happens_in_order() {
    let turn = calls(&[("a", "echo", "{}"), ("b", "echo", "{")]);
    let fake = Fake::start([turn, says("done")]).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let events = Events::to(move |event| {
        let line = match event {
            Event::Asked { model } => format!("asked {model}"),
            Event::Said(text) => format!("said {text}"),
            Event::Started(call) => format!("started {}", call.id),
            Event::Running { call } => format!("running {call}"),
            Event::Completed { call, result, .. } => format!("completed {} {}", call.id, result.is_error),
            other => format!("{other:?}"),
        };
        sink.lock().unwrap().push(line);
    });
    let session = Session { events, ..Session::default() };
    let agent = agent(&fake, toolbox(&[ECHO]).0);
    agent.run(&mut History::default(), "do it", &session).await.unwrap();
    let expected = [
        "asked fake-model",
        "started a",
        "running a",
        "completed a false",
        "started b",
        "completed b true",
        "asked fake-model",
        "said done",
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}
