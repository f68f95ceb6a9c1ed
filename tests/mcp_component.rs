//! Components that are MCP servers (`wasi:http/incoming-handler`): one written by hand for these tests, of many
//! kinds, and those that `.ci/steps/mcp-components` builds with real toolchains.

mod hostile;
mod real;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use haft::event::Event;
use haft::grant::{Grant, HostPattern, Root};
use haft::limit::Limits;
use haft::limit::Reuse;
use haft::plugin::{Contract, GrantPlace, LoadError, Plugin, PluginOptions, PluginTool, Source};
use haft::tool::Toolbox;
use serde_json::json;
use tempfile::TempDir;

use crate::common::{engine, repository};
use crate::guest::Guest;

const REUSE: Reuse = Reuse { max_calls: 100, max_idle: Duration::from_mins(5), max_concurrent: 1 };

/// The server in the mode `mode`, in a temporary folder.
fn server(mode: &str) -> (TempDir, PathBuf) {
    let mut bytes = fs::read(repository().join("tests/guests/built/server.wasm")).unwrap();
    let known = b"haft-mode=plain     ;";
    let place = bytes.windows(known.len()).position(|window| window == known).unwrap();
    let wanted = format!("haft-mode={mode:<10};");
    bytes[place..place + known.len()].copy_from_slice(wanted.as_bytes());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.wasm");
    fs::write(&file, bytes).unwrap();
    (folder, file)
}

async fn load(mode: &str) -> Result<Plugin, LoadError> {
    let (_folder, file) = server(mode);
    Plugin::load(engine(), "served", Source::File(file), &Limits::default()).await
}

async fn guest(mode: &str, grant: Grant) -> Guest {
    let (_folder, file) = server(mode);
    Guest::of(&file, grant, Limits::default()).await
}

/// The tools of a server in a component have the server's names, titles, descriptions and hints.
#[tokio::test]
async fn a_server_in_a_component_is_a_plugin() {
    let plugin = load("plain").await.unwrap();
    assert_eq!(plugin.contract(), Contract::Mcp);
    let tool = |name: &str| plugin.tools().iter().find(|tool| tool.name == name).unwrap();
    assert_eq!(tool("echo").description, "Says it again.");
    assert_eq!(tool("echo").title.as_deref(), Some("Echo"));
    assert_eq!(tool("echo").parameters["required"], json!(["text"]));
    assert!(tool("echo").hints.read_only && !tool("count").hints.read_only);
    assert!(tool("add").output.is_some());
}

/// haft calls servers of every kind: with a session, with answers as events, with one request for each instance, with
/// the protocol without greeting, at another path, and with a greeting that the server demands late.
#[tokio::test]
async fn every_kind_of_server_answers() {
    for mode in ["plain", "events", "session", "once", "future", "template", "shy", "paged"] {
        let guest = guest(mode, Grant::none()).await;
        assert_eq!(guest.says("echo", json!({ "text": format!("hé {mode}") })).await, format!("hé {mode}"));
        // No state of a call remains for the next call.
        assert_eq!(guest.says("counter", json!({})).await, "1", "{mode}");
        assert_eq!(guest.says("counter", json!({})).await, "1", "{mode}");
    }
}

#[tokio::test]
async fn answers_are_text_data_and_pictures() {
    let guest = guest("plain", Grant::none()).await;
    let sum = guest.call("add", json!({ "a": 1, "b": 2.5 })).await;
    assert_eq!((sum.content.as_str(), sum.structured), ("3.5\n{\"sum\":3.5}", Some(json!({ "sum": 3.5 }))));
    let picture = guest.call("picture", json!({})).await;
    assert_eq!(picture.content, "[image/png, 8 bytes]\nseen");
    assert_eq!(picture.attachments[0].media_type, "image/png");
    assert_eq!(guest.fails("fail", json!({})).await, "Tool error: it broke");
    assert_eq!(guest.fails("refuse", json!({})).await, "invalid arguments: `text` is missing");
    let wrong = guest.fails("echo", json!({ "text": 7 })).await;
    assert!(wrong.contains("text"), "{wrong}");
    let asked = guest.says("asked", json!({})).await;
    assert_eq!(asked, "localhost/mcp Some(\"application/json, text/event-stream\")");
}

/// Progress and log messages of a call arrive while the server works; messages of other calls do not.
#[tokio::test]
async fn progress_is_told() {
    let guest = guest("plain", Grant::none()).await;
    assert_eq!(guest.says("count", json!({})).await, "counted to 10");
    let told: Vec<String> = guest
        .received()
        .into_iter()
        .filter_map(|event| match event {
            Event::Progress { done, total, message, .. } => Some(format!("{done} {total:?} {message}")),
            Event::Info { message, .. } => Some(message),
            _ => None,
        })
        .collect();
    let steps = (1..=10).map(|step| format!("{step} Some(10.0) step {step}"));
    assert_eq!(told, std::iter::once("begun".to_owned()).chain(steps).collect::<Vec<_>>());
}

/// With `[plugins.reuse]` the session of an instance continues, if the server opens a session.
#[tokio::test]
async fn a_session_lasts_as_long_as_its_instance() {
    for (mode, expected) in [("session", ["1", "2", "3"]), ("plain", ["1", "1", "1"])] {
        let reused = PluginOptions { reuse: Some(REUSE), ..PluginOptions::default() };
        let plugin = load(mode).await.unwrap().with(reused);
        let mut toolbox = Toolbox::default();
        for def in plugin.tools() {
            let tool = PluginTool::new(&plugin, def, def.name.clone(), GrantPlace::Plugin);
            toolbox.insert(Arc::new(tool), Grant::none(), Limits::default(), "the test").unwrap();
        }
        let guest = Guest::with(toolbox);
        for count in expected {
            assert_eq!(guest.says("counter", json!({})).await, count, "{mode}");
        }
    }
}

