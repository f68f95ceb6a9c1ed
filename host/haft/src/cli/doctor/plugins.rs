//! What holds plugins besides the directories that they are given.

use serde::Serialize;

use super::page::{Line, Mark};
use haft_plugin_host::{Engine, EngineOptions, LandlockState};

/// What the kernel adds.
#[derive(Serialize)]
pub(super) struct Plugins {
    landlock: &'static str,
    /// What is open, and why.
    lacks: Option<String>,
}

const FULL: &str = "full";
const PARTIAL: &str = "partial";
const NONE: &str = "none";

impl Plugins {
    /// Finds out with an engine that runs nothing.
    pub(super) fn gather() -> Self {
        let state = Engine::new(&EngineOptions::default()).landlock_state();
        let landlock = match state {
            LandlockState::Full => FULL,
            LandlockState::Partial { .. } => PARTIAL,
            LandlockState::None { .. } => NONE,
        };
        Self { landlock, lacks: (landlock != FULL).then(|| state.to_string()) }
    }

    pub(super) fn line(&self) -> Line {
        let (mark, text) = match &self.lacks {
            None => (Mark::Good, "full: the kernel too keeps them from writing elsewhere"),
            Some(lacks) => (Mark::Warning, lacks.as_str()),
        };
        Line::new(mark, "second layer", text)
    }
}
