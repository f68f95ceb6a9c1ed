//! `mcp:NAME`: the test plays a registry of MCP servers, with exactly the answers of the published API.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::foreign::{PYTHON, SECRET, bundle, has, npm_registry, sha256};
use super::place::{Answer, Place};
use crate::http::server::Server;

/// A registry with entries and a bundle, which records the request targets.
struct Registry {
    server: Server,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    /// `entries` returns the entries for the server's address.
    fn new(bundle: Vec<u8>, entries: impl Fn(&str) -> Vec<Value> + Send + Sync + 'static) -> Self {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let kept = asked.clone();
        let server = Server::answering(move |head| {
            let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let host =
                head.lines().find_map(|line| Some(line.to_lowercase().strip_prefix("host: ")?.to_owned()));
            kept.lock().unwrap().push(target.clone());
            let found = answer(&target, &entries(&host.unwrap_or_default()), &bundle);
            let (status, kind, body) = found.unwrap_or_else(|| {
                (
                    "404 Not Found",
                    "application/problem+json",
                    json!({ "error": "Server not found" }).to_string().into(),
                )
            });
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            [head.into_bytes(), body].concat()
        });
        Self { server, asked }
    }

    fn haft(&self, place: &Place, arguments: &[&str]) -> Answer {
        let mut command = place.command(arguments);
        command.env("HAFT_MCP_REGISTRY", format!("http://{}/", self.server.address)).env("API_KEY", SECRET);
        Answer::from(command.env("no_proxy", "127.0.0.1").output().unwrap())
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

/// The answer of the published API version; `None` for any other path or parameter.
fn answer(target: &str, entries: &[Value], bundle: &[u8]) -> Option<(&'static str, &'static str, Vec<u8>)> {
    let meta = json!({ "io.modelcontextprotocol.registry/official": {
        "status": "active", "publishedAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z", "isLatest": true } });
    let answered = |entry: &Value| json!({ "server": entry, "_meta": meta });
    let json = |value: Value| Some(("200 OK", "application/json", value.to_string().into_bytes()));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match path {
        "/teller.mcpb" => return Some(("200 OK", "application/octet-stream", bundle.to_vec())),
        "/v0.1/servers/io.test%2Flarge/versions/latest" => {
            return Some(("200 OK", "application/json", vec![b' '; (1 << 20) + 1]));
        }
        "/v0.1/servers" => {
            let term = query.strip_prefix("search=")?.strip_suffix("&version=latest&limit=10")?;
            let is_meant = |entry: &&Value| entry["name"].as_str().unwrap().contains(term);
            let servers: Vec<_> = entries.iter().filter(is_meant).map(answered).collect();
            return json(json!({ "metadata": { "count": servers.len() }, "servers": servers }));
        }
        _ => {}
    }
    let (name, version) = path.strip_prefix("/v0.1/servers/")?.split_once("/versions/")?;
    let name = name.replace("%2F", "/");
    let is_it =
        |entry: &&Value| entry["name"] == *name && (version == "latest" || entry["version"] == *version);
    entries.iter().find(is_it).filter(|_| query.is_empty()).and_then(|entry| json(answered(entry)))
}

/// An entry as authors publish it.
fn entry(name: &str, rest: &Value) -> Value {
    let mut entry = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": name, "description": "Tells", "version": "1.0.0",
        "repository": { "url": "https://github.com/a/teller", "source": "github" },
    });
    for (key, value) in rest.as_object().unwrap() {
        entry[key] = value.clone();
    }
    entry
}

fn teller() -> Vec<u8> {
    let run = json!({ "command": "python", "args": ["${__dirname}/server/main.py", "${user_config.word}"],
        "env": { "LIB": "${__dirname}/server/lib", "API_KEY": "${user_config.key}" } });
    bundle("python", "server/main.py", &run, PYTHON)
}

