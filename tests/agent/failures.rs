//! Endpoints that misbehave: each failure is one clear message, in bounded time and memory.

use haft::provider::{Failure, Timeouts};
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::fake::{Answer, json as reply, says};
use super::*;

fn status(status: u16, headers: &'static [(&'static str, &'static str)], body: &str) -> Answer {
    Answer::Http(status, headers, body.as_bytes().to_vec())
}

/// The error of a run against `script`, after the whole script was used.
async fn failure(script: Vec<Answer>) -> ProviderError {
    failure_after(script, crate::providers::quick()).await
}

async fn failure_after(script: Vec<Answer>, patience: Patience) -> ProviderError {
    let fake = Fake::start(script).await;
    let provider = provider(ProviderSettings { patience, ..settings(&fake) });
    let agent = Agent::new(provider, Toolbox::default(), AgentSettings::default());
    let error = run(&agent).await.unwrap_err();
    fake.assert_done();
    error
}

/// PL06: a client error is reported after one attempt, with its status, its message and a hint.
#[tokio::test]
async fn a_client_error_is_reported_at_once_with_status_and_body() {
    let body = r#"{"error":{"message":"no such model: fake-model","type":"invalid_request_error","code":"model_not_found"}}"#;
    let error = failure(vec![status(404, &[], body)]).await;
    assert_eq!(error.attempts, 1);
    let text = error.to_string();
    assert!(
        text.ends_with(
            "/v1/chat/completions`: returned 404 Not Found: no such model: fake-model (model_not_found)"
        ),
        "{text}"
    );
    assert!(error.hint().unwrap().contains("`[provider] model`"));
}

/// PL06: an error shows only a part of a long body.
#[tokio::test]
async fn an_error_body_is_bounded() {
    let error = failure(vec![status(400, &[], &"x".repeat(10 << 20))]).await.to_string();
    assert!(error.len() < 1000, "{}", error.len());
}

/// PL06: rate limits, server errors and closed connections lead to another attempt.
#[tokio::test]
async fn rate_limits_and_server_errors_are_tried_again() {
    let fake = Fake::start([
        status(429, &[("retry-after", "0")], "slow down"),
        status(503, &[], "starting"),
        Answer::Hangup,
        says("made it"),
    ])
    .await;
    assert_eq!(run(&agent(&fake, Toolbox::default())).await.unwrap().text, "made it");
    fake.assert_done();
}

/// PL06: haft makes at most four attempts.
#[tokio::test]
async fn attempts_are_bounded() {
    let error = failure((0..4).map(|_| status(500, &[], "")).collect()).await;
    assert_eq!(error.attempts, 4);
    assert!(
        error.to_string().ends_with("returned 500 Internal Server Error: (no body) (tried 4 times)"),
        "{error}"
    );
}

/// PL06: haft does not wait for a `retry-after` of a day; the first answer is the error.
#[tokio::test]
async fn a_wait_that_nobody_would_sit_through_is_an_error() {
    let error = failure(vec![status(429, &[("retry-after", "86400")], "tomorrow")]).await;
    assert_eq!(error.attempts, 1);
}

/// PL06: haft tries an unreachable endpoint again, and the error names the endpoint.
#[tokio::test]
async fn a_dead_endpoint_is_tried_again_and_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let quick = crate::providers::quick();
    let patience = Patience { retry: Retry { attempts: 2, ..quick.retry }, ..quick };
    let base_url = Some(format!("http://{address}/v1"));
    let dead = provider(ProviderSettings { base_url, patience, ..ProviderSettings::new("openai", "m") });
    let error = run(&Agent::new(dead, Toolbox::default(), AgentSettings::default())).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("request failed") && text.contains("refused") && text.contains("(tried 2 times)"),
        "{text}"
    );
    assert!(error.hint().unwrap().contains(&address.to_string()));
}

/// PL06: haft does not follow a redirect of a provider.
#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = status(307, &[("location", "http://example.invalid/")], "");
    let error = failure(vec![elsewhere]).await.to_string();
    assert!(
        error.contains("redirect to `http://example.invalid/` refused: haft follows no redirects here"),
        "{error}"
    );
}

#[tokio::test]
async fn an_answer_that_takes_too_long_names_the_limit() {
    let fake = Fake::start([Answer::Never(CancellationToken::new())]).await;
    let timeouts = Timeouts { total: Duration::from_millis(50), ..Timeouts::default() };
    let patience = crate::providers::once();
    let slow = provider(ProviderSettings { timeouts, patience, ..settings(&fake) });
    let error = run(&Agent::new(slow, Toolbox::default(), AgentSettings::default())).await.unwrap_err();
    assert_eq!((error.attempts, &error.failure), (1, &Failure::TimedOut(timeouts.total)));
    assert!(error.to_string().ends_with("no complete answer within 0.05 s"), "{error}");
}

