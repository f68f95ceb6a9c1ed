//! `haft self completions`: scripts for shells, and haft's answers when a shell completes a line.

mod candidates;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap::Args;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, complete};
use clap_complete::env::{self, Elvish, EnvCompleter, Fish, Powershell, Shells};
use clap_complete::{CompleteEnv, Shell};

use super::terminal::Terminal;
use super::{Cli, Exit};

/// The variable that marks a question of the shell's script.
const VARIABLE: &str = "HAFT_COMPLETE";

/// The value of the variable, and the command that the script runs.
const NAME: &str = "haft";

/// The supported shells.
const ALL: [&dyn EnvCompleter; 5] = [&BASH, &Elvish, &Fish, &Powershell, &ZSH];
const SHELLS: Shells<'static> = Shells(&ALL);

#[derive(Debug, Args)]
#[command(after_help = "\
At every Tab the script asks haft for the current verbs, options, tools and their arguments, plugins, servers, \
sessions and calls. This starts no server and compiles nothing. From a program.toml that you have not agreed \
to, only the names are read.

  haft self completions bash > ~/.local/share/bash-completion/completions/haft
  haft self completions zsh > ~/.zfunc/_haft              below `fpath=(~/.zfunc $fpath)` in ~/.zshrc
  haft self completions fish > ~/.config/fish/completions/haft.fish")]
pub(super) struct Completions {
    /// The shell that is to complete
    shell: Shell,
}

impl Completions {
    pub(super) fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let (mut script, shell) = (Vec::new(), self.shell.to_string());
        let writer = SHELLS.completer(&shell);
        let writer = writer.ok_or_else(|| anyhow::anyhow!("haft does not support the shell `{shell}`"))?;
        writer.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
        terminal.verbatim(&String::from_utf8(script)?)?;
        Ok(Exit::Success)
    }
}

/// Answers a shell that asks for the completions of a line. Returns whether a shell asked.
pub(crate) fn answered() -> bool {
    let asked =
        CompleteEnv::with_factory(Cli::grammar).var(VARIABLE).bin(NAME).completer(NAME).shells(SHELLS);
    let folder = std::env::current_dir().ok();
    // After an error there are no candidates: a message would appear within the line.
    asked.try_complete(std::env::args_os(), folder.as_deref()).unwrap_or(true)
}

/// Completes callable tools.
pub(super) fn tools() -> ArgValueCandidates {
    ArgValueCandidates::new(candidates::tools)
}

/// Completes `NAME=` for each argument of the tool on the line, and the values of the argument.
pub(super) fn arguments() -> ArgValueCompleter {
    ArgValueCompleter::new(candidates::arguments)
}

/// Completes rights for the program and each of its plugins.
pub(super) fn rights() -> ArgValueCandidates {
    ArgValueCandidates::new(candidates::rights)
}

/// Completes installed packages and the plugins of program.toml.
pub(super) fn plugins() -> ArgValueCandidates {
    ArgValueCandidates::new(candidates::plugins)
}

/// Completes the MCP servers of program.toml with a URL.
pub(super) fn servers() -> ArgValueCandidates {
    ArgValueCandidates::new(candidates::servers)
}

/// Completes the newest sessions.
pub(super) fn sessions() -> ArgValueCandidates {
    ArgValueCandidates::new(candidates::sessions)
}

/// Completes the newest calls of the journal.
pub(super) fn calls() -> ArgValueCandidates {
    ArgValueCandidates::new(candidates::calls)
}

/// A shell with a modified script of the library.
struct Patched {
    own: &'static dyn EnvCompleter,
    /// Parts of the library's script, and their replacements.
    parts: &'static [(&'static str, &'static str)],
    /// Whether the script passes the line to haft.
    has_line: bool,
}

/// bash splits words at `=` and `:` too, and replaces only the text after them; haft's options are whole words. The
/// script therefore passes the typed line, and answers omit the part that bash does not replace.
const BASH: Patched = Patched {
    own: &env::Bash,
    parts: &[(
        "_CLAP_IFS=\"$IFS\" \\",
        "_HAFT_LINE=\"${COMP_LINE:0:COMP_POINT}\" _HAFT_PART=\"$2\" _CLAP_IFS=\"$IFS\" \\",
    )],
    has_line: true,
};

