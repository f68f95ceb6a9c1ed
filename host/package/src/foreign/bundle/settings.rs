//! The settings of an MCP bundle (`user_config`) with the values that the source gives, and the texts of
//! manifest.json with these values inserted. Contains no sensitive value: the server gets those from a variable of
//! haft or from the keyring.

use std::collections::BTreeMap;
use std::path::Path;

use haft_core::report::plain;
use haft_core::secret::is_credential;
use haft_manifest::TextOrSecret;
use serde_json::Value as Json;

use super::super::{Value, missing, secret_source, source_text};
use super::ForeignError;
use super::manifest::{Field, FieldKind, Manifest};
use crate::{Foreign, SecretField};

#[derive(Debug)]
pub(super) struct Settings<'a> {
    values: BTreeMap<&'a str, Value>,
    /// `${HOME}` and the like.
    places: Vec<(String, String)>,
}

impl<'a> Settings<'a> {
    /// Reads the values of `foreign` for the settings of `manifest`. With `asks` the user is asked for a sensitive
    /// value without a source; otherwise the value is a variable.
    pub(super) fn new(
        manifest: &'a Manifest,
        foreign: &Foreign,
        home: &Path,
        asks: bool,
    ) -> Result<Self, ForeignError> {
        let fields = &manifest.user_config;
        let is_known = |key: &String| {
            fields.contains_key(key)
                || matches!(key.as_str(), "scripts" | "before") && manifest.server.kind == super::Kind::Uv
        };
        if let Some((key, _)) = foreign.settings.iter().find(|(key, _)| !is_known(key)) {
            return Err(ForeignError::Setting { key: key.clone(), known: fields.keys().cloned().collect() });
        }
        let mut settings = Self { values: BTreeMap::new(), places: places(home) };
        let (mut absent, mut secrets) = (Vec::new(), Vec::new());
        for (key, field) in fields {
            let given: Vec<String> = foreign.values(key).map(str::to_owned).collect();
            let variables = manifest.variables_of(key);
            // The author may have forgotten to mark it.
            let is_sensitive = field.sensitive || variables.iter().any(|name| is_credential(name));
            if asks && is_sensitive && field.required && given.is_empty() {
                let (title, around) = (field.title.clone(), Default::default());
                secrets.push(SecretField { key: key.clone(), title, around });
                continue;
            }
            let value = if is_sensitive {
                let own = variables.first().cloned().unwrap_or_else(|| key.to_uppercase());
                secret_source(key, &given, field.required.then_some(own.as_str()))?.map(Value::Secret)
            } else {
                settings.texts(key, field, given)?.map(Value::Texts)
            };
            match value {
                Some(value) => drop(settings.values.insert(key, value)),
                None if field.required => absent.push(missing(key, field.title.as_ref())),
                None => {}
            }
        }
        match (absent.is_empty(), secrets.is_empty()) {
            (true, true) => Ok(settings),
            (true, false) => Err(ForeignError::Secrets { server: manifest.name.clone(), fields: secrets }),
            (false, _) => Err(ForeignError::Missing(absent)),
        }
    }

    /// Returns notes with the sources of the sensitive values.
    pub(super) fn notes(&self) -> Vec<String> {
        let note = |(key, value): (&&str, &Value)| {
            let Value::Secret(source) = value else { return None };
            let place = source_text(source);
            Some(format!("`{}` is the value of {place} when the server starts", plain(key)))
        };
        self.values.iter().filter_map(note).collect()
    }

    /// Returns the expansion of a word of the command: empty if a setting in it has no value.
    pub(super) fn words(&self, word: &str) -> Result<Vec<String>, ForeignError> {
        if let Some(key) = self.whole(word)
            && let Some(Value::Texts(texts)) = self.values.get(key)
        {
            return Ok(texts.clone());
        }
        Ok(self.filled(word)?.into_iter().collect())
    }