/// PL07: an answer that is not JSON is an error after three attempts, with the place of the problem.
#[tokio::test]
async fn what_is_not_a_completion_fails_to_parse() {
    let page = || status(200, &[], "<html>welcome</html>");
    let error = failure(vec![page(), page(), page()]).await.to_string();
    assert!(error.ends_with("(tried 3 times)"), "{error}");
    assert!(error.contains("failed to parse response: it is not JSON at line 1, column 1"), "{error}");
}

/// PL07: an incomplete answer is an error of its own kind.
#[tokio::test]
async fn an_answer_that_breaks_off_says_so() {
    let error = failure((0..4).map(|_| Answer::Cut).collect()).await;
    assert!(matches!(error.failure, Failure::Interrupted(_)), "{error}");
}

/// PL07: an answer without end is refused as too large.
#[tokio::test]
async fn an_answer_without_end_is_cut() {
    let error = failure(vec![Answer::Endless]).await;
    assert!(matches!(error.failure, Failure::TooLarge(_)), "{error}");
}

/// PL12: an error in an answer with status 200 is an error; a transient error leads to another attempt.
#[tokio::test]
async fn an_error_in_a_success_is_an_error_and_tried_again_where_it_is_transient() {
    let lasting = json!({ "error": { "message": "no credit left", "code": 402 } });
    let error = failure(vec![reply(&lasting)]).await;
    assert!(error.to_string().ends_with("reported an error: no credit left"), "{error}");
    let busy = json!({ "error": { "message": "overloaded", "code": 529 } });
    let fake = Fake::start([reply(&busy), says("made it")]).await;
    assert_eq!(run(&agent(&fake, Toolbox::default())).await.unwrap().text, "made it");
}

/// PL18: an answer without choices, text or calls is an empty response.
#[tokio::test]
async fn no_choices_is_an_empty_response() {
    let nothing = || (0..3).map(|_| reply(&json!({ "choices": [] }))).collect();
    let error = failure_after(nothing(), crate::providers::once()).await.to_string();
    assert!(error.contains("empty response"), "{error}");
    let error = failure_after((0..3).map(|_| says("")).collect(), crate::providers::once()).await.to_string();
    assert!(error.ends_with("empty response: neither text nor a call (it ended with `stop`)"), "{error}");
}

/// PL19: the check of a provider makes no request for a completion, and accepts a server without a list of models.
#[tokio::test]
async fn availability_is_found_out_without_a_turn() {
    let models = || reply(&json!({ "object": "list", "data": [] }));
    let fake =
        Fake::start([models(), status(401, &[], "who are you"), status(404, &[], "no list here")]).await;
    let provider = provider(settings(&fake));
    assert!(provider.is_available().await);
    assert!(!provider.is_available().await);
    assert!(provider.is_available().await, "a server without a list of models is still there");
    assert_eq!(fake.requests().len(), 0);
    fake.assert_done();
}

/// PL19: without a key haft reports the provider as unavailable and sends no request to the vendor.
#[tokio::test]
async fn without_a_key_the_vendor_is_not_even_asked() {
    let keyless = provider(ProviderSettings::new("openai", "gpt-4o"));
    assert!(!keyless.is_available().await);
    let error = keyless.check().await.unwrap_err();
    assert_eq!(error.to_string(), "openai at `https://api.openai.com/v1`: no API key is set");
    assert!(error.hint().unwrap().contains("OPENAI_API_KEY"));
    let empty = ProviderSettings { api_key: Some("".into()), ..ProviderSettings::new("openai", "gpt-4o") };
    assert!(!provider(empty).is_available().await);
}

#[tokio::test]
async fn the_key_goes_into_its_header_and_nowhere_else() {
    let key = "sk-very-secret-0123";
    let echoing = [
        says("hi"),
        status(401, &[], r#"{"error":{"message":"bad key sk-very-secret-0123"}}"#),
        status(200, &[], "sk-very-secret-0123 is no JSON"),
        reply(&json!({ "error": format!("{} sk-very-secret-0123", "x".repeat(590)) })),
    ];
    let fake = Fake::start(echoing).await;
    let headers = vec![("x-tenant".into(), SecretString::from("me"))];
    let extra = json!({ "temperature": 0.5 }).as_object().unwrap().clone();
    let patience = crate::providers::once();
    let keyed =
        provider(ProviderSettings { api_key: Some(key.into()), headers, extra, patience, ..settings(&fake) });
    let agent = Agent::new(keyed, Toolbox::default(), AgentSettings::default());
    run(&agent).await.unwrap();
    assert_eq!(fake.header("authorization"), Some(format!("Bearer {key}")));
    assert_eq!(fake.header("x-tenant").as_deref(), Some("me"));
    assert_eq!(fake.requests()[0]["temperature"], json!(0.5));
    for _ in 0..3 {
        let error = run(&agent).await.unwrap_err();
        let shown = format!("{error} {error:?} {:?}", error.hint());
        assert!(!shown.contains("sk-v") && shown.contains("***"), "{shown}");
    }
    fake.assert_done();
}
