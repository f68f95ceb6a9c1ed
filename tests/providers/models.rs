//! `haft models`: the published list of every vendor, page by page, and the message for a vendor without a list.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use haft::provider::{ListedModel, Prices, ProviderSettings};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{KEY, provider, quick};
use crate::agent::fake::read_request;
use crate::cli::Home;

/// Method, path and query of each request, with its headers.
type Seen = Arc<Mutex<Vec<(String, BTreeMap<String, String>)>>>;

/// An endpoint with these pages, by method, path and query; other requests get 404.
struct Lists {
    address: SocketAddr,
    seen: Seen,
    task: JoinHandle<()>,
}

impl Lists {
    async fn start(pages: Vec<(&'static str, Value)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Seen::default();
        let (noted, pages) = (seen.clone(), Arc::new(pages));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (noted, pages) = (noted.clone(), pages.clone());
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some((line, headers, body)) = read_request(&mut stream).await {
                        let target = line.trim_end_matches(" HTTP/1.1").to_owned();
                        let page = pages.iter().find(|(known, _)| *known == target && body.is_empty());
                        let (status, page) = page
                            .map_or((404, json!({ "error": "no such page" })), |(_, page)| {
                                (200, page.clone())
                            });
                        noted.lock().unwrap().push((target, headers));
                        let page = page.to_string();
                        let head = format!(
                            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                            page.len()
                        );
                        if stream.write_all(&[head.as_bytes(), page.as_bytes()].concat()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, seen, task }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn targets(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(target, _)| target.clone()).collect()
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn claude(id: &str) -> Value {
    json!({ "type": "model", "id": id, "display_name": id, "created_at": "2026-01-01T00:00:00Z", "lifecycle": "active",
        "max_input_tokens": 200_000, "max_tokens": 64_000 })
}

fn gemini(name: &str, method: &str) -> Value {
    json!({ "name": format!("models/{name}"), "version": "3", "displayName": name, "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536, "supportedGenerationMethods": [method] })
}

async fn list(kind: &str, base: String) -> Vec<ListedModel> {
    let settings = ProviderSettings {
        base_url: Some(base),
        api_key: Some(KEY.into()),
        patience: quick(),
        ..ProviderSettings::new(kind, "m")
    };
    provider(settings).models().await.unwrap().models
}

fn names(models: &[ListedModel]) -> Vec<(&str, Option<u32>)> {
    models.iter().map(|model| (model.name.as_str(), model.context_window)).collect()
}

#[tokio::test]
async fn lists_are_read_to_their_end_as_each_vendor_pages_them() {
    let lists = Lists::start(vec![
        ("GET /openai/models", json!({ "object": "list", "data": [
            { "id": "z", "object": "model", "created": 1, "owned_by": "me" },
            { "id": "a", "object": "model", "created": 1, "owned_by": "me", "meta": { "n_ctx": 4096 } } ] })),
        ("GET /anthropic/models?limit=1000", json!({ "data": [claude("claude-b")], "has_more": true, "first_id": "claude-b", "last_id": "claude-b" })),
        ("GET /anthropic/models?limit=1000&after_id=claude-b", json!({ "data": [claude("claude-a")], "has_more": false, "first_id": "claude-a", "last_id": "claude-a" })),
        ("GET /gemini/models?pageSize=1000", json!({ "models": [gemini("gemini-3", "generateContent"), gemini("embed", "embedContent")], "nextPageToken": "t&1" })),
        ("GET /gemini/models?pageSize=1000&pageToken=t%261", json!({ "models": [gemini("gemini-2", "generateContent")] })),
        ("GET /ollama/api/tags", json!({ "models": [{ "name": "qwen3:4b", "model": "qwen3:4b", "modified_at": "x", "size": 1, "digest": "d",
            "details": { "family": "qwen3", "parameter_size": "4B" } }] })),
        ("GET /openrouter/models", json!({ "data": [{ "id": "a/b", "name": "B", "created": 1, "context_length": 8192,
            "pricing": { "prompt": "0.000003", "completion": "0.000015", "request": "0" } }], "links": { "next": "/api/v1/models?offset=500&limit=500" } })),
        ("GET /openrouter/models?offset=500&limit=500", json!({ "data": [{ "id": "c/d", "context_length": 1 }], "links": { "next": null } })),
    ])
    .await;
    let of = async |kind: &str| list(kind, lists.url(&format!("/{kind}"))).await;
    assert_eq!(names(&of("openai").await), [("a", Some(4096)), ("z", None)]);
    assert_eq!(names(&of("anthropic").await), [("claude-a", Some(200_000)), ("claude-b", Some(200_000))]);
    assert_eq!(names(&of("gemini").await), [("gemini-2", Some(1_048_576)), ("gemini-3", Some(1_048_576))]);
    assert_eq!(names(&of("ollama").await), [("qwen3:4b", None)]);
    let routed = of("openrouter").await;
    assert_eq!(names(&routed), [("a/b", Some(8192)), ("c/d", Some(1))]);
    assert_eq!(routed[0].prices, Some(Prices { input: 3.0, output: 15.0, cached: None, stored: None }));
    let seen = lists.seen.lock().unwrap();
    let header = |path: &str, name: &str| {
        let (_, headers) = seen.iter().find(|(target, _)| target.contains(path)).unwrap();
        headers.get(name).cloned().unwrap_or_default()
    };
    assert_eq!(header("/anthropic", "x-api-key"), KEY);
    assert_eq!(header("/anthropic", "anthropic-version"), "2023-06-01");
    assert_eq!(header("/gemini", "x-goog-api-key"), KEY);
    assert_eq!(header("/openai", "authorization"), format!("Bearer {KEY}"));
}

/// haft ends a list after 20 pages, also if the server always has a next page.
#[tokio::test]
async fn pages_are_bounded() {
    let page = json!({ "models": [gemini("g", "generateContent")], "nextPageToken": "t" });
    let lists = Lists::start(vec![
        ("GET /models?pageSize=1000", page.clone()),
        ("GET /models?pageSize=1000&pageToken=t", page),
    ])
    .await;
    let settings = ProviderSettings {
        base_url: Some(lists.url("")),
        api_key: Some(KEY.into()),
        ..ProviderSettings::new("gemini", "m")
    };
    let list = provider(settings).models().await.unwrap();
    assert!(list.is_cut && list.models.len() == 1);
    assert_eq!(lists.targets().len(), 20);
}

async fn haft(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> crate::cli::Answer {
    let mut command = home.command(arguments);
    for (name, _) in variables.iter().chain(&[
        ("ANTHROPIC_API_KEY", ""),
        ("GEMINI_API_KEY", ""),
        ("OPENROUTER_API_KEY", ""),
    ]) {
        command.env_remove(name);
    }
    // No server listens on this port.
    command.env_remove("OPENAI_API_KEY").env("OLLAMA_HOST", "127.0.0.1:1").envs(variables.iter().copied());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    crate::cli::Answer::from(output)
}

/// `haft models` marks the models in use, shows prices of program.toml, and continues past a vendor without a key.
#[tokio::test]
async fn the_verb_shows_what_is_there_and_what_is_missing() {
    let lists = Lists::start(vec![
        (
            "GET /v1/models",
            json!({ "object": "list", "data": [{ "id": "big" }, { "id": "small" }, { "id": "other" }] }),
        ),
        ("GET /api/tags", json!({ "models": [{ "name": "llama3", "model": "llama3" }] })),
    ])
    .await;
    let home = Home::new();
    let url = lists.url("/v1");
    home.write("program.toml", &format!(
        "[provider]\nname = \"openai\"\nbase_url = \"{url}\"\nmodel_complex = \"big\"\nmodel_fast = \"small\"\n\
         [provider.prices.big]\ninput = 2\noutput = 8\n"
    ));
    let ollama = ("OLLAMA_HOST", &*lists.url(""));
    let all = haft(&home, &["models"], &[ollama]).await;
    assert_eq!(all.code, 0, "{}", all.stderr);
    let line =
        |name: &str| all.stdout.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
    assert!(
        line("big ").ends_with("2          8  complex") && line("small").ends_with("fast"),
        "{}",
        all.stdout
    );
    assert!(
        all.stdout.contains("openai 3 models") && all.stdout.contains("ollama 1 model\n"),
        "{}",
        all.stdout
    );
    assert!(
        all.stderr.contains("skipped, no key: anthropic (`ANTHROPIC_API_KEY`), gemini"),
        "{}",
        all.stderr
    );
    let one = haft(&home, &["models", "--json", "--provider", "openai", "OTH"], &[]).await;
    let one: Value = serde_json::from_str(&one.stdout).unwrap();
    assert_eq!(
        one[0]["models"],
        json!([{ "name": "other", "context_window": null, "prices": null, "used_as": [] }])
    );
    assert_eq!((&one[0]["complete"], &one[0]["error"]), (&json!(true), &json!(null)));
    let missing = haft(&home, &["models", "--provider", "anthropic"], &[]).await;
    assert_eq!((missing.code, missing.stdout.as_str()), (5, ""));
    assert!(
        missing.stderr.contains("no API key is set") && missing.stderr.contains("set `ANTHROPIC_API_KEY`"),
        "{}",
        missing.stderr
    );
    let wrong = haft(&home, &["models", "--base-url", &lists.url("/nowhere")], &[]).await;
    assert!(wrong.code == 5 && wrong.stderr.contains("404"), "{}", wrong.stderr);
    home.write("program.toml", "");
    let none = haft(&home, &["models"], &[]).await;
    assert!(
        none.code == 5 && none.stderr.contains("hint: set one of openai (`OPENAI_API_KEY`)"),
        "{}",
        none.stderr
    );
}