/// zsh appends a blank to a completed word. A completion that ends with `=` is incomplete, and gets no blank.
const ZSH: Patched = Patched {
    own: &env::Zsh,
    parts: &[
        ("local -a other=()", "local -a other=() open=()"),
        (
            "if [[ \"$value\" == */ ]]; then",
            "if [[ \"$completion\" == *=:* || \"$completion\" == *= ]]; then\n                open+=(\"$completion\")\n            \
             elif [[ \"$value\" == */ ]]; then",
        ),
        (
            "[[ -n $other ]] && _describe -V 'values' other",
            "[[ -n $other ]] && _describe -V 'values' other\n        [[ -n $open ]] && _describe -V 'values' open -S ''",
        ),
    ],
    has_line: false,
};

impl EnvCompleter for Patched {
    fn name(&self) -> &'static str {
        self.own.name()
    }

    fn is(&self, name: &str) -> bool {
        self.own.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        bin: &str,
        completer: &str,
        script: &mut dyn Write,
    ) -> io::Result<()> {
        let mut own = Vec::new();
        self.own.write_registration(variable, name, bin, completer, &mut own)?;
        let own = String::from_utf8_lossy(&own).into_owned();
        let own = self.parts.iter().fold(own, |own, (there, here)| own.replace(there, here));
        script.write_all(own.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        answer: &mut dyn Write,
    ) -> io::Result<()> {
        let line = std::env::var(LINE).ok().filter(|_| self.has_line);
        match line.and_then(|line| words_of(&line)) {
            Some(typed) => complete_rest(command, typed, folder, answer),
            None => self.own.write_complete(command, words, folder, answer),
        }
    }
}

/// The variable with the line up to the cursor.
const LINE: &str = "_HAFT_LINE";

/// The variable with the part of the word that bash replaces.
const PART: &str = "_HAFT_PART";

/// Answers with completions of the last typed word, without the part that bash does not replace.
fn complete_rest(
    command: &mut clap::Command,
    typed: Vec<String>,
    folder: Option<&Path>,
    answer: &mut dyn Write,
) -> io::Result<()> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let word = typed.last().cloned().unwrap_or_default();
    let known = word.strip_suffix(&variable(PART)).unwrap_or_default().to_owned();
    let at = typed.len().saturating_sub(1);
    let found = complete(command, typed.into_iter().map(OsString::from).collect(), at, folder)?;
    let values = found.iter().map(|found| found.get_value().to_string_lossy());
    let values = values.map(|value| value.strip_prefix(&known).unwrap_or(&value).to_owned());
    let separator = Some(variable("_CLAP_IFS")).filter(|separator| !separator.is_empty());
    answer.write_all(values.collect::<Vec<_>>().join(separator.as_deref().unwrap_or("\n")).as_bytes())
}

/// Splits a typed line into words; the last may be empty. Returns `None` if a quote is open: the words of bash are
/// used then.
fn words_of(line: &str) -> Option<Vec<String>> {
    let mut words = shell_words::split(line).ok().filter(|words| !words.is_empty())?;
    if line.ends_with(char::is_whitespace) && !line.ends_with("\\ ") {
        words.push(String::new());
    }
    Some(words)
}

/// Returns the words of the line, as far as they are known.
fn typed() -> Vec<String> {
    let line = std::env::var(LINE).unwrap_or_default();
    words_of(&line).unwrap_or_else(|| {
        let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// U10: a word with a separator of bash stays one word.
    #[test]
    fn a_word_that_bash_parts_is_one() {
        assert_eq!(words_of("haft call x --arg a=b").unwrap(), ["haft", "call", "x", "--arg", "a=b"]);
        assert_eq!(words_of("haft call ").unwrap(), ["haft", "call", ""]);
        assert_eq!((words_of("haft 'a"), words_of("")), (None, None));
    }

    /// U10: the script for bash passes the line up to the cursor.
    #[test]
    fn the_script_hands_over_the_line() {
        let mut script = Vec::new();
        BASH.write_registration("V", "haft", "haft", "haft", &mut script).unwrap();
        assert!(String::from_utf8(script).unwrap().contains("_HAFT_LINE=\"${COMP_LINE:0:COMP_POINT}\""));
    }

    /// U10: the script for zsh completes names of arguments without a space after them.
    #[test]
    fn the_script_leaves_names_of_arguments_open() {
        let mut script = Vec::new();
        ZSH.write_registration("V", "haft", "haft", "haft", &mut script).unwrap();
        let script = String::from_utf8(script).unwrap();
        for (_, here) in ZSH.parts {
            assert!(script.contains(here), "{here}: {script}");
        }
    }
}
