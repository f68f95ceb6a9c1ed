//! Vendors that misbehave: each failure is one clear message, in bounded time and memory.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::call::Attachment;
use haft::event::{Event, Events};
use haft::provider::{
    Ask, Failure, Message, Prompt, Provider, ProviderError, ProviderSettings, Timeouts, Turn, build,
};
use secrecy::SecretString;
use serde_json::json;
use tokio::net::TcpListener;

use super::server::{Answer, Said, Server, Vendor};
use super::{KEY, VENDORS, once, provider, quick, settings};
use crate::common::wait::within;

fn hello() -> Said {
    Said { text: "hello there, everyone", ..Said::default() }
}

/// The turn and its events: the text, and a line for every retry.
async fn received(provider: &dyn Provider) -> (Result<Turn, ProviderError>, Vec<String>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let sink = received.clone();
    let events = Events::to(move |event| match event {
        Event::Said(text) => sink.lock().unwrap().push(text.clone()),
        Event::Retrying { delay, .. } => sink.lock().unwrap().push(format!("AGAIN after {delay:?}")),
        _ => {}
    });
    let messages = [Message::User("hi".into())];
    let ask = Ask { model: "fake-model", system: "be brief", messages: &messages, tools: &[], output: None };
    let turn = within("the turn ends", provider.turn(&ask, &events)).await;
    let received = received.lock().unwrap().clone();
    (turn, received)
}

async fn failure(settings: ProviderSettings) -> ProviderError {
    received(provider(settings).as_ref()).await.0.unwrap_err()
}

/// The failure of a single attempt with this answer.
async fn of(vendor: &'static dyn Vendor, answer: Answer) -> ProviderError {
    let server = Server::start(vendor, [answer]).await;
    failure(ProviderSettings { patience: once(), ..settings(&server, true) }).await
}

/// PL06: if no server listens, the error names the address and hints at `base_url`.
#[tokio::test]
async fn a_dead_endpoint_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for vendor in VENDORS {
        let dead = ProviderSettings {
            base_url: Some(format!("http://{address}")),
            patience: quick(),
            ..ProviderSettings::new(vendor.name(), "m")
        };
        let error = failure(dead).await;
        let text = error.to_string();
        // G10: the error has the whole URL of the request, not only the server.
        let path = if vendor.name() == "gemini" { "models/" } else { "" };
        assert!(text.starts_with(&format!("{} at `http://{address}/{path}", vendor.name())), "{text}");
        assert!(!text.contains(&format!("{address}/`")), "{text}");
        assert!(
            text.contains("`: request failed: tcp connect error: ") && text.contains("refused"),
            "{text}"
        );
        assert!(text.ends_with("(tried 4 times)"), "{text}");
        assert_eq!(
            error.hint().unwrap(),
            format!("is a server listening at `http://{address}`? The address is `base_url` in `[provider]`")
        );
    }
}

/// PL06: a wrong key is reported after one attempt, and haft hides the key, also if the server repeats it.
#[tokio::test]
async fn a_wrong_key_is_told_and_not_shown() {
    for vendor in VENDORS {
        let server = Server::start(vendor, []).await;
        let wrong = "sk-the-wrong-key-0815";
        let error =
            failure(ProviderSettings { api_key: Some(wrong.into()), ..settings(&server, true) }).await;
        assert_eq!(error.attempts, 1);
        let text = error.to_string();
        assert!(text.contains("returned 401 Unauthorized: bad key ") && text.contains("***"), "{text}");
        assert!(!text.contains("0815"), "{text}");
        assert_eq!(error.hint().unwrap(), "check `[provider] api_key`");
    }
}

/// PL06: haft waits as long as the server asks for, and reports the wait.
#[tokio::test]
async fn a_rate_limit_is_waited_for() {
    all_wait_a_second().await;
}