#[test]
fn a_bundle_of_a_registry_is_installed_with_its_digest() {
    if !has("python3") {
        return;
    }
    let bundle = teller();
    let sha = sha256(&bundle);
    let registry = Registry::new(bundle, move |host| {
        let package = |sha: &str| {
            json!({ "packages": [{ "registryType": "mcpb", "identifier": format!("http://{host}/teller.mcpb"),
                "version": "1.0.0", "fileSha256": sha, "transport": { "type": "stdio" } }] })
        };
        vec![
            entry("io.test/teller", &package(&sha)),
            entry("io.test/other-teller", &package(&"0".repeat(64))),
        ]
    });
    let place = Place::new();
    place.haft(&["add", "mcp:io.test/teller", "--yes"]).ends(5, "haft has no default registry");
    registry.haft(&place, &["add", "mcp:io.test/teller", "--yes"]).ends(5, "it needs `word` (Word)");
    registry.asked();
    let added = registry.haft(&place, &["add", "mcp:io.test/teller", "--set", "word=hi", "--yes"]).good();
    assert!(added.stderr.contains("`io.test/teller` 1.0.0 of `http://127.0.0.1:"), "{}", added.stderr);
    let asked = registry.asked();
    assert_eq!(asked[0], "/v0.1/servers/io.test%2Fteller/versions/latest");
    assert!(place.read("program.toml").contains("/teller.mcpb#word=hi\""), "{}", place.read("program.toml"));
    let called = registry.haft(&place, &["call", "mcp__teller__tell", "{}"]).good();
    assert_eq!(called.stdout.trim(), format!("hi from the bundle {}", SECRET.len()));
    // Another installation does not need the registry.
    std::fs::remove_dir_all(place.store()).unwrap();
    place.haft(&["add"]).good();

    let other = Place::new();
    let add = ["add", "mcp:io.test/other-teller@1.0.0", "--set", "word=hi", "--yes"];
    registry.haft(&other, &add).ends(5, "; expected sha256:");
    assert!(!other.work().join("program.toml").exists());
    registry.asked();
    let near = "hint: it has `io.test/teller`, `io.test/other-teller`";
    registry.haft(&other, &["add", "mcp:io.github.ada/teller", "--yes"]).ends(5, near);
    assert_eq!(registry.asked()[1], "/v0.1/servers?search=teller&version=latest&limit=10");
    registry.haft(&other, &["add", "mcp:io.test/teller@2.0.0", "--yes"]).ends(5, "no `io.test/teller@2.0.0`");
    registry.haft(&other, &["add", "mcp:io.test/large", "--yes"]).ends(5, "is larger than");
    registry.haft(&other, &["add", "mcp:teller", "--yes"]).ends(5, "as the registry calls the server");
}

#[test]
fn an_address_of_a_registry_becomes_a_server_of_the_program() {
    let registry = Registry::new(Vec::new(), |_| {
        let remote = json!({ "type": "streamable-http", "url": "https://{tenant}.a.test/mcp",
            "variables": { "tenant": { "description": "Your name", "isRequired": true } },
            "headers": [{ "name": "Authorization", "value": "Bearer {token}", "isRequired": true,
                          "variables": { "token": { "isSecret": true } } }, { "name": "X-Region", "default": "eu" }] });
        vec![entry("io.test/weather", &json!({ "remotes": [remote] }))]
    });
    let place = Place::new();
    registry.haft(&place, &["add", "mcp:io.test/weather"]).ends(5, "it needs `tenant` (Your name)");
    let add = ["add", "mcp:io.test/weather", "--set", "tenant=ada"];
    registry.haft(&place, &add).ends(5, "nothing was changed: there is no terminal to ask at");
    assert!(!place.work().join("program.toml").exists());
    let added = registry.haft(&place, &[&add[..], &["--yes"]].concat()).good();
    assert!(
        added
            .stderr
            .contains("`WEATHER_AUTHORIZATION` when the server is used, as a whole: `Bearer {token}`"),
        "{}",
        added.stderr
    );
    let written = place.read("program.toml");
    assert!(written.contains("url = \"https://ada.a.test/mcp\""), "{written}");
    assert!(written.contains("Authorization = { env = \"WEATHER_AUTHORIZATION\" }"), "{written}");
    registry
        .haft(&place, &[&add[..], &["--yes"]].concat())
        .ends(5, "`--as NAME` gives this server another name; edit program.toml to change an entry");
    registry.haft(&place, &[&add[..], &["--yes", "--as", "mine"]].concat()).ends(0, "wrote `mine`");
}

#[test]
fn a_package_of_npm_is_found_by_a_registry() {
    if !has("npm") {
        return;
    }
    let npm = npm_registry(&["1.0.0", "1.1.0"]);
    let registry = Registry::new(Vec::new(), |_| {
        let package = json!({ "registryType": "npm", "registryBaseUrl": "https://registry.npmjs.org", "identifier": "@haft-test/teller",
            "version": "1.0.0", "transport": { "type": "stdio" }, "runtimeHint": "npx",
            "runtimeArguments": [{ "type": "positional", "value": "-y" }],
            "packageArguments": [{ "type": "positional", "valueHint": "word", "isRequired": true }],
            "environmentVariables": [{ "name": "API_KEY", "isRequired": true, "isSecret": true }] });
        vec![entry("io.test/teller", &json!({ "packages": [package] }))]
    });
    let place = Place::new();
    let url = format!("http://{}", registry.server.address);
    let mut command =
        place.command(&["add", "mcp:io.test/teller", "--registry", &url, "--set", "word=hi", "--yes"]);
    command.env("npm_config_registry", format!("http://{}/", npm.address)).env("no_proxy", "127.0.0.1");
    Answer::from(command.env_remove("NODE_EXTRA_CA_CERTS").output().unwrap()).good();
    assert!(place.read("program.toml").contains("npm:@haft-test/teller@1.0.0#arg=hi&env=API_KEY"));
    let called = registry.haft(&place, &["call", "mcp__teller__tell", "{}"]).good();
    assert_eq!(called.stdout.trim(), format!("hi no lib {}", SECRET.len()));
}
