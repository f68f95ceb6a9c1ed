//! The options that a program gives a plugin besides the rights of its calls. No option grants a right.

use std::sync::Arc;

use crate::contract::act::declared::DeclaredClass;
use crate::storage::Storage;
use crate::wasi::config::Config;
use crate::wasi::http::injection::Injections;
use crate::wasi::http::responder::Responder;
use haft_core::limit;

/// What a program gives a plugin. By default nothing.
#[derive(Clone, Default)]
pub struct PluginOptions {
    /// Headers that haft adds to the plugin's requests and the plugin never sees. A host must be granted as well.
    pub injections: Injections,
    /// What answers the plugin's requests: none of them leaves this machine then.
    pub responder: Option<Arc<dyn Responder>>,
    /// Where the plugin keeps things, as far as the grant of a call says so.
    pub storage: Option<Storage>,
    /// The configuration that it reads.
    pub config: Option<Config>,
    /// How many calls an instance serves, where it is more than one.
    pub reuse: Option<limit::Reuse>,
}

/// What the guests of a plugin share: what its program gives it, and what its component declares.
#[derive(Clone, Default)]
pub(crate) struct Belongings {
    pub(crate) options: PluginOptions,
    /// The classes of actions that the component declares.
    pub(crate) classes: Arc<[DeclaredClass]>,
}
