//! Components of the `act:tools` world of other hosts: a component made for these tests, and a published component.

use std::fs;
use std::path::{Path, PathBuf};

use haft::event::Event;
use haft::grant::{Grant, Root};
use haft::limit::Limits;
use haft::plugin::inspect::{Asked, read_sections};
use haft::plugin::{Contract, Plugin, Source};
use serde_json::json;

use crate::common::{engine, repository};
use crate::guest::Guest;
use crate::tiny::Tiny;

fn component() -> PathBuf {
    repository().join("tests/guests/built/act.wasm")
}

async fn guest(grant: Grant) -> Guest {
    Guest::of(&component(), grant, Limits::default()).await
}

/// WA01: haft lists the tools of an `act:tools` component with their descriptions and hints.
#[tokio::test]
async fn the_tools_of_another_host_s_world() {
    let source = Source::File(component());
    let plugin = Plugin::load(engine(), "acts", source, &Limits::default()).await.unwrap();
    assert_eq!(plugin.contract(), Contract::Act);
    let tool = |name: &str| plugin.tools().iter().find(|tool| tool.name == name).unwrap();
    assert_eq!(plugin.tools().len(), 11);
    assert_eq!(tool("say").description, "Does say.");
    assert!(tool("say").hints.read_only && !tool("fail").hints.read_only);
}

/// WA01: answers arrive whole or in parts, and haft decodes them by their media types.
#[tokio::test]
async fn answers_in_parts() {
    let guest = guest(Grant::none()).await;
    assert_eq!(guest.says("say", json!({})).await, "said");
    assert_eq!(guest.says("nothing", json!({})).await, "");
    let mixed = guest.call("mixed", json!({})).await;
    assert_eq!(mixed.content, "# Täxt\n{\"a\":1,\"b\":[true,null]}\n[image/png, 8 bytes]");
    assert_eq!(mixed.structured, Some(json!({ "a": 1, "b": [true, null] })));
    assert_eq!(mixed.attachments[0].media_type, "image/png");
    let numbers: Vec<String> = (1..=20).map(|number| number.to_string()).collect();
    assert_eq!(guest.says("count", json!({})).await, numbers.join("\n"));
    let progress = guest.received().into_iter().filter_map(|event| match event {
        Event::Progress { done, total, .. } => Some((done, total)),
        _ => None,
    });
    let expected: Vec<_> = (1..=20).map(|number| (f64::from(number), Some(20.0))).collect();
    assert_eq!(progress.collect::<Vec<_>>(), expected);
}

/// WA01: haft passes arguments as deterministic CBOR (RFC 8949, section 4.2.1).
#[tokio::test]
async fn arguments_are_deterministic_cbor() {
    let guest = guest(Grant::none()).await;
    let arguments = json!({ "bb": 1.5, "a": [256, -1, 2.0], "ccc": null, "b": "ü" });
    let expected = "a4 6161 83 190100 20 02 6162 62c3bc 626262 f93e00 63636363 f6";
    assert_eq!(guest.says("arguments", arguments).await, expected.replace(' ', ""));
}

/// WA01: a failure of a tool is an error that includes the tool's earlier output; a trap does not affect the next
/// call.
#[tokio::test]
async fn failures_in_parts() {
    let guest = guest(Grant::none()).await;
    for (tool, expected) in [
        ("fail", "Tool error: half\nit broke"),
        ("fail-late", "invalid arguments: no such thing"),
        (
            "remember",
            "Tool error: open a session first: it works inside a session; a plugin has no sessions, because \
             nothing outlives a call",
        ),
    ] {
        assert_eq!(guest.fails(tool, json!({})).await, expected);
    }
    let trapped = guest.fails("trap", json!({})).await;
    assert!(trapped.contains("`trap` panicked") && trapped.contains("as told"), "{trapped}");
    assert_eq!(guest.says("say", json!({})).await, "said");
}

