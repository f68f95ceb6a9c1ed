//! The cache of components between runs: its entries are correct or absent, and no tool can change an entry.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::grant::{Grant, Reach, Root};
use haft::limit::Limits;
use haft::plugin::{Engine, EngineOptions, GrantPlace, Plugin, PluginTool, Source};
use haft::tool::Toolbox;
use serde_json::json;

use crate::common::wait::{eventually, eventually_some};
use crate::common::{HANG, call};
use crate::tiny::Tiny;

/// A cache and a component, in a temporary directory.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap() };
        place.put(&Tiny::default());
        place
    }

    fn component(&self) -> PathBuf {
        self.directory.path().join("tiny.wasm")
    }

    fn cache(&self) -> PathBuf {
        self.directory.path().join("cache")
    }

    fn put(&self, component: &Tiny) {
        fs::write(self.component(), component.bytes()).unwrap();
    }

    /// An engine as a new process creates it.
    fn engine(&self) -> Engine {
        Engine::new(&EngineOptions { cache: Some(self.cache()), ..EngineOptions::default() })
    }

    async fn plugin(&self) -> Plugin {
        load(&self.engine(), &self.component()).await
    }

    /// Loads the plugin until haft has recorded its time stamps (`.seen`), which haft does only for a component
    /// unchanged for some time. The record must differ from `before`.
    async fn seen(&self, before: Option<&[u8]>) -> Plugin {
        eventually_some("its time stamps are known", async || {
            let plugin = self.plugin().await;
            let seen = self.files(".seen").first().map(|file| fs::read(file).unwrap());
            (seen.is_some() && seen.as_deref() != before).then_some(plugin)
        })
        .await
    }

    /// Files in the cache whose names end with `suffix`.
    fn files(&self, suffix: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.cache()) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = paths.filter(|path| path.to_str().unwrap().ends_with(suffix)).collect();
        files.sort();
        files
    }

    fn file(&self, suffix: &str) -> PathBuf {
        let [file] = &self.files(suffix)[..] else { panic!("{:?}", self.files("")) };
        file.clone()
    }
}

async fn load(engine: &Engine, component: &Path) -> Plugin {
    Plugin::load(engine, "tiny", Source::File(component.to_owned()), &Limits::default()).await.unwrap()
}

async fn answer(plugin: &Plugin) -> String {
    let def = &plugin.tools()[0];
    let mut toolbox = Toolbox::default();
    let tool = PluginTool::new(plugin, def, def.name.clone(), GrantPlace::Plugin);
    toolbox.insert(Arc::new(tool), Grant::none(), Limits::default(), "the test").unwrap();
    call(&toolbox, &def.name, json!({})).await.content
}

/// WA06: haft reads the tool list of an unchanged component from the cache, and compiles the component only for a
/// call.
#[tokio::test]
async fn the_list_needs_no_code() {
    let place = Place::new();
    let first = place.plugin().await;
    fs::remove_file(place.file(".cwasm")).unwrap();
    let second = place.plugin().await;
    assert_eq!(second.tools(), first.tools());
    assert_eq!(second.digest(), first.digest());
    assert_eq!(place.files(".cwasm"), [] as [PathBuf; 0]);
    assert_eq!(answer(&second).await, "a tiny answer");
    assert_eq!(answer(&place.plugin().await).await, "a tiny answer");
    place.file(".cwasm");
}

/// WA06: the cached list has every property of a tool, also those that models do not see.
#[tokio::test]
async fn a_remembered_list_is_whole() {
    let place = Place::new();
    let path = crate::common::repository().join("plugins/built/wordcount.wasm");
    let first = load(&place.engine(), &path).await;
    let second = load(&place.engine(), &path).await;
    assert!(first.tools()[0].hints.read_only && first.tools()[0].output.is_some());
    assert_eq!(first.tools(), second.tools());
}

/// The engine of a new process with a quick first compilation, as in haft itself.
fn tiered(place: &Place, pooling: bool) -> Engine {
    let cache = Some(place.cache());
    Engine::new(&EngineOptions { cache, tiered: true, pooling, prewarm: pooling, ..EngineOptions::default() })
}

/// A06: the first compilation of a component is quick, with and without pooled instances. The next process reuses the
/// quick code; an engine without `tiered` does not.
#[tokio::test]
async fn a_component_is_compiled_quickly_at_first() {
    for pooling in [false, true] {
        let place = Place::new();
        let mut plugins = Vec::new();
        for _ in 0..2 {
            plugins.push(load(&tiered(&place, pooling), &place.component()).await);
            place.file(".quick");
            place.file(".cwasm");
            assert_eq!(place.files(".code"), [] as [PathBuf; 0]);
        }
        for plugin in plugins {
            assert_eq!(answer(&plugin).await, "a tiny answer");
        }
        assert_eq!(answer(&place.plugin().await).await, "a tiny answer");
        place.file(".code");
    }
}

