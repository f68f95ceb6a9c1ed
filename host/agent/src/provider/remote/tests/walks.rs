//! Random walks of one conversation through all vendors: the previous vendor, the ids of a server, turns without an
//! end, and thinking vary. Each test checks that no request contains a field that its vendor rejects.

use haft_core::call::ToolResult;
use proptest::prelude::*;
use serde_json::json;

use super::super::*;
use super::rules::violations;
use crate::provider::{Exchange, Reply, anthropic, gemini, kind, ollama, openai, openrouter, responses};

/// A server's response to a request.
type Answering = dyn Fn(&Ask<'_>, Value) -> Reply;

/// A server that can be asked.
struct Server {
    format: &'static str,
    model: &'static str,
    ask: Box<dyn Fn(&Ask<'_>) -> Value>,
    answer: Box<Answering>,
}

fn server<D: Dialect + 'static>(
    format: &'static str,
    provider: &str,
    dialect: D,
    (host, model, extra): (&str, &'static str, Value),
) -> Server {
    let settings = ProviderSettings {
        base_url: Some(format!("http://{host}:1/v1")),
        extra: extra.as_object().cloned().unwrap_or_default(),
        ..ProviderSettings::new(provider, model)
    };
    let remote = std::sync::Arc::new(Remote::new(kind(provider).unwrap(), dialect, settings).unwrap());
    let other = remote.clone();
    let ask = move |ask: &Ask<'_>| {
        let request = remote.asking(ask, &Search::default());
        serde_json::from_slice(request.body().unwrap().as_bytes().unwrap()).unwrap()
    };
    let answer = move |ask: &Ask<'_>, body: Value| {
        let turn = other.dialect.decode(ask, body).unwrap();
        other.completed(turn, ask).reply
    };
    Server { format, model, ask: Box::new(ask), answer: Box::new(answer) }
}

/// Each format at two servers; Anthropic's with every way to think.
fn servers() -> Vec<Server> {
    let mut all = Vec::new();
    for host in ["one.test", "two.test"] {
        let plain = |model| (host, model, json!({}));
        all.push(server("chat", "openai", openai::OpenAi { vendor: openai::NAME }, plain("m")));
        all.push(server("responses", "openai", responses::Responses, plain("m")));
        all.push(server("gemini", "gemini", gemini::Gemini, plain("gemini-3-pro")));
        all.push(server("ollama", "ollama", ollama::Ollama, plain("m")));
        all.push(server("openrouter", "openrouter", openrouter::OpenRouter, plain("x/y")));
        for mode in ["none", "enabled", "disabled"] {
            for model in ["claude-sonnet-4-5", "claude-opus-4-7"] {
                let extra = match mode {
                    "none" => json!({}),
                    "enabled" => json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 } }),
                    mode => json!({ "thinking": { "type": mode } }),
                };
                all.push(server("anthropic", "anthropic", anthropic::Anthropic, (host, model, extra)));
            }
        }
    }
    all
}

/// A turn of a model.
#[derive(Clone, Debug)]
struct Said {
    thinks: bool,
    text: &'static str,
    /// The ids of the turn's calls, as the server gives them.
    calls: Vec<&'static str>,
    /// The number of calls that are answered before the process ends.
    answered: usize,
    is_paused: bool,
}

/// One step: the server, its response, and the user's next prompt if the turn is over.
#[derive(Clone, Debug)]
struct Step {
    server: usize,
    said: Said,
    prompt: Option<&'static str>,
    /// The conversation is recorded and read again.
    is_resumed: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let ids = prop::sample::select(vec![
        "call_0",
        "call_1",
        "",
        "functions.read:0",
        "toolu_01",
        "a_b",
        "a.b",
        "abcdefgh1",
    ]);
    let text = prop::sample::select(vec!["", "so", " \n", "<think>x</think>so"]);
    let said = (any::<bool>(), text, prop::collection::vec(ids, 0..4), 0..4_usize, prop::bool::weighted(0.1));
    let said = said.prop_map(|(thinks, text, calls, answered, is_paused)| Said {
        thinks,
        text,
        calls,
        answered,
        is_paused,
    });
    let prompt = prop::option::weighted(0.3, prop::sample::select(vec!["go on", "and now?"]));
    (0..22_usize, said, prompt, any::<bool>()).prop_map(|(server, said, prompt, is_resumed)| Step {
        server,
        said,
        prompt,
        is_resumed,
    })
}

