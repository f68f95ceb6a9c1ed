//! The values of an entry: fixed by its author, given by the user (`--set KEY=VALUE`), or a default. A secret has
//! only a name here.

use std::collections::BTreeSet;
use std::fmt::Write;

use haft_core::report::plain;
use haft_core::secret::is_credential;
use haft_manifest::SecretSource;

use super::entry::{Format, Input};
use crate::foreign::{Value, missing, secret_source, source_text};
use crate::{ForeignError, SecretField};

/// Reads the values of one entry, and collects the missing ones.
pub(super) struct Values<'a> {
    settings: &'a [(String, String)],
    /// Whether the user is asked for a secret without a value.
    asks: bool,
    known: BTreeSet<String>,
    missing: Vec<String>,
    secrets: Vec<SecretField>,
    pub(super) notes: Vec<String>,
}

impl<'a> Values<'a> {
    pub(super) fn new(settings: &'a [(String, String)], asks: bool) -> Self {
        let (known, missing, secrets, notes) = (BTreeSet::new(), Vec::new(), Vec::new(), Vec::new());
        Self { settings, asks, known, missing, secrets, notes }
    }

    /// Fails if a required value is missing, or a setting is unknown.
    pub(super) fn finish(self, server: &str) -> Result<Vec<String>, ForeignError> {
        if let Some((key, _)) = self.settings.iter().find(|(key, _)| !self.known.contains(key)) {
            let known = self.known.into_iter().collect();
            return Err(ForeignError::Setting { key: key.clone(), known });
        }
        if !self.missing.is_empty() {
            return Err(ForeignError::Missing(self.missing));
        }
        if !self.secrets.is_empty() {
            return Err(ForeignError::Secrets { server: server.to_owned(), fields: self.secrets });
        }
        Ok(self.notes)
    }

    /// Returns the value of `input`, called `key` in settings; `None` if it has none. For a secret, `variable` is
    /// the default source.
    pub(super) fn value(
        &mut self,
        key: &str,
        variable: &str,
        input: &Input,
    ) -> Result<Option<Value>, ForeignError> {
        let is_secret = input.is_secret || is_credential(variable);
        let Some(template) = &input.value else {
            return if is_secret {
                let secret =
                    self.secret(key, variable, input.is_required, || field(key, input, Around::default()));
                Ok(secret?.map(Value::Secret))
            } else {
                Ok(self.texts(key, input)?.map(Value::Texts))
            };
        };
        let parts = parts(template, input);
        let is_literal = parts.iter().all(|part| matches!(part, Part::Text(_)));
        if is_secret && is_literal && !template.is_empty() {
            let text = format!("its entry contains a secret: `{}`", plain(variable));
            return Err(ForeignError::Unsupported(text));
        }
        let secrets: Vec<usize> =
            (0..parts.len()).filter(|at| parts.get(*at).is_some_and(Part::is_secret)).collect();
        if secrets.is_empty() && (is_literal || !is_secret) {
            return Ok(self.filled(&parts)?.map(|text| Value::Texts(vec![text])));
        }
        let is_required = input.is_required || parts.iter().any(Part::is_required);
        let mut around = None;
        if let [at] = secrets.as_slice() {
            let (before, after) =
                (parts.get(..*at).unwrap_or_default(), parts.get(at + 1..).unwrap_or_default());
            around = self.filled(before)?.zip(self.filled(after)?);
        }
        let whole = around.is_none() || around.as_ref().is_some_and(|around| *around != Around::default());
        let secret =
            self.secret(key, variable, is_required, || field(key, input, around.unwrap_or_default()))?;
        if let Some(note) = self.notes.last_mut().filter(|_| whole && secret.is_some()) {
            let _ = write!(note, ", as a whole: `{}`", plain(template));
        }
        Ok(secret.map(Value::Secret))
    }