    /// Returns the value of a variable of the server; `None` if a setting in it has no value.
    pub(super) fn variable(&self, name: &str, text: &str) -> Result<Option<TextOrSecret>, ForeignError> {
        if let Some(Value::Secret(place)) = self.whole(text).and_then(|key| self.values.get(key)) {
            return Ok(Some(TextOrSecret::Secret(place.clone())));
        }
        let filled = self.filled(text)?;
        if is_credential(name) && filled.as_ref().is_some_and(|text| !text.is_empty()) {
            let text = format!("its manifest contains a secret: `{}`", plain(name));
            return Err(ForeignError::Unsupported(text));
        }
        Ok(filled.map(TextOrSecret::Text))
    }

    /// Returns the setting that a complete text consists of.
    fn whole<'t>(&self, text: &'t str) -> Option<&'t str> {
        text.strip_prefix("${user_config.")?.strip_suffix('}').filter(|key| !key.contains('}'))
    }

    /// Returns a text with the values inserted; `None` if a value is missing.
    fn filled(&self, text: &str) -> Result<Option<String>, ForeignError> {
        let mut text = text.to_owned();
        for (place, path) in &self.places {
            text = text.replace(place, path);
        }
        // The user's value is not expanded: each part is replaced once, from the left.
        let (mut filled, mut rest) = (String::new(), text.as_str());
        while let Some((before, after)) = rest.split_once("${user_config.") {
            let Some((key, after)) = after.split_once('}') else { break };
            filled += before;
            match self.values.get(key) {
                Some(Value::Texts(texts)) => filled += &texts.join(","),
                Some(Value::Secret(_)) => {
                    return Err(ForeignError::Unsupported(format!(
                        "it uses the sensitive `{}` within text or in its command, where others can read it: \
                         haft passes it only as a whole variable",
                        plain(key)
                    )));
                }
                None => return Ok(None),
            }
            rest = after;
        }
        Ok(Some(filled + rest))
    }

    /// Returns the values of a setting that is not sensitive; `None` without any.
    fn texts(
        &self,
        key: &str,
        field: &Field,
        given: Vec<String>,
    ) -> Result<Option<Vec<String>>, ForeignError> {
        let given = if given.is_empty() { self.default(field) } else { given };
        let wrong = |why: &str| Err(ForeignError::Value { key: plain(key), why: why.to_owned() });
        if given.len() > 1 && !field.multiple {
            return wrong("it has one value");
        }
        for value in &given {
            let is_right = match field.kind {
                FieldKind::Boolean => matches!(value.as_str(), "true" | "false"),
                FieldKind::Number => value.parse().is_ok_and(|number: f64| {
                    number.is_finite()
                        && field.min.is_none_or(|min| number >= min)
                        && field.max.is_none_or(|max| number <= max)
                }),
                FieldKind::String | FieldKind::Directory | FieldKind::File => true,
            };
            if !is_right {
                return wrong(match field.kind {
                    FieldKind::Boolean => "expected `true` or `false`",
                    _ => "expected a number within its limits",
                });
            }
        }
        Ok((!given.is_empty()).then_some(given))
    }

    fn default(&self, field: &Field) -> Vec<String> {
        let text = |value: &Json| match value {
            Json::String(text) => {
                let text =
                    self.places.iter().fold(text.clone(), |text, (place, path)| text.replace(place, path));
                Some(text).filter(|text| !text.is_empty())
            }
            Json::Number(_) | Json::Bool(_) => Some(value.to_string()),
            _ => None,
        };
        match &field.default {
            Some(Json::Array(values)) => values.iter().filter_map(text).collect(),
            value => value.iter().filter_map(text).collect(),
        }
    }
}

fn places(home: &Path) -> Vec<(String, String)> {
    let below = |folder: &str| home.join(folder).display().to_string();
    let named = |name: &str, path: String| (format!("${{{name}}}"), path);
    vec![
        named("HOME", home.display().to_string()),
        named("DESKTOP", below("Desktop")),
        named("DOCUMENTS", below("Documents")),
        named("DOWNLOADS", below("Downloads")),
        named("pathSeparator", "/".to_owned()),
        named("/", "/".to_owned()),
    ]
}
