//! Finds the positions in the words of a command where another command may begin. Knows programs by name only.

use super::parts::UNKNOWN;

/// Words that another command follows.
const LEADS: &[&str] = &[
    "sudo", "doas", "env", "nohup", "time", "command", "exec", "nice", "ionice", "setsid", "xargs",
    "timeout", "stdbuf", "eval", "sh", "bash", "dash", "zsh", "ksh", "busybox", "builtin", "trap", "then",
    "do", "else", "elif", "if", "while", "until", "!", "{", "function", "coproc", "su", "flock", "watch",
    "chroot", "unshare", "nsenter", "parallel",
];

/// The programs that may have an operand before the command: a name, a file, a folder.
const WITH_OPERAND: &[&str] = &["function", "coproc", "su", "flock", "chroot"];

/// Words after which the words of another command follow.
const RUNS_NEXT: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// Programs that run the text that they read.
const SHELLS: &[&str] =
    &["sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "busybox", "su", "sudo", "eval", ".", "source"];

/// Programs that run their standard input, regardless of their other arguments.
const ALWAYS_READING: &[&str] = &["ssh", "at", "batch"];

/// Programs that run their standard input if they have no other argument.
const READERS: &[&str] = &["python", "python3", "perl", "ruby", "node", "php", "lua", "tclsh", "psql"];

/// Programs that add words to the command that they run.
const ADDING: &[&str] = &["xargs", "parallel", "rush", "fd", "fdfind"];

#[rustfmt::skip]
const GIT_MARKERS: &[&str] = &[
    "foreach", "run", "-x", "--exec", "--extcmd", "filter-branch", "--open-files-in-pager", "--upload-pack", "--receive-pack",
];

/// Programs whose words are not commands, and the words after which they are. Every other program may run its
/// words.
const INERT: &[(&[&str], &[&str])] = &[
    (
        &[
            "echo", "printf", "cat", "ls", "grep", "egrep", "fgrep", "head", "tail", "cd", "pwd", "mkdir",
            "rmdir", "touch", "cp", "mv", "rm", "ln", "chmod", "chown", "wc", "sort", "uniq", "cut", "tr",
            "diff", "cmp", "stat", "file", "du", "df", "date", "test", "[", "[[", "true", "false", ":",
            "export", "unset", "declare", "local", "readonly", "type", "which", "whereis", "basename",
            "dirname", "realpath", "readlink", "sleep", "kill", "pkill", "killall", "curl", "wget", "jq",
            "yq", "tee", "read", "return", "exit", "set", "shift", "for", "case", "select", "less", "more",
            "tree", "pgrep", "ps", "sed", "apt", "apt-get", "dnf", "brew", "pacman", "pip", "pip3", "base64",
            "dd",
        ],
        &[],
    ),
    (&["sha256sum"], &[]),
    (&["find", "rg"], &["--pre"]),
    (&["man"], &["-P", "--pager"]),
    (&["git"], GIT_MARKERS),
    (&["gh", "glab"], &["alias", "ssh"]),
    (&["docker", "podman", "nerdctl", "docker-compose", "podman-compose"], &["exec", "run", "create"]),
    (&["kubectl", "oc"], &["exec", "run", "debug", "--"]),
    (&["npm", "pnpm", "yarn", "bun"], &["exec", "x", "dlx", "--", "explore"]),
    (&["cargo"], &["run", "watch", "--", "-x", "-s", "--exec"]),
    (&["go"], &["run", "tool", "-exec", "-toolexec"]),
];

/// Suffixes of the names of settings whose values are commands.
const COMMAND_NAMES: &[&str] = &["command", "pager", "editor", "shell", "browser", "askpass"];

/// A place where a command may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// The index of the first word.
    pub(super) index: usize,
    /// Whether a shell, or a known program, certainly runs the words there.
    pub(super) is_certain: bool,
}

/// The meaning of the words after a program.
enum After {
    /// Perhaps another command.
    Anything,
    /// Data, up to one of these words.
    Data(&'static [&'static str]),
}

