//! Components of the `act:tools` world of other hosts: the component lists its tools, takes arguments in CBOR, and
//! returns content parts, at once or as a stream.
//!
//! Such a component may support *sessions* (`act:sessions`) that outlive a call. No state of a plugin outlives a
//! call in haft, so that each call has a session of its own. A bridge, whose tools are known only within a session,
//! lists none.

mod cbor;
pub(crate) mod consent;
mod content;
pub(crate) mod metadata;
mod shapes;

use std::fmt::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use ciborium::Value as Cbor;
use tokio::sync::oneshot;
use wasmtime::component::{
    Component, ComponentExportIndex, Instance, Source, StreamConsumer, StreamReader, StreamResult,
};
use wasmtime::{AsContextMut, Store, StoreContextMut};

use self::shapes::{
    CallResponse, CallTool, CloseSession, Definition, Event, ListTools, Metadata, OpenSession, Part,
};
use crate::call::Call;
use crate::component::listing::{Listed, ListedTool};
use crate::contract::Contract;
use crate::contract::guest::{Answer, Guest, Kind, Linked, MakeGuest, exported_version};
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use crate::options::Config;
use haft_core::call::Hints;
use haft_core::sync::Lock;
use serde_json::{Value, json};

/// The interface that identifies this world; its version follows.
const INTERFACE: &str = "act:tools/tool-provider@";

const SUPPORTED: &str = "0.1 and 0.2";

/// The reason why a bridge to other tools is unavailable.
const BRIDGE: &str = "it is a bridge, whose tools are known only within a session; a plugin must list its \
                      tools at installation";

/// Returns whether a version is one of [`SUPPORTED`]. Version 0.2 has equal types in a separate interface.
fn is_spoken(version: &str) -> bool {
    version.starts_with("0.1.") || version.starts_with("0.2.")
}

pub(crate) const KIND: Kind = Kind {
    contract: Contract::Act,
    is_exported: |exports| exported_version(exports, INTERFACE, "act:tools", SUPPORTED, is_spoken),
    link,
    listing: None,
    may_offer: false,
    result_cost: 0,
};

fn link(Linked { pre, exports, .. }: &Linked<'_>) -> Result<MakeGuest, LoadError> {
    let is_provider = |name: &&&str| name.strip_prefix(INTERFACE).is_some_and(is_spoken);
    let interface = exports.iter().find(is_provider).copied().unwrap_or(INTERFACE);
    let missing = |name: &str| LoadError::Link(format!("`{interface}` has no function `{name}`"));
    let component: &Component = pre.component();
    let place = |name: &str| {
        let provider = component.get_export_index(None, interface);
        provider.and_then(|provider| component.get_export_index(Some(&provider), name))
    };
    let list = place("list-tools").ok_or_else(|| missing("list-tools"))?;
    let call = place("call-tool").ok_or_else(|| missing("call-tool"))?;
    let sessions = Sessions::of(component, exports);
    Ok(Arc::new(move |_, instance| {
        Ok(Box::new(ActGuest { instance, list, call, sessions: sessions.clone() }))
    }))
}

struct ActGuest {
    instance: Instance,
    list: ComponentExportIndex,
    call: ComponentExportIndex,
    sessions: Option<Sessions>,
}

#[async_trait]
impl Guest for ActGuest {
    async fn list(&self, store: &mut Store<GuestState>) -> wasmtime::Result<Result<Listed, LoadError>> {
        let list: ListTools = match self.instance.get_typed_func(&mut *store, self.list) {
            Ok(list) => list,
            Err(error) => return Ok(Err(LoadError::link(&error))),
        };
        let (listed,) = list.call_async(store, (Vec::new(),)).await?;
        Ok(match listed {
            Ok(listed) if listed.tools.is_empty() && self.sessions.is_some() => {
                Err(LoadError::Listing(BRIDGE.to_owned()))
            }
            Ok(listed) => Ok(Listed::tools(listed.tools.into_iter().map(tool).collect())),
            Err(failure) => Err(LoadError::Listing(content::message(&failure))),
        })
    }

