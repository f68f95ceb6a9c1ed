//! Tools that are the host's own: they start processes, which no component can. It refuses to
//! be a second way for what a component can do.

pub mod bash;
pub mod command;
pub mod deny;
pub mod files;
pub mod run_shell;
pub mod screen;

mod answer;
mod line;

use std::sync::Arc;
use std::time::Duration;

use self::deny::Denied;
use crate::Backend;
use crate::confine::Confiner;
use haft_core::limit::Limits;
use haft_core::tool::Tool;

/// One native tool.
#[derive(Clone, Copy, Debug)]
pub struct Native {
    /// Its name: the model's, and program.toml's for switching it off.
    pub name: &'static str,
    /// Which of them it belongs to.
    pub family: Family,
    /// Makes it; `None` where what it needs is not there.
    pub build: fn(&Settings) -> Option<Arc<dyn Tool>>,
    /// What one call of it may use, its own timeout included.
    pub limits: fn(&Settings) -> Limits,
}

/// Tools that come and go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Commands on this machine.
    Workspace,
    /// Commands where the backend is.
    Shell,
    /// Files where the backend is.
    Files,
    /// The backend's pane.
    Screen,
}

/// What a program can say about native tools.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What holds commands to their grant.
    pub confiner: Confiner,
    /// How long a shell command may take where the call does not say.
    pub bash_timeout: Duration,
    /// Commands that no shell runs.
    pub denied: Denied,
    /// What the model is told of what commands may reach on this machine, in a sentence.
    pub reach: String,
    /// Where the tools for a target act.
    pub backend: Option<Arc<dyn Backend>>,
    /// Whether haft ends with its one call, and with it a command in a pane whose time is over.
    pub one_call: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let denied = Denied::new(deny::DEFAULT.iter().copied());
        Self {
            confiner: Confiner::new(),
            bash_timeout: bash::DEFAULT_TIMEOUT,
            denied,
            reach: String::new(),
            backend: None,
            one_call: false,
        }
    }
}

impl Settings {
    /// The backend, if it has a pane.
    fn paned(&self) -> Option<Arc<dyn Backend>> {
        self.backend.clone().filter(|backend| backend.screen().is_some())
    }
}

/// All native tools, in the order in which models see them.
pub const NATIVE: &[Native] = &[
    Native {
        name: bash::NAME,
        family: Family::Workspace,
        build: |settings| {
            let bash =
                bash::Bash::new(settings.confiner.clone(), settings.bash_timeout).telling(&settings.reach);
            Some(Arc::new(bash.denying(settings.denied.clone())))
        },
        limits: |settings| bash::limits(settings.bash_timeout),
    },
    Native {
        name: run_shell::NAME,
        family: Family::Shell,
        build: |settings| {
            let (backend, denied) = (settings.backend.clone()?, settings.denied.clone());
            let tool = run_shell::RunShell::new(backend, settings.bash_timeout, denied);
            Some(Arc::new(if settings.one_call { tool.for_one_call() } else { tool }))
        },
        limits: |_| run_shell::limits(),
    },
    Native {
        name: files::READ,
        family: Family::Files,
        build: |settings| Some(Arc::new(files::ReadFile::new(settings.backend.clone()?))),
        limits: |_| files::limits(),
    },
    Native {
        name: files::WRITE,
        family: Family::Files,
        build: |settings| Some(Arc::new(files::WriteFile::new(settings.backend.clone()?))),
        limits: |_| files::limits(),
    },
    Native {
        name: screen::CAPTURE,
        family: Family::Screen,
        build: |settings| Some(Arc::new(screen::CapturePane::new(settings.paned()?))),
        limits: |_| screen::limits(),
    },
    Native {
        name: screen::SEND,
        family: Family::Screen,
        build: |settings| Some(Arc::new(screen::SendKeys::new(settings.paned()?))),
        limits: |_| screen::limits(),
    },
];

/// Whether a tool of this name acts where the backend is.
pub fn is_of_target(name: &str) -> bool {
    NATIVE.iter().any(|native| native.family != Family::Workspace && native.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests;
