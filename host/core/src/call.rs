//! A tool's definition, a call of the tool and the answer: three values that models, MCP clients, the command line
//! and plugins share (`wit/` mirrors them). Calls nothing.

mod mcp_answer;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::mcp_answer::McpAnswer;

/// The definition of a tool for a model.
///
/// Serialises to exactly `{name, description, parameters}`, the provider-neutral form; hints and the output schema
/// are for haft and MCP, and are not in a prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolDef {
    /// The exposed name; matches `^[a-zA-Z0-9_-]{1,64}$`.
    pub name: String,
    /// The title for people who choose the tool. It is not sent to models.
    #[serde(skip)]
    pub title: Option<String>,
    /// The description for the model.
    pub description: String,
    /// JSON Schema of the arguments; an object schema.
    pub parameters: Value,
    /// The behaviour of the tool.
    #[serde(skip)]
    pub hints: Hints,
    /// JSON Schema of [`ToolResult::structured`], if the tool has one.
    #[serde(skip)]
    pub output: Option<Value>,
}

/// The declared behaviour of a tool, with the meaning of MCP's tool annotations
/// (specification 2025-11-25, "ToolAnnotations").
///
/// haft enforces [`read_only`](Self::read_only): it runs such a tool with its grant narrowed to reading. The other
/// hints are advice for people and clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "four independent yes/no hints, as MCP defines them")]
pub struct Hints {
    /// Changes nothing outside itself.
    pub read_only: bool,
    /// May delete or overwrite existing data.
    pub destructive: bool,
    /// Another call with equal arguments changes nothing more.
    pub idempotent: bool,
    /// Reaches beyond this machine.
    pub open_world: bool,
}

impl Hints {
    /// Returns the hints in an MCP tool's `annotations`. A missing hint has the specification's default, the worse
    /// case.
    pub fn from_annotations(annotations: &Value) -> Self {
        let flag = |key: &str| annotations.get(key).and_then(Value::as_bool);
        let read_only = flag("readOnlyHint").unwrap_or(false);
        Self {
            read_only,
            destructive: !read_only && flag("destructiveHint").unwrap_or(true),
            idempotent: read_only || flag("idempotentHint").unwrap_or(false),
            open_world: flag("openWorldHint").unwrap_or(true),
        }
    }
}

/// A request to run one tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Identifies the call among the running ones; the provider's or client's id, unmodified.
    pub id: String,
    /// The tool's name as the caller wrote it.
    pub tool: String,
    /// The arguments, a JSON object.
    pub arguments: Value,
}

/// A tool's answer. A failure of the tool is also an answer (`is_error`), never an `Err`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The text for the model.
    pub content: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// Images, audio and other files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The answer as data, valid against [`ToolDef::output`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The unmodified answer of an MCP server, for MCP clients. The other fields are derived from it, for models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Box<McpAnswer>>,
}

/// A file in an answer or a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The name of the file without its folder, if it has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Media type, as in RFC 6838: `image/png`.
    pub media_type: String,
    /// The bytes; base64 (RFC 4648, section 4) in JSON, as in MCP.
    #[serde(with = "as_base64")]
    pub data: Vec<u8>,
}

/// Media types besides `text/*`, `*+json` and `*+xml` whose bytes are text.
const TEXTS: &[&str] = &[
    "application/javascript",
    "application/json",
    "application/sql",
    "application/toml",
    "application/x-ndjson",
    "application/x-sh",
    "application/x-yaml",
    "application/xml",
    "application/yaml",
];

impl Attachment {
    /// Returns a file without a name.
    pub fn new(media_type: impl Into<String>, data: Vec<u8>) -> Self {
        Self { name: None, media_type: media_type.into(), data }
    }

    /// Returns the line for the file in [`ToolResult::content`], for consumers of text only.
    pub fn mention(&self) -> String {
        format!("[{}]", self.described())
    }

    /// Describes the file in one line: its name, if it has one, its media type and its size.
    pub fn described(&self) -> String {
        let name = self.name.as_deref().map(|name| format!("{}: ", name.replace(char::is_control, " ")));
        format!("{}{}, {} bytes", name.unwrap_or_default(), self.media_type, self.data.len())
    }

    /// Returns the media type without its parameters, in lower case.
    pub fn essence(&self) -> String {
        self.media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Returns the text of the file, if its media type is that of a text and its bytes are valid.
    pub fn text(&self) -> Option<&str> {
        let kind = self.essence();
        let is_text = kind.starts_with("text/")
            || kind.ends_with("+json")
            || kind.ends_with("+xml") && !kind.starts_with("image/")
            || TEXTS.contains(&kind.as_str());
        std::str::from_utf8(&self.data).ok().filter(|_| is_text)
    }
}

mod as_base64 {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(data))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        BASE64_STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl ToolResult {
    /// Returns the answer of a call that succeeded.
    pub fn success(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// Returns the answer of a call that failed.
    pub fn error(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: true, ..Self::default() }
    }
}

/// The first bytes of files, by media type.
const MAGIC_NUMBERS: [(&[u8], &str); 5] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
];

