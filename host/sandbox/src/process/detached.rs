//! Starts the one thing that is to outlive haft: a session of tmux on this machine, which a person
//! attaches to. Everything that runs in it is started by way of `haft exec`, confined and watched. It
//! refuses to hand the session haft's own environment, which holds keys.

use std::io;
use std::path::Path;
use std::process::{Output, Stdio};

use tokio::process::Command;

use crate::process::start::ENVIRONMENT;

/// What tmux sees of the environment besides what every child does.
const MORE: &[&str] = &["PATH", "SHELL", "XDG_RUNTIME_DIR"];

/// Runs `script` with `sh`, outside of everything that would end what it leaves behind. It has to end
/// by itself and soon; tmux's server goes on.
/// Dropped before its end, the script is killed.
#[expect(clippy::disallowed_methods, reason = "starts tmux's server, which nothing of haft may watch over")]
pub(crate) async fn start(script: &str) -> io::Result<Output> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).env_clear().current_dir(Path::new("/"));
    let is_kept = |name: &str| ENVIRONMENT.contains(&name) || MORE.contains(&name) || name.starts_with("LC_");
    command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept)));
    command.env("TERM", "xterm-256color");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true).output().await
}
