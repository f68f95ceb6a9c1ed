//! The checks of a model's command line, and the commands that are always refused, before approval: a guard
//! against mistakes. It matches the text of a command, which can be written in many ways in a shell; the
//! protection against harm is the sandbox, the container or the account.

use serde_json::Value;

use haft_core::tool::{ToolError, may_run};

/// The default patterns.
pub const DEFAULT: &[&str] = &[
    "rm -rf /",
    "rm -rf /*",
    "mkfs*",
    "shutdown",
    "reboot",
    "halt",
    "poweroff",
    "dd of=/dev/*",
    ":(){ :|:& };:",
];

/// Characters that separate commands.
const BORDERS: &[char] = &[';', '&', '|', '\n', '(', ')', '{', '}', '`'];

/// Patterns of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denied(Vec<String>);

impl Denied {
    /// Returns these patterns. A pattern is a command line: its program, options and operands must all be
    /// present, in any order; `*` at the end of a word matches anything. A pattern with `(`, `|` or `;` is
    /// searched for literally, except for spaces.
    pub fn new(patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(patterns.into_iter().map(Into::into).collect())
    }

    /// Returns the reason why a command is refused.
    pub fn refusal(&self, command: &str) -> Option<String> {
        let pattern = self.0.iter().find(|pattern| is_meant(pattern, command))?;
        Some(format!("command blocked by shell_deny pattern `{pattern}`"))
    }
}

fn is_meant(pattern: &str, command: &str) -> bool {
    if pattern.contains(BORDERS) {
        let dense = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        return dense(command).contains(&dense(pattern));
    }
    let words: Vec<String> = pattern.split_whitespace().map(str::to_owned).collect();
    let pattern = SimpleCommand::of(&words);
    may_run(command, &|words, is_certain| is_certain && pattern.are_in(&SimpleCommand::of(words)))
}

/// A simple command: its program, the letters of its short options, its long options and its operands.
#[derive(Debug, Default)]
struct SimpleCommand {
    program: String,
    letters: Vec<char>,
    others: Vec<String>,
}

impl SimpleCommand {
    fn of(words: &[String]) -> Self {
        let (program, rest) =
            words.split_first().map_or(("", words), |(program, rest)| (program.as_str(), rest));
        let program = program.rsplit('/').next().unwrap_or_default().to_owned();
        let mut words = Self { program, ..Self::default() };
        for word in rest {
            match word.strip_prefix('-') {
                Some(letters) if !letters.is_empty() && !letters.starts_with('-') => {
                    words.letters.extend(letters.chars());
                }
                _ => words.others.push(match word.as_str() {
                    "--recursive" => {
                        words.letters.push('r');
                        continue;
                    }
                    "--force" => {
                        words.letters.push('f');
                        continue;
                    }
                    _ => word.clone(),
                }),
            }
        }
        words
    }

    fn are_in(&self, other: &Self) -> bool {
        matches(&self.program, &other.program)
            && self
                .letters
                .iter()
                .all(|letter| other.letters.iter().any(|given| given.eq_ignore_ascii_case(letter)))
            && self.others.iter().all(|word| other.others.iter().any(|given| matches(word, given)))
    }
}

fn matches(pattern: &str, word: &str) -> bool {
    match pattern.strip_suffix('*') {
        // `/*` matches itself, which a shell would expand.
        Some("/") => word == "/*",
        Some(beginning) => word.starts_with(beginning),
        None => pattern == word,
    }
}

/// Returns the argument `command`, of at most `most` bytes. `instead` is the hint for a longer one.
pub(super) fn command<'a>(arguments: &'a Value, most: usize, instead: &str) -> Result<&'a str, ToolError> {
    let command = arguments.get("command").and_then(Value::as_str).unwrap_or_default();
    let problem = if command.trim().is_empty() {
        "`command` is required: the command line to run".to_owned()
    } else if command.contains('\0') {
        "`command` has a NUL character, which is not allowed in a command line".to_owned()
    } else if command.len() > most {
        format!("`command` has {} bytes; the limit is {most}: {instead}", command.len())
    } else {
        return Ok(command);
    };
    Err(ToolError::InvalidArguments(problem))
}

/// Returns the reason why a command is refused, whether it was approved or not.
pub(super) fn refusal(arguments: &Value, denied: &Denied) -> Option<ToolError> {
    let command = arguments.get("command").and_then(Value::as_str)?;
    denied.refusal(command).map(ToolError::ExecutionFailed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RS08: a denied command is found in any form.
    #[test]
    fn a_denied_command_is_found_however_it_is_written() {
        let denied = Denied::new(DEFAULT.iter().copied());
        for command in [
            "rm -rf /",
            "rm -r -f /",
            "rm -fr /",
            "sudo rm -Rf /",
            "cd /; rm -rf /*",
            "rm --recursive --force /",
            "/sbin/reboot",
            "true && shutdown -h now",
            "mkfs.ext4 /dev/sda1",
            "dd if=x of=/dev/sda",
            ":(){ :|:& };:",
            "X=1 reboot",
            "if true; then reboot; fi",
            "echo $(reboot)",
            ":() { : | : & } ; :",
            "'reboot'",
            "sudo -u me reboot",
            "timeout 5 sh -c 'cd /; reboot'",
            "{reboot,now}",
            "{,reboot}",
            "bash <<< reboot",
            "find . -exec rm -rf / {} +",
        ] {
            assert!(denied.refusal(command).is_some(), "{command}");
        }
        assert_eq!(denied.refusal("reboot").unwrap(), "command blocked by shell_deny pattern `reboot`");
    }

    /// RS08: a command that only mentions a denied one is not denied.
    #[test]
    fn what_only_mentions_one_is_run() {
        let denied = Denied::new(DEFAULT.iter().copied());
        for command in [
            "grep reboot log",
            "rm -rf /tmp/x",
            "rm -rf ./",
            "echo shutdown",
            "dd if=/dev/zero of=file",
            "ls /",
            "rm -f /tmp/a",
            "cat mkfs.md",
            "git commit -m 'reboot the build'",
        ] {
            assert_eq!(denied.refusal(command), None, "{command}");
        }
        assert_eq!(Denied::default().refusal("reboot"), None);
    }
}
