//! Which calls `haft log` shows. Judges a call by its outline: the rest of a line is not read where it is not shown.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::outcome::is_unfinished;
use haft_journal::Outline;
use haft_manifest::ToolPattern;

/// Which calls to show.
#[derive(Clone)]
pub(super) struct Filter {
    tools: Vec<ToolPattern>,
    failed: bool,
    since: Option<Timestamp>,
    /// A program's name, and the same as a path.
    program: Option<(PathBuf, PathBuf)>,
}

impl Filter {
    pub(super) fn new(
        tools: &[ToolPattern],
        failed: bool,
        since: Option<Timestamp>,
        program: Option<&Path>,
    ) -> Self {
        let file = |name: &Path| std::path::absolute(name).unwrap_or_else(|_| name.to_owned());
        let program = program.map(|name| (name.to_owned(), file(name)));
        Self { tools: tools.to_owned(), failed, since, program }
    }

    /// The time before which no call began that is shown.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Whether the call is one of them.
    pub(super) fn matches(&self, call: &Outline) -> bool {
        let is_tool = self.tools.is_empty() || self.tools.iter().any(|pattern| pattern.matches(&call.tool));
        let is_failed = || !self.failed || call.outcome.is_failure() || is_unfinished(call.outcome, call.pid);
        let is_late = self.since.is_none_or(|since| call.time >= since);
        is_tool && is_late && self.is_of_program(call) && is_failed()
    }

    fn is_of_program(&self, call: &Outline) -> bool {
        let Some((name, file)) = &self.program else { return true };
        let is_named = call.program.name.as_deref().is_some_and(|own| name.as_os_str() == own);
        is_named || call.program.path.as_deref().is_some_and(|path| Path::new(path) == file)
    }
}
