//! The parts of a command line: what is between its operators, and what is substituted. It is read in two ways, and no
//! part is left out of either; which parts a rule means is decided elsewhere.

use std::iter::Peekable;
use std::str::Chars;

/// What is only known when the command runs. No command line has this character.
pub(super) const UNKNOWN: char = '\0';

/// Where the characters of a word stand that would end it outside of quotes: a plane of private use, each as far from its
/// beginning as from that of all characters.
const HELD: u32 = 0xF_0000;

/// The last character of that plane.
const LAST_HELD: u32 = 0xF_FFFD;

/// Where a character stands outside of quotes that looks like a blank, and ends no word to a shell.
const NO_BLANK: char = '\u{1}';

/// What quotes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    /// Nothing: a shell may be told to run what is in them.
    Dropped,
    /// They hold a word together.
    Kept,
}

/// What is in quotes that hold a word together.
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
    /// What ends it; nothing else than the end of the line ends the outermost.
    end: Option<char>,
    text: String,
    quote: Option<Quote>,
}

/// The parts of a command line.
pub(super) struct Parts {
    quotes: Quotes,
    done: Vec<String>,
    /// The part that no other one stands around.
    outer: Level,
    /// The parts inside of it, the innermost last.
    inner: Vec<Level>,
}

/// `c` as a character that ends no word, where it would end one.
fn held(c: char) -> char {
    let ends = c.is_whitespace()
        || matches!(c, '|' | '&' | ';' | '<' | '>' | '(' | ')' | '\'' | '"' | '\\' | '$' | '`');
    let held = ends.then(|| char::from_u32(HELD + u32::from(c))).flatten();
    held.unwrap_or(c)
}

/// Whether `c` would end a word outside of quotes.
pub(super) fn is_held(c: char) -> bool {
    (HELD..=LAST_HELD).contains(&u32::from(c))
}

/// The text with the characters that are meant.
pub(super) fn restored(text: &str) -> String {
    let own = |c| is_held(c).then(|| char::from_u32(u32::from(c) - HELD)).flatten().unwrap_or(c);
    text.chars().map(own).collect()
}

impl Parts {
    /// The parts with [`UNKNOWN`] for what is substituted, and with what quotes hold as [`restored`] shows it.
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

    /// Takes a character outside of quotes.
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

    /// Takes a character in quotes that hold a word together.
    fn quoted(&mut self, quote: Quote, c: char, rest: &mut Peekable<Chars<'_>>) {
        match (quote, c) {
            // Whatever is quoted in it.
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

    /// What follows a backslash: a line that goes on, or a character that stands for itself.
    fn escaped(&mut self, rest: &mut Peekable<Chars<'_>>) {
        if rest.next_if_eq(&'\n').is_none() && self.quotes == Quotes::Kept {
            self.text().extend(rest.next().map(held));
        }
    }

    /// What follows a `$` that begins no command.
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

    /// What follows a `<` or `>` that begins no command: it ends a word. The number of a stream before it is no word.
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

    /// The innermost part.
    fn level(&mut self) -> &mut Level {
        self.inner.last_mut().unwrap_or(&mut self.outer)
    }

    fn text(&mut self) -> &mut String {
        &mut self.level().text
    }

    /// Whether a comment may begin here.
    fn is_between_words(&mut self) -> bool {
        let text = &self.level().text;
        (text.is_empty() || text.ends_with([' ', '\t'])) && !self.is_in('}')
    }

    /// Whether this is a `${…}` in double quotes, where an apostrophe opens nothing.
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

    /// Begins what is substituted, up to `end`.
    fn begin_substituted(&mut self, end: char) {
        self.text().push(UNKNOWN);
        self.inner.push(Level { end: Some(end), ..Level::default() });
    }

    /// Ends an inner part, and goes on with what it stands in.
    fn end_inner(&mut self) {
        match self.inner.pop() {
            // The name of a variable, and what stands for it.
            Some(Level { end: Some('}'), .. }) => {}
            Some(level) => self.done.push(level.text),
            // `)` of a `case`.
            None => self.end(),
        }
    }
}
