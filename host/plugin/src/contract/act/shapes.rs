//! Rust types of the values that `act:tools` components take and return (`act:tools@0.1` and `@0.2`, `act:sessions`, `act:core@0.4`). wasmtime
//! checks them against the component's own types.

use wasmtime::component::{ComponentType, Lift, StreamReader, TypedFunc};

/// Annotations: names, and CBOR.
pub(super) type Metadata = Vec<(String, Vec<u8>)>;

/// A text in one language or several.
#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum Localized {
    #[component(name = "plain")]
    Plain(String),
    #[component(name = "localized")]
    In(Vec<(String, String)>),
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Failure {
    pub(super) kind: String,
    pub(super) message: Localized,
    #[expect(dead_code, reason = "part of the shape")]
    pub(super) metadata: Metadata,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) description: Localized,
    #[component(name = "parameters-schema")]
    pub(super) parameters: String,
    pub(super) metadata: Metadata,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct ListToolsResponse {
    #[expect(dead_code, reason = "part of the shape")]
    pub(super) metadata: Metadata,
    pub(super) tools: Vec<Definition>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Part {
    pub(super) data: Vec<u8>,
    #[component(name = "mime-type")]
    pub(super) mime_type: Option<String>,
    pub(super) metadata: Metadata,
}

#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum Event {
    #[component(name = "content")]
    Content(Part),
    #[component(name = "error")]
    Error(Failure),
}

#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum CallResponse {
    #[component(name = "immediate")]
    Immediate(Vec<Event>),
    #[component(name = "streaming")]
    Streaming(StreamReader<Event>),
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct OpenedSession {
    pub(super) id: String,
    #[expect(dead_code, reason = "part of the shape")]
    pub(super) metadata: Metadata,
}

/// `open-session`: arguments and metadata in, a session or a failure out.
pub(super) type OpenSession = TypedFunc<(Metadata, Metadata), (Result<OpenedSession, Failure>,)>;

/// `close-session`: a session's id in.
pub(super) type CloseSession = TypedFunc<(String,), ()>;

/// `list-tools`: metadata in, tools or a failure out.
pub(super) type ListTools = TypedFunc<(Metadata,), (Result<ListToolsResponse, Failure>,)>;

/// `call-tool`: the tool's name, its arguments in CBOR and metadata in.
pub(super) type CallTool = TypedFunc<(String, Vec<u8>, Metadata), (CallResponse,)>;
