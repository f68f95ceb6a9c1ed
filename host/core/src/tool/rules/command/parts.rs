//! Splits a command line at its operators and substitutions. Splits it in two ways, of which neither omits a part;
//! the caller compares the parts with rules.

use std::iter::Peekable;
use std::str::Chars;

/// Replaces text that is known only when the command runs. No command line has this character.
pub(super) const UNKNOWN: char = '\0';

/// The offset of characters that would end a word outside quotes: each is moved into a plane of private use.
const HELD: u32 = 0xF_0000;

/// The last character of that plane.
const LAST_HELD: u32 = 0xF_FFFD;

/// Replaces a character outside quotes that looks like a blank, and ends no word in a shell.
const NO_BLANK: char = '\u{1}';

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    /// Quotes are ignored: a shell may run their content.
    Dropped,
    /// Quotes delimit a word.
    Kept,
}

/// The content of quotes that delimit a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quote {
    /// `'…'`
    Single,
    /// `"…"`, in which something may be substituted.
    Double,
    /// `$'…'`, in which a backslash escapes.
    Escaping,
}

/// A part that is being read.
#[derive(Default)]
struct Level {
    /// The character that ends the level; only the end of the line ends the outermost level.
    end: Option<char>,
    text: String,
    quote: Option<Quote>,
}

/// The parts of a command line.
pub(super) struct Parts {
    quotes: Quotes,
    done: Vec<String>,
    /// The outermost part.
    outer: Level,
    /// The nested parts, the innermost last.
    inner: Vec<Level>,
}

/// Returns `c`, or a placeholder if `c` would end a word.
fn held(c: char) -> char {
    let ends = c.is_whitespace()
        || matches!(c, '|' | '&' | ';' | '<' | '>' | '(' | ')' | '\'' | '"' | '\\' | '$' | '`');
    let held = ends.then(|| char::from_u32(HELD + u32::from(c))).flatten();
    held.unwrap_or(c)
}

/// Returns whether `c` would end a word outside of quotes.
pub(super) fn is_held(c: char) -> bool {
    (HELD..=LAST_HELD).contains(&u32::from(c))
}

/// Returns the text with the original characters.
pub(super) fn restored(text: &str) -> String {
    let own = |c| is_held(c).then(|| char::from_u32(u32::from(c) - HELD)).flatten().unwrap_or(c);
    text.chars().map(own).collect()
}

impl Parts {
    /// Returns the parts with [`UNKNOWN`] instead of substitutions, and with the content of quotes as [`restored`]
    /// shows it.
    pub(super) fn of(command: &str, quotes: Quotes) -> Vec<String> {
        let mut parts = Self { quotes, done: Vec::new(), outer: Level::default(), inner: Vec::new() };
        let mut rest = command.chars().peekable();
        while let Some(c) = rest.next() {
            match parts.level().quote {
                None => parts.bare(c, &mut rest),
                Some(quote) => parts.quoted(quote, c, &mut rest),
            }
        }
        let left = parts.inner.into_iter().chain([parts.outer]).map(|level| level.text);
        parts.done.into_iter().chain(left).filter(|part| !part.trim().is_empty()).collect()
    }

    /// Processes a character outside of quotes.
    fn bare(&mut self, c: char, rest: &mut Peekable<Chars<'_>>) {
        let (next, is_kept) = (rest.peek().copied(), self.quotes == Quotes::Kept);
        match c {
            '\'' if is_kept && self.is_in_double() => self.text().push(held(c)),
            '\'' if is_kept => self.level().quote = Some(Quote::Single),
            '"' if is_kept => self.level().quote = Some(Quote::Double),
            '\'' | '"' => {}
            '\\' => self.escaped(rest),
            '#' if is_kept && self.is_between_words() => {
                while rest.next_if(|next| *next != '\n').is_some() {}
            }
            '$' | '<' | '>' if next == Some('(') => {
                rest.next();
                self.begin_substituted(')');
            }
            '$' => self.expanded(rest),
            '`' if self.is_in('`') => self.end_inner(),
            '`' => self.begin_substituted('`'),
            '}' if self.is_in('}') => self.end_inner(),
            '(' | ')' if self.is_in('}') => self.text().push(held(c)),
            '(' => {
                self.end();
                self.inner.push(Level { end: Some(')'), ..Level::default() });
            }
            ')' => self.end_inner(),
            '&' if next == Some('>') => {}
            '<' | '>' => self.redirected(c, rest),
            ';' | '&' | '|' | '\n' => self.end(),
            '\r' if !is_kept => self.end(),
            c if is_kept && !matches!(c, ' ' | '\t') && c.is_whitespace() => self.text().push(NO_BLANK),
            c => self.text().push(c),
        }
    }

    /// Processes a character in quotes that join a word.
    fn quoted(&mut self, quote: Quote, c: char, rest: &mut Peekable<Chars<'_>>) {
        match (quote, c) {
            // Ends regardless of quotes.
            (_, '`') if self.is_in('`') => self.end_inner(),
            (Quote::Single | Quote::Escaping, '\'') | (Quote::Double, '"') => self.level().quote = None,
            (Quote::Escaping, '\\') => self.escaped(rest),
            (Quote::Double, '\\')
                if rest.peek().is_some_and(|c| matches!(c, '$' | '`' | '"' | '\\' | '\n')) =>
            {
                self.escaped(rest);
            }
            (Quote::Double, '$') if rest.next_if_eq(&'(').is_some() => self.begin_substituted(')'),
            (Quote::Double, '$') => self.expanded(rest),
            (Quote::Double, '`') => self.begin_substituted('`'),
            (_, c) => self.text().push(held(c)),
        }
    }

