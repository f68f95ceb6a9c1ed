//! Components of plain functions: a real one with every type, and others assembled by hand.

mod calls;
mod docs;
mod files;
mod hostile;
pub(crate) mod made;

use std::path::PathBuf;

use haft::limit::Limits;
use haft::plugin::{Contract, LoadError, Plugin, Source};

use crate::common::{engine, repository};

/// The guest with functions of every type.
pub(crate) fn types() -> PathBuf {
    repository().join("tests/guests/built/types.wasm")
}

/// The guest's WIT.
fn wit() -> String {
    std::fs::read_to_string(repository().join("tests/guests/types/src/types.wit")).unwrap()
}

async fn load(source: Source) -> Result<Plugin, LoadError> {
    Plugin::load(engine(), "guest", source, &Limits::default()).await
}

fn names(plugin: &Plugin) -> Vec<&str> {
    plugin.tools().iter().map(|tool| tool.name.as_str()).collect()
}

/// WA01: every function of every interface is a tool; a function that cannot be called is listed with the reason.
#[tokio::test]
async fn every_function_is_a_tool() {
    let plugin = load(Source::File(types())).await.unwrap();
    assert_eq!(plugin.contract(), Contract::Typed);
    assert_eq!(
        names(&plugin),
        [
            "greet",
            "echo",
            "double",
            "find",
            "reverse",
            "values__area",
            "lands__area",
            "count",
            "read",
            "write",
            "here",
        ]
    );
    let uncallable: Vec<_> =
        plugin.uncallable().iter().map(|one| format!("{} {}", one.name, one.reason)).collect();
    assert_eq!(
        uncallable,
        [
            "counter is a resource of `test:types/counters@1.2.0`: its 2 functions need a resource that \
             outlives a call, which plugins do not have",
            "look takes a handle to a resource; nothing in a plugin outlives a call",
        ]
    );
}
