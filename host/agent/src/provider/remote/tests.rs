use super::super::build;
use super::answer::explain;
mod rules;
mod walks;

use super::*;

fn settings(base_url: &str) -> ProviderSettings {
    ProviderSettings { base_url: Some(base_url.into()), ..ProviderSettings::new("openai", "m") }
}

fn refused(settings: ProviderSettings) -> String {
    build(settings).err().unwrap().to_string()
}

#[test]
fn requests_go_below_the_base_and_keep_its_query() {
    for (base, expected) in [
        ("http://h/v1", "http://h/v1/chat/completions"),
        ("http://h:8080/v1/", "http://h:8080/v1/chat/completions"),
        ("https://h", "https://h/chat/completions"),
        ("https://h/d?api-version=1", "https://h/d/chat/completions?api-version=1"),
    ] {
        assert_eq!(below(&parse_base(base).unwrap(), "chat/completions").as_str(), expected);
    }
}

#[test]
fn a_base_url_that_cannot_work_is_refused() {
    assert!(refused(settings("localhost:8080")).contains("starts with `localhost:`"));
    assert!(refused(settings("nonsense")).starts_with("`base_url` is not a URL"));
    let secret = refused(settings("http://me:hunter2@h/v1"));
    assert!(secret.contains("use `api_key`") && !secret.contains("hunter2"), "{secret}");
}

#[test]
fn settings_that_would_break_a_request_are_refused() {
    let mut extra = settings("http://h/v1");
    extra.extra.insert("messages".into(), Value::Null);
    assert_eq!(refused(extra), "`extra_body` must not set `messages`: haft sets this field");
    let mut header = settings("http://h/v1");
    header.headers.push(("bad name".into(), "v".into()));
    assert!(refused(header).contains("`bad name`"));
    let key = ProviderSettings { api_key: Some("sk-1\nsk-2".into()), ..settings("http://h/v1") };
    assert!(!refused(key).contains("sk-"));
    assert!(
        refused(ProviderSettings { model: " ".into(), ..settings("http://h") }).contains("`model` is empty")
    );
}

#[test]
fn secrets_are_not_shown() {
    let settings = ProviderSettings { api_key: Some("sk-secret".into()), ..settings("http://h/v1") };
    assert!(!format!("{settings:?}").contains("sk-secret"));
    let remote =
        Remote::new(&super::super::PROVIDERS[0], super::super::openai::OpenAi { vendor: "openai" }, settings)
            .unwrap();
    assert!(!format!("{:?}", remote.headers).contains("sk-secret"));
    let failure = remote.cleaned(Failure::refused(401, "bad key sk-secret"));
    assert_eq!(failure, Failure::refused(401, "bad key ***"));
}

/// G10: thinking and signatures are not sent to other servers; the vendor itself also gets them from sessions
/// without a server name.
#[test]
fn thoughts_in_every_shared_format_stay_with_their_server() {
    use super::super::{Exchange, Reply, anthropic, gemini};
    fn asked<D: Dialect>(dialect: D, kind: &str, base_url: Option<&str>, own: &Reply) -> String {
        let settings = ProviderSettings {
            base_url: base_url.map(str::to_owned),
            ..ProviderSettings::new(kind, "some-model")
        };
        let remote = Remote::new(super::super::kind(kind).unwrap(), dialect, settings).unwrap();
        let messages = [Message::User("hi".into()), Message::Turn(Exchange::new(own.clone(), []))];
        let ask = Ask { model: "some-model", messages: &messages, ..Ask::default() };
        let request = remote.asking(&ask, &Search::default());
        String::from_utf8(request.body().unwrap().as_bytes().unwrap().to_vec()).unwrap()
    }
    let thinking = serde_json::json!([{ "type": "thinking", "thinking": "", "signature": "signed" }]);
    let rows = [
        ("anthropic", serde_json::json!({ "role": "assistant", "content": thinking })),
        (
            "gemini",
            serde_json::json!({ "role": "model", "parts": [{ "text": "so", "thoughtSignature": "signed" }] }),
        ),
    ];
    for (kind, raw) in rows {
        for (from, to, is_sent) in [
            ("http://one:1", Some("http://one:1/v1"), true),
            ("http://one:1", Some("http://two/v1"), false),
            ("http://one:1", None, false),
            ("", None, true),
            ("", Some("http://two/v1"), false),
        ] {
            let reply = Reply {
                text: "so".into(),
                raw: raw.clone(),
                vendor: kind.into(),
                server: from.into(),
                ..Reply::default()
            };
            let sent = match kind {
                "gemini" => asked(gemini::Gemini, kind, to, &reply),
                _ => asked(anthropic::Anthropic, kind, to, &reply),
            };
            assert_eq!(sent.contains("signed"), is_sent, "{kind} from `{from}` to {to:?}: {sent}");
        }
    }
}

