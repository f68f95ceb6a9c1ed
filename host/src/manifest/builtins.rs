//! `[builtins]`: which built-in tools there are. It only switches; what they do stands with them.

use std::time::Duration;

use super::catalogue::BUILTINS;
use super::entry::Entry;
use super::section::Section;
use crate::limit::Limits;

/// `[builtins]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, as program.toml has them")]
pub struct Builtins {
    /// `bash`, or `run_shell` on a target.
    pub shell: bool,
    /// `read`, `write` and `edit`, or `read_file` and `write_file` on a target.
    pub files: bool,
    /// `fetch_url`.
    pub fetch: bool,
    /// `web_search`.
    pub search: bool,
    /// `time`.
    pub time: bool,
    /// `capture-pane` and `send-keys`, where tmux is there.
    pub tmux: bool,
    /// Whether a person is asked before every shell command.
    pub shell_confirm: bool,
    /// Whether a person is asked before every `fetch_url`.
    pub fetch_confirm: bool,
    /// When a shell command is stopped.
    pub shell_timeout: Duration,
}

impl Default for Builtins {
    fn default() -> Self {
        Self {
            shell: true,
            files: true,
            fetch: true,
            search: true,
            time: true,
            tmux: true,
            shell_confirm: false,
            fetch_confirm: false,
            shell_timeout: Duration::from_mins(2),
        }
    }
}

impl Builtins {
    pub(super) fn read(root: &Section<'_>) -> Self {
        let default = Self::default();
        let Some(section) = root.get("builtins", |entry| entry.section(&BUILTINS)) else {
            return default;
        };
        let flag = |key, default| section.get(key, Entry::flag).unwrap_or(default);
        let longest = Duration::from_millis(1)..=Limits::MAX_TIME;
        let timeout = section.get("shell_timeout", |entry| entry.duration(longest));
        Self {
            shell: flag("shell", default.shell),
            files: flag("files", default.files),
            fetch: flag("fetch", default.fetch),
            search: flag("search", default.search),
            time: flag("time", default.time),
            tmux: flag("tmux", default.tmux),
            shell_confirm: flag("shell_confirm", default.shell_confirm),
            fetch_confirm: flag("fetch_confirm", default.fetch_confirm),
            shell_timeout: timeout.unwrap_or(default.shell_timeout),
        }
    }
}