/// Returns the places of the words that a command may begin with. With `is_data_run` the output of programs is
/// run too, so that every word may begin one.
pub(super) fn starts(words: &[&str], is_data_run: bool) -> Vec<Start> {
    let (mut is_led, mut is_value, mut has_operand, mut starts) = (true, false, false, Vec::new());
    let mut after = After::Data(&[]);
    for (index, word) in words.iter().enumerate() {
        let leads = is_value || is_lead(word);
        if is_led || after.may_be_command(word) {
            starts.push(Start { index, is_certain: is_led });
        }
        after = match after {
            _ if is_led && !is_lead(word) && !is_data_run => after_program(word),
            After::Data(markers) if !is_data_run && !is_marker(markers, word) => After::Data(markers),
            _ => After::Anything,
        };
        let is_operand = is_led && !leads && std::mem::take(&mut has_operand);
        is_led = RUNS_NEXT.contains(word) || (is_led && (leads || is_operand));
        has_operand |= is_led && WITH_OPERAND.contains(&name_of(word));
        // In `sudo -u me rm`, `me` may be the value of the option, or the command.
        is_value = word.starts_with('-') && !RUNS_NEXT.contains(word);
    }
    starts
}

impl After {
    /// Returns whether a command may begin in or with this word, which no program is known to run.
    fn may_be_command(&self, word: &str) -> bool {
        match self {
            Self::Anything => true,
            // `--exec='rm x'`
            Self::Data(markers) => word.contains('=') && is_marker(markers, word),
        }
    }
}

fn is_marker(markers: &[&str], word: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    markers.contains(&name)
}

fn after_program(word: &str) -> After {
    let name = name_of(word);
    let known = INERT.iter().find(|(names, _)| names.contains(&name));
    known.map_or(After::Anything, |(_, markers)| After::Data(markers))
}

/// Returns whether a command may begin after the word; also after `NAME=value`.
fn is_lead(word: &str) -> bool {
    word.starts_with(['-', '+'])
        || word.starts_with(|c: char| c.is_ascii_digit())
        || word.contains('=')
        || LEADS.contains(&name_of(word))
}

/// Returns whether these words run their piped input, or the output of a substitution.
pub(super) fn is_reader(words: &[&str]) -> bool {
    let has_operand =
        |rest: &[&str]| rest.iter().any(|word| !word.starts_with(['-', '+']) && !word.contains(UNKNOWN));
    let is_adding = adds_words(words);
    starts(words, false).iter().filter_map(|start| words.get(start.index..)?.split_first()).any(
        |(word, rest)| {
            let (name, reads) = (name_of(word), |names: &[&str]| names.contains(&name_of(word)));
            ALWAYS_READING.contains(&name)
                || reads(READERS) && !has_operand(rest)
                || reads(SHELLS) && (is_adding || !has_operand(rest))
        },
    )
}

pub(super) fn may_be_shell(word: &str) -> bool {
    word.contains(UNKNOWN) || SHELLS.contains(&name_of(word))
}

/// Returns whether a program among the words adds words to its command.
pub(super) fn adds_words(words: &[&str]) -> bool {
    let adding = words.iter().position(|word| ADDING.contains(&name_of(word)));
    let own = adding.and_then(|index| words.get(index + 1..)).unwrap_or_default();
    own.iter().any(|word| !is_lead(word))
}

/// Returns the value of a setting that is a command: `GIT_SSH_COMMAND=…`, `core.pager=…`, `alias.x=!…`, `!…`.
pub(super) fn command_setting(word: &str) -> Option<&str> {
    if word.len() > 1 && word.starts_with('!') {
        return Some(word);
    }
    let (name, value) = word.split_once('=')?;
    let name = name.to_ascii_lowercase();
    let is_command = COMMAND_NAMES.iter().any(|end| name.ends_with(end)) || value.starts_with('!');
    is_command.then_some(value)
}

/// Returns the name of the program that the word means.
pub(super) fn name_of(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}