/// A06: haft optimizes frequently called code in the background; the optimized code replaces the quick code
/// permanently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_called_often_is_optimized() {
    for pooling in [false, true] {
        let place = Place::new();
        let plugin = load(&tiered(&place, pooling), &place.component()).await;
        for _ in 0..33 {
            assert_eq!(answer(&plugin).await, "a tiny answer");
        }
        let count = |suffix| place.files(suffix).len();
        let is_optimized = || (count(".code"), count(".quick"), count(".cwasm")) == (1, 0, 1);
        eventually("optimized code", is_optimized).await;
        // Plugins that are already loaded and plugins loaded now both keep working.
        assert_eq!(answer(&plugin).await, "a tiny answer");
        let again = load(&tiered(&place, pooling), &place.component()).await;
        assert_eq!(answer(&again).await, "a tiny answer");
        assert_eq!((place.files(".quick").len(), place.files(".cwasm").len()), (0, 1));
    }
}

/// A06: a long call triggers the optimization of its component.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_called_for_long_is_optimized() {
    let place = Place::new();
    place.put(&Tiny { before_answering: "(loop (br 0))", ..Tiny::default() });
    let plugin = load(&tiered(&place, false), &place.component()).await;
    let def = &plugin.tools()[0];
    let mut toolbox = Toolbox::default();
    let tool = PluginTool::new(&plugin, def, def.name.clone(), GrantPlace::Plugin);
    let limits = Limits { time: HANG * 2, ..Limits::default() };
    toolbox.insert(Arc::new(tool), Grant::none(), limits, "the test").unwrap();
    tokio::select! {
        answer = call(&toolbox, "tiny", json!({})) => panic!("{}", answer.content),
        () = eventually("optimized code", || !place.files(".code").is_empty()) => {}
    }
}

/// A06: components that differ only in custom sections share one compilation, but have different digests.
#[tokio::test]
async fn custom_sections_compile_nothing_anew() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new();
    let first = place.plugin().await;
    let code = fs::metadata(place.file(".cwasm")).unwrap().ino();
    let mut bytes = fs::read(place.component()).unwrap();
    bytes.extend(b"\0\x03\x01xy");
    fs::write(place.component(), bytes).unwrap();
    let second = place.plugin().await;
    assert_ne!(first.digest(), second.digest());
    assert_eq!(fs::metadata(place.file(".cwasm")).unwrap().ino(), code, "it was written anew");
    assert_eq!(answer(&second).await, "a tiny answer");
}

/// WA06: haft loads a changed component again, even if its size and time stamp are unchanged.
#[tokio::test]
async fn a_changed_component_is_met_anew() {
    let place = Place::new();
    let was = fs::metadata(place.component()).unwrap();
    let first = place.seen(None).await;
    let seen = fs::read(place.file(".seen")).unwrap();
    assert_eq!(answer(&first).await, "a tiny answer");
    let other = Tiny { answer: "a nice answer".into(), ..Tiny::default() };
    place.put(&other);
    let file = fs::File::options().write(true).open(place.component()).unwrap();
    file.set_modified(was.modified().unwrap()).unwrap();
    let now = fs::metadata(place.component()).unwrap();
    assert_eq!((now.len(), now.modified().unwrap()), (was.len(), was.modified().unwrap()));
    // At first the time stamps of the file are too recent to identify it; later they identify it.
    for second in [place.plugin().await, place.seen(Some(&seen)).await, place.plugin().await] {
        assert_ne!(second.digest(), first.digest());
        assert_eq!(answer(&second).await, "a nice answer");
    }
    // A process that loaded the old component continues with it.
    assert_eq!(answer(&first).await, "a tiny answer");
}

/// WA06: if a component is replaced between its loading and its first call, haft refuses the call, because the new
/// component may not match the loaded list.
#[tokio::test]
async fn a_component_replaced_under_way_is_noticed() {
    let place = Place::new();
    place.plugin().await;
    let loaded = place.plugin().await;
    fs::remove_file(place.file(".cwasm")).unwrap();
    place.put(&Tiny { answer: "another answer".into(), ..Tiny::default() });
    assert_eq!(
        answer(&loaded).await,
        "Tool error (haft): `tiny` cannot be loaded: the component has changed since haft started; restart \
         haft"
    );
}