/// A server in a component has only the rights of its grant: files, variables and hosts.
#[tokio::test]
async fn it_may_do_what_was_granted() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("a.txt"), "inside").unwrap();
    let root = Root::resolve(place.path(), ".".as_ref()).unwrap();
    let path = root.real().join("a.txt").to_str().unwrap().to_owned();
    let new = root.real().join("new.txt").to_str().unwrap().to_owned();
    let none = guest("plain", Grant::none()).await;
    let refused = none.fails("read", json!({ "path": path })).await;
    assert!(refused.contains("hint: to allow it"), "{refused}");
    assert_eq!(none.says("env", json!({ "text": "HOME", "name": "HOME" })).await, "unset");
    let reader = guest("plain", Grant::none().with_read(root.clone()).with_env("HOME")).await;
    assert_eq!(reader.says("read", json!({ "path": path })).await, "inside");
    assert_ne!(reader.says("env", json!({ "name": "HOME" })).await, "unset");
    assert!(
        reader.call("write", json!({ "path": new })).await.is_error && !root.real().join("new.txt").exists()
    );
    let writer = guest("plain", Grant::none().with_write(root.clone())).await;
    writer.says("write", json!({ "path": new })).await;
    assert_eq!(fs::read_to_string(root.real().join("new.txt")).unwrap(), "written");
}

#[tokio::test]
async fn its_requests_go_where_its_grant_says() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = connection.read(&mut request).unwrap();
        connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    });
    let place = json!({ "authority": authority, "path": "/" });
    let none = guest("plain", Grant::none()).await;
    let refused = none.fails("get", place.clone()).await;
    assert!(refused.contains("hosts = ["), "{refused}");
    let host: HostPattern = format!("http://{authority}").parse().unwrap();
    let granted = guest("plain", Grant::none().with_host(host)).await;
    assert_eq!(granted.says("get", place).await, "hello");
}

/// haft refuses a component that serves HTTP but not MCP, with the reason in one sentence.
#[tokio::test]
async fn what_is_no_mcp_server_is_refused_with_the_reason() {
    let other = "serves HTTP (`wasi:http`), but is not an MCP server: ";
    let no = "its answer to `initialize` is";
    for (mode, expected) in [
        ("website", format!("{other}{no} 200 OK with `text/html` and no message at `/mcp`, `/`, `/v1/mcp`")),
        ("api", format!("{other}{no} 404 Not Found at `/mcp`, `/`, `/v1/mcp`")),
        ("locked", format!("{other}{no} 401 Unauthorized at `/mcp`, `/`, `/v1/mcp`")),
        ("prompts", "cannot list its tools: it has none, only: prompts".to_owned()),
        ("silent", "cannot list its tools: failed: it returned without a complete answer".to_owned()),
    ] {
        let refusal = load(mode).await.unwrap_err().to_string();
        // A proposal follows.
        let way = if expected.starts_with(other) { "; a plugin exports functions, " } else { "" };
        assert!(refusal.starts_with(&format!("{expected}{way}")), "{mode}: {refusal}");
    }
    let garbage = load("garbage").await.unwrap_err().to_string();
    assert!(garbage.starts_with(&format!("{other}its answer to `initialize` is not JSON")), "{garbage}");
    let endless = load("endless").await.unwrap_err().to_string();
    assert!(endless.contains("100 pages"), "{endless}");
}

/// An unusable tool does not hide other tools; a name may contain a dot.
#[tokio::test]
async fn one_bad_tool_hides_no_other() {
    let plugin = load("strange").await.unwrap();
    let names: Vec<&str> = plugin.tools().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["files.read"]);
    let left_out: Vec<&str> = plugin.uncallable().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(left_out, ["files.read", "a b", "broken", ""]);
    assert_eq!(plugin.uncallable()[0].reason, "cannot be used: it is listed twice");
}

/// A plugin from the cache answers a call with one request; the server of this test serves one request for each
/// instance.
#[tokio::test]
async fn what_was_found_out_is_kept() {
    let cache = tempfile::tempdir().unwrap();
    let options = haft::plugin::EngineOptions {
        cache: Some(cache.path().join("cache")),
        ..haft::plugin::EngineOptions::default()
    };
    let (_folder, file) = server("once");
    for _ in 0..2 {
        let engine = haft::plugin::Engine::new(&options);
        let plugin = match Plugin::from_cache(&engine, "served", Source::File(file.clone())).unwrap() {
            Some(plugin) => plugin,
            None => {
                Plugin::load(&engine, "served", Source::File(file.clone()), &Limits::default()).await.unwrap()
            }
        };
        let mut toolbox = Toolbox::default();
        let echo = plugin.tools().iter().find(|tool| tool.name == "echo").unwrap();
        let tool = PluginTool::new(&plugin, echo, "echo".into(), GrantPlace::Plugin);
        toolbox.insert(Arc::new(tool), Grant::none(), Limits::default(), "the test").unwrap();
        assert_eq!(Guest::with(toolbox).says("echo", json!({ "text": "x" })).await, "x");
    }
}
