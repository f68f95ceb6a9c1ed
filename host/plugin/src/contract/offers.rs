//! The interface `offers` of `wit/`: prompts and resources of a component of any contract. A call of an offer is a
//! call like that of a tool, with a name (`prompts/NAME`, `resources/read`) that no tool has.

/// Rust types of `wit/offers.wit`, made by wasmtime.
mod bindings {
    wasmtime::component::bindgen!({
        path: "contract",
        world: "offering",
        exports: { default: async },
        ownership: Borrowing { duplicate_if_necessary: false },
    });
}

use async_trait::async_trait;
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::Instance;

use self::bindings::Offering as Bindings;
use self::bindings::exports::haft::plugin::offers as wit;
use crate::call::Call;
use crate::component::listing::Listed;
use crate::component::offered::{PATH, PROMPTS, READ};
use crate::contract::guest::{Answer, Guest, Output, Piece, Structured};
use crate::contract::haft_world;
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use haft_core::call::{
    Attachment, Offers, PromptArgument, PromptDef, PromptMessage, PromptMessages, ResourceContents,
    ResourceDef, ResourceList,
};
use haft_core::tool::ToolError;

/// The interface, without its version.
const INTERFACE: &str = "haft:plugin/offers@";

pub(crate) fn is_interface(name: &str) -> bool {
    name.starts_with(INTERFACE)
}

/// Returns whether the interface is among `exports`. Fails if only an unsupported version is exported.
pub(crate) fn is_exported(exports: &[&str]) -> Result<bool, LoadError> {
    haft_world::has(exports, INTERFACE)
}

pub(crate) struct Offering {
    guest: Box<dyn Guest>,
    instance: Instance,
}

impl Offering {
    pub(crate) fn new(guest: Box<dyn Guest>, instance: Instance) -> Self {
        Self { guest, instance }
    }
}

#[async_trait]
impl Guest for Offering {
    async fn list(&self, store: &mut Store<GuestState>) -> wasmtime::Result<Result<Listed, LoadError>> {
        self.guest.list(store).await
    }

    async fn offers(&self, store: &mut Store<GuestState>) -> wasmtime::Result<Offers> {
        let guest = Bindings::new(&mut *store, &self.instance)?;
        let wit::Offered { prompts, resources, templates } =
            guest.haft_plugin_offers().call_list_offers(store).await?;
        let listed = |entries: Vec<wit::Entry>| entries.into_iter().map(resource).collect();
        let resources = ResourceList { listed: listed(resources), templates: listed(templates) };
        Ok(Offers { prompts: prompts.into_iter().map(prompt).collect(), resources })
    }

    async fn call(&self, store: &mut Store<GuestState>, call: &Call) -> Answer {
        let prompt = call.tool.strip_prefix(PROMPTS);
        if prompt.is_none() && call.tool != READ {
            return self.guest.call(store, call).await;
        }
        let guest = Bindings::new(&mut *store, &self.instance)?;
        let (offers, id) = (guest.haft_plugin_offers(), call.id.as_str());
        let arguments = call.arguments.value();
        if let Some(name) = prompt {
            let given: Vec<(&str, &str)> = texts(&arguments).collect();
            let asked = wit::PromptRequest { id, name, arguments: &given };
            let got = offers.call_get_prompt(store, asked).await?;
            return Ok(got.map(messages).map_err(error));
        }
        let path = texts(&arguments).find(|(name, _)| *name == PATH).map_or("", |(_, path)| path);
        let got = offers.call_read_resource(store, wit::ReadRequest { id, path }).await?;
        Ok(got.map(contents).map_err(error))
    }

    fn is_reusable(&self) -> bool {
        self.guest.is_reusable()
    }
}

fn texts(arguments: &Value) -> impl Iterator<Item = (&str, &str)> {
    let fields = arguments.as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
}

fn prompt(prompt: wit::Prompt) -> PromptDef {
    let wit::Prompt { name, title, description, arguments } = prompt;
    let argument =
        |wit::Argument { name, description, required }| PromptArgument { name, description, required };
    PromptDef { name, title, description, arguments: arguments.into_iter().map(argument).collect() }
}

fn resource(entry: wit::Entry) -> ResourceDef {
    let wit::Entry { path, name, title, description, media_type } = entry;
    ResourceDef { place: path, name, title, description, media_type }
}

fn messages(messages: Vec<wit::Message>) -> Output {
    let (mut pieces, mut told) = (Vec::with_capacity(messages.len()), PromptMessages::default());
    for wit::Message { role, content } in messages {
        let by_model = role == wit::Role::Assistant;
        let (text, piece) = match content {
            wit::Content::Text(text) => (Some(text.clone()), Piece::Text(text)),
            wit::Content::Binary(wit::Blob { media_type, data }) => {
                (None, Piece::Binary(Attachment::new(media_type, data)))
            }
        };
        told.messages.push(PromptMessage { by_model, text });
        pieces.push(piece);
    }
    output(pieces, &told)
}

fn contents(contents: wit::Contents) -> Output {
    let wit::Contents { media_type, body } = contents;
    let (is_text, piece) = match body {
        wit::Body::Text(text) => (true, Piece::Text(text)),
        wit::Body::Bytes(data) => {
            let media_type = media_type.clone().unwrap_or_else(|| "application/octet-stream".into());
            (false, Piece::Binary(Attachment::new(media_type, data)))
        }
    };
    output(vec![piece], &ResourceContents { media_type, is_text })
}

fn output(pieces: Vec<Piece>, told: &impl serde::Serialize) -> Output {
    // Names and texts, which JSON has.
    let structured = serde_json::to_value(told).ok().map(Structured::Value);
    Output { pieces, structured }
}

fn error(error: wit::OfferError) -> ToolError {
    match error {
        wit::OfferError::Invalid(message) => ToolError::InvalidArguments(message),
        wit::OfferError::Failed(message) => ToolError::ExecutionFailed(message),
    }
}
