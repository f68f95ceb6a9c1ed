//! Rules about command lines.
//!
//! **Who is guarded against.** A model, or a text that a model read, that writes a command to look like an allowed one
//! and do more: `git status; rm -rf ~`, `git status $(…)`, `git status > ~/.bashrc`, a second line.
//!
//! **What allows.** A rule with a star allows a command only where the shell makes exactly one program start with exactly
//! the words that stand there: no list, pipe, background, redirection, substitution, expansion, comment, assignment or
//! second line outside of quotes, and inside of double quotes nothing that a shell replaces. What is not known to be
//! plain is not allowed. A rule without a star allows the text that it is, byte for byte, whatever that is: a person has
//! seen all of it. A rule does not know programs: `git *` allows whatever `git` can be told to do, and that is much.
//!
//! **What refuses and asks.** Any part of a command counts: of a list, in a substitution, in quotes (a shell may be told to
//! run what is in them), in a text that a shell is to read (`<<<`), after `sudo`, `env`, `xargs` and their like. Where the
//! words are only known when the command runs (`$X`, `$(…)`), a rule counts that may be meant, judged by what stands
//! before. This finds what is written plainly, not what is hidden with intent (a script that is written first and then
//! run): that is the sandbox's job, and `otherwise` is there for whoever wants nothing but what is allowed.

mod parts;

use self::parts::{Parts, Quotes, UNKNOWN, is_held, restored};
use super::glob::Glob;

/// Words that another command may follow.
const LEADS: &[&str] = &[
    "sudo", "doas", "env", "nohup", "time", "command", "exec", "nice", "ionice", "setsid", "xargs",
    "timeout", "stdbuf", "eval", "sh", "bash", "dash", "zsh", "ksh", "busybox", "builtin", "trap", "then",
    "do", "else", "elif", "if", "while", "until", "!", "{", "function", "coproc", "su", "flock", "watch",
    "chroot", "unshare", "nsenter", "parallel",
];

/// Those of them that may have a word of their own before the command: a name, a file, a folder.
const WITH_OPERAND: &[&str] = &["function", "coproc", "su", "flock", "chroot"];

/// Programs that run what they read.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "busybox", "su"];

/// What comes before a text that a program is to read.
const HERE_STRING: &str = "<<<";

/// Words after which the words of another command stand.
const RUNS_NEXT: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// Words before a command that are passed over. What has more is taken for anything.
const MAX_LEADS: usize = 32;

/// How deep commands are looked for in quotes that stand in quotes. What is deeper is taken for anything.
const MAX_QUOTED: usize = 4;

/// Whether a rule that allows means this command.
pub(super) fn is_allowed(rule: &Glob, command: &str) -> bool {
    match rule.literal() {
        Some(exact) => exact == command,
        None => is_simple(command) && means(rule, command),
    }
}

/// Whether a rule that refuses or asks means this command, or a part of it.
///
/// Quotes are read in two ways: as if they were not there, and as what holds the words together that stand before a
/// command (`X="a b" rm x`).
pub(super) fn is_touched(rule: &Glob, command: &str) -> bool {
    let is_meant = |part: &String| is_part_meant(rule, part, MAX_QUOTED);
    means(rule, command.trim())
        || Parts::of(command, Quotes::Dropped).iter().any(is_meant)
        || is_run(rule, command, MAX_QUOTED)
}

/// Whether a part of a command is meant whose quotes hold words together. Each line counts by itself too: in one before
/// it there may be an apostrophe that opens nothing.
fn is_run(rule: &Glob, command: &str, depth: usize) -> bool {
    let lines = command.lines().filter(|line| line.len() < command.len());
    let parts = std::iter::once(command).chain(lines).flat_map(|text| Parts::of(text, Quotes::Kept));
    parts.into_iter().any(|part| is_part_meant(rule, &part, depth))
}

/// `git status *` means `git status` too.
fn means(rule: &Glob, command: &str) -> bool {
    rule.matches(command) || rule.matches(&format!("{command} "))
}

/// Whether a shell starts one program with the words that stand there, and does nothing else.
fn is_simple(command: &str) -> bool {
    let mut quote = None;
    let mut before = ' ';
    for c in command.chars() {
        let is_plain = match quote {
            Some('"') => !matches!(c, '$' | '`' | '\\' | '!'),
            Some(_) => true,
            None => matches!(c, '\'' | '"') || is_bare(c, before),
        };
        if !is_plain || c.is_control() {
            return false;
        }
        match quote {
            Some(open) if open == c => quote = None,
            None if matches!(c, '\'' | '"') => quote = Some(c),
            _ => {}
        }
        before = c;
    }
    let first = command.split(' ').find(|word| !word.is_empty());
    quote.is_none() && first.is_some_and(|word| !word.contains('='))
}

