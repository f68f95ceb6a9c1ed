//! Options of a run, besides its program.toml.

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
use haft_plugin_host::debug::Recorder;
use haft_sandbox::confine::Confiner;

/// Options of a run.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own, and set by its name")]
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The program.toml; `None` for the one in the current directory, if there is one.
    pub program: Option<PathBuf>,
    /// What happens to what it asks for and nobody agreed to.
    pub trust: Trust,
    /// The folder that it is run in, absolute; `None` for the current directory.
    pub folder: Option<PathBuf>,
    /// Rights for this run, on top of what the program.toml grants.
    pub allow: Vec<Allow>,
    /// Whether many calls will be made: worth preparing for.
    pub many_calls: bool,
    /// What holds children to their grant; `None` for every layer that the kernel offers.
    pub confiner: Option<Confiner>,
    /// What is left out of everything; it learns the secrets of the program.
    pub redactor: Redactor,
    /// Whether calls are not to be noted in the journal.
    pub no_journal: bool,
    /// The only tool that will be called, as the caller writes it. Plugins that cannot have it are not loaded, and
    /// not reported, unless no other has it.
    pub only: Option<String>,
    /// Where to tell what takes a while before there is a session.
    pub events: Events,
    /// Which MCP servers to ask what they have.
    pub ask: Ask,
    /// Whether the first list of an MCP server is pinned as it is, and told; else it is left for a person to agree to
    /// (`first_lists` of the program). With `known_only` nothing is pinned.
    pub pins_first_lists: bool,
    /// Answers elicitation requests of MCP servers; `None` without a person.
    pub person: Option<Arc<dyn Elicitor>>,
    /// Whether MCP servers may ask the clients whose calls they answer.
    pub clients_answer: bool,
    /// Where commands run, instead of `[backend]`.
    pub target: Target,
    /// Whether to pass over what would have to be looked at first: plugins that were never seen.
    pub known_only: bool,
    /// MCP servers besides those of program.toml, with the same rights.
    pub further_servers: Vec<McpServer>,
    /// What takes down how plugins go about their calls.
    pub recorder: Option<Recorder>,
    /// What binds it, where it works as an agent of another program.
    pub under: Option<Under>,
    /// MCP servers that may run already: those that are declared as before go on.
    pub servers: Servers,
    /// Where workers are met, and whether this is one.
    pub machines: Machines,
}

impl Options {
    /// The same where the only tool that is called may be an agent, which can take all of the program.
    pub(super) fn all_for_agents(&self) -> Option<Self> {
        let prefix =
            |tool: &str| tool.split_once("__").is_some_and(|(first, _)| first.eq_ignore_ascii_case("agent"));
        let is_agent = self.only.as_deref().is_some_and(prefix);
        is_agent.then(|| Self { only: None, ..self.clone() })
    }
}

/// Which MCP servers are started for no other reason than to learn which tools they have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ask {
    /// Those of which it is not known, or not known any more.
    #[default]
    WhereUnknown,
    /// All.
    Always,
    /// None.
    Never,
}

/// The target named on the command line, in place of `[backend]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// A running container.
    pub container: Option<String>,
    /// A host, as ssh is told it.
    pub ssh: Option<String>,
    /// Whether in a pane of tmux.
    pub tmux: Option<bool>,
    /// The session of tmux.
    pub session: Option<String>,
    /// Whether commands run on this machine whatever `[backend]` says.
    pub here: bool,
}