    async fn call(&self, store: &mut Store<GuestState>, call: &Call) -> Answer {
        let tool: CallTool = self.instance.get_typed_func(&mut *store, self.call)?;
        let arguments = cbor::encode(&call.arguments.value());
        let (session, refusal) = match &self.sessions {
            Some(sessions) => match sessions.open(&self.instance, store).await? {
                Ok(id) => (Some((sessions, id)), None),
                Err(refusal) => (None, Some(refusal)),
            },
            None => (None, None),
        };
        let named = |(_, id): &(_, String)| (ID.to_owned(), cbor::encode(&id.as_str().into()));
        let metadata = session.iter().map(named).collect();
        let (answer,) = tool.call_async(&mut *store, (call.tool.clone(), arguments, metadata)).await?;
        let events = match answer {
            CallResponse::Immediate(events) => events,
            CallResponse::Streaming(stream) => collect(store, stream).await?,
        };
        if let Some((sessions, id)) = session {
            let close: CloseSession = self.instance.get_typed_func(&mut *store, sessions.close)?;
            close.call_async(&mut *store, (id,)).await?;
        }
        Ok(content::answer(events, refusal.as_deref()))
    }
}

/// Maximum number of events that are read at once.
const AT_ONCE: usize = 64;

/// Additional size of an event in bytes, besides its content.
const EVENT: usize = 64;

/// Reads a stream to its end, to a failure, or to slightly more than the transfer limit, so that the check of the
/// answer's length fails.
async fn collect(store: &mut Store<GuestState>, stream: StreamReader<Event>) -> wasmtime::Result<Vec<Event>> {
    let (sender, ended) = oneshot::channel();
    let events: Arc<Lock<Vec<Event>>> = Arc::default();
    let limit = store.hostcall_fuel();
    let collector = Collector { events: events.clone(), size: 0, limit, _alive: sender };
    stream.pipe(&mut *store, collector)?;
    // The collector is dropped at the end of the stream.
    store.run_concurrent(async |_| ended.await).await?.ok();
    let mut events = events.lock();
    Ok(std::mem::take(&mut *events))
}

struct Collector {
    events: Arc<Lock<Vec<Event>>>,
    size: usize,
    limit: usize,
    /// Dropped with the collector, which ends the wait for it.
    _alive: oneshot::Sender<()>,
}

impl StreamConsumer<GuestState> for Collector {
    type Item = Event;

    fn poll_consume(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut store: StoreContextMut<'_, GuestState>,
        mut source: Source<'_, Event>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let this = self.get_mut();
        let mut taken: Vec<Event> = Vec::with_capacity(AT_ONCE);
        source.read(store.as_context_mut(), &mut taken)?;
        if taken.is_empty() && finish {
            return Poll::Ready(Ok(StreamResult::Cancelled));
        }
        let mut is_over = false;
        for event in taken {
            is_over |= matches!(event, Event::Error(_));
            this.size = this.size.saturating_add(size(&event));
            progress(store.data_mut(), &event);
            this.events.lock().push(event);
        }
        let result =
            if is_over || this.size > this.limit { StreamResult::Dropped } else { StreamResult::Completed };
        Poll::Ready(Ok(result))
    }
}

fn size(event: &Event) -> usize {
    EVENT
        + match event {
            Event::Content(part) => part.data.len(),
            Event::Error(_) => 0,
        }
}

/// Emits the progress that a part reports in its metadata, if any.
fn progress(state: &mut GuestState, event: &Event) {
    let Event::Content(Part { metadata, .. }) = event else { return };
    let number = |name: &str| match annotation(metadata, name)? {
        #[expect(clippy::cast_precision_loss, reason = "a count for display")]
        Cbor::Integer(number) => Some(i128::from(number) as f64),
        Cbor::Float(number) => Some(number),
        _ => None,
    };
    if let Some(done) = number("std:progress") {
        state.shared.call.progress(done, number("std:progress-total"), "");
    }
}

// Sessions (`act:sessions`): a component's state between calls, which in haft ends with the call. A component with
// sessions gets one for each call, opened with its configuration (`[plugins.config]`) and closed after the answer,
// so that tools that need only one call work.

/// The interface, without its version.
const SESSIONS: &str = "act:sessions/session-provider@";

/// The key of a session in the metadata of a call.
const ID: &str = "std:session-id";

/// The functions of a component that has sessions.
#[derive(Clone)]
struct Sessions {
    open: ComponentExportIndex,
    close: ComponentExportIndex,
}

impl Sessions {
    /// Returns the functions for sessions, if the component has them; 0.1 and 0.2 have equal functions.
    fn of(component: &Component, exports: &[&str]) -> Option<Self> {
        let is_provider = |name: &&&str| name.strip_prefix(SESSIONS).is_some_and(is_spoken);
        let interface = component.get_export_index(None, exports.iter().find(is_provider)?)?;
        let open = component.get_export_index(Some(&interface), "open-session")?;
        let close = component.get_export_index(Some(&interface), "close-session")?;
        Some(Self { open, close })
    }

