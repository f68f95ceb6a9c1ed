//! The tables about this machine: `[sandbox]` (how far tools reach), `[backend]` (where commands run),
//! `[network]`, `[journal]` and `[telemetry]`. Opens and resolves nothing. `[sandbox]` applies to `bash`,
//! command tools, MCP servers and the built-in plugins; a declared plugin has its own grant.

use std::path::PathBuf;

use super::entry::Located;
use super::host_secret::{self, ProcessSecret, SECRETS, secrets};
use super::hosts::{HOSTS, check_services, holds_to_hosts, hosts};
use super::secret::{HEADERS, SecretSource, TextOrSecret, headers};
use super::section::Section;
use super::table::{Kind, choices, table, texts};
use super::values::{URL, host_of};
use haft_core::grant::{CredentialStore, HostName, HostPattern, SandboxMode, Service};
use haft_core::limit::KeptJournal;
use haft_core::net::is_loopback;
use haft_core::upstream::ProxyUrl;
use haft_core::words;

table! {
    /// How far tools reach on this machine.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Sandbox = "[sandbox]" => Self::checked {
        /// `sandbox` (default) and `rx` write only below the workspace and the temporary directory,
        /// `rwx` anywhere
        pub mode: SandboxMode = SandboxMode::Sandbox,
        /// the tools' working directory; default this folder, or the current one without a program.toml
        #[also("dir", "directory", "cwd")]
        pub workspace: Option<Located<PathBuf>> = None,
        /// the only readable directories, in addition to the workspace; default all
        pub read: Option<Vec<Located<PathBuf>>> = None,
        /// more writable directories, and start-up files in the workspace, such as `.git/config`
        pub write: Vec<Located<PathBuf>> = Vec::new(),
        /// files and directories that are blocked, in every grant
        #[also("hide", "hidden", "exclude")]
        pub deny: Vec<Located<PathBuf>> = Vec::new(),
        /// credential stores that it may read, such as `ssh` or `gh`; default none
        #[also("stores")]
        pub credentials: Vec<CredentialStore> = Vec::new(),
        /// whether child processes reach the network; default true
        #[also("net")]
        pub network: bool = true,
        /// the only hosts that child processes reach, as in a grant: `api.github.com`, `*.example.com:22`, `@npm`;
        /// default all
        #[read(HOSTS, |entry| hosts(entry).map(Some))]
        pub hosts: Option<Vec<HostPattern>> = None,
        /// services of this machine that child processes use: ports, paths of unix sockets, names such as `docker`, or
        /// `*` for all unix sockets; default none
        #[also("unix_sockets", "sockets", "ports")]
        pub services: Vec<Service> = Vec::new(),
        /// secrets that haft puts into the requests of `bash` to single hosts, and that it never has
        #[read(SECRETS, secrets)]
        #[also("secret")]
        pub secrets: Vec<ProcessSecret> = Vec::new(),
    }
}

impl Sandbox {
    /// Returns whether child processes have all of the network.
    pub fn opens_network(&self) -> bool {
        let is_open = |hosts: &Vec<HostPattern>| hosts.iter().any(HostPattern::is_any);
        self.network && self.hosts.as_ref().is_none_or(is_open)
    }

    /// Returns the only hosts that `hosts` names; none if child processes have all of the network, or no network.
    pub fn single_hosts(&self) -> &[HostPattern] {
        let hosts = self.hosts.as_deref().unwrap_or_default();
        if self.network && holds_to_hosts(hosts) { hosts } else { &[] }
    }

    /// Returns the network of child processes in words: `open`, `closed`, or the hosts after `single`.
    pub fn network_in_words(&self, open: &str, closed: &str, single: &str) -> String {
        let hosts: Vec<_> = self.single_hosts().iter().map(|host| format!("`{host}`")).collect();
        match hosts.as_slice() {
            [] if self.opens_network() => open.to_owned(),
            [] => closed.to_owned(),
            hosts => format!("{single}{}", hosts.join(", ")),
        }
    }

    /// Rejects keys that contradict each other.
    fn checked(self, section: &Section<'_>) -> Self {
        let hosts = self.hosts.as_deref().unwrap_or_default();
        if self.hosts.as_ref().is_some_and(Vec::is_empty) {
            section.reject("hosts", "expected at least one host; `network = false` turns the network off");
        }
        if !hosts.is_empty() && !self.network {
            section.reject("network", "`network = false` contradicts `hosts`: remove one of the two");
        }
        check_services(&self.services, hosts, section);
        if self.mode == SandboxMode::Rwx && holds_to_hosts(hosts) {
            section.reject("hosts", "mode `rwx` cannot be combined with single hosts: a process that may write everything can reach the network");
        }
        host_secret::check(section, &self.secrets, hosts, &[]);
        self
    }
}

words! {
    /// What runs containers.
    pub enum ContainerEngine {
        /// Docker.
        Docker = "docker",
        /// Podman.
        Podman = "podman",
    }
}

choices! { ContainerEngine }

