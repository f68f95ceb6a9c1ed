//! The tmux session: its name, its server and its pane's process. The server is haft's own, so that no user
//! configuration changes its behaviour and none of the user's panes can be addressed. Refuses names with a
//! meaning to tmux.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::HostContext;
use crate::backend::script::{Script, quoted};
use crate::backend::{BackendConfig, Place};
use crate::error::{BackendError, check_name};
use crate::process::attached;
use haft_core::encoding::hex;
use haft_core::lookup::{find_on_path, search_path};

/// The default name of the session.
const NAME: &str = "haft";
/// Limit on the characters of a name.
const MAX_NAME: usize = 48;
/// Shells for a local pane if `SHELL` names no known shell.
const SHELLS: &[&str] = &["bash", "sh"];
/// Supported shells of a pane.
const KNOWN: &[&str] = &["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish"];

#[derive(Clone, Debug)]
pub(super) struct TmuxSession {
    pub(super) name: String,
    pub(super) is_local: bool,
    /// The arguments of tmux, quoted for the target's shell.
    tmux: String,
    /// The command line of the pane's process; empty for the default shell.
    shell: String,
    /// A digest of the pane's rights: a pane with other rights is not used.
    key: String,
}

impl TmuxSession {
    /// Returns the session of a backend; `wrapper` is the prefix of confined commands on another host.
    pub(super) fn new(
        choice: &BackendConfig,
        host_context: &HostContext,
        wrapper: &str,
    ) -> Result<Self, BackendError> {
        let name = choice.session.clone().unwrap_or_else(|| NAME.to_owned());
        check(&name)?;
        let is_local = choice.place == Place::Local;
        if !is_local {
            let shell = choice.shell.as_deref().map(quoted);
            let shell = match (wrapper, shell) {
                // Like `exec` into a container: a login shell would set another PATH.
                ("", None) if matches!(choice.place, Place::Container { .. }) => {
                    r#"exec "${SHELL:-sh}""#.to_owned()
                }
                ("", shell) => shell.unwrap_or_default(),
                (wrapper, shell) => {
                    let shell = shell.unwrap_or_else(|| r#""${SHELL:-sh}""#.to_owned());
                    format!("exec {wrapper} --terminal -- {shell}")
                }
            };
            let key = digest(&shell);
            return Ok(Self { name, is_local, tmux: "-u -f /dev/null -L haft".to_owned(), shell, key });
        }
        let socket = host_context.state.join("tmux");
        let socket = quoted(&socket.to_string_lossy());
        let line = attached::command_line(host_context, &local_shell(choice)?);
        let key = digest(&line);
        // tmux is searched in folders that no tool can write; the confined pane has the full search path.
        let path = quoted(&format!("PATH={}", search_path().to_string_lossy()));
        let shell = format!("exec env {path} {line}");
        Ok(Self { name, is_local, tmux: format!("-u -f /dev/null -S {socket}"), shell, key })
    }

    pub(super) fn describe(&self, script: Script) -> Script {
        let script = script.with("tmux", &self.tmux).with("name", &self.name);
        script.with("key", &self.key).with("shell", &self.shell)
    }

    pub(super) fn attach(&self, target: &str) -> String {
        let line = format!("tmux {} attach -t {}", self.tmux.replace("-u -f /dev/null ", ""), self.name);
        if self.is_local { line } else { format!("{line}` on `{target}") }
    }
}

fn local_shell(choice: &BackendConfig) -> Result<PathBuf, BackendError> {
    let usual = std::env::var("SHELL").ok();
    let usual = usual.filter(|shell| KNOWN.iter().any(|known| shell.rsplit('/').next() == Some(*known)));
    let asked = choice.shell.clone().or(usual);
    let missing = || BackendError::Target("no shell for the pane was found in PATH".into());
    match asked {
        Some(path) if path.starts_with('/') => Ok(path.into()),
        Some(name) => find_on_path(&name)
            .ok_or_else(|| BackendError::Target(format!("the shell `{name}` was not found in PATH"))),
        None => SHELLS.iter().find_map(|name| find_on_path(name)).ok_or_else(missing),
    }
}

fn check(name: &str) -> Result<(), BackendError> {
    let expected = "expected at most 48 letters, digits, `_` and `-`, a letter or digit first";
    check_name(("tmux session", name), (&['_', '-'], MAX_NAME), expected)
}

fn digest(text: &str) -> String {
    let mut digits = hex(&Sha256::digest(text.as_bytes()));
    digits.truncate(16);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BE06: a session's name has no special meaning for tmux.
    #[test]
    fn a_session_s_name_means_nothing_to_tmux() {
        for name in ["haft", "work-2", "a_b"] {
            check(name).unwrap();
        }
        for name in ["", "-x", "a:b", "a.b", "a b", "=a", "%1", "a;b", &"x".repeat(49)] {
            assert!(check(name).is_err(), "{name}");
        }
    }
}