    /// Reads the text after a backslash: a continued line, or a literal character.
    fn escaped(&mut self, rest: &mut Peekable<Chars<'_>>) {
        if rest.next_if_eq(&'\n').is_none() && self.quotes == Quotes::Kept {
            self.text().extend(rest.next().map(held));
        }
    }

    /// Reads the text after a `$` that begins no command.
    fn expanded(&mut self, rest: &mut Peekable<Chars<'_>>) {
        let is_bare = self.level().quote.is_none();
        if self.quotes == Quotes::Kept && rest.next_if_eq(&'{').is_some() {
            return self.begin_substituted('}');
        }
        self.text().push(UNKNOWN);
        if self.quotes == Quotes::Kept && is_bare && rest.next_if_eq(&'\'').is_some() {
            self.level().quote = Some(Quote::Escaping);
        }
    }

    /// Reads the text after a `<` or `>` that begins no command: the operator ends a word. The stream number before
    /// it is not a word.
    fn redirected(&mut self, operator: char, rest: &mut Peekable<Chars<'_>>) {
        let text = self.text();
        let word = text.trim_end_matches(|c: char| c.is_ascii_digit());
        if word.is_empty() || word.ends_with(char::is_whitespace) {
            text.truncate(word.len());
        }
        text.extend([' ', operator]);
        if operator == '>' && rest.next_if_eq(&'|').is_some() {
            return text.push('|');
        }
        while let Some(more) = rest.next_if(|next| matches!(next, '<' | '>' | '&')) {
            text.push(more);
        }
    }

    /// Returns the innermost part.
    fn level(&mut self) -> &mut Level {
        self.inner.last_mut().unwrap_or(&mut self.outer)
    }

    fn text(&mut self) -> &mut String {
        &mut self.level().text
    }

    /// Returns whether a comment may begin here.
    fn is_between_words(&mut self) -> bool {
        let text = &self.level().text;
        (text.is_empty() || text.ends_with([' ', '\t'])) && !self.is_in('}')
    }

    /// Returns whether this is a `${…}` in double quotes, where an apostrophe opens nothing.
    fn is_in_double(&self) -> bool {
        let around = self.inner.iter().rev().nth(1).unwrap_or(&self.outer);
        self.is_in('}') && around.quote == Some(Quote::Double)
    }

    fn is_in(&self, end: char) -> bool {
        self.inner.last().is_some_and(|level| level.end == Some(end))
    }

    /// Ends the innermost part; another one begins.
    fn end(&mut self) {
        let ended = std::mem::take(self.text());
        self.done.push(ended);
    }

    /// Begins a substitution, up to `end`.
    fn begin_substituted(&mut self, end: char) {
        self.text().push(UNKNOWN);
        self.inner.push(Level { end: Some(end), ..Level::default() });
    }

    /// Ends a nested part, and continues the surrounding one.
    fn end_inner(&mut self) {
        match self.inner.pop() {
            // The name of a variable, and its default.
            Some(Level { end: Some('}'), .. }) => {}
            Some(level) => self.done.push(level.text),
            // `)` of a `case`.
            None => self.end(),
        }
    }
}

// The words of a part of a command line: without redirections, and with expanded braces.

/// Precedes a text that a program reads.
const HERE_STRING: &str = "<<<";

/// Maximum number of words from the braces of one word; beyond it the words are unknown.
const MAX_WORDS: usize = 64;

/// Maximum size in bytes of a word whose braces are expanded.
const MAX_WORD: usize = 1024;

/// Maximum nesting of braces.
const MAX_BRACES: usize = 8;

/// Returns the words of a part that its program gets, and the texts that it reads.
pub(super) fn without_redirections(part: &str) -> (Vec<&str>, Vec<&str>) {
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

/// Expands the braces of a word: `{rm,x}` becomes two words, `{,rm}` one; `a{1..3}` is unknown. `{}` is a program's
/// placeholder.
pub(super) fn expanded(word: &str) -> Vec<String> {
    let unknown = UNKNOWN.to_string();
    let word = word.replace("{}", &unknown);
    if word.len() > MAX_WORD {
        return vec![word.replace('{', &unknown)];
    }
    let mut words = Vec::new();
    if !expand(&word, MAX_BRACES, &mut words) {
        return vec![unknown];
    }
    // A shell passes no empty word of an expansion.
    words.retain(|word| !word.is_empty());
    words
}

/// Adds the expansions of a word; returns `false` if there are too many.
fn expand(word: &str, depth: usize, into: &mut Vec<String>) -> bool {
    let Some((before, inner, after)) = braces(word) else {
        into.push(word.to_owned());
        return into.len() <= MAX_WORDS;
    };
    let Some(depth) = depth.checked_sub(1) else { return false };
    if inner.contains("..") && !inner.contains(',') {
        return expand(&format!("{before}{UNKNOWN}{after}"), depth, into);
    }
    alternatives(inner).iter().all(|one| expand(&format!("{before}{one}{after}"), depth, into))
}

/// Returns the first braces of a word that contain a comma or two dots: the text before, in and after them.
fn braces(word: &str) -> Option<(&str, &str, &str)> {
    word.match_indices('{').find_map(|(open, _)| {
        let (mut depth, mut is_list) = (0_usize, false);
        let rest = word.get(open..)?;
        let close = rest.char_indices().find_map(|(index, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => is_list = true,
                _ => {}
            }
            (depth == 0).then_some(index)
        })?;
        let inner = rest.get(1..close)?;
        (is_list || inner.contains("..")).then_some((word.get(..open)?, inner, rest.get(close + 1..)?))
    })
}

/// Returns the texts between the commas of braces, except those of nested braces.
fn alternatives(inner: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    inner
        .split(|c: char| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        })
        .collect()
}
