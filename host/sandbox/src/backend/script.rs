//! Scripts for a target's `sh`: quoted values, and two ways to pass a script to a shell. Never puts a value on
//! a command line, where other users could see it and the target's login shell would expand it first.
//!
//! A shell is started with [`BOOT`], in which no shell finds anything to expand, and reads the rest from its
//! standard input.

use std::fmt::Write;

use crate::process::{ProcessError, watch};
use haft_core::encoding::hex;
use haft_core::random;

/// The start command of the target's shell: it runs the first line of its input.
pub(crate) const BOOT: &str = r#"IFS= read -r haft; eval "$haft""#;

/// Parts of scripts.
pub(crate) const PLAIN: &str = include_str!("scripts/plain.sh");
pub(crate) const TMUX: &str = include_str!("scripts/tmux.sh");
pub(crate) const OPEN: &str = include_str!("scripts/open.sh");
pub(crate) const FOLLOW: &str = include_str!("scripts/follow.sh");
pub(crate) const PANE: &str = include_str!("scripts/pane.sh");
pub(crate) const DISPATCH: &str = include_str!("scripts/dispatch.sh");
pub(crate) const FILE: &str = include_str!("scripts/file.sh");
pub(crate) const READ: &str = include_str!("scripts/read.sh");
pub(crate) const WRITE: &str = include_str!("scripts/write.sh");
pub(crate) const SCREEN: &str = include_str!("scripts/screen.sh");
pub(crate) const CAPTURE: &str = include_str!("scripts/capture.sh");
pub(crate) const KEYS: &str = include_str!("scripts/keys.sh");

/// Random bytes of an unguessable name.
const RANDOM: usize = 16;

/// A script with its nonce, which starts its status line.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) text: String,
    /// The first line of both streams, and the start of the status line.
    pub(crate) nonce: String,
    /// The line before the script, with which the target's shell becomes the shell that runs the script; empty for none.
    entry: String,
}

impl Script {
    pub(crate) fn new() -> Result<Self, ProcessError> {
        let nonce = unguessable()?;
        Ok(Self { text: String::new(), nonce: nonce.clone(), entry: String::new() }.with("nonce", &nonce))
    }

    /// Sets the variable `haft_NAME`.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.text, "haft_{name}={}", quoted(value));
        self
    }

    #[must_use]
    pub(crate) fn then(mut self, part: &str) -> Self {
        self.text.push_str(part);
        self.text.push('\n');
        self
    }

    /// Has the script run by a shell that the command prefix `wrapper` starts in `directory`, which is empty for the
    /// target's default.
    #[must_use]
    pub(crate) fn wrapped(mut self, wrapper: &str, directory: &str) -> Self {
        let (nonce, boot) = (&self.nonce, quoted(BOOT));
        let directory = quoted(if directory.is_empty() { "." } else { directory });
        self.entry = line(&format!(
            "cd -- {directory} 2>/dev/null || {{ echo {nonce}; echo '{nonce} !directory'; exit; }} >&2
            exec {wrapper} sh -c {boot}"
        ));
        self
    }

    /// Returns the text with a prefix that prints the nonce on both streams: start-up files of a login shell
    /// may have printed something before.
    fn announced(&self) -> String {
        let Self { text, nonce, .. } = self;
        format!("echo {nonce}; echo {nonce} >&2\n{text}")
    }

    /// Returns the first bytes of standard input, if no data follows.
    pub(crate) fn alone(&self) -> Vec<u8> {
        let text = self.announced();
        format!("{}eval \"$(head -c {})\"\n{text}", self.entry, text.len()).into_bytes()
    }

    /// Returns the first bytes of standard input, if data follows: one line, since a shell reads a line byte by
    /// byte and consumes nothing after it.
    pub(crate) fn before_data(&self) -> Vec<u8> {
        format!("{}{}", self.entry, line(&self.announced())).into_bytes()
    }
}

/// Returns one line that runs `text`.
fn line(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\n', "\\n");
    format!("eval \"$(printf %b {})\"\n", quoted(&escaped))
}

/// Quotes `value` as one word, for any shell with single quotes.
pub(crate) fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// Returns an unguessable word of hexadecimal digits.
pub(crate) fn unguessable() -> Result<String, ProcessError> {
    let random = random::bytes::<RANDOM>().map_err(watch("create a random name"))?;
    Ok(hex(&random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_word_whatever_it_holds() {
        assert_eq!(quoted("a'b"), r"'a'\''b'");
        assert_eq!(quoted("$(id)\n`x` \\"), "'$(id)\n`x` \\'");
    }

    /// FL02: a script before data is one line, whatever its content.
    #[test]
    fn a_script_before_data_is_one_line() {
        let script = Script::new().unwrap().with("path", "a\nb\\n'c").then("echo");
        let line = script.before_data();
        assert_eq!(String::from_utf8_lossy(&line).matches('\n').count(), 1);
        assert!(line.ends_with(b"\n"));
    }

    /// MK04: every script has its own random end marker.
    #[test]
    fn no_two_scripts_end_with_the_same_word() {
        let (one, two) = (Script::new().unwrap(), Script::new().unwrap());
        assert!(one.nonce.len() == 32 && one.nonce != two.nonce);
    }
}