/// The body of an answer in a format.
fn body(format: &str, thinks: bool, said: &Said) -> Value {
    let text = if said.text.trim().is_empty() && said.calls.is_empty() { "so" } else { said.text };
    let calls = || said.calls.iter();
    match format {
        "anthropic" => {
            let thought = thinks.then(|| json!({ "type": "thinking", "thinking": "hm", "signature": "s" }));
            let text = json!({ "type": "text", "text": text });
            // Anthropic's servers give ids that the API accepts.
            let calls = calls().map(|id| {
                json!({ "type": "tool_use", "id": id.replace([':', '.'], "_"), "name": "t", "input": {} })
            });
            let content: Vec<_> = thought.into_iter().chain([text]).chain(calls).collect();
            let reason = match (said.is_paused, said.calls.is_empty()) {
                (true, true) => "pause_turn",
                (_, true) => "end_turn",
                _ => "tool_use",
            };
            json!({ "content": content, "stop_reason": reason })
        }
        "gemini" => {
            let thought = thinks.then(|| json!({ "text": "hm", "thought": true }));
            let calls = calls().map(|id| match *id {
                "" => json!({ "functionCall": { "name": "t", "args": {} }, "thoughtSignature": "s" }),
                id => {
                    json!({ "functionCall": { "id": id, "name": "t", "args": {} }, "thoughtSignature": "s" })
                }
            });
            let parts: Vec<_> = thought.into_iter().chain([json!({ "text": text })]).chain(calls).collect();
            json!({ "candidates": [{ "content": { "parts": parts }, "finishReason": "STOP" }] })
        }
        "responses" => {
            let thought =
                thinks.then(|| json!({ "type": "reasoning", "id": "rs", "encrypted_content": "x" }));
            let words = json!({ "type": "output_text", "text": text });
            let message = json!({ "type": "message", "role": "assistant", "content": [words] });
            let message = (!text.trim().is_empty()).then_some(message);
            let calls = calls()
                .map(|id| json!({ "type": "function_call", "call_id": id, "name": "t", "arguments": "{}" }));
            let output: Vec<_> = thought.into_iter().chain(message).chain(calls).collect();
            json!({ "status": "completed", "output": output })
        }
        "ollama" => {
            let calls: Vec<_> =
                calls().map(|id| json!({ "id": id, "function": { "name": "t", "arguments": {} } })).collect();
            let message = json!({ "content": text, "thinking": "hm", "tool_calls": calls });
            json!({ "message": message, "done": true, "done_reason": "stop" })
        }
        _ => {
            let function = json!({ "name": "t", "arguments": "{}" });
            let calls: Vec<_> = calls().map(|id| json!({ "id": id, "function": function })).collect();
            let message = json!({ "content": text, "reasoning": "hm", "tool_calls": calls });
            json!({ "choices": [{ "message": message, "finish_reason": "stop" }] })
        }
    }
}

/// Returns a message after it was saved and read again.
fn resumed(message: Message) -> Message {
    fn again<T: serde::Serialize + serde::de::DeserializeOwned>(part: &T) -> T {
        serde_json::from_str(&serde_json::to_string(part).unwrap()).unwrap()
    }
    match message {
        Message::User(prompt) => Message::User(again(&prompt)),
        Message::Turn(turn) => {
            let answers: Vec<_> = turn.answered().map(|(_, result)| again(result)).collect();
            Message::Turn(Exchange::new(again(turn.reply()), answers))
        }
    }
}

