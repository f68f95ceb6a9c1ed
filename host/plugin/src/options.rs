//! The options that a program gives a plugin besides the rights of its calls. No option grants a right.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use crate::contract::act::metadata::DeclaredClass;
use crate::storage::Storage;
use crate::wasi::http::injection::Injections;
use crate::wasi::http::responder::Responder;
use haft_core::limit;

/// A program's options for a plugin. By default empty.
#[derive(Clone, Default)]
pub struct PluginOptions {
    /// Headers that haft adds to the plugin's requests and the plugin never sees. A host must be granted as well.
    pub injections: Injections,
    /// Answers the plugin's requests instead of their destinations: none leaves this machine then.
    pub responder: Option<Arc<dyn Responder>>,
    /// The plugin's storage, within the limits of a call's grant.
    pub storage: Option<Storage>,
    /// The configuration of the plugin.
    pub config: Option<Config>,
    /// The number of calls of an instance, if more than one.
    pub reuse: Option<limit::Reuse>,
}

/// The data that the guests of a plugin share: the program's options, and the component's declarations.
#[derive(Clone, Default)]
pub(crate) struct Belongings {
    pub(crate) options: PluginOptions,
    pub(crate) classes: Arc<[DeclaredClass]>,
}

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

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    pub(crate) fn all(&self) -> Vec<(String, String)> {
        self.0.iter().map(|(key, value)| (key.clone(), value.expose_secret().to_owned())).collect()
    }
}