/// Every vendor asks for a wait of one second; the number of vendors.
pub(crate) async fn all_wait_a_second() -> usize {
    for vendor in VENDORS {
        let limited = || Answer::Status(429, vec![("retry-after", "1")], "slow down");
        let server = Server::start(vendor, [limited(), Answer::Turn(hello())]).await;
        let (turn, received) = received(provider(settings(&server, true)).as_ref()).await;
        assert_eq!(turn.unwrap().reply.text, "hello there, everyone");
        assert_eq!(received[0], "AGAIN after 1s");
        assert_eq!(received[1..].concat(), "hello there, everyone");
        server.assert_done();
        let error = of(vendor, limited()).await.to_string();
        assert!(error.contains("returned 429 Too Many Requests: slow down"), "{error}");
        let never = of(vendor, Answer::Status(429, vec![("retry-after", "86400")], "tomorrow")).await;
        assert_eq!(never.attempts, 1);
    }
    VENDORS.len()
}

/// PL06: haft reads the wait that Gemini puts into the body.
#[tokio::test]
async fn gemini_s_own_way_to_ask_for_a_wait_is_understood() {
    let body = json!({ "error": { "code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED",
        "details": [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "86400s" }] } });
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let task = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = server.accept().await.unwrap();
        let mut some = [0; 16];
        stream.read_exact(&mut some).await.unwrap();
        let body = body.to_string();
        let head = format!("HTTP/1.1 429 X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
    });
    let settings = ProviderSettings {
        base_url: Some(format!("http://{address}/v1beta")),
        ..ProviderSettings::new("gemini", "m")
    };
    let error = failure(settings).await;
    assert_eq!(error.attempts, 1, "a day is not waited for");
    assert!(error.to_string().contains("quota (RESOURCE_EXHAUSTED)"), "{error}");
    task.await.unwrap();
}

/// PL06: haft repeats a request whose stream breaks off; the text before it does not count.
#[tokio::test]
async fn a_stream_that_is_cut_is_asked_for_again() {
    for vendor in VENDORS {
        for ends in [false, true] {
            let count = vendor.write(&hello(), true).frames.len() - 3;
            let cut = || Answer::Cut(hello(), count, ends);
            let server = Server::start(vendor, [cut(), Answer::Turn(hello())]).await;
            let (turn, received) = received(provider(settings(&server, true)).as_ref()).await;
            assert_eq!(turn.unwrap().reply.text, "hello there, everyone", "{}", vendor.name());
            let again = received.iter().position(|piece| piece.starts_with("AGAIN")).unwrap();
            assert_eq!(received[again + 1..].concat(), "hello there, everyone");
            server.assert_done();
            let error = of(vendor, cut()).await;
            assert!(matches!(error.failure, Failure::Interrupted(_)), "{error}");
            assert!(error.to_string().contains("the connection ended within the answer:"), "{error}");
        }
    }
}

/// A complete answer counts, also if the connection breaks afterwards.
#[tokio::test]
async fn a_stream_that_is_cut_after_its_end_is_whole() {
    for vendor in VENDORS {
        let count = vendor.write(&hello(), true).frames.len();
        let server = Server::start(vendor, [Answer::Cut(hello(), count, false)]).await;
        let (turn, _) = received(provider(settings(&server, true)).as_ref()).await;
        assert_eq!(turn.unwrap().reply.text, "hello there, everyone", "{}", vendor.name());
    }
}

/// PL12: an error inside a stream becomes the error of the turn.
#[tokio::test]
async fn an_error_in_a_stream_is_told() {
    for vendor in VENDORS {
        let error = of(vendor, Answer::ErrorAfter(hello(), "out of order")).await.to_string();
        assert!(error.ends_with("reported an error: out of order"), "{}: {error}", vendor.name());
    }
}

/// PL18: a success without content is the error `empty response`.
#[tokio::test]
async fn an_empty_success_is_an_empty_response() {
    for vendor in VENDORS {
        let empty = vendor.empty().to_string().into_bytes();
        let error = of(vendor, Answer::Body("application/json", empty)).await.to_string();
        assert!(error.contains(": empty response: "), "{}: {error}", vendor.name());
    }
}