/// Returns the media type of `bytes`, if their beginning identifies it. Knows the types that models and plugins
/// exchange.
pub fn media_type_of(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    let known = MAGIC_NUMBERS.iter().find(|(beginning, _)| bytes.starts_with(beginning));
    known.map(|(_, media_type)| *media_type)
}

// The offers of a plugin besides its tools: prompts and resources. A call of an offer is a
// [`ToolCall`](super::ToolCall); these types are the definitions and the form of the answer. Contains data only.

/// The prompts and resources of a plugin, as clients list them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offers {
    /// Prompts, by the names that the plugin gives them.
    pub prompts: Vec<PromptDef>,
    /// Resources, by their paths within the plugin.
    pub resources: ResourceList,
}

/// A prompt that a user can choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptDef {
    /// The name.
    pub name: String,
    /// The display name.
    pub title: Option<String>,
    /// The purpose of the prompt.
    pub description: String,
    /// The parameters of the prompt.
    pub arguments: Vec<PromptArgument>,
}

/// A value that a user enters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// Whether the prompt requires the value.
    pub required: bool,
}

/// The resources of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceList {
    /// Resources.
    pub listed: Vec<ResourceDef>,
    /// Resources with parameters: their paths are templates (RFC 6570).
    pub templates: Vec<ResourceDef>,
}

/// Something that can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceDef {
    /// A path within the plugin, or a URI for clients.
    pub place: String,
    /// The name.
    pub name: String,
    /// The display name.
    pub title: Option<String>,
    /// The description.
    pub description: String,
    /// The media type, if known.
    pub media_type: Option<String>,
}

/// The data of an answer with the messages of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptMessages {
    /// The messages, in order.
    pub messages: Vec<PromptMessage>,
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptMessage {
    /// `true`: a message of the model; `false`: of the user.
    pub by_model: bool,
    /// The text; `None`: the content is the next of the answer's attachments.
    pub text: Option<String>,
}

/// The structured data of an answer that contains a resource: the content is the answer's text or, if `is_text` is
/// false, its attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceContents {
    /// The media type, if known.
    pub media_type: Option<String>,
    /// Whether the content is text.
    pub is_text: bool,
}

impl Offers {
    /// Returns whether there are neither prompts nor resources.
    pub fn is_empty(&self) -> bool {
        self.prompts.is_empty() && self.resources.is_empty()
    }
}

impl ResourceList {
    /// Returns whether there are no resources.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.templates.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TE02: a definition serialises to exactly the three provider-neutral fields.
    #[test]
    fn definition_serialises_to_three_fields() {
        let def = ToolDef {
            name: "read".into(),
            hints: Hints { read_only: true, ..Hints::default() },
            ..ToolDef::default()
        };
        let value = serde_json::to_value(&def).unwrap();
        let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["name", "description", "parameters"]);
    }

    #[test]
    fn attachments_are_base64_in_json() {
        let attachment = Attachment::new("image/png", vec![0, 255]);
        let json = serde_json::to_value(&attachment).unwrap();
        assert_eq!(json, serde_json::json!({ "media_type": "image/png", "data": "AP8=" }));
        assert_eq!(serde_json::from_value::<Attachment>(json).unwrap(), attachment);
        let named = Attachment { name: Some("a\nb.png".into()), ..attachment };
        assert_eq!(named.mention(), "[a b.png: image/png, 2 bytes]");
        let json = serde_json::to_value(&named).unwrap();
        assert_eq!(serde_json::from_value::<Attachment>(json).unwrap(), named);
    }

    #[test]
    fn an_attachment_is_text_where_its_type_and_its_bytes_say_so() {
        let text = |media_type: &str| Attachment::new(media_type, b"[1]".into()).text().is_some();
        for media_type in
            ["text/plain; charset=utf-8", "Application/JSON", "application/ld+json", "text/x-rust"]
        {
            assert!(text(media_type), "{media_type}");
        }
        for media_type in ["image/png", "image/svg+xml", "application/pdf", "application/octet-stream", ""] {
            assert!(!text(media_type), "{media_type}");
        }
        assert_eq!(Attachment::new("text/plain", vec![0xff]).text(), None);
    }

    #[test]
    fn files_are_known_by_how_they_begin() {
        assert_eq!(media_type_of(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        assert_eq!(media_type_of(b"RIFF\0\0\0\0WAVE"), None);
        assert_eq!(media_type_of(b"%PDF-1.7"), Some("application/pdf"));
        assert_eq!(media_type_of(b""), None);
    }
}
