//! What is known of the program on a line without doing anything for it: no component is compiled, no server started,
//! and what nobody agreed to is left out.

use std::path::PathBuf;
use std::time::Duration;

use tokio::runtime::Builder;

use super::bash;
use crate::cli::trusted;
use haft::program::{Ask, FILE_NAME, Options, Program};
use haft_manifest::Manifest;

/// How long a user waits for an answer at most, whatever is slow.
const PATIENCE: Duration = Duration::from_secs(1);

/// Options that take the next word, besides `--program` and `--arg`.
const VALUED: &[&str] = &["--allow", "--container", "--ssh", "--nats", "--profile", "--coredump"];

/// What stands on the line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The program.toml that it names.
    program: Option<PathBuf>,
    /// The first word after the verb that is no option.
    pub(super) about: Option<String>,
    /// The arguments that have their values already.
    pub(super) given: Vec<String>,
}

impl Line {
    /// The line that is completed.
    pub(super) fn typed() -> Self {
        Self::of(&bash::typed())
    }

    fn of(words: &[String]) -> Self {
        let (mut line, mut verb) = (Self::default(), None);
        let mut words = words.iter().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "-p" | "--program" => line.program = words.next().map(PathBuf::from),
                "-a" | "--arg" => line.given.extend(words.next().and_then(|word| name(word))),
                word if VALUED.contains(&word) => drop(words.next()),
                word if word.starts_with('-') => {
                    line.program = word.strip_prefix("--program=").map(PathBuf::from).or(line.program);
                    line.given.extend(word.strip_prefix("--arg=").and_then(name));
                }
                word if verb.is_none() => verb = Some(word),
                word if line.about.is_none() => line.about = Some(word.to_owned()),
                _ => {}
            }
        }
        line
    }

    /// What its program.toml says, as far as it can be read; nothing of it counts.
    pub(super) fn manifest(&self) -> Option<Manifest> {
        Manifest::load(&self.program.clone().unwrap_or_else(|| FILE_NAME.into())).ok()
    }

    /// Its program, with the tools that are known.
    pub(super) fn program(self) -> Option<Program> {
        let trust = trusted::or_left_out(trusted::of_environment().ok()?);
        let program = self.program;
        let (ask, known_only, no_journal) = (Ask::Never, true, true);
        let options = Options { program, trust, ask, known_only, no_journal, ..Options::default() };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().ok()?;
        let loaded =
            runtime.block_on(async { tokio::time::timeout(PATIENCE, Program::load(&options)).await });
        runtime.shutdown_background();
        loaded.ok()?.ok()
    }
}

/// The name in `NAME=VALUE`.
fn name(pair: &str) -> Option<String> {
    pair.split_once('=').map(|(name, _)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u10_the_line_names_its_program_and_tool() {
        let line = |text: &str| Line::of(&bash::words_of(text).unwrap());
        let all = line("haft -p a.toml call --allow read=. x --arg one=1 --arg=two=2 --arg thr");
        let expected = Line {
            program: Some("a.toml".into()),
            about: Some("x".into()),
            given: vec!["one".into(), "two".into()],
        };
        assert_eq!(all, expected);
        assert_eq!(line("haft call --program=b.toml").program, Some("b.toml".into()));
    }
}
