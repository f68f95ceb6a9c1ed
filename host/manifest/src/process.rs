//! The rights of a process in program.toml: an MCP server that is a child process, or a command. The keys are those
//! of a plugin's grant; a right that the kernel cannot enforce for a process is an error.

use std::time::Duration;

use haft_core::grant::{Right, Service};
use haft_core::limit::Limits;

use super::plugin::GrantTable;
use super::section::Section;
use super::services::check_services;
use super::table::{FromTable, SHORTEST, Table, table};

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
