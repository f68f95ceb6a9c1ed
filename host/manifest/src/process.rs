//! The rights of a process in program.toml: an MCP server that is a child process, or a command. The keys are those
//! of a plugin's grant; a right that the kernel cannot enforce for a process is an error. The rights of a command behind
//! `haft wrap` stand in one file for each command, in the grammar of `[mcp_servers.grant]`.

use std::path::Path;
use std::time::Duration;

use haft_core::grant::{Right, Service};
use haft_core::limit::Limits;
use haft_core::report::{Report, Source};

use super::entry::Notes;
use super::hosts::check_services;
use super::plugin::GrantTable;
use super::section::Section;
use super::table::{FromTable, SHORTEST, Table, table};
use super::{absent, syntax};

table! {
    /// What an MCP server that is a process may do. What is not named is not allowed; absent: read everything
    /// that you may read, write the workspace, use the network, as far as `[sandbox]` does not say less.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct ProcessGrant = "[mcp_servers.grant]" => checked {
        /// The rights.
        #[read(flatten)]
        pub rights: GrantTable,
        /// services of this machine that it may use: ports, paths of unix sockets, names such as `docker`, or `*`
        /// for all unix sockets; default none
        #[also("unix_sockets", "sockets", "ports")]
        pub services: Vec<Service> = Vec::new(),
    }
}

impl ProcessGrant {
    /// Returns the rights, in the order of the keys.
    pub fn all(&self) -> Vec<Right> {
        let services = self.services.iter().cloned().map(Right::Service);
        self.rights.rights().into_iter().chain(services).collect()
    }
}

/// The same table of a command.
pub(super) static TOOL_GRANT: Table = Table {
    header: "[tools.grant]",
    doc: "The rights of a command. A right that is not listed is not allowed. Without this table: it writes \
          the workspace, `~/.haft` and the directory for temporary files, reads everything that you may read \
          and has the network, as far as `[sandbox]` does not say less.",
    ..ProcessGrant::TABLE
};

table! {
    /// What a process may use.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ProcessLimits = "[tools.limits]" {
        // Less starts no interpreter.
        /// memory of each of its processes, from `16MiB`; default no limit
        #[read(size 16 << 20..=ProcessLimits::MAX_MEMORY)]
        #[also("ram", "memory_limit")]
        pub memory: Option<u64> = None,
        /// processes and threads at one time; default 512
        #[read(count 1..=ProcessLimits::MAX_PROCESSES)]
        #[also("tasks", "threads", "pids")]
        pub processes: Option<u32> = None,
    }
}

impl ProcessLimits {
    /// Bytes: more than any machine gives one process.
    pub const MAX_MEMORY: u64 = 1 << 44;
    /// What every process of haft is held to.
    pub const MAX_PROCESSES: u32 = 512;
}

table! {
    /// What an MCP server that is a process may use.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ServerLimits = "[mcp_servers.limits]" {
        /// What its processes may use.
        #[read(flatten)]
        pub processes: ProcessLimits = ProcessLimits::default(),
        /// time limit of its start; default `timeout`, at least `1m`
        #[read(time SHORTEST..=Limits::MAX_TIME)]
        #[also("startup", "start_timeout", "startup_timeout")]
        pub start: Option<Duration> = None,
    }
}

/// What no process can be held to, or has anyway, is told where it stands.
fn checked(grant: ProcessGrant, section: &Section<'_>) -> ProcessGrant {
    check_services(&grant.services, &grant.rights.hosts, section);
    if grant.rights.cache.is_some() {
        section.reject("cache", "a process has its own caches without a grant");
    }
    grant
}

table! {
    /// What a person agreed to, for one command.
    #[derive(Clone, Debug, Default)]
    pub struct Wrapped = "" {
        /// What the spans of the grant point into.
        #[read(rows &[], absent)]
        pub source: Source = Source::default(),
        /// what messages call the server
        pub name: String,
        /// its program and its arguments, paths in full
        #[read(Kind::List(&Kind::Word), |entry| entry.list(Entry::word))]
        pub command: Vec<String>,
        /// the files that it is started from: digest (SHA-256), change stamp and path of each
        #[read(Kind::List(&Kind::Word), |entry| entry.list(Entry::word))]
        pub files: Vec<String> = Vec::new(),
        /// rights that a person did not give, and is not asked for again
        #[read(Kind::List(&Kind::Word), |entry| entry.list(Entry::word))]
        pub declined: Vec<String> = Vec::new(),
        /// whether a person was asked about its rights; default true
        pub decided: bool = true,
        /// the tools that it may offer: three digests (SHA-256) and name of each
        #[read(Kind::List(&Kind::Word), |entry| entry.list(Entry::word))]
        pub tools: Vec<String> = Vec::new(),
        /// whether a person was asked about its tools, and agreed to none; default false
        pub tools_asked: bool = false,
        /// whether its tools may change without a question; default false
        pub tools_may_change: bool = false,
        /// what it may do; default nothing
        pub grant: ProcessGrant = ProcessGrant::default(),
    }
}

impl Wrapped {
    /// Checks `text`; `path` is what messages call it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Report> {
        let source = Source::new(path.display().to_string(), text);
        let failed = |problems| Report::with_source(source.clone(), problems);
        let table = syntax::parse(text).map_err(failed)?;
        let notes = Notes::default();
        let read = Self::from_table(&Section::root(&table, &Self::TABLE, &notes));
        let problems = notes.into_problems();
        match read.filter(|_| problems.is_empty()) {
            Some(read) => Ok(Self { source, ..read }),
            None => Err(failed(problems)),
        }
    }
}
