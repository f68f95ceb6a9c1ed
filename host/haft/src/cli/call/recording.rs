//! Files that a call leaves for the plugin's author: a profile, a core dump.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::flame;
use crate::cli::terminal::Terminal;
use haft_plugin_host::debug::Recorder;

/// What is written where.
pub(super) struct Recording {
    profile: Option<PathBuf>,
    coredump: Option<PathBuf>,
    recorder: Option<Recorder>,
}

impl Recording {
    pub(super) fn new(profile: Option<PathBuf>, coredump: Option<PathBuf>) -> Self {
        let is_wanted = profile.is_some() || coredump.is_some();
        let recorder = is_wanted.then(|| Recorder::new(profile.is_some(), coredump.is_some()));
        Self { profile, coredump, recorder }
    }

    /// What takes it down, where anything is wanted.
    pub(super) fn recorder(&self) -> Option<Recorder> {
        self.recorder.clone()
    }

    /// Writes what was taken down of a call of `tool`, and says where it is.
    pub(super) fn write(&self, tool: &str, terminal: Terminal) -> anyhow::Result<()> {
        let Some(recorder) = &self.recorder else { return Ok(()) };
        if let Some(path) = &self.profile {
            let stacks = recorder.profile();
            let times: u64 = stacks.iter().map(|(_, times)| times).sum();
            let is_text = path.extension().is_some_and(|extension| extension == "folded");
            let text =
                if is_text { flame::folded(&stacks) } else { flame::draw(&title(tool, times), &stacks) };
            write(path, text.as_bytes())?;
            let shown = path.display();
            let seen = if times == 0 {
                "no plugin was at work for a millisecond".to_owned()
            } else {
                format!("the plugin was looked at {times} times")
            };
            terminal.message(format_args!("wrote `{shown}`: {seen}"));
        }
        if let Some(path) = &self.coredump {
            match recorder.coredump() {
                Some(bytes) => {
                    write(path, &bytes)?;
                    terminal
                        .message(format_args!("wrote `{}`: the plugin's memory and stack", path.display()));
                }
                None => terminal.message("no core dump: no plugin trapped"),
            }
        }
        Ok(())
    }
}

fn title(tool: &str, times: u64) -> String {
    format!("{tool}: where it was in {times} looks, one a millisecond")
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
}
