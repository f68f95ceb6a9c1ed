//! The result of a call: an [`Output`] or an [`Error`]. Does no I/O.

use serde::Serialize;

/// The answer of a tool that did what it was asked. Text converts into it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    pub(crate) content: Vec<Content>,
    pub(crate) structured: Option<String>,
}

/// One piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text for the model.
    Text(String),
    /// What is not text: an image, sound, a file.
    Binary {
        /// The media type, such as `image/png`.
        media_type: String,
        /// The bytes.
        data: Vec<u8>,
    },
}

impl Output {
    /// Adds a text.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.content.push(Content::Text(text.into()));
        self
    }

    /// Adds what is not text. `media_type` is one like `image/png`.
    #[must_use]
    pub fn with_binary(mut self, media_type: impl Into<String>, data: Vec<u8>) -> Self {
        self.content.push(Content::Binary { media_type: media_type.into(), data });
        self
    }

    /// The answer as data too, for programs: `value` is a JSON object that fits
    /// [`Tool::output_schema`](crate::Tool::output_schema). The model still reads the text.
    pub fn with_structured(mut self, value: &impl Serialize) -> Result<Self, Error> {
        self.structured = Some(serde_json::to_string(value)?);
        Ok(self)
    }

    /// What the answer consists of.
    pub fn content(&self) -> &[Content] {
        &self.content
    }

    /// The answer as data, as JSON text.
    pub fn structured(&self) -> Option<&str> {
        self.structured.as_deref()
    }

    /// The texts of the answer, one below the other.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|content| match content {
            Content::Text(text) => Some(text.as_str()),
            Content::Binary { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        Self::default().with_text(text)
    }
}

impl From<&str> for Output {
    fn from(text: &str) -> Self {
        Self::default().with_text(text)
    }
}

/// Why a tool gave no answer. The text goes to the model: lower case, no final period, and what
/// to do instead.
///
/// `?` turns every [`std::error::Error`] into [`Error::ExecutionFailed`], its causes included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The arguments make no sense; the model should call again with others.
    InvalidArguments(String),
    /// The tool could not do what it was asked.
    ExecutionFailed(String),
}

impl Error {
    /// The arguments make no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::InvalidArguments(message.into())
    }

    /// The tool could not do what it was asked.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::ExecutionFailed(message.into())
    }

    /// The text for the model.
    pub fn message(&self) -> &str {
        match self {
            Self::InvalidArguments(message) | Self::ExecutionFailed(message) => message,
        }
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        Self::ExecutionFailed(message)
    }
}
