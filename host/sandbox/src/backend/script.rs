//! Scripts for a target's `sh`: values quoted so that nothing in them is taken for anything else, and
//! the two ways in which a shell is handed a script. It refuses to put a value on a command line,
//! where others would see it and the login shell of the target would read it first.
//!
//! A shell is started with [`BOOT`], in which no shell finds anything to expand, and hears the rest
//! on its standard input.

use std::fmt::Write;

use crate::process::{ProcessError, watch};
use haft_core::encoding::hex;
use haft_core::random;

/// What the target's shell is started with: it runs the first line that it reads.
pub(crate) const BOOT: &str = r#"IFS= read -r haft; eval "$haft""#;

/// Parts of scripts that haft brings.
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

/// A script under way, with the word that its last line begins with.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    text: String,
    nonce: String,
}

impl Script {
    /// An empty one.
    pub(crate) fn new() -> Result<Self, ProcessError> {
        let nonce = unguessable()?;
        Ok(Self { text: String::new(), nonce: nonce.clone() }.with("nonce", &nonce))
    }

    /// Sets the variable `haft_NAME`.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.text, "haft_{name}={}", quoted(value));
        self
    }

    /// Adds a part as it is.
    #[must_use]
    pub(crate) fn then(mut self, part: &str) -> Self {
        self.text.push_str(part);
        self.text.push('\n');
        self
    }

    /// What both streams begin with, and the last line on standard error.
    pub(crate) fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The whole of it, for a shell that is given it as an argument.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The whole of it, which first says on both streams that it begins: a login shell's start-up files may have
    /// written to them.
    fn announced(&self) -> String {
        let Self { text, nonce } = self;
        format!("echo {nonce}; echo {nonce} >&2\n{text}")
    }

    /// The first bytes on standard input where nothing but the end is to follow.
    pub(crate) fn alone(&self) -> Vec<u8> {
        let text = self.announced();
        format!("eval \"$(head -c {})\"\n{text}", text.len()).into_bytes()
    }

    /// The first bytes on standard input where data follows: one line, since a shell reads a line
    /// byte by byte and takes nothing of what comes after.
    pub(crate) fn before_data(&self) -> Vec<u8> {
        let escaped = self.announced().replace('\\', "\\\\").replace('\n', "\\n");
        format!("eval \"$(printf %b {})\"\n", quoted(&escaped)).into_bytes()
    }
}

/// `value` as one word of any shell that knows single quotes.
pub(crate) fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// An unguessable word of hexadecimal digits.
pub(crate) fn unguessable() -> Result<String, ProcessError> {
    let random = random::bytes::<RANDOM>().map_err(watch("make a name that nobody can guess"))?;
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

    /// FL02: what comes before data is one line, whatever it says.
    #[test]
    fn fl02_a_script_before_data_is_one_line() {
        let script = Script::new().unwrap().with("path", "a\nb\\n'c").then("echo");
        let line = script.before_data();
        assert_eq!(String::from_utf8_lossy(&line).matches('\n').count(), 1);
        assert!(line.ends_with(b"\n"));
    }

    #[test]
    fn mk04_no_two_scripts_end_with_the_same_word() {
        let (one, two) = (Script::new().unwrap(), Script::new().unwrap());
        assert!(one.nonce().len() == 32 && one.nonce() != two.nonce());
    }
}
