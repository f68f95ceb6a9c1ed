//! bash parts words at `=` and `:` too and replaces what stands after them; haft's options are whole words. So the script
//! hands over the line as it was typed, and what bash has already is left out of the answers.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap_complete::engine::complete;
use clap_complete::env::{self, EnvCompleter};

/// The variable with the line as far as the cursor.
const LINE: &str = "_HAFT_LINE";

/// Of the part of the word that bash replaces.
const PART: &str = "_HAFT_PART";

/// What the script of the library calls haft with.
const CALL: &str = "_CLAP_IFS=\"$IFS\" \\";

/// bash, with its own idea of a word.
pub(super) struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        env::Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        env::Bash.is(name)
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
        env::Bash.write_registration(variable, name, bin, completer, &mut own)?;
        let line = format!("{LINE}=\"${{COMP_LINE:0:COMP_POINT}}\" {PART}=\"$2\" {CALL}");
        let own = String::from_utf8_lossy(&own).replace(CALL, &line);
        script.write_all(own.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        answer: &mut dyn Write,
    ) -> io::Result<()> {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let (line, part) = (variable(LINE), variable(PART));
        let Some(typed) = words_of(&line) else {
            return env::Bash.write_complete(command, words, folder, answer);
        };
        let word = typed.last().cloned().unwrap_or_default();
        let known = word.strip_suffix(&part).unwrap_or_default().to_owned();
        let at = typed.len().saturating_sub(1);
        let found = complete(command, typed.into_iter().map(OsString::from).collect(), at, folder)?;
        let values = found.iter().map(|found| found.get_value().to_string_lossy());
        let values = values.map(|value| value.strip_prefix(&known).unwrap_or(&value).to_owned());
        let separator = Some(variable("_CLAP_IFS")).filter(|separator| !separator.is_empty());
        answer.write_all(values.collect::<Vec<_>>().join(separator.as_deref().unwrap_or("\n")).as_bytes())
    }
}

/// The words of a line as far as it is typed, the last of which may be empty. `None` where a quote is open: bash knows
/// better.
pub(super) fn words_of(line: &str) -> Option<Vec<String>> {
    let mut words = shell_words::split(line).ok().filter(|words| !words.is_empty())?;
    if line.ends_with(char::is_whitespace) && !line.ends_with("\\ ") {
        words.push(String::new());
    }
    Some(words)
}

/// The words of the line that is completed, as far as they are known.
pub(super) fn typed() -> Vec<String> {
    let line = std::env::var(LINE).unwrap_or_default();
    words_of(&line).unwrap_or_else(|| {
        let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u10_a_word_that_bash_parts_is_one() {
        assert_eq!(words_of("haft call x --arg a=b").unwrap(), ["haft", "call", "x", "--arg", "a=b"]);
        assert_eq!(words_of("haft call ").unwrap(), ["haft", "call", ""]);
        assert_eq!((words_of("haft 'a"), words_of("")), (None, None));
    }

    #[test]
    fn u10_the_script_hands_over_the_line() {
        let mut script = Vec::new();
        Bash.write_registration("V", "haft", "haft", "haft", &mut script).unwrap();
        assert!(String::from_utf8(script).unwrap().contains("_HAFT_LINE=\"${COMP_LINE:0:COMP_POINT}\""));
    }
}
