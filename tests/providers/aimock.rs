//! A fake of all vendors' formats that nobody here wrote: it takes haft's requests, and haft its answers,
//! errors and broken streams. `.ci/aimock` starts it and says where it is; without it these tests say that
//! they were skipped.

use std::time::Duration;

use haft::agent::{Agent, AgentSettings, End, History};
use haft::provider::{Failure, ProviderSettings};
use haft::tool::{Session, Toolbox};
use secrecy::SecretString;
use serde_json::json;

use super::provider;
use super::tasks::toolbox;

/// Where the fake is.
const VARIABLE: &str = "HAFT_AIMOCK";

/// Providers, with the rest of the base URL.
const KINDS: [(&str, &str); 5] = [
    ("openai", "/v1"),
    ("anthropic", "/v1"),
    ("gemini", "/v1beta"),
    ("ollama", ""),
    ("openrouter", "/api/v1"),
];

/// The URL of the fake; says so where there is none.
fn fake() -> Option<String> {
    let found = std::env::var(VARIABLE).ok();
    if found.is_none() {
        eprintln!("\nSKIPPED: no third-party fake was asked, since `{VARIABLE}` does not say where one is\n");
    }
    found
}

fn settings(url: &str, (name, path): (&str, &str), stream: bool) -> ProviderSettings {
    // With thinking on, its Anthropic refuses turns that come back without their thinking.
    let extra = match name {
        "anthropic" => json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 } }),
        _ => json!({}),
    };
    ProviderSettings {
        base_url: Some(format!("{url}{path}")),
        api_key: Some("sk-none".into()),
        patience: super::once(),
        extra: extra.as_object().unwrap().clone(),
        stream,
        ..ProviderSettings::new(name, "some-model")
    }
}

async fn run(settings: ProviderSettings, tools: Toolbox, prompt: &str) -> Result<(String, u32), String> {
    let agent = Agent::new(provider(settings), tools, AgentSettings::default());
    let (mut history, session) = (History::default(), Session::default());
    let run = agent.run(&mut history, prompt, &session);
    let outcome = tokio::time::timeout(Duration::from_secs(30), run).await.expect("in bounded time");
    let outcome = outcome.unwrap();
    if let Some(failure) = outcome.failure {
        return Err(failure.to_string());
    }
    assert_eq!(outcome.end, End::Final);
    Ok((outcome.text, outcome.turns))
}

/// PL02, PL03: two tools at once, answered and ended, streamed and not.
#[tokio::test]
async fn pl02_pl03_a_third_party_fake_takes_the_whole_task() {
    let Some(url) = fake() else { return };
    for kind in KINDS {
        for stream in [false, true] {
            let (text, turns) = run(settings(&url, kind, stream), toolbox(), "shout twice").await.unwrap();
            assert_eq!(
                (text.as_str(), turns),
                ("They heard HEY YOU and THERE, in that order.", 2),
                "{kind:?}"
            );
            eprintln!("{}, stream {stream}: {turns} turns: {text}", kind.0);
        }
    }
}

/// PL06, PL07: its errors, its broken streams, its chaos: one clear message each.
#[tokio::test]
async fn pl06_pl07_a_third_party_fake_s_failures_are_clear() {
    let Some(url) = fake() else { return };
    let failed = async |settings: ProviderSettings, prompt: &str| {
        let name = settings.kind.clone();
        let error = run(settings, Toolbox::default(), prompt).await.unwrap_err();
        eprintln!("{prompt}: {error}");
        assert!(error.starts_with(&name) && error.len() < 500 && !error.contains('\n'), "{error}");
        error
    };
    for kind in KINDS {
        for stream in [false, true] {
            let limited = failed(settings(&url, kind, stream), "too fast").await;
            assert!(limited.contains("returned 429 Too Many Requests: Rate limited"), "{limited}");
            let wrong = failed(settings(&url, kind, stream), "wrong key").await;
            assert!(wrong.contains("returned 401 Unauthorized: Invalid key"), "{wrong}");
        }
        let cut = failed(settings(&url, kind, true), "break off").await;
        assert!(cut.contains("the answer broke off"), "{cut}");
        for (header, expected) in [
            ("x-aimock-chaos-malformed", "failed to parse response"),
            ("x-aimock-chaos-disconnect", "request failed"),
            ("x-aimock-chaos-ratelimit", "returned 429 Too Many Requests"),
            ("x-aimock-chaos-drop", "returned 500 Internal Server Error"),
        ] {
            let headers = vec![(header.to_owned(), SecretString::from("1"))];
            let error = failed(ProviderSettings { headers, ..settings(&url, kind, true) }, "chaos").await;
            assert!(error.contains(expected), "{header}: {error}");
        }
    }
}

/// PL19.
#[tokio::test]
async fn pl19_a_third_party_fake_is_available() {
    let Some(url) = fake() else { return };
    for kind in KINDS {
        assert!(provider(settings(&url, kind, true)).is_available().await, "{kind:?}");
    }
    assert!(matches!(
        provider(ProviderSettings::new("gemini", "m")).check().await.unwrap_err().failure,
        Failure::MissingKey { .. }
    ));
}
