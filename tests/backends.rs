//! Backends with the real things: tmux, a container, a server of ssh. `.ci/steps/backends` brings them;
//! without it only what this machine has is tried, and what is left out is said.

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