    /// Opens a session, and returns its id. The inner error is that of the component.
    async fn open(
        &self,
        instance: &Instance,
        store: &mut Store<GuestState>,
    ) -> wasmtime::Result<Result<String, String>> {
        let open: OpenSession = instance.get_typed_func(&mut *store, self.open)?;
        let config = store.data().consent.config.as_ref().map(Config::all);
        let argument = |(key, value): (String, String)| (key, cbor::encode(&value.into()));
        let arguments = config.unwrap_or_default().into_iter().map(argument).collect();
        let (opened,) = open.call_async(&mut *store, (arguments, Vec::new())).await?;
        Ok(opened.map(|session| session.id).map_err(|failure| content::message(&failure)))
    }
}

const MAX_EXAMPLES: usize = 3;

fn tool(definition: Definition) -> ListedTool {
    let hints = Hints {
        read_only: flag(&definition.metadata, "std:read-only"),
        destructive: flag(&definition.metadata, "std:destructive"),
        idempotent: flag(&definition.metadata, "std:idempotent"),
        open_world: false,
    };
    ListedTool {
        description: description(&definition),
        parameters: parameters(&definition.parameters),
        name: definition.name,
        title: None,
        output: None,
        hints,
    }
}

fn annotation(metadata: &Metadata, name: &str) -> Option<Cbor> {
    metadata.iter().find(|(other, _)| other == name).and_then(|(_, value)| cbor::read(value))
}

fn flag(metadata: &Metadata, name: &str) -> bool {
    annotation(metadata, name) == Some(Cbor::Bool(true))
}

/// Returns the description with the author's usage hints and examples.
fn description(definition: &Definition) -> String {
    let mut all = shapes::localized_text(&definition.description).trim().to_owned();
    let more = [("std:usage-hints", "When to use it"), ("std:anti-usage-hints", "When not to use it")];
    for (name, heading) in more {
        let hint = annotation(&definition.metadata, name);
        if let Some(hint) = hint.as_ref().and_then(|value| shapes::localized(value, None)) {
            // Writing to a `String` cannot fail.
            let _ = write!(all, "\n{heading}: {hint}");
        }
    }
    let examples = annotation(&definition.metadata, "std:examples");
    let examples = examples.as_ref().and_then(Cbor::as_array).map(Vec::as_slice).unwrap_or_default();
    let example = |value: &Cbor| Some(cbor::json(&cbor::read(value.as_bytes()?)?));
    for example in examples.iter().filter_map(example).take(MAX_EXAMPLES) {
        let _ = write!(all, "\nExample: {example}");
    }
    all
}

/// Returns the schema of parameters. A schema without a type becomes an object's, because arguments are an object.
fn parameters(schema: &str) -> String {
    match serde_json::from_str(schema) {
        Ok(Value::Object(mut object)) if !object.contains_key("type") => {
            object.insert("type".into(), json!("object"));
            Value::Object(object).to_string()
        }
        _ => schema.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::shapes::Localized;
    use super::*;

    #[test]
    fn what_the_author_says_to_a_model_is_in_the_description() {
        let cbor = |value: Value| cbor::encode(&value);
        let example = Cbor::Array(vec![Cbor::Bytes(cbor(json!({ "id": 1 })))]);
        let mut examples = Vec::new();
        ciborium::into_writer(&example, &mut examples).unwrap();
        let tool = tool(Definition {
            name: "delete".into(),
            description: Localized::In(vec![("de".into(), "Löscht".into()), ("en".into(), "Deletes".into())]),
            parameters: "{\"properties\":{}}".into(),
            metadata: vec![
                ("std:destructive".into(), cbor(json!(true))),
                ("std:idempotent".into(), cbor(json!("yes"))),
                ("std:anti-usage-hints".into(), cbor(json!({ "en": "to deactivate" }))),
                ("std:examples".into(), examples),
                ("acme:other".into(), vec![0xff]),
            ],
        });
        assert_eq!(tool.description, "Deletes\nWhen not to use it: to deactivate\nExample: {\"id\":1}");
        assert_eq!(tool.hints, Hints { destructive: true, ..Hints::default() });
        assert_eq!(tool.parameters, "{\"properties\":{},\"type\":\"object\"}");
    }
}
