//! The session of tmux: its name, the server that has it, and what its pane runs. The server is haft's own, so that
//! no configuration changes its behaviour and no other pane of the user can be named. It refuses names that mean
//! something to tmux.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::HostContext;
use crate::backend::script::{Script, quoted};
use crate::backend::target::{BackendConfig, Place};
use crate::error::BackendError;
use crate::process::attached;
use haft_core::encoding::hex;
use haft_core::lookup::{find_on_path, search_path};

/// The session's name where none is given.
const NAME: &str = "haft";
/// Characters of a name.
const MAX_NAME: usize = 48;
/// Shells for a local pane where `SHELL` names none of them.
const SHELLS: &[&str] = &["bash", "sh"];
/// Shells that a pane can have.
const KNOWN: &[&str] = &["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish"];

/// A session and where it is.
#[derive(Clone, Debug)]
pub(super) struct TmuxSession {
    pub(super) name: String,
    pub(super) is_local: bool,
    /// tmux's own arguments, as the target's shell reads them.
    tmux: String,
    /// The command line of the pane's process; empty for the usual shell there.
    shell: String,
    /// Which rights the pane has: one for others is not used.
    key: String,
}

impl TmuxSession {
    /// `wrapper` stands before what is confined on another host.
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
                // As `exec` into a container starts one: a login shell would make itself another PATH.
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
        let line = attached::command_line(host_context, &own_shell(choice)?);
        let key = digest(&line);
        // tmux is found where no tool writes; what the pane runs is confined, and searches all that a command searches.
        let path = quoted(&format!("PATH={}", search_path().to_string_lossy()));
        let shell = format!("exec env {path} {line}");
        Ok(Self { name, is_local, tmux: format!("-u -f /dev/null -S {socket}"), shell, key })
    }

    /// Tells a script of it.
    pub(super) fn describe(&self, script: Script) -> Script {
        let script = script.with("tmux", &self.tmux).with("name", &self.name);
        script.with("key", &self.key).with("shell", &self.shell)
    }

    /// How a person attaches.
    pub(super) fn attach(&self, target: &str) -> String {
        let line = format!("tmux {} attach -t {}", self.tmux.replace("-u -f /dev/null ", ""), self.name);
        if self.is_local { line } else { format!("{line}` on `{target}") }
    }
}

/// The shell of a local pane.
fn own_shell(choice: &BackendConfig) -> Result<PathBuf, BackendError> {
    let usual = std::env::var("SHELL").ok();
    let usual = usual.filter(|shell| KNOWN.iter().any(|known| shell.rsplit('/').next() == Some(*known)));
    let asked = choice.shell.clone().or(usual);
    let missing = || BackendError::Missing("no shell for the pane was found in PATH".into());
    match asked {
        Some(path) if path.starts_with('/') => Ok(path.into()),
        Some(name) => find_on_path(&name)
            .ok_or_else(|| BackendError::Missing(format!("the shell `{name}` was not found in PATH"))),
        None => SHELLS.iter().find_map(|name| find_on_path(name)).ok_or_else(missing),
    }
}

fn check(name: &str) -> Result<(), BackendError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_name)
        && name.len() <= MAX_NAME
    {
        return Ok(());
    }
    Err(BackendError::Name {
        what: "tmux session",
        name: haft_core::report::plain(name),
        expected: "expected at most 48 letters, digits, `_` and `-`, a letter or digit first",
    })
}

/// A few characters that stand for `text`.
fn digest(text: &str) -> String {
    let mut digits = hex(&Sha256::digest(text.as_bytes()));
    digits.truncate(16);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn be06_a_session_s_name_means_nothing_to_tmux() {
        for name in ["haft", "work-2", "a_b"] {
            check(name).unwrap();
        }
        for name in ["", "-x", "a:b", "a.b", "a b", "=a", "%1", "a;b", &"x".repeat(49)] {
            assert!(check(name).is_err(), "{name}");
        }
    }
}