    /// Returns a text with the values inserted; `None` if a value is missing.
    fn filled(&mut self, parts: &[Part<'_>]) -> Result<Option<String>, ForeignError> {
        let mut text = Some(String::new());
        for part in parts {
            let piece = match part {
                Part::Text(piece) => Some((*piece).to_owned()),
                Part::Variable(_, Input { value: Some(fixed), .. }) => Some(fixed.clone()),
                Part::Variable(name, inner) => {
                    self.texts(name, inner)?.and_then(|texts| texts.into_iter().next())
                }
            };
            text = text.zip(piece).map(|(text, piece)| text + &piece);
        }
        Ok(text)
    }

    /// Returns a URL with its variables, none of which may be a secret.
    pub(super) fn address(&mut self, template: &str, input: &Input) -> Result<Option<String>, ForeignError> {
        let parts = parts(template, input);
        if parts.iter().any(Part::is_secret) {
            let text = "its URL contains a secret, which program.toml cannot store".to_owned();
            return Err(ForeignError::Unsupported(text));
        }
        let filled = self.filled(&parts)?;
        if filled.is_none() && self.missing.is_empty() {
            self.missing.push(format!("the variables of its address, `{}`", plain(template)));
        }
        Ok(filled)
    }

    /// Returns the values of an input that is no secret.
    fn texts(&mut self, key: &str, input: &Input) -> Result<Option<Vec<String>>, ForeignError> {
        let given = self.given(key);
        let given = if given.is_empty() { input.default.clone().into_iter().collect() } else { given };
        let wrong = |why: String| Err(ForeignError::Value { key: plain(key), why });
        for value in &given {
            let is_right = match input.format {
                Format::Boolean => matches!(value.as_str(), "true" | "false"),
                Format::Number => value.parse::<f64>().is_ok_and(f64::is_finite),
                Format::String | Format::Filepath => true,
            };
            if !is_right {
                let what = if input.format == Format::Number { "a number" } else { "`true` or `false`" };
                return wrong(format!("expected {what}"));
            }
            if !input.choices.is_empty() && !input.choices.contains(value) {
                return wrong(format!("expected one of `{}`", plain(&input.choices.join("`, `"))));
            }
        }
        if given.is_empty() {
            self.missing.extend(input.is_required.then(|| missing(key, input.description.as_ref())));
            return Ok(None);
        }
        Ok(Some(given))
    }

    /// Returns the source of a secret; `None` if it has none, or the user is to be asked.
    fn secret(
        &mut self,
        key: &str,
        variable: &str,
        is_required: bool,
        field: impl FnOnce() -> SecretField,
    ) -> Result<Option<SecretSource>, ForeignError> {
        let given = self.given(key);
        if given.is_empty() && is_required && self.asks {
            self.secrets.push(field());
            return Ok(None);
        }
        let source = secret_source(key, &given, is_required.then_some(variable))?;
        self.notes.extend(source.as_ref().map(|source| {
            let place = source_text(source);
            format!("`{}` is the value of {place} when the server is used", plain(key))
        }));
        Ok(source)
    }

    fn given(&mut self, key: &str) -> Vec<String> {
        self.known.insert(key.to_owned());
        self.settings.iter().filter(|(name, _)| name == key).map(|(_, value)| value.clone()).collect()
    }
}

enum Part<'a> {
    Text(&'a str),
    Variable(&'a str, &'a Input),
}

impl Part<'_> {
    fn is_secret(&self) -> bool {
        matches!(self, Self::Variable(name, input) if input.is_secret || is_credential(name))
    }

    fn is_required(&self) -> bool {
        matches!(self, Self::Variable(_, input) if input.is_required)
    }
}

/// The text around a secret.
type Around = (String, String);

fn field(key: &str, input: &Input, around: Around) -> SecretField {
    SecretField { key: key.to_owned(), title: input.description.clone(), around }
}

/// Splits a template; braces around anything but a variable do not change.
fn parts<'a>(template: &'a str, input: &'a Input) -> Vec<Part<'a>> {
    let (mut parts, mut rest, mut from) = (Vec::new(), template, 0);
    while let Some(open) = rest.get(from..).and_then(|text| text.find('{')).map(|at| from + at) {
        let inner = rest.get(open + 1..).unwrap_or_default();
        let found = inner
            .split_once('}')
            .and_then(|(name, after)| Some((input.variables.get_key_value(name)?, after)));
        let Some(((name, variable), after)) = found else {
            from = open + 1;
            continue;
        };
        parts.push(Part::Text(rest.get(..open).unwrap_or_default()));
        parts.push(Part::Variable(name, variable));
        (rest, from) = (after, 0);
    }
    parts.push(Part::Text(rest));
    parts
}
