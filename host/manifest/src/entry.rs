//! A TOML value with its key and its position, and its readers. A reader returns the requested type or records an
//! error; no reader converts one type to another.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::{Deref, RangeInclusive};
use std::str::FromStr;
use std::time::Duration;

use haft_core::report::{Problem, Span, nearest};
use haft_core::units;
use toml::Spanned;
use toml::de::{DeString, DeValue};

#[derive(Default)]
pub(super) struct Notes(RefCell<Vec<Problem>>);

impl Notes {
    pub(super) fn add(&self, problem: Problem) {
        self.0.borrow_mut().push(problem);
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.0.into_inner()
    }
}

/// A value and where it stands. Equal when the values are.
#[derive(Clone, Debug)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it stands in [`Manifest::source`](super::Manifest::source).
    pub span: Span,
}

impl<T> Deref for Located<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Located<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Located<T> {}

/// A value and what it is called.
pub(super) struct Entry<'a> {
    path: String,
    raw: &'a Spanned<DeValue<'a>>,
    notes: &'a Notes,
}

impl<'a> Entry<'a> {
    pub(super) fn new(path: String, raw: &'a Spanned<DeValue<'a>>, notes: &'a Notes) -> Self {
        Self { path, raw, notes }
    }

    /// Where it stands: `plugins.limits.memory`.
    pub(super) fn place(&self) -> &str {
        &self.path
    }

    pub(super) fn span(&self) -> Span {
        self.raw.span().into()
    }

    /// Notes that the value is wrong, and why.
    pub(super) fn reject<T>(&self, why: impl Into<String>) -> Option<T> {
        self.notes.add(self.problem(why));
        None
    }

    /// The same with a way out.
    pub(super) fn reject_with_hint<T>(&self, why: impl Into<String>, hint: impl Into<String>) -> Option<T> {
        self.notes.add(self.problem(why).hint(hint));
        None
    }

    fn problem(&self, why: impl Into<String>) -> Problem {
        Problem::new(format!("invalid `{}`", self.path)).at(self.span(), why)
    }

    pub(super) fn wrong_type<T>(&self, expected: &str) -> Option<T> {
        self.reject(format!("expected {expected}, found {}", type_name(self.raw.get_ref())))
    }

    pub(super) fn located<T>(&self, read: impl FnOnce(&Self) -> Option<T>) -> Option<Located<T>> {
        read(self).map(|value| Located { value, span: self.span() })
    }

    pub(super) fn flag(&self) -> Option<bool> {
        self.raw.get_ref().as_bool().or_else(|| self.wrong_type("`true` or `false`"))
    }

