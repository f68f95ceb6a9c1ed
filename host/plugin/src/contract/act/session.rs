//! Sessions (`act:sessions`): what a component keeps between calls, which ends with the call here. A component that has
//! sessions gets one for each call, opened with its configuration (`[plugins.config]`) and closed behind the answer, so
//! that its tools work which need no more than one call.

use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, Instance};

use super::shapes::{CloseSession, Metadata, OpenSession};
use super::{cbor, content};
use crate::instance::state::GuestState;
use crate::wasi::config::Config;

/// The interface; its version follows.
const INTERFACE: &str = "act:sessions/session-provider@";

/// The key of a session in the metadata of a call.
const ID: &str = "std:session-id";

/// The functions of a component that has sessions.
#[derive(Clone)]
pub(super) struct Sessions {
    open: ComponentExportIndex,
    close: ComponentExportIndex,
}

/// A session of one call.
pub(super) struct Session<'a> {
    sessions: &'a Sessions,
    id: String,
}

impl Sessions {
    /// Those of a component, if it has any; 0.1 and 0.2 have the same functions.
    pub(super) fn of(component: &Component, exports: &[&str]) -> Option<Self> {
        let is_spoken = |name: &&&str| {
            let version = name.strip_prefix(INTERFACE).unwrap_or_default();
            version.starts_with("0.1.") || version.starts_with("0.2.")
        };
        let interface = component.get_export_index(None, exports.iter().find(is_spoken)?)?;
        let open = component.get_export_index(Some(&interface), "open-session")?;
        let close = component.get_export_index(Some(&interface), "close-session")?;
        Some(Self { open, close })
    }

    /// Opens one; or why the component does not.
    pub(super) async fn open<'a>(
        &'a self,
        instance: &Instance,
        store: &mut Store<GuestState>,
    ) -> wasmtime::Result<Result<Session<'a>, String>> {
        let open: OpenSession = instance.get_typed_func(&mut *store, self.open)?;
        let config = store.data().consent.config.as_ref().map(Config::all);
        let argument = |(key, value): (String, String)| (key, cbor::encode(&value.into()));
        let arguments = config.unwrap_or_default().into_iter().map(argument).collect();
        let (opened,) = open.call_async(&mut *store, (arguments, Vec::new())).await?;
        Ok(match opened {
            Ok(session) => Ok(Session { sessions: self, id: session.id }),
            Err(failure) => Err(content::message(&failure)),
        })
    }
}

impl Session<'_> {
    /// What tells a component which session a call belongs to.
    pub(super) fn metadata(&self) -> Metadata {
        vec![(ID.to_owned(), cbor::encode(&self.id.as_str().into()))]
    }

    pub(super) async fn close(
        self,
        instance: &Instance,
        store: &mut Store<GuestState>,
    ) -> wasmtime::Result<()> {
        let close: CloseSession = instance.get_typed_func(&mut *store, self.sessions.close)?;
        close.call_async(store, (self.id,)).await
    }
}
