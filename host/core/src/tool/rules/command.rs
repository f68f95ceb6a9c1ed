//! Rules about command lines.
//!
//! **Threat.** A model, or a text that a model read, writes a command that looks like an allowed one and does more:
//! `git status; rm -rf ~`, `git status $(…)`, `git status > ~/.bashrc`, a second line.
//!
//! **Allowing.** A rule with a star allows a command only if the shell starts exactly one program with exactly the
//! written words: no list, pipe, background, redirection, substitution, expansion, comment, assignment or second
//! line outside quotes, and inside double quotes nothing that a shell replaces. A command that is not known to be
//! plain is not allowed. A rule without a star allows exactly its own text, byte for byte, because the user has
//! seen all of it. Rules do not know programs: `git *` allows everything that `git` can do, including the start of
//! other programs.
//!
//! **Refusing and asking.** Every command that a shell may derive from the text counts: in a list, in a
//! substitution, in braces, in quotes (a shell may run their content), in a text that a shell reads (`<<<`,
//! `echo … | sh`), and after `sudo`, `env`, `xargs` and similar programs. For some programs the use of their
//! arguments is known (`starts`): `echo` and `grep` run none of them, `docker` runs those after `exec`. For every
//! other program each word and each quoted text may be a command, which may be a false alarm. Options before the
//! words of a rule are skipped (`line`): `git -C x push` is `git push`. If words are known only when the command
//! runs (`$X`, `$(…)`), a rule applies if it matches the words before them. These rules find plainly written
//! commands, not deliberately hidden ones (a script that is written first and then run, an encoded text): the
//! sandbox protects against those, and `otherwise` restricts an agent to allowed calls.

mod parts;
mod starts;

use std::collections::BTreeSet;

use self::parts::{Parts, Quotes, UNKNOWN, expanded, is_held, restored, without_redirections};
use self::starts::{Start, adds_words, command_setting, is_reader, may_be_shell, name_of, starts};
use crate::pattern::Glob;

/// Maximum number of skipped words before a command. With more, the command may be any.
const MAX_LEADS: usize = 32;

/// Maximum number of words of one program that may be commands. With more, the program may be any.
const MAX_STARTS: usize = 4096;

/// Maximum nesting of quotes in which commands are searched. Deeper text counts as any command.
const MAX_QUOTED: usize = 4;

/// Maximum number of letters of short options before a value in one word: `-qec'rm x'`.
const MAX_LETTERS: usize = 5;

/// Returns whether a rule that allows means this command.
pub(super) fn is_allowed(rule: &Glob, command: &str) -> bool {
    match rule.literal() {
        Some(exact) => exact == command,
        None => is_simple(command) && means(rule, command),
    }
}

/// Returns whether a rule that refuses or asks matches this command, or a part of it.
pub(super) fn is_touched(rule: &Glob, command: &str) -> bool {
    let line = Line::of(rule);
    means(rule, command.trim()) || may_run(command, &|words, is_certain| line.means(words, is_certain))
}

/// Returns whether `is_meant` accepts a command that `command` may run. It gets the words of each, and whether a
/// shell or a known program certainly runs them, or whether they are merely in a position where a program may run
/// them. `UNKNOWN` replaces text that is known only at run time. Text that is too deep or too long to analyse
/// counts as any command, and is accepted.
///
/// Quotes are read in two ways: ignored, and as delimiters of words before a command (`X="a b" rm x`).
pub fn may_run(command: &str, is_meant: &dyn Fn(&[String], bool) -> bool) -> bool {
    let reading =
        Reading { is_meant, depth: MAX_QUOTED, is_certain: true, is_data_run: false, is_whole: false };
    Parts::of(command, Quotes::Dropped).iter().any(|part| reading.part(part))
        || Reading { is_whole: true, ..reading }.text(command)
}

/// Returns whether a rule matches a command; `git status *` matches `git status` too.
fn means(rule: &Glob, command: &str) -> bool {
    rule.matches(command) || rule.matches(&format!("{command} "))
}

/// Returns whether a shell starts one program with exactly the written words, and does nothing else.
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