/// Whether `c` stands for itself outside of quotes, after `before`.
fn is_bare(c: char, before: char) -> bool {
    match c {
        ' ' | '_' | '-' | '.' | '/' | ':' | ',' | '+' | '@' | '%' => true,
        // `~x` is a home directory, also in `a=~x` and `a:~x`; `^a^b` and `=x` mean something to some shells.
        '~' | '^' | '=' => !matches!(before, ' ' | ':' | '=' | '\'' | '"'),
        c => c.is_ascii_alphanumeric(),
    }
}

/// Whether a part is meant from some word on that a command may begin with.
fn is_part_meant(rule: &Glob, part: &str, depth: usize) -> bool {
    let (words, read) = without_redirections(part);
    let starts = starts(&words);
    if starts.len() > MAX_LEADS {
        return true;
    }
    let mut lines = starts.iter().filter_map(|start| words.get(*start..));
    let is_shell = lines.clone().filter_map(<[&str]>::first).any(|word| may_be_shell(word));
    lines.any(|words| {
        is_meant_from(rule, words) || words.first().is_some_and(|word| is_told(rule, word, depth))
    }) || read.iter().any(|text| (is_shell || !text.starts_with(UNKNOWN)) && is_read(rule, text, depth))
}

/// Whether what is in the quotes of a word is a command that is meant.
fn is_told(rule: &Glob, word: &str, depth: usize) -> bool {
    word.contains(is_held) && is_read(rule, word, depth)
}

/// Whether a text is a command that is meant.
fn is_read(rule: &Glob, text: &str, depth: usize) -> bool {
    depth.checked_sub(1).is_none_or(|depth| is_run(rule, &restored(text), depth))
}

fn may_be_shell(word: &str) -> bool {
    word.contains(UNKNOWN) || SHELLS.contains(&name_of(word))
}

/// The words of a part that its program is given, and the texts that it is to read.
fn without_redirections(part: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut words, mut read, mut operator) = (Vec::new(), Vec::new(), None);
    for word in part.split_whitespace() {
        let end = word.find(|c: char| !matches!(c, '<' | '>' | '&' | '|')).unwrap_or(word.len());
        let (own, target) = match word.split_at_checked(end) {
            Some(parts) if word.starts_with(['<', '>']) => parts,
            _ => (operator.take().unwrap_or_default(), word),
        };
        match own {
            "" => words.push(word),
            own if target.is_empty() => operator = Some(own),
            HERE_STRING => read.push(target),
            _ => {}
        }
    }
    (words, read)
}

/// The places of the words that a command may begin with.
fn starts(words: &[&str]) -> Vec<usize> {
    let (mut is_led, mut is_value, mut has_operand, mut starts) = (true, false, false, Vec::new());
    for (index, word) in words.iter().enumerate() {
        if is_led {
            starts.push(index);
        }
        let leads = is_value || is_lead(word);
        let is_operand = is_led && !leads && std::mem::take(&mut has_operand);
        is_led = RUNS_NEXT.contains(word) || (is_led && (leads || is_operand));
        has_operand |= is_led && WITH_OPERAND.contains(&name_of(word));
        // Of `sudo -u me rm`, `me` may be the value of the option, or the command.
        is_value = word.starts_with('-');
    }
    starts
}

/// Whether a command may begin after the word; also after `NAME=value`.
fn is_lead(word: &str) -> bool {
    word.starts_with(['-', '+'])
        || word.starts_with(|c: char| c.is_ascii_digit())
        || word.contains('=')
        || LEADS.contains(&name_of(word))
}

/// The name of the program that the word means.
fn name_of(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_meant_from(rule: &Glob, words: &[&str]) -> bool {
    let Some((program, rest)) = words.split_first() else { return false };
    // What a shell makes of a program with a star in it is as unknown as `$X`.
    let is_known = matches!(*program, "[" | "[[" | "{");
    let program = if is_known { (*program).to_owned() } else { program.replace(['*', '?', '[', '{'], "\0") };
    let own = name_of(&program).to_owned();
    [program, own].into_iter().any(|program| {
        let line =
            std::iter::once(program.as_str()).chain(rest.iter().copied()).collect::<Vec<_>>().join(" ");
        let line = restored(&line);
        match line.split_once(UNKNOWN) {
            Some((known, _)) => rule.may_begin_with(known),
            None => means(rule, &line),
        }
    })
}

#[cfg(test)]
mod tests;
