//! Helpers that several tests share.

pub(crate) mod sigstore;
pub(crate) mod wait;

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Once, OnceLock};

use haft::call::{ToolCall, ToolResult};
use haft::grant::{Grant, Root};
use haft::limit::Limits;
use haft::plugin::{Engine, EngineOptions, GrantPlace, Plugin, PluginTool, Source};
use haft::tool::{Session, Toolbox};
use serde_json::Value;

pub(crate) use wait::HANG;

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// The guest that tries everything that a sandbox must refuse.
pub(crate) fn hostile() -> PathBuf {
    repository().join("tests/guests/built/hostile.wasm")
}

/// The tests' directory for compiled components, kept between runs. The first call compiles the components that haft
/// contains, so that tests that start together do not each compile them; that takes half a minute on two processors.
#[expect(clippy::disallowed_methods, reason = "this starts haft itself")]
pub(crate) fn cache() -> PathBuf {
    static COMPILED: Once = Once::new();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    COMPILED.call_once(|| {
        let nowhere = tempfile::tempdir().unwrap();
        let mut haft = Command::new(env!("CARGO_BIN_EXE_haft"));
        haft.arg("tools")
            .current_dir(nowhere.path())
            .env("HOME", nowhere.path())
            .env("XDG_CACHE_HOME", &cache);
        let tools = haft.output().unwrap();
        assert!(tools.status.success(), "{}", String::from_utf8_lossy(&tools.stderr));
    });
    cache
}

/// Applies the environment changes of `own` to `other`: the variables that `own` sets and removes.
pub(crate) fn same_environment(own: &Command, other: &mut Command) {
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
}

/// Creates a separate cache below `place` with only the components that haft contains, and returns the cache's
/// folder.
pub(crate) fn own_cache(place: &Path) -> PathBuf {
    let (own, compiled) = (place.join("cache"), "haft/components");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(own.join(compiled)).unwrap();
    for entry in std::fs::read_dir(cache().join(compiled)).unwrap().flatten() {
        match std::fs::copy(entry.path(), own.join(compiled).join(entry.file_name())) {
            // Another test's haft has compiled the component again and replaced the file.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            copied => drop(copied.unwrap()),
        }
    }
    own
}

/// A new directory outside of the directory for temporary files, because every command may write there. The
/// repository itself may be below it.
pub(crate) fn outside() -> tempfile::TempDir {
    let temporary = std::env::temp_dir().canonicalize().unwrap();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let places = [env!("CARGO_TARGET_TMPDIR").into(), "/var/tmp".into()].into_iter().chain(home);
    let mut elsewhere = places
        .filter(|place: &PathBuf| place.canonicalize().is_ok_and(|place| !place.starts_with(&temporary)));
    let new = |place| tempfile::Builder::new().prefix("haft-outside-").tempdir_in(place).ok();
    elsewhere.find_map(new).expect(
        "the target directory, /var/tmp or the home lies elsewhere than temporary files, and is writable",
    )
}

/// An engine that the tests share, as the plugins of a program do.
pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(&EngineOptions { cache: Some(cache()), ..EngineOptions::default() }))
}

/// A grant of only these directories.
pub(crate) fn grant(read: &[&Path], write: &[&Path]) -> Grant {
    let root = |path: &&Path| Root::resolve(repository(), path).unwrap();
    let grant = read.iter().map(root).fold(Grant::none(), Grant::with_read);
    write.iter().map(root).fold(grant, Grant::with_write)
}

/// A toolbox with the tools of one component, under the component's names.
pub(crate) async fn toolbox(component: &Path, grant: Grant, limits: Limits) -> Toolbox {
    let plugin = Plugin::load(engine(), "guest", Source::File(component.to_owned()), &limits).await.unwrap();
    let mut toolbox = Toolbox::default();
    for def in plugin.tools() {
        let tool = PluginTool::new(&plugin, def, def.name.clone(), GrantPlace::Plugin);
        toolbox.insert(std::sync::Arc::new(tool), grant.clone(), limits, "the test").unwrap();
    }
    toolbox
}

/// Calls a tool without an observer.
pub(crate) async fn call(toolbox: &Toolbox, tool: &str, arguments: Value) -> ToolResult {
    let call = ToolCall { id: "test".into(), tool: tool.into(), arguments };
    toolbox.dispatch(call, &Session::default()).await
}
