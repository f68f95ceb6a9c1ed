//! `[builtins]`: the built-in tools that are enabled, and their settings. The settings of a tool are explained in
//! its own file.

use std::time::Duration;

use haft_core::grant::{Destination, HostName, HostPattern};
use haft_core::limit::Limits;

use super::entry::Entry;
use super::name::Label;
use super::table::{SHORTEST, table};
use super::values::URL;

table! {
    /// Which built-in tools there are.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Builtins = "[builtins]" {
        /// `bash`, or `run_shell` on a target; default true
        #[also("bash", "run_shell", "shell_enabled")]
        pub shell: bool = true,
        /// `read`, `write`, `edit`, or those of the target; default true
        #[also("read", "write", "edit", "files_enabled")]
        pub files: bool = true,
        /// `fetch_url`; default true
        #[also("fetch_url", "fetch_enabled")]
        pub fetch: bool = true,
        /// `web_search`; default true
        #[also("web_search", "search_enabled")]
        pub search: bool = true,
        /// `time`; default true
        pub time: bool = true,
        /// `capture-pane` and `send-keys`, if tmux is installed; default true
        #[also("capture-pane", "send-keys")]
        pub tmux: bool = true,
        /// ask a person before every shell command; default false
        #[also("confirm")]
        pub shell_confirm: bool = false,
        /// commands that are always refused, such as `git push*`; default commands that destroy or stop the
        /// machine
        #[also("shell_denylist", "deny", "denylist")]
        pub shell_deny: Option<Vec<String>> = None,
        /// ask a person before every `fetch_url`; default false
        pub fetch_confirm: bool = false,
        /// time limit of a shell command; default `120s`
        #[read(time SHORTEST..=Limits::MAX_TIME)]
        #[also("timeout", "bash_timeout")]
        pub shell_timeout: Duration = Duration::from_mins(2),
        /// hosts that `fetch_url` may reach in addition to public ones, such as `http://127.0.0.1:8080`
        #[also("allowed_domains", "allow", "hosts")]
        pub fetch_allow: Vec<HostPattern> = Vec::new(),
        /// hosts that `fetch_url` may not reach, with their subdomains
        #[also("blocked_domains", "block")]
        pub fetch_block: Vec<HostName> = Vec::new(),
        // DuckDuckGo's page for browsers without scripts, which needs no key.
        /// the search page of `web_search`; default `https://html.duckduckgo.com/html/`
        #[read(URL, search_url)]
        #[also("search_endpoint", "endpoint", "url")]
        pub search_url: String = "https://html.duckduckgo.com/html/".to_owned(),
        /// the built-in tools that run on workers, with the workers' labels; default none
        #[also("labels", "workers")]
        pub on: BuiltinsOn = BuiltinsOn::default(),
    }
}

table! {
    /// Which built-in tools run on workers: labels of those, `*` for any.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BuiltinsOn = "[builtins.on]" {
        /// `bash`
        #[also("bash")]
        pub shell: Vec<Label> = Vec::new(),
        /// `read`, `write`, `edit`
        #[also("read", "write", "edit")]
        pub files: Vec<Label> = Vec::new(),
        /// `fetch_url`
        #[also("fetch_url")]
        pub fetch: Vec<Label> = Vec::new(),
        /// `web_search`
        #[also("web_search")]
        pub search: Vec<Label> = Vec::new(),
        /// `time`
        pub time: Vec<Label> = Vec::new(),
    }
}

impl BuiltinsOn {
    /// Whether any of them does.
    pub fn is_any(&self) -> bool {
        let Self { shell, files, fetch, search, time } = self;
        [shell, files, fetch, search, time].iter().any(|labels| !labels.is_empty())
    }
}

impl Builtins {
    /// The one host that `web_search` may reach.
    pub fn search_host(&self) -> Option<HostPattern> {
        host_of(&self.search_url)
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
