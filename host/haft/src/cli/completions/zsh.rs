//! zsh ends a word that it completes with a blank; what ends with `=` is only the beginning of one.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap_complete::env::{self, EnvCompleter};

/// What stands in the script of the library, and what takes its place.
const OTHERWISE: &[(&str, &str)] = &[
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
];

/// zsh, which leaves open what is not whole.
pub(super) struct Zsh;

impl EnvCompleter for Zsh {
    fn name(&self) -> &'static str {
        env::Zsh.name()
    }

    fn is(&self, name: &str) -> bool {
        env::Zsh.is(name)
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
        env::Zsh.write_registration(variable, name, bin, completer, &mut own)?;
        let own = String::from_utf8_lossy(&own).into_owned();
        let own = OTHERWISE.iter().fold(own, |own, (there, here)| own.replace(there, here));
        script.write_all(own.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        answer: &mut dyn Write,
    ) -> io::Result<()> {
        env::Zsh.write_complete(command, words, folder, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u10_the_script_leaves_names_of_arguments_open() {
        let mut script = Vec::new();
        Zsh.write_registration("V", "haft", "haft", "haft", &mut script).unwrap();
        let script = String::from_utf8(script).unwrap();
        for (_, here) in OTHERWISE {
            assert!(script.contains(here), "{here}: {script}");
        }
    }
}