/// Returns whether `c` is an ordinary character outside quotes, after `before`.
fn is_bare(c: char, before: char) -> bool {
    match c {
        ' ' | '_' | '-' | '.' | '/' | ':' | ',' | '+' | '@' | '%' => true,
        // `~x` is a home directory, also in `a=~x` and `a:~x`; `^a^b` and `=x` mean something to some shells.
        '~' | '^' | '=' => !matches!(before, ' ' | ':' | '=' | '\'' | '"'),
        c => c.is_ascii_alphanumeric(),
    }
}

/// The interpretation of a text in which a command is searched.
#[derive(Clone, Copy)]
struct Reading<'s> {
    /// Returns whether a command is the searched one.
    is_meant: &'s dyn Fn(&[String], bool) -> bool,
    /// The remaining depth of nested quotes.
    depth: usize,
    /// Whether the text is certainly run.
    is_certain: bool,
    /// Whether a shell runs the output of other programs.
    is_data_run: bool,
    /// Whether quotes join words, so that the words of one program are known.
    is_whole: bool,
}

impl Reading<'_> {
    /// Returns whether a command in a text matches. Each line is also read separately: an apostrophe on the line
    /// before may open no quote.
    fn text(self, text: &str) -> bool {
        let lines = text.lines().filter(|line| line.len() < text.len());
        let texts = std::iter::once(text).chain(lines);
        let parts: Vec<String> = texts.flat_map(|text| Parts::of(text, Quotes::Kept)).collect();
        let is_reading = |part: &String| is_reader(&without_redirections(part).0);
        let is_data_run = parts.iter().any(is_reading);
        parts.iter().any(|part| Reading { is_data_run, ..self }.part(part))
    }

    /// Returns whether a part matches, from any word that may begin a command.
    fn part(self, part: &str) -> bool {
        let (words, read) = without_redirections(part);
        let words: Vec<String> = words.into_iter().flat_map(expanded).collect();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        let added = UNKNOWN.to_string();
        if adds_words(&words) {
            words.push(&added);
        }
        let mut starts = starts(&words, self.is_data_run);
        starts.retain(|start| start.is_certain || self.is_whole);
        if starts.len() > MAX_STARTS || starts.iter().filter(|start| start.is_certain).count() > MAX_LEADS {
            return true;
        }
        let firsts =
            starts.iter().filter(|start| start.is_certain).filter_map(|start| words.get(start.index));
        let is_shell = firsts.into_iter().any(|word| may_be_shell(word));
        let plain: Vec<String> = words.iter().map(|word| restored(word)).collect();
        let settings = words.iter().filter_map(|word| command_setting(word));
        starts.iter().any(|start| self.start(*start, (&words, &plain)))
            || settings.into_iter().any(|value| self.quoted(value))
            || read.iter().any(|text| (is_shell || !text.starts_with(UNKNOWN)) && self.quoted(text))
    }

    /// Returns whether a command matches that begins there, or is in the quotes of the word there.
    fn start(self, start: Start, (words, plain): (&[&str], &[String])) -> bool {
        let is_certain = start.is_certain && self.is_certain;
        let told = words.get(start.index).filter(|word| word.contains(is_held)).copied();
        plain.get(start.index..).is_some_and(|words| (self.is_meant)(words, is_certain))
            || told.is_some_and(|word| {
                let values = (!start.is_certain || word.starts_with('-')).then(|| values(word));
                let texts = std::iter::once(word).chain(values.into_iter().flatten());
                texts.into_iter().any(|text| Reading { is_certain, ..self }.quoted(text))
            })
    }

    /// Returns whether a text in quotes is a matching command.
    fn quoted(self, text: &str) -> bool {
        let text = restored(text).replace("\\n", "\n");
        let text = text.trim_start_matches('!');
        let depth = self.depth.checked_sub(1);
        depth.is_none_or(|depth| Reading { depth, is_whole: true, ..self }.text(text))
    }
}

/// Returns the possible values in a word that is an option with its value, or a setting.
fn values(word: &str) -> impl Iterator<Item = &str> {
    let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
    let ends =
        letters.char_indices().take_while(|(_, c)| c.is_ascii_alphabetic()).map(|(index, _)| index + 1);
    let attached = ends.take(MAX_LETTERS).filter_map(|end| letters.get(end..));
    word.split_once('=').map(|(_, value)| value).into_iter().chain(attached)
}

