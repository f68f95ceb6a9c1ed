//! Guests whose preopened directories exceed the Landlock rules of their thread. Only tests can create such a
//! guest: in haft both have one grant.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::call::Arguments;
use crate::threads::Threads;
use crate::threads::permits::Tenant;
use crate::threads::writable::Writable;
use crate::wasi::files::named;
use crate::{EngineOptions, LandlockState};
use haft_core::grant::Root;

/// The hostile guest with the right to write `/`, on threads that may write one directory.
struct MismatchedGuest {
    directory: tempfile::TempDir,
    engine: Engine,
    linked: LinkedComponent,
    runtime: Runtime,
}

impl MismatchedGuest {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["granted", "outside"] {
            fs::create_dir_all(directory.path().join(name).join("empty")).unwrap();
            for file in ["file", "moved", "removed"] {
                fs::write(directory.path().join(name).join(file), name).unwrap();
            }
        }
        let engine = Engine::new(&EngineOptions::default());
        let component = include_bytes!("../../../../tests/guests/built/hostile.wasm");
        let linked = LinkedComponent::new(&engine, &engine.compile(component).unwrap().0, None).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { directory, engine, linked, runtime }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn threads(&self) -> &Threads {
        self.engine.threads()
    }

    /// Returns whether the guest succeeded.
    fn call(&self, tool: &str, arguments: &Value) -> bool {
        let grant = |root| Grant::none().with_write(root);
        let narrow = Root::resolve(Path::new("/"), &self.path("granted")).unwrap();
        let (own, wide) = (Writable::open(&grant(narrow), None), Arc::new(grant(Root::everything())));
        let (tool, sent, paths) = (tool.into(), Arguments::Value(arguments.clone()), named(arguments));
        let (engine, linked) = (self.engine.clone(), self.linked.clone());
        let guest = async move {
            let writable = Some(Writable::open(&wide, None));
            let none = || Call::none(&"guest".into(), &wide, &Limits::default());
            let made = Instance::create(&engine, &linked, &Belongings::default(), &Arc::new(none())).await;
            let Ok(instance) = made else { panic!("no instance") };
            let call = Arc::new(Call { tool, arguments: sent, paths, writable, ..none() });
            matches!(instance.call(&call).await.0, Ok(Ok(_)))
        };
        let threads = self.threads();
        let done = async move {
            let permit = threads
                .permits
                .acquire(Tenant::HAFT, || 0, Duration::from_mins(1), &CancellationToken::new())
                .await
                .unwrap();
            threads.run(permit, own, |handle, sender| sender.send(handle.block_on(guest)).unwrap()).await
        };
        self.runtime.block_on(done).unwrap()
    }
}

/// Names and contents, in order.
fn read_tree(directory: &Path) -> Vec<(PathBuf, Option<String>)> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut seen: Vec<_> = paths.map(|path| (path.clone(), fs::read_to_string(path).ok())).collect();
    seen.sort();
    seen
}

/// All kinds of changes to files in `directory`.
fn all_changes(directory: &Path) -> [(&'static str, Value); 9] {
    let at = |name: &str| directory.join(name);
    [
        ("create", json!({ "path": at("new") })),
        ("create", json!({ "path": at("folder"), "directory": true })),
        ("write", json!({ "path": at("file"), "text": "written" })),
        ("write", json!({ "path": at("another"), "text": "written" })),
        ("rename", json!({ "from": at("moved"), "to": at("elsewhere") })),
        ("symlink", json!({ "from": "file", "to": at("link") })),
        ("hardlink", json!({ "from": at("file"), "to": at("twin") })),
        ("remove", json!({ "path": at("removed") })),
        ("remove", json!({ "path": at("empty") })),
    ]
}

/// WA02: a guest with `/` writable by mistake writes where its thread may, and nowhere else.
#[test]
fn a_wrong_directory_lets_no_guest_write_outside() {
    let mismatched = MismatchedGuest::new();
    let state = mismatched.engine.landlock_state();
    if matches!(state, LandlockState::None { .. }) {
        return tracing::warn!("not tested: Landlock of this kernel is {state}");
    }
    let (granted, outside) = (mismatched.path("granted"), mismatched.path("outside"));
    let before = read_tree(&outside);
    for (tool, arguments) in all_changes(&outside) {
        assert!(!mismatched.call(tool, &arguments), "{tool} {arguments}");
        assert_eq!(read_tree(&outside), before, "{tool} {arguments}");
    }
    for (tool, arguments) in all_changes(&granted) {
        assert!(mismatched.call(tool, &arguments), "{tool} {arguments}");
    }
    assert_eq!(fs::read_to_string(granted.join("file")).unwrap(), "written");
    assert!(!granted.join("removed").exists() && granted.join("elsewhere").exists());
    assert!(mismatched.call("open", &json!({ "path": outside.join("file") })));
    let between = json!({ "from": outside.join("file"), "to": granted.join("stolen") });
    assert!(!mismatched.call("rename", &between) && !mismatched.call("hardlink", &between));
    assert_eq!(read_tree(&outside), before);
}
