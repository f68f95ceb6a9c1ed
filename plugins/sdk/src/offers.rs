//! Prompts and resources beside the tools, of the feature `offers`: what [`export_offers!`](crate::export_offers!) makes
//! `haft serve` show to MCP clients.
//!
//! ```
//! use haft_plugin::offers::{Contents, Message, Prompt, Resource, Resources};
//! use haft_plugin::{Context, Error};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! /// Asks for a review.
//! #[derive(Deserialize, JsonSchema)]
//! struct Review {
//!     /// What is to be reviewed.
//!     what: String,
//! }
//!
//! impl Prompt for Review {
//!     const NAME: &str = "review";
//!
//!     fn messages(self, _: &Context) -> Result<Vec<Message>, Error> {
//!         Ok(vec![Message::user(format!("Review {}.", self.what))])
//!     }
//! }
//!
//! struct Notes;
//!
//! impl Resources for Notes {
//!     fn list() -> Vec<Resource> {
//!         vec![Resource::new("rules.md", "The rules of this project").with_media_type("text/markdown")]
//!     }
//!
//!     fn read(path: &str, _: &Context) -> Result<Contents, Error> {
//!         match path {
//!             "rules.md" => Ok(Contents::text("Tests first.")),
//!             _ => Err(Error::invalid(format!("there is no {path}"))),
//!         }
//!     }
//! }
//!
//! haft_plugin::export_offers!(prompts: [Review], resources: Notes);
//! ```

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{Content, Context, Error};

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod export;

/// A prompt: the struct of what a person fills in. Its fields are texts, or optional ones; its doc comment is the
/// prompt's description, and theirs describe them.
pub trait Prompt: DeserializeOwned + JsonSchema {
    /// Its name, unique in the plugin: 1 to 64 letters, digits, `_` and `-`.
    const NAME: &'static str;

    /// What it is called where people choose it.
    const TITLE: Option<&'static str> = None;

    /// The messages that the conversation begins with.
    fn messages(self, context: &Context) -> Result<Vec<Message>, Error>;
}

/// What can be read of a plugin.
pub trait Resources {
    /// The resources, always the same ones.
    fn list() -> Vec<Resource>;

    /// Resources with parameters: the path of each is a template (RFC 6570), such as `days/{day}`. Where there are any,
    /// [`Resources::read`] is asked for paths that were not listed too.
    fn templates() -> Vec<Resource> {
        Vec::new()
    }

    /// Reads the resource at `path`.
    fn read(path: &str, context: &Context) -> Result<Contents, Error>;
}

/// No resources.
pub struct NoResources;

impl Resources for NoResources {
    fn list() -> Vec<Resource> {
        Vec::new()
    }

    fn read(path: &str, _: &Context) -> Result<Contents, Error> {
        Err(Error::invalid(format!("there is no {path}")))
    }
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub(crate) by_model: bool,
    pub(crate) content: Content,
}

impl Message {
    /// What the person says.
    pub fn user(text: impl Into<String>) -> Self {
        Self { by_model: false, content: Content::Text(text.into()) }
    }

    /// What the model says.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { by_model: true, content: Content::Text(text.into()) }
    }

    /// What is not text, of the person. `media_type` is one like `image/png`.
    pub fn file(media_type: impl Into<String>, data: Vec<u8>) -> Self {
        Self { by_model: false, content: Content::Binary { media_type: media_type.into(), data } }
    }
}

/// Something that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    pub(crate) media_type: Option<String>,
}

impl Resource {
    /// The resource at `path`, a relative path as in a URI. Its name is the path.
    pub fn new(path: impl Into<String>, description: impl Into<String>) -> Self {
        let path = path.into();
        let (name, description) = (path.clone(), description.into());
        Self { path, name, title: None, description, media_type: None }
    }

    /// The same with a name.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// The same with what it is called where people choose it.
    #[must_use]
    pub fn with_title(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }

    /// The same with a media type, such as `text/markdown`.
    #[must_use]
    pub fn with_media_type(self, media_type: impl Into<String>) -> Self {
        Self { media_type: Some(media_type.into()), ..self }
    }
}

/// What a resource has in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    pub(crate) media_type: Option<String>,
    pub(crate) body: Body,
}

/// Text or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Text(String),
    Bytes(Vec<u8>),
}

impl Contents {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { media_type: None, body: Body::Text(text.into()) }
    }

    /// Bytes that are no text.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        Self { media_type: None, body: Body::Bytes(bytes) }
    }

    /// The same of another media type than was listed.
    #[must_use]
    pub fn with_media_type(self, media_type: impl Into<String>) -> Self {
        Self { media_type: Some(media_type.into()), ..self }
    }
}

/// Makes a component offer prompts and resources beside its tools: `export_offers!(prompts: [A, B], resources: C)`. Once
/// in a crate, beside [`export!`](crate::export!). Without resources, name [`NoResources`].
///
/// Two prompts of one name, or a name that clients cannot write, do not compile.
#[macro_export]
macro_rules! export_offers {
    (prompts: [$($prompt:ty),* $(,)?], resources: $resources:ty $(,)?) => {
        const _: () = {
            const NAMES: &[&str] = &[$(<$prompt as $crate::offers::Prompt>::NAME),*];
            $crate::export::check_names(NAMES);
        };
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Offered;
            impl $crate::offers::export::wit::Guest for Offered {
                fn list_offers() -> $crate::offers::export::wit::Offered {
                    $crate::offers::export::offered::<$resources>(::std::vec![
                        $($crate::offers::export::definition::<$prompt>()),*
                    ])
                }

                fn get_prompt(
                    request: $crate::offers::export::wit::PromptRequest,
                ) -> ::std::result::Result<
                    ::std::vec::Vec<$crate::offers::export::wit::Message>,
                    $crate::offers::export::wit::OfferError,
                > {
                    $(if request.name == <$prompt as $crate::offers::Prompt>::NAME {
                        return $crate::offers::export::get::<$prompt>(request);
                    })*
                    $crate::offers::export::unknown(&request.name)
                }

                fn read_resource(
                    request: $crate::offers::export::wit::ReadRequest,
                ) -> ::std::result::Result<
                    $crate::offers::export::wit::Contents,
                    $crate::offers::export::wit::OfferError,
                > {
                    $crate::offers::export::read::<$resources>(request)
                }
            }
            $crate::offer_bindings::export!(Offered with_types_in $crate::offer_bindings);
        };
    };
}