/// Runs one walk through the servers; returns the violations of vendors' rules.
fn walk(servers: &[Server], steps: &[Step]) -> Vec<String> {
    let mut messages = vec![Message::User("do".into())];
    let mut found = Vec::new();
    for step in steps {
        if step.is_resumed {
            messages = messages.into_iter().map(resumed).collect();
        }
        let Some(server) = servers.get(step.server % servers.len()) else { continue };
        let said = messages.clone();
        let ask = Ask { model: server.model, system: "be brief", messages: &said, ..Ask::default() };
        let sent = (server.ask)(&ask);
        found.extend(
            violations(server.format, &sent)
                .into_iter()
                .map(|what| format!("{}: {what} in {sent}", server.format)),
        );
        let is_budgeted = server.model == "claude-sonnet-4-5";
        let is_on = sent.pointer("/thinking/type").map_or(!is_budgeted, |mode| mode == "enabled");
        let thinks = if server.format == "anthropic" {
            is_on && (is_budgeted || step.said.thinks)
        } else {
            step.said.thinks
        };
        let reply = (server.answer)(&ask, body(server.format, thinks, &step.said));
        let answers = reply.calls.iter().take(step.said.answered).map(|_| ToolResult::success("x"));
        let exchange = Exchange::new(reply.clone(), answers.collect::<Vec<_>>());
        if !reply.is_empty() {
            messages.push(Message::Turn(exchange));
        }
        let is_over = reply.calls.is_empty() && !reply.unfinished;
        if let Some(prompt) = step.prompt.or(is_over.then_some("next")) {
            match messages.last_mut() {
                Some(Message::User(last)) => last.join(prompt.into()),
                _ => messages.push(Message::User(prompt.into())),
            }
        }
    }
    found
}

/// Runs `cases` walks.
fn walks(cases: u32) {
    let servers = servers();
    let steps = prop::collection::vec(step(), 1..9);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in steps)| {
        prop_assert_eq!(walk(&servers, &steps), Vec::<String>::new());
    });
}

/// (A03, A10, A23): no walk contains a request that a vendor rejects.
#[test]
fn no_walk_through_all_vendors_has_what_one_would_refuse() {
    walks(1000);
}

mod slow {
    /// Ten times as many walks.
    #[test]
    #[ignore = "by night: it takes half a minute"]
    fn no_walk_of_ten_thousand_has_what_one_vendor_would_refuse() {
        super::walks(10_000);
    }
}

/// The walks find the errors that they are made for: duplicate ids, and missing or unexpected thinking.
#[test]
fn what_vendors_refuse_is_found() {
    let call = |id: &str| json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": id, "name": "t", "input": {} }] });
    let thought = |id: &str| {
        let mut call = call(id);
        let blocks = call["content"].as_array_mut().unwrap();
        blocks.insert(0, json!({ "type": "thinking", "thinking": "hm", "signature": "s" }));
        call
    };
    let answer = |id: &str| json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": id, "content": "x" }] });
    let said = || json!({ "role": "user", "content": [{ "type": "text", "text": "x" }] });
    let found = |mode: Option<&str>, messages: &[Value]| {
        let mut body = json!({ "model": "claude-sonnet-4-5", "messages": messages });
        if let Some(mode) = mode {
            body["thinking"] = json!({ "type": mode });
        }
        violations("anthropic", &body).len()
    };
    assert_eq!(found(None, &[said(), call("a"), answer("a"), call("b"), answer("b")]), 0);
    assert_eq!(found(None, &[said(), call("a"), answer("a"), call("a"), answer("a")]), 1);
    assert_eq!(found(Some("enabled"), &[said(), call("a"), answer("a")]), 1);
    assert_eq!(found(Some("enabled"), &[said(), thought("a"), answer("a"), call("b"), answer("b")]), 0);
    assert_eq!(found(None, &[said(), thought("a"), answer("a")]), 1);
    assert_eq!(found(Some("disabled"), &[said(), thought("a"), answer("a")]), 1);
    assert_eq!(found(None, &[said(), call("a"), said()]), 1);
    assert_eq!(found(None, &[said(), call("a"), answer("b")]), 1);
    assert_eq!(found(None, &[said(), call("a b"), answer("a b")]), 1);
}
