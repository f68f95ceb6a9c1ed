//! The values of an entry: fixed by its author, given by the user (`--set KEY=VALUE`), or a default. A secret has
//! only a name here.

use std::collections::BTreeSet;
use std::fmt::Write;

use haft_core::report::plain;
use haft_core::secret::is_credential;
use haft_manifest::{Foreign, SecretSource};

use super::RegistryError;
use super::entry::{Format, Input};
use crate::SecretField;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Texts(Vec<String>),
    Secret(SecretSource),
}

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
    pub(super) fn finish(self) -> Result<Vec<String>, RegistryError> {
        if let Some((key, _)) = self.settings.iter().find(|(key, _)| !self.known.contains(key)) {
            let known: Vec<_> = self.known.iter().map(|key| format!("`{}`", plain(key))).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(RegistryError::Setting { key: plain(key), known });
        }
        if !self.missing.is_empty() {
            return Err(RegistryError::Missing(self.missing));
        }
        if !self.secrets.is_empty() {
            return Err(RegistryError::Secrets(self.secrets));
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
    ) -> Result<Option<Value>, RegistryError> {
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
            return Err(RegistryError::Unsupported(text));
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
    fn filled(&mut self, parts: &[Part<'_>]) -> Result<Option<String>, RegistryError> {
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
    pub(super) fn address(&mut self, template: &str, input: &Input) -> Result<Option<String>, RegistryError> {
        let parts = parts(template, input);
        if parts.iter().any(Part::is_secret) {
            let text = "its URL contains a secret, which program.toml cannot store".to_owned();
            return Err(RegistryError::Unsupported(text));
        }
        let filled = self.filled(&parts)?;
        if filled.is_none() && self.missing.is_empty() {
            self.missing.push(format!("the variables of its address, `{}`", plain(template)));
        }
        Ok(filled)
    }

    /// Returns the values of an input that is no secret.
    fn texts(&mut self, key: &str, input: &Input) -> Result<Option<Vec<String>>, RegistryError> {
        let given = self.given(key);
        let given = if given.is_empty() { input.default.clone().into_iter().collect() } else { given };
        let wrong = |why: String| Err(RegistryError::Value { key: plain(key), why });
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
            self.miss(key, input);
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
    ) -> Result<Option<SecretSource>, RegistryError> {
        let given = self.given(key);
        let wrong = || RegistryError::Value {
            key: plain(key),
            why: format!(
                "it is a secret and is never stored in a file: put it into a variable and use `--set \
                 {}=env:NAME`",
                plain(key)
            ),
        };
        let source = match given.as_slice() {
            [] if !is_required => return Ok(None),
            [] if self.asks => {
                self.secrets.push(field());
                return Ok(None);
            }
            [] => SecretSource::Env(variable.parse().map_err(|_| wrong())?),
            [one] => Foreign::secret_place(one).ok_or_else(wrong)?,
            _ => return Err(wrong()),
        };
        let place = match &source {
            SecretSource::Env(name) => format!("the variable `{name}`"),
            SecretSource::Keyring(entry) => format!("the keyring's entry `{entry}`"),
            SecretSource::File(_) => return Err(wrong()),
        };
        self.notes.push(format!("`{}` is the value of {place} when the server is used", plain(key)));
        Ok(Some(source))
    }

    fn given(&mut self, key: &str) -> Vec<String> {
        self.known.insert(key.to_owned());
        self.settings.iter().filter(|(name, _)| name == key).map(|(_, value)| value.clone()).collect()
    }

    fn miss(&mut self, key: &str, input: &Input) {
        if input.is_required {
            let title =
                input.description.as_ref().map(|text| format!(" ({})", plain(text))).unwrap_or_default();
            self.missing.push(format!("`{}`{title}", plain(key)));
        }
    }
}

/// A part of a template.
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