#[test]
fn an_error_body_is_explained_by_its_message() {
    let openai =
        br#"{"error":{"message":"no such model","type":"invalid_request_error","code":"model_not_found"}}"#;
    let told = |body: &[u8]| explain(&serde_json::from_slice(body).unwrap_or_default(), body);
    assert_eq!(told(openai), "no such model (model_not_found)");
    assert_eq!(told(br#"{"detail":"nope"}"#), "nope");
    assert_eq!(told(br#"{"error":"nope"}"#), "nope");
    assert_eq!(told(b"<h1>502</h1>"), "<h1>502</h1>");
    assert_eq!(told(b""), "(no body)");
}

/// The usage of unusable and incomplete responses is known, in the members of each vendor.
#[test]
fn what_an_answer_cost_that_cannot_be_used_is_known() {
    use super::super::{Prices, anthropic, gemini, ollama, openai, openrouter, responses};
    use serde_json::json;
    fn of<D: Dialect>(dialect: D, kind: &str, body: &Value, pieces: &str) -> [Usage; 2] {
        let prices = Prices { input: 1.0, output: 2.0, cached: None, stored: None };
        let prices = [("exact".to_owned(), prices)].into();
        let settings = ProviderSettings { prices, ..ProviderSettings::new(kind, "m") };
        let remote = Remote::new(super::super::kind(kind).unwrap(), dialect, settings).unwrap();
        let ask = Ask { model: "m", ..Ask::default() };
        assert!(remote.decode(&ask, body.clone()).is_err(), "{kind}: {body}");
        let (redactor, events) = (Redactor::default(), Events::none());
        let mut reading = Reading::new(&remote.dialect, &redactor, &events);
        // The result does not matter.
        let _ = reading.take(pieces.as_bytes()).and_then(|()| reading.finish());
        [remote.used(&ask, body), remote.used(&ask, &reading.into_body().0)]
    }
    let chat = json!({ "model": "exact", "usage": { "prompt_tokens": 7, "completion_tokens": 1 } });
    let body = json!({ "model": "exact", "usage": { "input_tokens": 7, "output_tokens": 1 } });
    let of_gemini = json!({ "modelVersion": "exact", "usageMetadata": { "promptTokenCount": 7, "candidatesTokenCount": 1 } });
    let of_ollama =
        json!({ "model": "exact", "message": {}, "done": true, "prompt_eval_count": 7, "eval_count": 1 });
    let started = format!("data: {}\n\n", json!({ "type": "message_start", "message": body }));
    let created = format!("data: {}\n\n", json!({ "type": "response.incomplete", "response": body }));
    let events = |body: &Value| format!("data: {body}\n\n");
    let rows = [
        of(openai::OpenAi { vendor: "openai" }, "openai", &chat, &events(&chat)),
        of(openrouter::OpenRouter, "openrouter", &chat, &events(&chat)),
        of(responses::Responses, "openai", &body, &created),
        of(anthropic::Anthropic, "anthropic", &body, &started),
        of(gemini::Gemini, "gemini", &of_gemini, &events(&of_gemini)),
        of(ollama::Ollama, "ollama", &of_ollama, &format!("{of_ollama}\n")),
    ];
    for (row, [whole, begun]) in rows.into_iter().enumerate() {
        assert_eq!((whole.input, whole.output, whole.cost.is_some()), (7, 1, true), "{row}");
        assert_eq!(begun, whole, "{row}");
    }
    let silent = json!({ "model": "exact", "content": 7 });
    assert_eq!(
        of(anthropic::Anthropic, "anthropic", &silent, ""),
        [Usage::default(); 2],
        "no tokens, no price"
    );
}

#[test]
fn objects_are_joined_and_everything_else_is_replaced() {
    use serde_json::json;
    let mut under = json!({ "a": { "b": 1, "c": [1] }, "d": 1 }).as_object().unwrap().clone();
    let over = json!({ "a": { "c": [2], "e": null }, "d": { "f": 1 } }).as_object().unwrap().clone();
    lay_over(&mut under, &over);
    assert_eq!(Value::from(under), json!({ "a": { "b": 1, "c": [2], "e": null }, "d": { "f": 1 } }));
}