/// PL07: 10 MB of garbage cause one clear message of bounded length.
#[tokio::test]
async fn ten_megabytes_of_garbage_are_one_message() {
    let noise = |seed: u8| -> Vec<u8> {
        let mut state = u32::from(seed) + 1;
        let byte = |state: &mut u32| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        (0..10 << 20).map(|_| byte(&mut state)).collect()
    };
    let lines = |line: &str| line.repeat((10 << 20) / line.len()).into_bytes();
    let bodies = [
        ("noise", noise(1)),
        ("one line", lines("x")),
        ("empty lines", lines("\n")),
        ("html", lines("<p>welcome</p>\n")),
        ("brackets", lines("[],")),
        ("deep", lines("[")),
        ("events of noise", lines("data: x\n\n")),
        ("empty events", lines("data: {}\n\n")),
        ("one event", [b"data: ".to_vec(), lines("x")].concat()),
    ];
    for vendor in VENDORS {
        let own = vendor.write(&hello(), true).media_type;
        // All vendors share the framing of streams, except the vendor that sends lines.
        let is_framed_alike = !matches!(vendor.name(), "openai" | "ollama");
        let streamed = bodies
            .iter()
            .filter(|(what, _)| !is_framed_alike || matches!(*what, "noise" | "events of noise"));
        let streamed = streamed.map(|(what, body)| (own, *what, body));
        let whole = bodies.iter().filter(|(what, _)| matches!(*what, "noise" | "html" | "brackets"));
        for (media_type, what, body) in
            streamed.chain(whole.map(|(what, body)| ("application/json", *what, body)))
        {
            let error = of(vendor, Answer::Body(media_type, body.clone())).await;
            let (text, name) = (error.to_string(), vendor.name());
            assert!(text.len() < 1500 && !text.contains('\n'), "{name}, {what}: {text}");
            let is_clear = matches!(
                error.failure,
                Failure::Malformed(_) | Failure::TooLarge(_) | Failure::Empty(_) | Failure::Interrupted(_)
            );
            assert!(is_clear, "{name}, {what}: {text}");
        }
    }
}

/// Each time limit ends a silent request: until the answer starts, between its pieces, and for the whole answer.
#[tokio::test]
async fn silence_is_waited_for_no_longer_than_said() {
    let short = Duration::from_millis(200);
    for vendor in VENDORS {
        let of = async |answer: Answer, timeouts: Timeouts| {
            let server = Server::start(vendor, [answer]).await;
            failure(ProviderSettings { timeouts, patience: once(), ..settings(&server, true) }).await
        };
        let first = Timeouts { first_byte: short, ..Timeouts::default() };
        let error = of(Answer::Silence, first).await;
        assert!(error.to_string().ends_with("no answer began for 0.2 s"), "{error}");
        let error = of(Answer::Stall(hello(), 0), first).await;
        assert_eq!(error.failure, Failure::Silent { began: false, waited: short });
        let error = of(Answer::Stall(hello(), 1), Timeouts { idle: short, ..Timeouts::default() }).await;
        assert!(error.to_string().ends_with("the answer stalled: no data for 0.2 s"), "{error}");
        assert_eq!((error.attempts, error.hint().is_some()), (1, true));
        let total = Timeouts { total: short, ..Timeouts::default() };
        let error = of(Answer::Stall(hello(), 1), total).await;
        assert_eq!(error.failure, Failure::TimedOut(short));
    }
}

/// PL19: each vendor reports whether it is available, and haft sends no request without a key.
#[tokio::test]
async fn availability_is_known_of_each_vendor() {
    for vendor in VENDORS {
        let server = Server::start(vendor, []).await;
        assert!(provider(settings(&server, true)).is_available().await, "{}", vendor.name());
        let wrong = ProviderSettings { api_key: Some("sk-wrong".into()), ..settings(&server, true) };
        assert!(!provider(wrong).is_available().await, "{}", vendor.name());
        if vendor.name() != "ollama" {
            let keyless = provider(ProviderSettings::new(vendor.name(), "m"));
            assert!(!keyless.is_available().await);
            let error = keyless.check().await.unwrap_err();
            assert_eq!(error.failure.to_string(), "no API key is set");
            assert!(error.hint().unwrap().contains("_API_KEY"));
        }
    }
}

