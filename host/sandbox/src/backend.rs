//! The targets on which commands run, and the transports to them.

pub(crate) mod connect;
pub(crate) mod container;
pub(crate) mod files;
pub(crate) mod local;
pub(crate) mod marker;
pub(crate) mod message;
pub(crate) mod pane;
pub(crate) mod plain;
pub(crate) mod preamble;
pub(crate) mod remote_script;
pub(crate) mod script;
pub(crate) mod ssh;
pub(crate) mod target;
pub(crate) mod transport;