// A rule about a command line, word by word: options before the words of the rule are skipped.

/// Maximum number of positions of a rule's words. More count as any command.
const MAX_PLACES: usize = 64;

struct Line {
    /// The first words, up to the first one with a star.
    words: Vec<String>,
    /// The pattern after the words.
    rest: Glob,
}

impl Line {
    fn of(rule: &Glob) -> Self {
        let (words, rest) = rule.split_words();
        Self { words, rest }
    }

    /// Returns whether these words are a matching command; if it is not certain that they are a command, an unknown
    /// text is not taken for its program.
    fn means(&self, words: &[String], is_certain: bool) -> bool {
        let Some((program, rest)) = words.split_first() else { return false };
        let program = match program.trim_start_matches(['!', ':', '@']) {
            "" => program.as_str(),
            program => program,
        };
        // The expansion of a program name with a star is as unknown as `$X`.
        let is_known = matches!(program, "[" | "[[" | "{");
        let program = if is_known { program.to_owned() } else { program.replace(['*', '?', '['], "\0") };
        let is_path = is_certain || program.starts_with(['/', '.', '~']);
        let own = if is_path { name_of(&program) } else { &program };
        [program.as_str(), own].into_iter().filter(|name| is_certain || self.begins_with(name)).any(|name| {
            let words: Vec<&str> = std::iter::once(name).chain(rest.iter().map(String::as_str)).collect();
            self.is_met(&words)
        })
    }

    /// Returns whether the rule names this very program.
    fn begins_with(&self, program: &str) -> bool {
        let head = self.rest.head();
        let begins = !head.is_empty() && program.starts_with(head);
        self.words.first().map_or(begins, |first| first == program)
    }

    fn is_met(&self, words: &[&str]) -> bool {
        let mut places = BTreeSet::from([0]);
        for (index, own) in self.words.iter().enumerate() {
            if index > 0 {
                places = beyond_options(words, places, own);
            }
            if places.len() > MAX_PLACES {
                return true;
            }
            let at = |place: &usize| words.get(*place).copied();
            if places.iter().filter_map(at).any(|word| may_become(word, own)) {
                return true;
            }
            places = places.iter().filter(|place| at(place) == Some(own)).map(|place| place + 1).collect();
        }
        if !self.words.is_empty() {
            places = beyond_options(words, places, self.rest.head());
        }
        places.len() > MAX_PLACES
            || places.iter().filter_map(|place| words.get(*place..)).any(|words| self.is_rest(words))
    }

    fn is_rest(&self, words: &[&str]) -> bool {
        let line = words.join(" ");
        match line.split_once(UNKNOWN) {
            Some((known, _)) => self.rest.may_begin_with(known),
            None => self.rest.matches(&line) || self.rest.matches(&format!("{line} ")),
        }
    }
}

/// Returns whether a word that is known only when the command runs may become `own`.
fn may_become(word: &str, own: &str) -> bool {
    word.split_once(UNKNOWN).is_some_and(|(known, _)| own.starts_with(known))
}

/// Returns the positions where `own` of a rule may be: `places`, and those after options and their values. An
/// option of the rule may be anywhere.
fn beyond_options(words: &[&str], mut places: BTreeSet<usize>, own: &str) -> BTreeSet<usize> {
    let Some(mut place) = places.first().copied() else { return places };
    if own.starts_with('-') {
        let own = own.split(' ').next().unwrap_or(own);
        let is_alike = |place: &usize| words.get(*place).is_some_and(|word| word.starts_with(own));
        places.extend((place..words.len()).filter(is_alike));
        return places;
    }
    while places.len() <= MAX_PLACES {
        if let Some(word) = words.get(place).filter(|word| word.starts_with(['-', '+'])) {
            places.insert(place + 1);
            if !word.contains('=') && place + 1 < words.len() {
                places.insert(place + 2);
            }
        }
        match places.range(place + 1..).next() {
            Some(next) => place = *next,
            None => break,
        }
    }
    places
}

#[cfg(test)]
mod tests;
