//! Connects the component's exports to prompts and resources: the expansion of
//! [`export_offers!`](crate::export_offers!). Holds no state, since an instance lives for one call.

use serde_json::{Map, Value};

pub use crate::offer_bindings::exports::haft::plugin::offers as wit;

use super::{Body, Contents, Message, Prompt, Resource, Resources};
use crate::{Content, Context, Error, export, schema};

/// What clients are told of a prompt.
pub fn definition<T: Prompt>() -> wit::Prompt {
    let (description, parameters) = schema::of_arguments::<T>();
    let required = |name: &str| {
        let names = parameters.get("required").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|own| own == name))
    };
    let fields = parameters.get("properties").and_then(Value::as_object).into_iter().flatten();
    let arguments = fields.map(|(name, field)| wit::Argument {
        name: name.clone(),
        description: field.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
        required: required(name),
    });
    let arguments = arguments.collect();
    wit::Prompt { name: T::NAME.into(), title: T::TITLE.map(Into::into), description, arguments }
}

/// Everything that is offered.
pub fn offered<R: Resources>(prompts: Vec<wit::Prompt>) -> wit::Offered {
    let entries = |resources: Vec<Resource>| resources.into_iter().map(entry).collect();
    wit::Offered { prompts, resources: entries(R::list()), templates: entries(R::templates()) }
}

/// Gets a prompt.
pub fn get<T: Prompt>(request: wit::PromptRequest) -> Result<Vec<wit::Message>, wit::OfferError> {
    let given: Map<String, Value> =
        request.arguments.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
    let prompt: T = export::decode(&Value::Object(given).to_string())?;
    let context = Context::of_call(request.id);
    context.enter_workspace()?;
    Ok(prompt.messages(&context)?.into_iter().map(message).collect())
}

/// Reads a resource.
pub fn read<R: Resources>(request: wit::ReadRequest) -> Result<wit::Contents, wit::OfferError> {
    let context = Context::of_call(request.id);
    context.enter_workspace()?;
    let Contents { media_type, body } = R::read(&request.path, &context)?;
    let body = match body {
        Body::Text(text) => wit::Body::Text(text),
        Body::Bytes(bytes) => wit::Body::Bytes(bytes),
    };
    Ok(wit::Contents { media_type, body })
}

/// The answer for a prompt that was never listed.
pub fn unknown(name: &str) -> Result<Vec<wit::Message>, wit::OfferError> {
    Err(wit::OfferError::Invalid(format!("this plugin has no prompt `{name}`")))
}

fn entry(resource: Resource) -> wit::Entry {
    let Resource { path, name, title, description, media_type } = resource;
    wit::Entry { path, name, title, description, media_type }
}

fn message(message: Message) -> wit::Message {
    let role = if message.by_model { wit::Role::Assistant } else { wit::Role::User };
    let content = match message.content {
        Content::Text(text) => wit::Content::Text(text),
        Content::Binary { media_type, data } => wit::Content::Binary(wit::Blob { media_type, data }),
    };
    wit::Message { role, content }
}

impl From<Error> for wit::OfferError {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidArguments(message) => Self::Invalid(message),
            Error::ExecutionFailed(message) => Self::Failed(message),
        }
    }
}
