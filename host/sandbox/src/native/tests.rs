use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;

use super::*;
use crate::{BackendError, Captured, CommandOutcome, OutputSink, Piece, Screen, Snapshot, Task};
use haft_core::tool::Context;

/// A backend that does nothing, with or without a pane.
#[derive(Debug)]
struct Still(bool);

#[async_trait]
impl Screen for Still {
    async fn capture(&self, _: &Snapshot) -> Result<Captured, BackendError> {
        Ok(Captured { text: String::new(), fell_back: false })
    }

    async fn send(&self, _: Option<&str>, _: &str, _: &[String], _: bool) -> Result<String, BackendError> {
        Ok("%0".into())
    }
}

#[async_trait]
impl Backend for Still {
    fn summary(&self) -> String {
        "still".into()
    }

    fn confinement(&self) -> String {
        String::new()
    }

    async fn run(
        &self,
        _: &Task,
        _: Arc<dyn OutputSink>,
        _: &Context<'_>,
    ) -> Result<CommandOutcome, BackendError> {
        Err(BackendError::Cancelled)
    }

    async fn dispatch(&self, _: &str, _: &Context<'_>) -> Result<String, BackendError> {
        Err(BackendError::Cancelled)
    }

    async fn read(&self, _: &str, _: u64, _: usize, _: &Context<'_>) -> Result<Piece, BackendError> {
        Err(BackendError::Cancelled)
    }

    async fn write(&self, _: &str, _: Vec<u8>, _: &Context<'_>) -> Result<(), BackendError> {
        Err(BackendError::Cancelled)
    }

    fn screen(&self) -> Option<&dyn Screen> {
        self.0.then_some(self)
    }

    async fn close(&self) {}
}

fn settings(backend: Option<Still>) -> Settings {
    let backend = backend.map(|backend| Arc::new(backend) as Arc<dyn Backend>);
    Settings { backend, ..Settings::default() }
}

fn built(settings: &Settings) -> Vec<&'static str> {
    NATIVE.iter().filter(|native| (native.build)(settings).is_some()).map(|native| native.name).collect()
}

/// TE06: each row of the catalogue names its own tool, and no name occurs twice.
#[test]
fn every_row_names_its_tool() {
    let settings = settings(Some(Still(true)));
    for native in NATIVE {
        assert_eq!((native.build)(&settings).unwrap().def().name, native.name);
        assert!((native.limits)(&settings).time.as_secs() > 60);
    }
    let names: BTreeSet<_> = NATIVE.iter().map(|native| native.name).collect();
    assert_eq!(names.len(), NATIVE.len());
    assert!(is_of_target("run_shell") && !is_of_target("bash"));
}

/// TM01: the tools of a pane are available only with a pane.
#[test]
fn capture_and_send_are_there_where_a_pane_is() {
    assert_eq!(built(&settings(None)), ["bash"]);
    assert_eq!(built(&settings(Some(Still(false)))), ["bash", "run_shell", "read_file", "write_file"]);
    let all = built(&settings(Some(Still(true))));
    assert_eq!(all[4..], ["capture-pane", "send-keys"]);
}

/// RS08: a denied command is refused before approval is requested.
#[test]
fn a_denied_command_is_refused_by_its_arguments_alone() {
    let settings = settings(Some(Still(false)));
    for shell in [NATIVE[0], NATIVE[1]] {
        let tool = (shell.build)(&settings).unwrap();
        let refusal = tool.refusal(&json!({"command": "sudo reboot"})).unwrap().to_string();
        assert!(refusal.contains("blocked by shell_deny pattern `reboot`"), "{refusal}");
        assert!(tool.refusal(&json!({"command": "ls"})).is_none());
    }
}
