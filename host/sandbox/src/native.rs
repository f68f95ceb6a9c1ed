//! Native tools: they start processes, which no component can. A tool that can be a component must not be
//! native.

mod answer;
pub mod bash;
pub mod command;
pub mod deny;
pub mod files;
pub mod run_shell;
pub mod screen;
pub mod script;

use std::sync::Arc;
use std::time::Duration;

use self::deny::Denied;
use crate::Backend;
use crate::confine::Confiner;
use haft_core::limit::Limits;
use haft_core::tool::Tool;

/// A native tool.
#[derive(Clone, Copy, Debug)]
pub struct Native {
    /// The name, for the model and for program.toml.
    pub name: &'static str,
    /// The family of the tool.
    pub family: Family,
    /// Creates the tool; `None` if a requirement is missing.
    pub build: fn(&Settings) -> Option<Arc<dyn Tool>>,
    /// The limits of one call, which include its own timeout.
    pub limits: fn(&Settings) -> Limits,
}

/// Tools that are enabled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Commands on this machine.
    Workspace,
    /// Commands on the backend's target.
    Shell,
    /// Files on the backend's target.
    Files,
    /// The backend's pane.
    Screen,
}

/// The settings of native tools.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Confines commands.
    pub confiner: Confiner,
    /// The default time limit of a shell command.
    pub bash_timeout: Duration,
    /// Commands that are always refused.
    pub denied: Denied,
    /// A sentence for the model about the rights of commands on this machine.
    pub reach: String,
    /// The target of the target tools.
    pub backend: Option<Arc<dyn Backend>>,
    /// Whether haft ends after one call, and with it a command that continues in a pane.
    pub one_call: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            confiner: Confiner::new(),
            bash_timeout: bash::DEFAULT_TIMEOUT,
            denied: Denied::new(deny::DEFAULT.iter().copied()),
            reach: String::new(),
            backend: None,
            one_call: false,
        }
    }
}

impl Settings {
    fn paned(&self) -> Option<Arc<dyn Backend>> {
        self.backend.clone().filter(|backend| backend.has_pane())
    }
}

/// All native tools, in the order in which models see them.
pub const NATIVE: &[Native] = &[
    Native {
        name: bash::NAME,
        family: Family::Workspace,
        build: |settings| {
            let bash = bash::Bash::new(settings.confiner.clone(), settings.bash_timeout);
            Some(Arc::new(bash.with(&settings.reach, settings.denied.clone())))
        },
        limits: |settings| bash::limits(settings.bash_timeout),
    },
    Native {
        name: run_shell::NAME,
        family: Family::Shell,
        build: |settings| {
            let (backend, denied) = (settings.backend.clone()?, settings.denied.clone());
            let (timeout, one_call) = (settings.bash_timeout, settings.one_call);
            Some(Arc::new(run_shell::RunShell::new(backend, timeout, denied, one_call)))
        },
        limits: |_| run_shell::limits(),
    },
    Native {
        name: files::READ,
        family: Family::Files,
        build: |settings| Some(Arc::new(files::FileTool::reading(settings.backend.clone()?))),
        limits: |_| files::limits(),
    },
    Native {
        name: files::WRITE,
        family: Family::Files,
        build: |settings| Some(Arc::new(files::FileTool::writing(settings.backend.clone()?))),
        limits: |_| files::limits(),
    },
    Native {
        name: screen::CAPTURE,
        family: Family::Screen,
        build: |settings| Some(Arc::new(screen::PaneTool::capturing(settings.paned()?))),
        limits: |_| screen::limits(),
    },
    Native {
        name: screen::SEND,
        family: Family::Screen,
        build: |settings| Some(Arc::new(screen::PaneTool::typing(settings.paned()?))),
        limits: |_| screen::limits(),
    },
];

/// Reports whether a tool of this name acts on the backend's target.
pub fn is_of_target(name: &str) -> bool {
    NATIVE.iter().any(|native| native.family != Family::Workspace && native.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests;
