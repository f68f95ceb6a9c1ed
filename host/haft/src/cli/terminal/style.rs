//! haft's own styles, marked in texts until they are printed. A mark begins with a random key of this process, so
//! that no other text can forge a mark.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::LazyLock;

use anstyle::AnsiColor;

/// The prefix of a mark: a noncharacter and a random key that is never printed, so that no foreign text can contain
/// it.
static MARK: LazyLock<String> = LazyLock::new(|| {
    let random = RandomState::new();
    format!("{NONCHARACTER}{:016x}{:016x}", random.hash_one(0), random.hash_one(1))
});

/// A noncharacter, which has no meaning in any text.
const NONCHARACTER: char = '\u{fdd0}';

/// The text after [`MARK`] that sets the indent of continued lines.
const COLUMN: &str = "|";

pub(in crate::cli) const ERROR: Style = Style(AnsiColor::Red.on_default().bold());
pub(in crate::cli) const WARNING: Style = Style(AnsiColor::Yellow.on_default().bold());
pub(in crate::cli) const FAILED: Style = Style(AnsiColor::Red.on_default());
pub(in crate::cli) const ADDED: Style = Style(AnsiColor::Green.on_default());
pub(in crate::cli) const HINT: Style = Style(AnsiColor::Cyan.on_default().bold());
pub(in crate::cli) const GOOD: Style = Style(AnsiColor::Green.on_default().bold());
pub(in crate::cli) const HEAD: Style = Style(anstyle::Style::new().bold());
pub(in crate::cli) const DIM: Style = Style(anstyle::Style::new().dimmed());
pub(super) const ITALIC: Style = Style(anstyle::Style::new().italic());
pub(super) const CODE: Style = Style(AnsiColor::Cyan.on_default());
pub(super) const TITLE: Style = Style(anstyle::Style::new().bold().underline());
pub(super) const RESET: &str = "[0m";

/// The style of a text: `{style}text{style:#}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Style(anstyle::Style);

impl Style {
    pub(in crate::cli) const fn new() -> Self {
        Self(anstyle::Style::new())
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let codes = if f.alternate() { format!("{:#}", self.0) } else { self.0.to_string() };
        f.write_str(&of_codes(&codes))
    }
}

/// Sets the indent of continued lines: `{name:10}{Column}{text}`.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Column;

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{COLUMN}", *MARK)
    }
}

pub(super) fn reset() -> String {
    format!("{}{RESET}", *MARK)
}

/// Converts a text of haft with escape sequences for styles. It contains no other escape characters.
pub(super) fn of_codes(text: &str) -> String {
    text.replace('\u{1b}', &MARK)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Character(char),
    /// The parameters of a style's escape sequence.
    Style(&'a str),
    /// The indent of continued lines.
    Column,
}

/// Returns the parts of a text in order.
pub(super) fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if let Some(after) = rest.strip_prefix(NONCHARACTER).and_then(|_| rest.strip_prefix(MARK.as_str())) {
            if let Some(after) = after.strip_prefix(COLUMN) {
                rest = after;
                return Some(Part::Column);
            }
            let end = after.find('m').map_or(after.len(), |end| end + 1);
            let (codes, after) = after.split_at_checked(end)?;
            rest = after;
            return Some(Part::Style(codes));
        }
        let mut characters = rest.chars();
        let next = characters.next()?;
        rest = characters.as_str();
        Some(Part::Character(next))
    })
}

/// Returns a text with the escape sequences of its styles, or without styles.
pub(in crate::cli) fn written(text: &str, coloured: bool) -> String {
    match coloured {
        _ if !text.contains(MARK.as_str()) => text.to_owned(),
        true => text.replace(&Column.to_string(), "").replace(MARK.as_str(), "\u{1b}"),
        false => parts(text)
            .filter_map(|part| match part {
                Part::Character(c) => Some(c),
                Part::Style(_) | Part::Column => None,
            })
            .collect(),
    }
}