table! {
    /// Where commands run: on this machine, in a container or on another host, in a pane of tmux or not.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BackendTable = "[backend]" {
        /// a running container, by name or identifier
        #[also("docker", "podman")]
        pub container: Option<String> = None,
        /// the container engine, `docker` or `podman`; default detected
        pub engine: Option<ContainerEngine> = None,
        // Not to be used where there is a container too.
        /// a host as on the command line of `ssh`; the key must need no password
        #[also("host")]
        pub ssh: Option<Located<String>> = None,
        /// the configuration file of ssh; default your own
        pub ssh_config: Option<Located<PathBuf>> = None,
        /// whether commands run in a tmux pane; default true on other hosts with tmux
        pub tmux: Option<bool> = None,
        /// the tmux session; default `haft`
        #[read(Kind::Pattern("^[A-Za-z0-9][A-Za-z0-9_-]{0,47}$"), Entry::text)]
        pub session: Option<String> = None,
        /// the shell of the pane; default the user's
        pub shell: Option<String> = None,
        /// the working directory on the target; default that of its shells
        #[also("dir", "cwd", "workdir", "workspace")]
        pub directory: Option<String> = None,
        /// the only directories of the target for `read_file` and `write_file`; default all except system
        /// directories and those with keys
        #[also("files_allowed_paths", "allow", "read", "write")]
        pub files: Option<Vec<String>> = None,
        /// offer `run_shell`, `read_file` and `write_file` on this machine instead of `bash`, `read`, `write`
        /// and `edit`; default false
        pub target_tools: bool = false,
    }
}

texts! { ProxyUrl: Kind::Pattern("^http://[^/?#@]+/?$") }

table! {
    /// The way to other machines: of haft's own requests, and of processes with single hosts.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Network = "[network]" => Self::checked {
        /// the proxy, which connects to other machines: `http://proxy.example:3128`; default that of the environment
        #[also("https_proxy", "http_proxy", "upstream")]
        pub proxy: Option<ProxyUrl> = None,
        /// where the user and password at the proxy are stored, as `user:password`
        #[also("password", "user", "auth")]
        pub login: Option<SecretSource> = None,
        /// a file with certificate authorities in PEM, in addition to those of the system; for a proxy that opens TLS
        #[also("ca_file", "certificate")]
        pub ca: Option<Located<PathBuf>> = None,
        /// hosts that are reached without the proxy, with their subdomains
        #[also("direct", "exclude")]
        pub no_proxy: Vec<HostName> = Vec::new(),
    }
}

impl Network {
    /// Rejects what has no meaning without a proxy.
    fn checked(self, section: &Section<'_>) -> Self {
        for key in ["login", "ca", "no_proxy"] {
            if section.has(key) && !section.has("proxy") {
                section.reject(key, "also needs `proxy`");
            }
        }
        self
    }
}

table! {
    /// How much of the journal is kept: no less than without this table.
    pub(super) struct JournalKeys = "[journal]" {
        // Fewer bytes make so many files that finding one takes longer than reading it; more are too much to be
        // removed at once when a file goes.
        /// size of a log file before rotation; default `64MiB`, from `1MiB` to `1GiB`
        #[read(size 1 << 20..=1 << 30)]
        #[also("max_size", "file_size", "rotate")]
        size: u64 = KeptJournal::DEFAULT_SIZE,
        // At most what a machine's disk holds.
        /// total size of newer files before a rotated file is deleted; default and minimum `512MiB`, at most
        /// `1024GiB`
        #[read(size KeptJournal::DEFAULT_KEEP..=1 << 40)]
        #[also("max_total", "retention", "total")]
        keep: u64 = KeptJournal::DEFAULT_KEEP,
    }
}

/// The maximum number of journal files: each rotation looks at all of them.
const MAX_FILES: u64 = 1024;

impl From<JournalKeys> for KeptJournal {
    fn from(JournalKeys { size, keep }: JournalKeys) -> Self {
        Self { size: size.max(keep / MAX_FILES), keep }
    }
}

table! {
    /// Where traces and metrics of calls are sent (OpenTelemetry, OTLP over HTTP). Absent: nowhere, unless
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` says so. `OTEL_…` variables count more than this table.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TelemetryTable = "[telemetry]" => Self::checked {
        // `/v1/traces` and `/v1/metrics` are below it.
        /// the OTLP endpoint over HTTP, such as `http://127.0.0.1:4318`
        #[read(URL, |entry| entry.located(Entry::url))]
        #[also("url", "otlp", "collector")]
        pub endpoint: Located<String>,
        /// headers of every request
        #[read(HEADERS, headers)]
        #[also("header")]
        pub headers: Vec<(String, TextOrSecret)> = Vec::new(),
        /// the service's name; default `haft`
        #[also("service", "name")]
        pub service_name: Option<String> = None,
    }
}

impl TelemetryTable {
    fn checked(self, section: &Section<'_>) -> Self {
        let has_secret = self.headers.iter().any(|(_, value)| value.source().is_some());
        if has_secret && is_open(&self.endpoint) {
            section.reject(
                "endpoint",
                "a secret would be sent unencrypted: use `https://`, or no secret header",
            );
        }
        self
    }
}

/// Whether requests to this URL are unencrypted and leave this machine.
fn is_open(url: &str) -> bool {
    url.strip_prefix("http://").is_some_and(|rest| !is_loopback(host_of(rest)))
}
