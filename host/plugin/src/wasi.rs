//! What WASI gives a guest, held to its grant: files, network, HTTP, environment, standard streams.

pub(crate) mod basics;
pub(crate) mod capability;
pub(crate) mod config;
pub(crate) mod disk_budget;
pub(crate) mod drafts;
pub(crate) mod environment;
pub(crate) mod files;
pub(crate) mod http;
pub(crate) mod keyvalue;
pub(crate) mod logging;
pub(crate) mod network;
pub(crate) mod stdio;
