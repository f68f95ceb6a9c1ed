//! `haft serve` as a client sees it: raw JSON-RPC on its standard streams and over HTTP, and the client library of
//! another implementation.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

mod approvals;
pub(crate) mod bounds;
mod brief;
mod callers;
pub(crate) mod eras;
mod health;
pub(crate) mod http;
mod passthrough;
pub(crate) mod peer;
mod priming;
pub(crate) mod reload;
mod replicas;
pub(crate) mod room;
pub(crate) mod servers;
mod short_path;
mod skills;
mod stdio;
mod tasks;
mod turns;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

use serde_json::{Value, json};

use crate::common::wait::until;
use crate::common::{cache, hostile};

/// A home and a program with the hostile guest.
pub(crate) struct Stage {
    directory: tempfile::TempDir,
}

/// The grant that allows the guest to write in the program's folder.
pub(crate) const WRITES_HERE: &str = "[plugins.grant]\nwrite = [\".\"]\n";

/// One run for all tests: another test checks plugins that haft has never loaded.
static SEEN: Once = Once::new();

impl Stage {
    /// A stage whose program.toml has `text` besides the program and the guest.
    pub(crate) fn new(text: &str) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for folder in ["work", "tmp"] {
            fs::create_dir(directory.path().join(folder)).unwrap();
        }
        let stage = Self { directory };
        stage.program(text);
        SEEN.call_once(|| drop(stage.command(&["tools"]).output().unwrap()));
        stage
    }

    pub(crate) fn program(&self, text: &str) {
        let component = hostile().display().to_string();
        let named = format!(
            "[program]\nname = \"stage\"\nversion = \"1.0.0\"\ndescription = \"For tests.\"\n\n\
             [[plugins]]\nname = \"guest\"\ncomponent = {component:?}\n{text}"
        );
        fs::write(self.path("program.toml"), named).unwrap();
    }

    /// Records consent to a program with `text`, so that it can be served later.
    pub(crate) fn agree_to(&self, text: &str) {
        let before = fs::read(self.path("program.toml")).unwrap();
        self.program(text);
        assert!(self.command(&["trust", "--yes"]).status().unwrap().success());
        fs::write(self.path("program.toml"), before).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("work").join(name)
    }

    /// The arguments of a call of `guest__hold`, which runs until [`release`](Self::release). Its guest needs
    /// [`WRITES_HERE`].
    pub(crate) fn hold(&self, name: &str) -> Value {
        fs::write(self.path("held"), "held to the end").unwrap();
        let [directory, ready, go] =
            [String::new(), format!("{name}.ready"), "go".into()].map(|name| self.path(&name));
        json!({"directory": directory, "ready": ready, "go": go, "name": "held"})
    }

    /// Waits until a call of `guest__hold` runs.
    pub(crate) fn await_held(&self, name: &str) {
        until("the guest holds", || self.path(&format!("{name}.ready")).exists());
    }

    /// Lets the calls of `guest__hold` end with the answer "held to the end".
    pub(crate) fn release(&self) {
        fs::write(self.path("go"), "").unwrap();
    }

    pub(crate) fn home(&self) -> &Path {
        self.directory.path()
    }

    /// haft in the program's folder, with this home.
    pub(crate) fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_haft"));
        command
            .args(arguments)
            .current_dir(self.path(""))
            .env("HOME", self.home())
            .env("HAFT_TRUST", "1")
            .env("TMPDIR", self.home().join("tmp"))
            .env("XDG_CACHE_HOME", cache())
            .env_remove("HAFT_LOG")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command
    }
}