/// WA01: haft also calls components of version 0.2 of the world.
#[tokio::test]
async fn version_0_2_of_the_world_is_spoken() {
    let mut bytes = fs::read(component()).unwrap();
    let (earlier, later) = (b"act:tools/tool-provider@0.1.0", b"act:tools/tool-provider@0.2.0");
    let places = bytes.windows(earlier.len()).enumerate().filter(|(_, window)| window == earlier);
    let places: Vec<usize> = places.map(|(place, _)| place).collect();
    for place in places {
        bytes[place..place + later.len()].copy_from_slice(later);
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("acts.wasm");
    fs::write(&file, bytes).unwrap();
    let guest = Guest::of(&file, Grant::none(), Limits::default()).await;
    assert_eq!(guest.says("say", json!({})).await, "said");
    assert_eq!(guest.says("count", json!({})).await.lines().count(), 20);
}

/// WA03: the result limit ends a call whose answer has no end.
#[tokio::test]
async fn a_stream_without_end_is_ended() {
    let guest = Guest::of(&component(), Grant::none(), Limits::default()).await;
    let error = guest.fails("flood", json!({})).await;
    assert!(error.contains("more than its result limit of 1 MiB"), "{error}");
}

/// WA02: a component reads only granted files; relative paths start in the workspace.
#[tokio::test]
async fn files_of_another_host_s_component() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.txt"), "a").unwrap();
    let root = Root::resolve(Path::new("/"), directory.path()).unwrap();
    let reader = guest(Grant::none().with_workspace(root.clone()).with_read(root)).await;
    assert_eq!(reader.says("read", json!({ "path": "a.txt" })).await, "a");
    let path = directory.path().join("a.txt");
    assert_eq!(reader.says("read", json!({ "path": path })).await, "a");
    reader.fails("read", json!({ "path": "/a.txt" })).await;
    guest(Grant::none()).await.fails("read", json!({ "path": "a.txt" })).await;
}

/// PR11: haft reads the name, version and requested rights of a component without running the component.
#[test]
fn what_another_host_s_component_asks_for() {
    let sections = read_sections(&fs::read(component()).unwrap()).unwrap();
    let about = sections.act.as_ref().unwrap();
    assert_eq!((about.name.as_str(), about.version.as_str()), ("acts", "1.2.3"));
    assert_eq!(about.capabilities, [Asked::Files { path: "**".into(), write: true }]);
    assert_eq!(sections.contract().unwrap(), Contract::Act);
}

/// WA04: haft refuses another version of the world, and the error names that version and the supported versions.
#[tokio::test]
async fn another_version_of_the_world_is_refused() {
    let source = Tiny { export: "act:tools/tool-provider@0.3.0".into(), ..Tiny::default() }.source();
    let error = Plugin::load(engine(), "acts", source, &Limits::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "built for `act:tools@0.3.0`; this haft supports 0.1 and 0.2; rebuild it against that version"
    );
    let source = Tiny { export: "act:tools/tool-provider@0.1.3".into(), ..Tiny::default() }.source();
    let error = Plugin::load(engine(), "acts", source, &Limits::default()).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot be linked: "), "{error}");
}

/// WA01: haft calls a component that another author published, without changes to the component.
#[tokio::test]
async fn a_published_component_is_called() {
    let path = repository().join("tests/foreign/time.wasm");
    let guest = Guest::of(&path, Grant::none(), Limits::default()).await;
    let now = guest.says("get_current_time", json!({})).await;
    let there = guest.says("get_current_time", json!({ "timezone": "Asia/Tokyo" })).await;
    assert!(now.contains("+00:00") || now.contains('Z'), "{now}");
    assert!(there.contains("+09:00"), "{there}");
    guest.fails("get_current_time", json!({ "timezone": "Nowhere/At-All" })).await;
    let sections = read_sections(&fs::read(path).unwrap()).unwrap();
    assert_eq!(sections.act.map(|about| about.name).as_deref(), Some("time"));
}
