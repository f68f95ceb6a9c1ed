//! The memory of instances that wait for a call.

use super::*;
use crate::component::source::Source;
use crate::{Engine, EngineOptions, Plugin};

/// Six MiB of memory to begin with.
const LARGE: &str = r#"(component
    (core module $m (memory 96) (func (export "five") (result i32) (i32.const 5)))
    (core instance $i (instantiate $m))
    (func $five (result u32) (canon lift (core func $i "five")))
    (export "five" (func $five)))"#;

/// The bytes that may wait: three times that, and a single slot of the pool for large memories.
const MEMORY: u64 = 20 << 20;

struct Stage {
    _cache: tempfile::TempDir,
    engine: Engine,
}

impl Stage {
    fn new(memory: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = EngineOptions {
            cache: Some(directory.path().join("cache")),
            pooling: true,
            ahead: 4,
            ahead_memory: Some(memory),
            ..EngineOptions::default()
        };
        Self { _cache: directory, engine: Engine::new(&options) }
    }

    /// A plugin that is in use.
    async fn plugin(&self, name: &str) -> Arc<PluginShared> {
        let source = Source::Embedded(wat::parse_str(LARGE).unwrap().leak());
        let plugin = Plugin::load(&self.engine, name, source, &Limits::default()).await.unwrap().0;
        plugin.calls.store(2, Ordering::Relaxed);
        plugin
    }
}

/// How many instances wait after as many were made as there may be.
async fn made(plugin: &PluginShared) -> usize {
    plugin.load_prewarm_component();
    plugin.prewarm(&Arc::new(Grant::none()), &Limits::default()).await;
    plugin.warm_pool.waiting()
}

/// WA06: all plugins together have no more memory for it than was said, and one has again what a call took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wa06_the_memory_of_waiting_instances_is_bounded() {
    let stage = Stage::new(MEMORY);
    let (first, second) = (stage.plugin("first").await, stage.plugin("second").await);
    assert_eq!(made(&first).await, 3);
    assert_eq!(made(&second).await, 0);
    drop(first.warm_pool.take(&Grant::none(), &Limits::default()).unwrap());
    assert_eq!(made(&second).await, 1);
    assert_eq!(made(&first).await, 2);
    let none = Stage::new(0);
    assert_eq!(made(&*none.plugin("none").await).await, 0);
}

/// WA06: the engine of large memories, and its pool, are there as long as a plugin has use for them; and again when one has
/// use for them again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wa06_the_pool_of_large_memories_is_given_back() {
    let stage = Stage::new(MEMORY);
    let (first, second) = (stage.plugin("first").await, stage.plugin("second").await);
    for plugin in [&first, &second] {
        plugin.load_prewarm_component();
        assert!(plugin.prewarm_component().unwrap().separate().is_some());
    }
    let pool = stage.engine.prewarm_engine().unwrap().wasmtime().weak();
    first.release_prewarm_component();
    assert!(pool.upgrade().is_some(), "the second plugin has it");
    assert_eq!(made(&second).await, 3);
    second.release_prewarm_component();
    assert!(pool.upgrade().is_some(), "instances are in it");
    while second.warm_pool.take(&Grant::none(), &Limits::default()).is_some() {}
    assert!(pool.upgrade().is_none());
    assert_eq!(made(&first).await, 3);
    assert!(first.prewarm_component().unwrap().separate().is_some());
}
