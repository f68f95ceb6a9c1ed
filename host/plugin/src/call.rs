//! One call of a tool on its way to a guest: what it is and what it may do. [`ActiveCall`] is a call that a guest works for.

mod active;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) use self::active::{ActiveCall, Bounds, Stop};
use crate::contract::Contract;
use crate::threads::writable::Writable;
use haft_core::event::Events;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::tool::Notes;
use haft_core::trace::TraceParent;
use haft_core::undo::Changes;

/// One call. Nothing of it changes once it has begun.
pub(crate) struct Call {
    /// The plugin's name.
    pub(crate) plugin: Arc<str>,
    /// Identifies the call among the running ones.
    pub(crate) id: String,
    /// The name that the component itself has for the tool.
    pub(crate) tool: String,
    /// The arguments, checked against the tool's parameters.
    pub(crate) arguments: Arguments,
    /// Those texts among them that could be paths.
    pub(crate) paths: Vec<String>,
    pub(crate) grant: Arc<Grant>,
    pub(crate) limits: Limits,
    /// The directories that it may write; `None` where no call has begun, and the guest gets no directories.
    pub(crate) writable: Option<Writable>,
    /// Who makes it, where a server tells its callers apart.
    pub(crate) caller: Option<Arc<str>>,
    /// Whether a person approved of it.
    pub(crate) approved: bool,
    /// Whether the guest begins on the thread that read the call.
    pub(crate) begins_inline: bool,
    pub(crate) cancel: CancellationToken,
    pub(crate) events: Events,
    pub(crate) notes: Notes,
    /// What the guest's requests are a part of.
    pub(crate) trace: Option<TraceParent>,
    /// What the call changes.
    pub(crate) changes: Changes,
}

impl Call {
    /// What a guest works for that no call has reached: it is made ahead of its call, or asked for its tools.
    pub(crate) fn none(plugin: &Arc<str>, grant: &Arc<Grant>, limits: &Limits) -> Self {
        Self {
            plugin: plugin.clone(),
            id: String::new(),
            tool: String::new(),
            arguments: Arguments::Value(Value::Null),
            paths: Vec::new(),
            grant: grant.clone(),
            limits: *limits,
            writable: None,
            caller: None,
            approved: false,
            begins_inline: false,
            cancel: CancellationToken::new(),
            events: Events::none(),
            notes: Notes::default(),
            trace: None,
            changes: Changes::default(),
        }
    }
}

/// The arguments of a call, kept in the one form that its contract hands on: they may have many megabytes.
pub(crate) enum Arguments {
    /// JSON text.
    Text(String),
    /// What is converted for the guest.
    Value(Value),
}

impl Arguments {
    /// `arguments` for a component of `contract`.
    pub(crate) fn new(contract: Contract, arguments: &Value) -> Self {
        if contract == Contract::Plugin {
            Self::Text(arguments.to_string())
        } else {
            Self::Value(arguments.clone())
        }
    }

    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Value(value) => Cow::Owned(value.to_string()),
        }
    }

    pub(crate) fn value(&self) -> Cow<'_, Value> {
        match self {
            // Written here, so it is JSON.
            Self::Text(text) => Cow::Owned(serde_json::from_str(text).unwrap_or_default()),
            Self::Value(value) => Cow::Borrowed(value),
        }
    }
}

/// Bytes of memory that a value holds, more or less.
pub(crate) fn held(value: &Value) -> usize {
    let own = size_of::<Value>();
    own + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(held).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + held(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
