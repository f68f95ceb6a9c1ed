//! Backends with real targets: tmux, a container, an ssh server. `.ci/steps/backends` provides them; without that
//! step the tests use only the targets of this machine, and report the omitted ones.

mod agent;
mod ends;
mod files;
pub(crate) mod host_context;
mod jobs;
mod left;
mod pane;
mod screen;
mod shell;
mod shims;
mod ssh;

pub(crate) use self::shims::{ENGINE, SSH, USUAL};
