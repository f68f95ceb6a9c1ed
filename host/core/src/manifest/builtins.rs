//! `[builtins]`: which built-in tools there are. It only switches; what they do stands with them.

use std::time::Duration;

use super::catalogue::{BUILTINS, BUILTINS_ON};
use super::entry::Entry;
use super::label::Label;
use super::section::Section;
use crate::grant::{Destination, HostName, HostPattern};
use crate::limit::Limits;

/// `[builtins]`.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Commands that `run_shell` refuses; `None`: haft's own list.
    pub shell_deny: Option<Vec<String>>,
    /// Whether a person is asked before every `fetch_url`.
    pub fetch_confirm: bool,
    /// When a shell command is stopped.
    pub shell_timeout: Duration,
    /// Hosts that `fetch_url` may reach besides the public ones.
    pub fetch_allow: Vec<HostPattern>,
    /// Hosts that `fetch_url` may not reach, and the names below them.
    pub fetch_block: Vec<HostName>,
    /// Where `web_search` asks.
    pub search_url: String,
    /// Which of them live on workers.
    pub on: BuiltinsOn,
}

/// `[builtins.on]`: labels of the workers that built-in tools live on; none: they live here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuiltinsOn {
    /// `bash`.
    pub shell: Vec<Label>,
    /// `read`, `write` and `edit`.
    pub files: Vec<Label>,
    /// `fetch_url`.
    pub fetch: Vec<Label>,
    /// `web_search`.
    pub search: Vec<Label>,
    /// `time`.
    pub time: Vec<Label>,
}

impl BuiltinsOn {
    fn read(section: &Section<'_>) -> Self {
        let labels = |key| section.get(key, Label::read).unwrap_or_default();
        Self {
            shell: labels("shell"),
            files: labels("files"),
            fetch: labels("fetch"),
            search: labels("search"),
            time: labels("time"),
        }
    }

    /// Whether any of them does.
    pub fn is_any(&self) -> bool {
        let Self { shell, files, fetch, search, time } = self;
        [shell, files, fetch, search, time].iter().any(|labels| !labels.is_empty())
    }
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
            shell_deny: None,
            fetch_confirm: false,
            shell_timeout: Duration::from_mins(2),
            fetch_allow: Vec::new(),
            fetch_block: Vec::new(),
            search_url: Self::SEARCH_URL.to_owned(),
            on: BuiltinsOn::default(),
        }
    }
}

impl Builtins {
    /// `DuckDuckGo`'s page for browsers without scripts, which needs no key.
    pub(crate) const SEARCH_URL: &str = "https://html.duckduckgo.com/html/";

    /// The one host that `web_search` may reach.
    pub fn search_host(&self) -> Option<HostPattern> {
        host_of(&self.search_url)
    }

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
            shell_deny: section.get("shell_deny", |entry| entry.list(Entry::text)),
            fetch_confirm: flag("fetch_confirm", default.fetch_confirm),
            shell_timeout: timeout.unwrap_or(default.shell_timeout),
            fetch_allow: section.list("fetch_allow", Entry::parse),
            fetch_block: section.list("fetch_block", Entry::parse),
            search_url: section.get("search_url", search_url).unwrap_or(default.search_url),
            on: section
                .get("on", |entry| entry.section(&BUILTINS_ON))
                .map(|section| BuiltinsOn::read(&section))
                .unwrap_or_default(),
        }
    }
}

fn search_url(entry: &Entry<'_>) -> Option<String> {
    let url = entry.url()?;
    match host_of(&url) {
        Some(_) => Some(url),
        None => entry.reject("expected a URL with a host, such as `https://html.duckduckgo.com/html/`"),
    }
}

/// The destination of a URL as a pattern of exactly that.
fn host_of(url: &str) -> Option<HostPattern> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    Destination::new(scheme, authority)?.to_string().parse().ok()
}
