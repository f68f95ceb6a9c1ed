//! `[plugins.config]`: what a plugin reads of its configuration, by `wasi:config`. Values stand here as they are written;
//! of a secret, where it is kept.

use serde_json::Value;
use toml::de::DeValue;

use super::entry::{Entry, Located};
use super::secret::SecretSource;
use super::table::{FromValue, Kind};
use super::values::json_value;
use haft_core::secret::is_credential;

/// Keys of one plugin: more than anybody writes by hand.
const MAX_KEYS: usize = 256;

/// Bytes of a key.
const MAX_KEY: usize = 256;

/// A value of a plugin's configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A text, a number or a flag.
    Value(Value),
    /// Where the value is kept.
    Secret(SecretSource),
}

/// The keys of a configuration with their values, in the order of the file.
pub type Settings = Vec<(Located<String>, Setting)>;

/// What [`settings`] reads.
pub(super) const SETTINGS: Kind = Kind::Map(&Kind::Setting);

/// The table of a plugin.
pub(super) fn settings(entry: &Entry<'_>) -> Option<Settings> {
    let entries = entry.entries()?;
    if entries.len() > MAX_KEYS {
        return entry.reject(format!("expected at most {MAX_KEYS} keys"));
    }
    let mut settings = Vec::with_capacity(entries.len());
    for (key, entry) in entries {
        if key.value.trim().is_empty() || key.value.len() > MAX_KEY {
            entry.reject_name(&key, format!("expected 1 to {MAX_KEY} bytes"));
        } else if let Some(setting) = setting(&key.value, &entry) {
            settings.push((key, setting));
        }
    }
    Some(settings)
}

fn setting(key: &str, entry: &Entry<'_>) -> Option<Setting> {
    match entry.raw() {
        DeValue::String(text) if !text.is_empty() && is_credential(key) => {
            SecretSource::from_value(entry).map(Setting::Secret)
        }
        DeValue::String(_) => entry.word().map(|text| Setting::Value(text.into())),
        DeValue::Table(_) => SecretSource::from_value(entry).map(Setting::Secret),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => {
            json_value(entry).map(Setting::Value)
        }
        DeValue::Datetime(_) | DeValue::Array(_) => {
            entry.wrong_type("a string, a number, a flag, or where a secret is kept")
        }
    }
}