    pub(super) fn count(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let Some(integer) = self.raw.get_ref().as_integer() else {
            return self.wrong_type("a whole number");
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.and_then(|number| u32::try_from(number).ok());
        number.filter(|number| range.contains(number)).or_else(|| {
            self.reject(format!("expected a whole number from {} to {}", range.start(), range.end()))
        })
    }

    /// An amount of money, with or without a fraction.
    pub(super) fn price(&self) -> Option<f64> {
        let raw = self.raw.get_ref();
        let text = raw.as_integer().map(|integer| (integer.radix(), integer.as_str()));
        let number = match text {
            Some((radix, text)) => i32::from_str_radix(text, radix).ok().map(f64::from),
            None => match raw.as_float() {
                Some(float) => float.as_str().parse().ok(),
                None => return self.wrong_type("a number"),
            },
        };
        let is_price = |number: &f64| number.is_finite() && *number >= 0.0;
        number.filter(is_price).or_else(|| self.reject("expected an amount of at least 0"))
    }

    /// Any text without a NUL character, which no system call can carry.
    pub(super) fn word(&self) -> Option<String> {
        match self.raw.get_ref().as_str() {
            Some(text) if text.contains('\0') => self.reject("a text must not contain a NUL character"),
            Some(text) => Some(text.to_owned()),
            None => self.wrong_type("a string"),
        }
    }

    /// Text that is not blank.
    pub(super) fn text(&self) -> Option<String> {
        let text = self.word()?;
        if text.trim().is_empty() { self.reject("expected a text that is not blank") } else { Some(text) }
    }

    /// Text of a type that explains itself.
    pub(super) fn parse<T: FromStr<Err: Display>>(&self) -> Option<T> {
        self.parse_with(str::parse)
    }

    pub(super) fn parse_with<T, E: Display>(&self, parse: impl FnOnce(&str) -> Result<T, E>) -> Option<T> {
        let text = self.word()?;
        parse(&text).map_or_else(|error| self.reject(error.to_string()), Some)
    }

    pub(super) fn one_of<T: Copy>(&self, choices: &[(&'static str, T)]) -> Option<T> {
        let text = self.word()?;
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice);
        found.or_else(|| {
            let names = choices.iter().map(|(name, _)| *name);
            let all = names.clone().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            match nearest(&text, names) {
                Some(near) => {
                    self.reject_with_hint(format!("expected one of {all}"), format!("did you mean `{near}`?"))
                }
                None => self.reject(format!("expected one of {all}")),
            }
        })
    }

    pub(super) fn size(&self, range: RangeInclusive<u64>) -> Option<u64> {
        self.quantity(("size", "MiB"), range, units::parse_size, units::format_size)
    }

    pub(super) fn duration(&self, range: RangeInclusive<Duration>) -> Option<Duration> {
        self.quantity(("duration", "s"), range, units::parse_duration, units::format_duration)
    }

    fn quantity<T: PartialOrd>(
        &self,
        (what, unit): (&str, &str),
        range: RangeInclusive<T>,
        parse: fn(&str) -> Result<T, units::UnitError>,
        format: fn(T) -> String,
    ) -> Option<T> {
        if let Some(integer) = self.raw.get_ref().as_integer() {
            let hint = format!("write a unit, such as `\"{}{unit}\"`", integer.as_str());
            return self
                .reject_with_hint(format!("expected a {what} with a unit, found a bare number"), hint);
        }
        let quantity = self.parse_with(parse)?;
        if range.contains(&quantity) {
            return Some(quantity);
        }
        let (least, most) = range.into_inner();
        self.reject(format!("expected a {what} from `{}` to `{}`", format(least), format(most)))
    }

    pub(super) fn list<T>(&self, read: impl Fn(&Entry<'a>) -> Option<T>) -> Option<Vec<T>> {
        Some(self.elements("an array")?.iter().filter_map(read).collect())
    }

    pub(super) fn elements(&self, expected: &str) -> Option<Vec<Entry<'a>>> {
        let Some(array) = self.raw.get_ref().as_array() else {
            return self.wrong_type(expected);
        };
        let entry = |raw| Entry { path: self.path.clone(), raw, notes: self.notes };
        Some(array.iter().map(entry).collect())
    }

    /// The entries of a table whose keys are the user's, each with its key.
    pub(super) fn entries(&self) -> Option<Vec<(Located<String>, Entry<'a>)>> {
        let Some(table) = self.raw.get_ref().as_table() else {
            return self.wrong_type("a table");
        };
        let entry = |(key, raw): (&'a Spanned<DeString<'a>>, _)| {
            let name = Located { value: key.get_ref().to_string(), span: key.span().into() };
            let path = format!("{}.{}", self.path, shortened(&name));
            (name, Entry { path, raw, notes: self.notes })
        };
        Some(table.iter().map(entry).collect())
    }

    pub(super) fn notes(&self) -> &'a Notes {
        self.notes
    }

    pub(super) fn raw(&self) -> &'a DeValue<'a> {
        self.raw.get_ref()
    }
}

/// Keys of the user's can be long, and every value below one repeats it.
fn shortened(name: &str) -> String {
    if name.chars().count() <= 64 { name.to_owned() } else { name.chars().take(63).chain(['…']).collect() }
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}
