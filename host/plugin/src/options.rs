//! The options that a program gives a plugin besides the rights of its calls. No option grants a right.

use std::sync::Arc;

use crate::contract::act::declared::DeclaredClass;
use crate::storage::Storage;
use crate::wasi::config::Config;
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
    /// The classes of actions that the component declares.
    pub(crate) classes: Arc<[DeclaredClass]>,
}
