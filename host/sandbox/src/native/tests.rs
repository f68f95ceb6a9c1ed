use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;

use super::*;
use crate::{BackendError, CommandOutcome, OutputSink, Piece};
use haft_core::tool::Context;

/// A backend that does nothing, with or without a pane.
#[derive(Debug)]
struct Still(bool);

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
        _: &str,
        _: Duration,
        _: Arc<dyn OutputSink>,
        _: &Context<'_>,
    ) -> Result<CommandOutcome, BackendError> {
        Err(BackendError::Cancelled)
    }

    async fn read(&self, _: &str, _: u64, _: usize, _: &Context<'_>) -> Result<Piece, BackendError> {
        Err(BackendError::Cancelled)
    }

    async fn write(&self, _: &str, _: Vec<u8>, _: &Context<'_>) -> Result<(), BackendError> {
        Err(BackendError::Cancelled)
    }

    fn has_pane(&self) -> bool {
        self.0
    }

    async fn close(&self) {}
}

fn settings(backend: Option<Still>) -> Settings {
    Settings {
        confiner: Confiner::new(),
        bash_timeout: bash::DEFAULT_TIMEOUT,
        denied: Denied::new(deny::DEFAULT.iter().copied()),
        reach: String::new(),
        backend: backend.map(|backend| Arc::new(backend) as Arc<dyn Backend>),
        one_call: false,
    }
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
