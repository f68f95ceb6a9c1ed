//! A component written for another host of tools, wassette, and built from its unmodified sources: typed functions,
//! which use files by paths.

use std::fs;
use std::path::PathBuf;

use haft::grant::{Grant, Root};
use haft::limit::Limits;
use haft::plugin::{Contract, Plugin, Source};
use serde_json::json;

use crate::common::{engine, repository};
use crate::guest::Guest;

fn component() -> PathBuf {
    repository().join("tests/foreign/filesystem.wasm")
}

/// WA01: the component's functions are tools, with the rights of its grant.
#[tokio::test]
async fn a_component_of_wassette_is_called() {
    let source = Source::File(component());
    let plugin = Plugin::load(engine(), "filesystem", source, &Limits::default()).await.unwrap();
    assert_eq!(plugin.contract(), Contract::Typed);
    let names: Vec<&str> = plugin.tools().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["list-directory", "read-file", "search-file", "get-file-info"]);
    let folder = tempfile::tempdir().unwrap();
    let root = Root::resolve(folder.path(), ".".as_ref()).unwrap();
    let path = root.real().join("a.txt");
    fs::write(&path, "inside").unwrap();
    let guest = Guest::of(&component(), Grant::none().with_read(root.clone()), Limits::default()).await;
    assert_eq!(guest.says("read-file", json!({ "path": path })).await, "inside");
    let listed = guest.says("list-directory", json!({ "path": root.real() })).await;
    assert!(listed.contains("[FILE] a.txt"), "{listed}");
    let found = guest.says("search-file", json!({ "path": root.real(), "pattern": "a.t" })).await;
    assert!(found.contains("a.txt"), "{found}");
    let none = Guest::of(&component(), Grant::none(), Limits::default()).await;
    let refused = none.fails("read-file", json!({ "path": path })).await;
    assert!(refused.contains("hint: to allow it"), "{refused}");
}
