//! Prewarmed instances with a large memory: a call writes more pages of it than the engine resets page by page.

use std::sync::Arc;

use haft::grant::Grant;
use haft::limit::Limits;
use haft::plugin::{Engine, EngineOptions, GrantPlace, Plugin, PluginTool, Source};
use haft::tool::Toolbox;
use serde_json::json;

use crate::common::wait::eventually_some;
use crate::common::{cache, call};
use crate::guest::briefly;

/// A component with a memory as large as an interpreter's, with data at the start and at the end. `touch` checks that
/// the memory has its initial content, and writes to every eighth page (4 KiB) of the machine. Then `touch` grows the
/// memory, checks that the new part is empty, and writes to it.
const LARGE: &str = r#"(component
    (core module $m
        (memory 96)
        (data (i32.const 0) "\07") (data (i32.const 6258688) "\07")
        (func $is (param $at i32) (param $value i32)
            (if (i32.ne (i32.load8_u (local.get $at)) (local.get $value)) (then unreachable))
            (i32.store8 (local.get $at) (i32.const 1)))
        (func (export "touch") (result i32) (local $at i32)
            (call $is (i32.const 0) (i32.const 7))
            (loop $on
                (local.set $at (i32.add (local.get $at) (i32.const 32768)))
                (call $is (local.get $at) (select
                    (i32.const 7) (i32.const 0) (i32.eq (local.get $at) (i32.const 6258688))))
                (br_if $on (i32.lt_u (local.get $at) (i32.const 6258688))))
            (if (i32.ne (memory.grow (i32.const 512)) (i32.const 96)) (then unreachable))
            (call $is (i32.const 6291456) (i32.const 0))
            (call $is (i32.const 20000000) (i32.const 0))
            (call $is (i32.const 39000000) (i32.const 0))
            (i32.const 5))
        (func (export "spin") (loop $on (br $on))))
    (core instance $i (instantiate $m))
    (func $touch (result u32) (canon lift (core func $i "touch")))
    (func $spin (canon lift (core func $i "spin")))
    (export "touch" (func $touch))
    (export "spin" (func $spin)))"#;

async fn toolbox(prewarm: bool, limits: Limits) -> Toolbox {
    let options = EngineOptions { cache: Some(cache()), pooling: true, prewarm, ..EngineOptions::default() };
    let engine = Engine::new(&options);
    let source = Source::Embedded(wat::parse_str(LARGE).unwrap().leak());
    let plugin = Plugin::load(&engine, "large", source, &limits).await.unwrap();
    let mut toolbox = Toolbox::default();
    for def in plugin.tools() {
        let tool = PluginTool::new(&plugin, def, def.name.clone(), GrantPlace::Plugin);
        toolbox.insert(Arc::new(tool), Grant::none(), limits, "the test").unwrap();
    }
    toolbox
}

/// Calls a tool of another engine; during these calls haft prepares the next instances.
async fn rest(other: &Toolbox) {
    for _ in 0..8 {
        assert_eq!(call(other, "touch", json!({})).await.content, "5");
    }
}

/// WA06: a call never sees memory that an earlier call wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_memory_is_always_as_it_was_made() {
    let (toolbox, other) = (toolbox(true, Limits::default()).await, toolbox(false, Limits::default()).await);
    for turn in 0..40 {
        if turn % 3 != 0 {
            rest(&other).await;
        }
        assert_eq!(call(&toolbox, "touch", json!({})).await.content, "5", "turn {turn}");
    }
}

/// WA03: the time limit also ends calls of prewarmed instances.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_instance_made_ahead_ends_in_time() {
    let (toolbox, other) = (toolbox(true, briefly(300)).await, toolbox(false, Limits::default()).await);
    // On a busy machine a call may exceed its time limit.
    let touch = async || (call(&toolbox, "touch", json!({})).await.content == "5").then_some(());
    for _ in 0..3 {
        for _ in 0..2 {
            eventually_some("a call is over in its time", touch).await;
            rest(&other).await;
        }
        let end = call(&toolbox, "spin", json!({})).await;
        assert!(end.is_error && end.content.contains("`spin` timed out after 300ms"), "{}", end.content);
    }
}