/// `max_tokens`, `headers` and `extra_body` reach the request; the key is in its header alone.
#[tokio::test]
async fn settings_reach_the_wire_and_nothing_else_does() {
    for vendor in VENDORS {
        let server = Server::start(vendor, [Answer::Turn(hello())]).await;
        let extra = match vendor.name() {
            "gemini" => json!({ "generationConfig": { "temperature": 0 } }),
            "ollama" => json!({ "options": { "temperature": 0 } }),
            _ => json!({ "temperature": 0 }),
        };
        let provider = provider(ProviderSettings {
            max_tokens: Some(77),
            extra: extra.as_object().unwrap().clone(),
            headers: vec![("x-extra".into(), SecretString::from("v"))],
            ..settings(&server, true)
        });
        received(provider.as_ref()).await.0.unwrap();
        server.assert_done();
        let body = server.bodies().remove(0);
        let text = body.to_string();
        assert!(text.contains("\"temperature\":0") && text.contains(":77"), "{text}");
        assert!(!text.contains(KEY), "{text}");
        let reserved = build(ProviderSettings {
            extra: json!({ "tools": [] }).as_object().unwrap().clone(),
            ..settings(&server, true)
        });
        assert_eq!(
            reserved.err().unwrap().to_string(),
            "`extra_body` must not set `tools`: haft sets this field"
        );
    }
}

/// G09: if the model's API refuses pictures, haft repeats the request without them and sends no more of them.
#[tokio::test]
async fn a_refusal_of_files_is_answered_by_leaving_them_out() {
    let picture = Attachment::new("image/png", b"\x89PNG\r\n\x1a\n".to_vec());
    for vendor in VENDORS {
        for (status, message) in [(400, "no such thing"), (500, "image input is not supported")] {
            let refusal = Answer::Status(status, vec![], message);
            let server = Server::apart(vendor, [refusal, Answer::Turn(hello()), Answer::Turn(hello())]).await;
            let provider = provider(settings(&server, true));
            let said = Prompt { text: "look".into(), attachments: vec![picture.clone()] };
            let messages = [Message::User(said)];
            for _ in 0..2 {
                let ask =
                    Ask { model: "fake-model", system: "", messages: &messages, tools: &[], output: None };
                let turn = provider.turn(&ask, &Events::default()).await.unwrap();
                assert_eq!(turn.reply.text, "hello there, everyone");
            }
            server.assert_done();
            let bodies: Vec<_> = server.bodies().iter().map(ToString::to_string).collect();
            let shown: Vec<_> = bodies.iter().map(|body| body.contains("iVBORw0K")).collect();
            assert_eq!(shown, [true, false, false], "{}", vendor.name());
            assert!(bodies[1].contains("[not shown: image/png, 8 bytes: the model's API refused it]"));
        }
    }
}

/// If the server is busy during the request without the files, haft repeats that request.
#[tokio::test]
async fn a_server_that_is_busy_meanwhile_is_asked_again_without_the_files() {
    let picture = Attachment::new("image/png", b"\x89PNG\r\n\x1a\n".to_vec());
    for vendor in VENDORS {
        let refusal = Answer::Status(400, vec![], "no such thing");
        let busy = Answer::Status(503, vec![("retry-after-ms", "1")], "come again");
        let server = Server::apart(vendor, [refusal, busy, Answer::Turn(hello())]).await;
        let provider = provider(settings(&server, true));
        let messages = [Message::User(Prompt { text: "look".into(), attachments: vec![picture.clone()] })];
        let ask = Ask { model: "fake-model", system: "", messages: &messages, tools: &[], output: None };
        let turn = provider.turn(&ask, &Events::default()).await.unwrap();
        assert_eq!(turn.reply.text, "hello there, everyone", "{}", vendor.name());
        server.assert_done();
    }
}

