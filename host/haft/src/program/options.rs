//! The options of a run, besides its program.toml.

use std::path::PathBuf;
use std::sync::Arc;

use super::allow::Allow;
use super::machines::Machines;
use super::server_set::Servers;
use super::trust::Trust;
use super::under::Under;
use haft_core::event::Events;
use haft_core::secret::Redactor;
use haft_core::tool::Elicitor;
use haft_manifest::McpServer;
use haft_mcp::client::ServerError;
use haft_plugin_host::debug::Recorder;
use haft_sandbox::confine::Confiner;

/// Options of a run.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own, and set by its name")]
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The program.toml; `None` for the one in the current directory, if it exists.
    pub program: Option<PathBuf>,
    /// The treatment of permissions without agreement.
    pub trust: Trust,
    /// The current folder of the program, absolute; `None` for the current directory.
    pub folder: Option<PathBuf>,
    /// Rights for this run, in addition to those of program.toml.
    pub allow: Vec<Allow>,
    /// The MCP server or command that has an empty grant where program.toml writes none: its needs are learnt.
    pub learns: Option<String>,
    /// Whether many calls are expected, for which preparation pays.
    pub many_calls: bool,
    /// Confines children to their grants; `None` for every layer that the kernel offers.
    pub confiner: Option<Confiner>,
    /// Redacts all output. Learns the secrets of the program.
    pub redactor: Redactor,
    /// Whether the journal records no calls.
    pub no_journal: bool,
    /// The only tool that will be called, as the caller writes it. Plugins that cannot have the tool are neither
    /// loaded nor reported, unless no other plugin has it.
    pub only: Option<String>,
    /// Receives events of slow steps before a session exists.
    pub events: Events,
    /// The MCP servers whose lists are requested.
    pub ask: Ask,
    /// Whether the first list of an MCP server is pinned without consent, with a notice. Otherwise the user has to
    /// agree to it (`first_lists` of the program). With `known_only` nothing is pinned.
    pub pins_first_lists: bool,
    /// Answers elicitation requests of MCP servers; `None` without a user.
    pub person: Option<Arc<dyn Elicitor>>,
    /// The target of commands; overrides `[backend]`.
    pub target: Target,
    /// Whether to omit plugins that have never been discovered.
    pub known_only: bool,
    /// MCP servers besides those of program.toml, with equal rights.
    pub further_servers: Vec<McpServer>,
    /// Records the calls of plugins for an author.
    pub recorder: Option<Recorder>,
    /// The bounds of the program, if it is an agent of another program.
    pub under: Option<Under>,
    /// MCP servers that may be running. Those with an unchanged declaration keep running.
    pub servers: Servers,
    /// The NATS server of workers, and the role of this process.
    pub machines: Machines,
}

impl Options {
    /// Returns the options for the case that the only called tool may be an agent, which can use every tool of the
    /// program.
    pub(super) fn all_for_agents(&self) -> Option<Self> {
        let prefix =
            |tool: &str| tool.split_once("__").is_some_and(|(first, _)| first.eq_ignore_ascii_case("agent"));
        let is_agent = self.only.as_deref().is_some_and(prefix);
        is_agent.then(|| Self { only: None, ..self.clone() })
    }
}

/// The MCP servers that are started only to list their tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ask {
    /// Servers with an unknown or outdated list.
    #[default]
    WhereUnknown,
    /// All servers.
    Always,
    /// No server.
    Never,
    /// No server. These have been asked, by name, and failed.
    Failed(Vec<(String, ServerError)>),
}

/// The target on the command line; overrides `[backend]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// A running container.
    pub container: Option<String>,
    /// A host, in the syntax of ssh.
    pub ssh: Option<String>,
    /// Whether commands run in a pane of tmux.
    pub tmux: Option<bool>,
    /// The session of tmux.
    pub session: Option<String>,
    /// Whether commands run on this machine regardless of `[backend]`.
    pub here: bool,
}
