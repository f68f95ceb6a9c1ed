//! A plugin's configuration. `host` implements the interface.

pub(crate) mod host;

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

/// A plugin's configuration. Clones share it.
#[derive(Clone, Debug)]
pub struct Config(Arc<[(String, SecretString)]>);

impl Config {
    /// Creates a configuration of these keys and values; haft shows none of them.
    pub fn new(values: impl IntoIterator<Item = (String, SecretString)>) -> Self {
        Self(values.into_iter().collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<String> {
        let found = self.0.iter().find(|(own, _)| own == key);
        found.map(|(_, value)| value.expose_secret().to_owned())
    }

    /// Returns the keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    pub(crate) fn all(&self) -> Vec<(String, String)> {
        self.0.iter().map(|(key, value)| (key.clone(), value.expose_secret().to_owned())).collect()
    }
}