/// (A14): haft finds the one picture that the vendor cannot read and omits it; the model sees the other and later
/// pictures.
#[tokio::test]
async fn one_unreadable_picture_does_not_hide_the_others() {
    let picture =
        |number: u8| Attachment::new("image/png", [b"\x89PNG\r\n\x1a\n".as_slice(), &[number; 9]].concat());
    let refusal = || Answer::Status(400, vec![], "Could not process image");
    for vendor in VENDORS {
        // haft omits the newest picture first; the second of three is unreadable.
        let script = [refusal(), refusal(), Answer::Turn(hello()), Answer::Turn(hello())];
        let server = Server::apart(vendor, script).await;
        let provider = provider(settings(&server, true));
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = told.clone();
        let events = Events::to(move |event| {
            if let Event::NotShown { reason } = event {
                sink.lock().unwrap().push(reason.clone());
            }
        });
        let said = |text: &str, count: u8| {
            let attachments = (0..count).map(picture).collect();
            Message::User(Prompt { text: text.into(), attachments })
        };
        for count in [3, 4] {
            let messages = [said("look", count)];
            let ask = Ask { model: "fake-model", system: "", messages: &messages, tools: &[], output: None };
            provider.turn(&ask, &events).await.unwrap();
        }
        server.assert_done();
        let shown: Vec<_> =
            server.bodies().iter().map(|body| body.to_string().matches("iVBORw0KGgo").count()).collect();
        assert_eq!(shown, [3, 2, 2, 3], "{}", vendor.name());
        let told = told.lock().unwrap().clone();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("image/png, 17 bytes") && told[0].contains("Could not process image"),
            "{told:?}"
        );
    }
}

/// haft reports the first refusal if the request without files is refused too.
#[tokio::test]
async fn a_refusal_that_files_have_no_part_in_is_told() {
    for vendor in VENDORS {
        let refusals = (0..2).map(|number| {
            Answer::Status(
                400,
                vec![],
                if number == 0 { "no such parameter" } else { "still no such parameter" },
            )
        });
        let server = Server::apart(vendor, refusals).await;
        let attachments = vec![Attachment::new("image/png", b"\x89PNG\r\n\x1a\n".to_vec())];
        let messages = [Message::User(Prompt { text: "look".into(), attachments })];
        let ask = Ask { model: "fake-model", system: "", messages: &messages, tools: &[], output: None };
        let error = provider(settings(&server, true)).turn(&ask, &Events::default()).await.unwrap_err();
        assert!(error.to_string().contains(": no such parameter"), "{}: {error}", vendor.name());
        server.assert_done();
    }
}

/// (A05): haft keeps to a wait that an error inside a stream asks for.
#[tokio::test]
async fn a_wait_that_is_told_in_a_stream_is_kept() {
    for vendor in VENDORS {
        let late = Answer::ErrorAfter(hello(), "Overloaded. Please try again in 1.25s.");
        let server = Server::start(vendor, [late, Answer::Turn(hello())]).await;
        let (turn, received) = received(provider(settings(&server, true)).as_ref()).await;
        turn.unwrap();
        assert!(received.iter().any(|piece| piece == "AGAIN after 1.25s"), "{}: {received:?}", vendor.name());
    }
}

/// (A04): haft does not wait for the end of a connection after the end of the answer.
#[tokio::test]
async fn an_open_connection_after_the_end_is_not_waited_for() {
    let hours = Duration::from_hours(9);
    let timeouts = Timeouts { idle: hours, total: hours, ..Timeouts::default() };
    for vendor in VENDORS {
        let count = vendor.write(&hello(), true).frames.len();
        let server = Server::start(vendor, [Answer::Stall(hello(), count)]).await;
        let open = ProviderSettings { timeouts, ..settings(&server, true) };
        let (turn, _) = received(provider(open).as_ref()).await;
        assert_eq!(turn.unwrap().reply.text, "hello there, everyone", "{}", vendor.name());
    }
}

/// (A12): haft recognises the format of an answer by its bytes, not by its media type.
#[tokio::test]
async fn the_media_type_of_an_answer_is_not_believed() {
    for vendor in VENDORS {
        for streams in [true, false] {
            let body = vendor.write(&hello(), streams).frames.concat().into_bytes();
            for media_type in ["", "text/plain", "text/html", "application/json", "text/event-stream"] {
                let server = Server::start(vendor, [Answer::Body(media_type, body.clone())]).await;
                let (turn, received) = received(provider(settings(&server, true)).as_ref()).await;
                let text = turn.unwrap_or_else(|error| panic!("{media_type}: {error}")).reply.text;
                assert_eq!([text, received.concat()], ["hello there, everyone"; 2], "{media_type}");
            }
        }
    }
}