/// WA06: haft detects and repairs damage of any cache file.
#[tokio::test]
async fn damaged_entries_are_made_again() {
    let flip = |bytes: &mut Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    };
    let halve = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2);
    let clear = |bytes: &mut Vec<u8>| bytes.clear();
    let damages: [fn(&mut Vec<u8>); 3] = [flip, halve, clear];
    for suffix in [".cwasm", ".json", ".seen"] {
        for damage in damages {
            let place = Place::new();
            // Without `seen`, no `.seen` file exists yet.
            let first = if suffix == ".seen" { place.seen(None).await } else { place.plugin().await };
            let expected = (first.tools().to_owned(), first.digest().to_owned());
            // The code is mapped into memory; truncation during its use cannot be repaired.
            drop(first);
            let file = place.file(suffix);
            let good = fs::read(&file).unwrap();
            let mut bad = good.clone();
            damage(&mut bad);
            fs::write(&file, &bad).unwrap();
            let second = place.plugin().await;
            assert_eq!((second.tools().to_owned(), second.digest().to_owned()), expected);
            assert_eq!(answer(&second).await, "a tiny answer");
            assert_eq!(fs::read(&file).unwrap(), good, "{suffix} was not mended");
            if suffix == ".seen" {
                break;
            }
        }
    }
}

/// WA06: haft also detects a changed record that is still valid JSON.
#[tokio::test]
async fn a_record_that_reads_well_is_checked_too() {
    let place = Place::new();
    let expected = place.plugin().await.tools().to_owned();
    let record = place.file(".json");
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace("Does little.", "Does a lot!!")).unwrap();
    assert_eq!(place.plugin().await.tools(), expected);
    assert_eq!(fs::read_to_string(&record).unwrap(), text);
}

/// WA06: several engines can fill an empty cache at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_engines_share_an_empty_cache() {
    let place = Arc::new(Place::new());
    let loads: Vec<_> = (0..8)
        .map(|_| {
            let place = place.clone();
            tokio::spawn(async move { answer(&place.plugin().await).await })
        })
        .collect();
    for answer in loads {
        assert_eq!(answer.await.unwrap(), "a tiny answer");
    }
    place.file(".cwasm");
    place.file(".json");
    place.file(".code");
    assert_eq!(place.files("").len(), 3, "leftovers: {:?}", place.files(""));
}

/// WA06: haft does not use a cache that a tool may write, or that is above or below a writable directory; plugins
/// still work.
#[tokio::test]
async fn a_cache_that_tools_may_write_is_not_used() {
    let place = Place::new();
    let root = |path: &Path| Root::resolve(Path::new("/"), path).unwrap();
    let link = place.directory.path().join("link");
    fs::create_dir(place.cache()).unwrap();
    std::os::unix::fs::symlink(place.cache(), &link).unwrap();
    for (reach, used) in [
        (Reach::Roots(vec![root(&place.cache())]), false),
        (Reach::Roots(vec![root(place.directory.path())]), false),
        (Reach::Roots(vec![root(&place.cache().join("below"))]), false),
        (Reach::Roots(vec![root(Path::new("/nowhere")), root(&link)]), false),
        (Reach::Anywhere, false),
        (Reach::Roots(vec![root(&place.directory.path().join("cach"))]), true),
        (Reach::Roots(vec![root(&place.directory.path().join("cache2"))]), true),
    ] {
        let options = EngineOptions {
            cache: Some(place.cache()),
            writable: vec![reach.clone()],
            ..EngineOptions::default()
        };
        let plugin = load(&Engine::new(&options), &place.component()).await;
        assert_eq!(answer(&plugin).await, "a tiny answer");
        assert_eq!(!place.files("").is_empty(), used, "{reach:?}");
        let _ = fs::remove_dir_all(place.cache());
    }
}

/// WA06: haft does not use a cache that other users may write.
#[tokio::test]
async fn a_cache_that_others_may_write_is_not_used() {
    for (mode, used) in [(0o700, true), (0o755, true), (0o770, false), (0o777, false), (0o1777, false)] {
        let place = Place::new();
        fs::create_dir(place.cache()).unwrap();
        fs::set_permissions(place.cache(), fs::Permissions::from_mode(mode)).unwrap();
        let plugin = place.plugin().await;
        assert_eq!(answer(&plugin).await, "a tiny answer");
        assert_eq!(!place.files("").is_empty(), used, "{mode:o}");
    }
}

/// WA06: a new cache directory is accessible only to its owner, with any umask.
#[tokio::test]
async fn a_new_cache_is_private() {
    let place = Place::new();
    place.plugin().await;
    assert_eq!(fs::metadata(place.cache()).unwrap().permissions().mode() & 0o777, 0o700);
    for file in place.files("") {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o077, 0);
    }
}
