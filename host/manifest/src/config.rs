//! `[plugins.config]` and `[plugins.hints]`: the values that a plugin reads through `wasi:config`, and the
//! hints of tools whose component declares none. Values are as written; for a secret, its source.

use serde_json::Value;
use toml::de::DeValue;

use super::entry::{Entry, Located};
use super::secret::SecretSource;
use super::table::{FromValue, Kind, table};
use super::values::json_value;
use haft_core::call::Hints;
use haft_core::pattern::ToolPattern;
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

pub(super) const SETTINGS: Kind = Kind::Map(&Kind::Setting);

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
            entry.wrong_type("a string, a number, a boolean, or the place of a secret")
        }
    }
}

table! {
    /// How the plugin's tools behave, by their own names; clients are told, and `read_only` is held to.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HintTable = "[plugins.hints]" {
        /// tools that change nothing, such as `get_*`: they get no right to write
        #[also("readonly", "read-only")]
        pub read_only: Vec<ToolPattern> = Vec::new(),
        /// tools that may delete or overwrite data
        pub destructive: Vec<ToolPattern> = Vec::new(),
        /// tools that have no further effect when called again
        pub idempotent: Vec<ToolPattern> = Vec::new(),
        /// tools that reach beyond this machine
        #[also("open-world")]
        pub open_world: Vec<ToolPattern> = Vec::new(),
    }
}

impl HintTable {
    /// The hints of the tool that is `own` to the plugin, of which its component says `said`. Who writes the program has
    /// the last word: a tool that reads only destroys nothing.
    pub fn hints(&self, own: &str, said: Hints) -> Hints {
        let is_in = |patterns: &[ToolPattern]| patterns.iter().any(|pattern| pattern.matches(own));
        let read_only = said.read_only || is_in(&self.read_only);
        Hints {
            read_only,
            destructive: !is_in(&self.read_only) && said.destructive || is_in(&self.destructive),
            idempotent: said.idempotent || is_in(&self.idempotent),
            open_world: said.open_world || is_in(&self.open_world),
        }
    }

    /// The patterns of each key.
    pub fn patterns(&self) -> [(&'static str, &[ToolPattern]); 4] {
        [
            ("hints.read_only", &self.read_only),
            ("hints.destructive", &self.destructive),
            ("hints.idempotent", &self.idempotent),
            ("hints.open_world", &self.open_world),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_adds_to_what_a_component_says_and_reading_takes_destroying_away() {
        let patterns = |text: &str| vec![text.parse().unwrap()];
        let table =
            HintTable { read_only: patterns("get-*"), destructive: patterns("drop"), ..HintTable::default() };
        let worst = Hints { destructive: true, open_world: true, ..Hints::default() };
        assert_eq!(
            table.hints("get-page", worst),
            Hints { read_only: true, open_world: true, ..Hints::default() }
        );
        assert_eq!(table.hints("drop", Hints::default()), Hints { destructive: true, ..Hints::default() });
        assert_eq!(table.hints("put", worst), worst);
    }
}
