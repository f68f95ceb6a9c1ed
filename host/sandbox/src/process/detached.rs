//! Starts the only process that outlives haft: the tmux server on this machine, to which a person attaches.
//! Every command in it is started by `haft exec`, confined and supervised. The server does not get haft's own
//! environment, which contains keys.

use std::io;
use std::path::Path;
use std::process::{Output, Stdio};

use tokio::process::Command;

use crate::process::start::ENVIRONMENT;

/// Environment variables of tmux, in addition to those of every child.
const MORE: &[&str] = &["PATH", "SHELL", "XDG_RUNTIME_DIR"];

/// Runs `script` with `sh`, without supervision that would end its background processes. The script must end
/// soon; tmux's server continues. If the future is dropped before the end, the script is killed.
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
