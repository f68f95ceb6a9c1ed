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
//! run what is in them), after `sudo`, `env`, `xargs` and their like. Where the words are only known when the command
//! runs (`$X`, `$(…)`), a rule counts that may be meant, judged by what stands before. This finds what is written
//! plainly, not what is hidden with intent (a script that is written first and then run): that is the sandbox's job, and
//! `otherwise` is there for whoever wants nothing but what is allowed.

use super::glob::Glob;

/// Words that another command may follow.
const LEADS: &[&str] = &[
    "sudo", "doas", "env", "nohup", "time", "command", "exec", "nice", "ionice", "setsid", "xargs",
    "timeout", "stdbuf", "eval", "sh", "bash", "dash", "zsh", "ksh", "busybox", "builtin", "trap", "then",
    "do", "else", "elif", "if", "while", "until", "!", "{",
];

/// Words after which the words of another command stand.
const RUNS_NEXT: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// Words before a command that are passed over. What has more is taken for anything.
const MAX_LEADS: usize = 32;

/// What is only known when the command runs. No command line has this character.
const UNKNOWN: char = '\0';

/// Whether a rule that allows means this command.
pub(super) fn is_allowed(rule: &Glob, command: &str) -> bool {
    match rule.literal() {
        Some(exact) => exact == command,
        None => is_simple(command) && means(rule, command),
    }
}

/// Whether a rule that refuses or asks means this command, or a part of it.
pub(super) fn is_touched(rule: &Glob, command: &str) -> bool {
    means(rule, command.trim()) || Parts::of(command).iter().any(|part| is_part_meant(rule, part))
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
fn is_part_meant(rule: &Glob, part: &str) -> bool {
    let words = without_redirections(part);
    let starts = starts(&words);
    let mut lines = starts.iter().take(MAX_LEADS).filter_map(|start| words.get(*start..));
    lines.any(|words| is_meant_from(rule, words)) || starts.len() > MAX_LEADS
}

/// The words of a part that its program is given.
fn without_redirections(part: &str) -> Vec<&str> {
    let mut is_target = false;
    let is_word = |word: &&str| {
        let is_operator = word.starts_with(['<', '>']);
        let is_left = !is_operator && !is_target;
        is_target = is_operator && word.chars().all(|c| matches!(c, '<' | '>' | '&'));
        is_left
    };
    part.split_whitespace().filter(is_word).collect()
}

/// The places of the words that a command may begin with.
fn starts(words: &[&str]) -> Vec<usize> {
    let (mut is_led, mut is_value, mut starts) = (true, false, Vec::new());
    for (index, word) in words.iter().enumerate() {
        if is_led {
            starts.push(index);
        }
        is_led = RUNS_NEXT.contains(word) || (is_led && (is_value || is_lead(word)));
        // Of `sudo -u me rm`, `me` may be the value of the option, or the command.
        is_value = word.starts_with('-');
    }
    starts
}

/// Whether a command may begin after the word.
fn is_lead(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    word.starts_with(['-', '+'])
        || word.starts_with(|c: char| c.is_ascii_digit())
        || LEADS.contains(&name)
        || is_setting(word)
}

/// `NAME=value` before a command.
fn is_setting(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

fn is_meant_from(rule: &Glob, words: &[&str]) -> bool {
    let Some((program, rest)) = words.split_first() else { return false };
    // What a shell makes of a program with a star in it is as unknown as `$X`.
    let is_known = matches!(*program, "[" | "[[" | "{");
    let program = if is_known { (*program).to_owned() } else { program.replace(['*', '?', '[', '{'], "\0") };
    let own = program.rsplit('/').next().unwrap_or_default().to_owned();
    [program, own].into_iter().any(|program| {
        let line =
            std::iter::once(program.as_str()).chain(rest.iter().copied()).collect::<Vec<_>>().join(" ");
        match line.split_once(UNKNOWN) {
            Some((known, _)) => rule.may_begin_with(known),
            None => means(rule, &line),
        }
    })
}

/// The parts of a command line: what is between its operators, and what is substituted.
#[derive(Default)]
struct Parts {
    done: Vec<String>,
    /// The part that no other one stands around.
    outer: String,
    /// The parts inside of it, the innermost last, each with what ends it.
    inner: Vec<(char, String)>,
}

impl Parts {
    /// The parts without quotes and with [`UNKNOWN`] for what is substituted.
    fn of(command: &str) -> Vec<String> {
        let mut parts = Self::default();
        let mut characters = command.chars().peekable();
        while let Some(c) = characters.next() {
            let next = characters.peek().copied();
            match c {
                '\'' | '"' => {}
                // A line that goes on, or a character that stands for itself, and is not taken at its word.
                '\\' => _ = characters.next_if_eq(&'\n'),
                '$' | '<' | '>' if next == Some('(') => {
                    characters.next();
                    parts.begin_substituted(')');
                }
                '`' if parts.is_in('`') => parts.end_inner(),
                '`' => parts.begin_substituted('`'),
                '$' => parts.text().push(UNKNOWN),
                '(' => {
                    parts.end();
                    parts.inner.push((')', String::new()));
                }
                ')' => parts.end_inner(),
                '&' if next == Some('>') => {}
                '<' | '>' => {
                    parts.begin_redirection(c);
                    while let Some(more) = characters.next_if(|next| matches!(next, '<' | '>' | '&')) {
                        parts.text().push(more);
                    }
                }
                ';' | '&' | '|' | '\n' | '\r' => parts.end(),
                c => parts.text().push(c),
            }
        }
        let left = parts.inner.into_iter().map(|(_, text)| text).chain([parts.outer]);
        parts.done.into_iter().chain(left).filter(|part| !part.trim().is_empty()).collect()
    }

    /// The text of the innermost part.
    fn text(&mut self) -> &mut String {
        self.inner.last_mut().map_or(&mut self.outer, |(_, text)| text)
    }

    /// Ends the innermost part; another one begins.
    fn end(&mut self) {
        let ended = std::mem::take(self.text());
        self.done.push(ended);
    }

    /// Begins what is substituted, up to `end`.
    fn begin_substituted(&mut self, end: char) {
        self.text().push(UNKNOWN);
        self.inner.push((end, String::new()));
    }

    fn is_in(&self, end: char) -> bool {
        self.inner.last().is_some_and(|(own, _)| *own == end)
    }

    /// Ends an inner part, and goes on with what it stands in.
    fn end_inner(&mut self) {
        match self.inner.pop() {
            Some((_, text)) => self.done.push(text),
            // `)` of a `case`.
            None => self.end(),
        }
    }

    /// Begins a redirection, which ends a word. The number of a stream before it is no word.
    fn begin_redirection(&mut self, operator: char) {
        let text = self.text();
        let word = text.trim_end_matches(|c: char| c.is_ascii_digit());
        if word.is_empty() || word.ends_with(char::is_whitespace) {
            text.truncate(word.len());
        }
        text.extend([' ', operator]);
    }
}

#[cfg(test)]
mod tests;
