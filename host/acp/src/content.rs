//! Converts the content of a prompt: text, mentions of files, contents of files, pictures. Mentioned files are not
//! opened here: the tools of the agent open them, with their own rights.

use agent_client_protocol_schema::v1::{
    BlobResourceContents, ContentBlock, EmbeddedResourceResource, Error, ResourceLink, TextResourceContents,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::message::told;
use haft_agent::provider::Prompt;
use haft_core::call::Attachment;
use haft_core::encoding::percent_decoded;
use haft_core::report::{enclosed, plain};

/// The maximum number of files of a prompt.
const MAX_FILES: usize = 32;

/// Returns a prompt from `blocks`. Mentions stay in their place, contents of files follow the text.
pub(crate) fn prompt(blocks: Vec<ContentBlock>) -> Result<Prompt, Error> {
    let mut reading = Reading::default();
    for block in blocks {
        reading.take(block)?;
    }
    let Reading { mut text, contents, attachments } = reading;
    if text.trim().is_empty() && contents.is_empty() && attachments.is_empty() {
        return Err(told(Error::invalid_params(), "the prompt is empty"));
    }
    for content in contents {
        text.push_str("\n\n");
        text.push_str(&content);
    }
    Ok(Prompt { text, attachments })
}

#[derive(Default)]
struct Reading {
    text: String,
    contents: Vec<String>,
    attachments: Vec<Attachment>,
}

impl Reading {
    fn take(&mut self, block: ContentBlock) -> Result<(), Error> {
        match block {
            ContentBlock::Text(text) => self.text.push_str(&text.text),
            ContentBlock::ResourceLink(ResourceLink { uri, .. }) => self.mention(&uri),
            ContentBlock::Image(image) => self.attach(&image.mime_type, image.uri.as_deref(), &image.data)?,
            ContentBlock::Resource(resource) => match resource.resource {
                EmbeddedResourceResource::TextResourceContents(TextResourceContents {
                    text, uri, ..
                }) => {
                    self.mention(&uri);
                    let (name, text) = (named(&uri).replace(['"', '<', '>'], ""), enclosed(&text, "file"));
                    self.contents.push(format!("<file name=\"{name}\">\n{text}\n</file>"));
                }
                EmbeddedResourceResource::BlobResourceContents(BlobResourceContents {
                    blob,
                    mime_type,
                    uri,
                    ..
                }) => {
                    self.mention(&uri);
                    let kind = mime_type.as_deref().unwrap_or("application/octet-stream");
                    self.attach(kind, Some(&uri), &blob)?;
                }
                _ => return Err(told(Error::invalid_params(), "a resource of an unknown kind")),
            },
            ContentBlock::Audio(_) => {
                return Err(told(Error::invalid_params(), "audio is not supported; send text or images"));
            }
            _ => return Err(told(Error::invalid_params(), "content of an unknown kind")),
        }
        Ok(())
    }

    fn mention(&mut self, uri: &str) {
        self.text.extend(["`", &named(uri).replace('`', "'"), "`"]);
    }

    fn attach(&mut self, kind: &str, uri: Option<&str>, data: &str) -> Result<(), Error> {
        if self.attachments.len() >= MAX_FILES {
            return Err(told(Error::invalid_params(), &format!("more than {MAX_FILES} files in one prompt")));
        }
        let data = BASE64_STANDARD.decode(data);
        let data = data.map_err(|error| {
            told(Error::invalid_params(), &format!("the file is not valid base64: {error}"))
        })?;
        let name = uri.map(named).and_then(|path| path.rsplit('/').next().map(str::to_owned));
        self.attachments.push(Attachment { name, ..Attachment::new(kind, data) });
        Ok(())
    }
}

/// Returns the path of a `file:` URI (RFC 8089) in the form for tools; other URIs unmodified. The result has no
/// line breaks.
fn named(uri: &str) -> String {
    let Some(path) = uri.strip_prefix("file://") else { return plain(uri) };
    plain(&percent_decoded(path.strip_prefix("localhost").unwrap_or(path)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(blocks: Value) -> Result<Prompt, Error> {
        prompt(serde_json::from_value(blocks).unwrap())
    }

    #[test]
    fn mentions_stand_where_they_were_written_and_contents_after_the_words() {
        let prompt = of(json!([
            { "type": "text", "text": "Compare " },
            { "type": "resource_link", "name": "a", "uri": "file:///w/a%20b.rs#L1:3" },
            { "type": "text", "text": " and " },
            { "type": "resource", "resource": { "uri": "file:///w/c%", "text": "fn c()" } },
            { "type": "text", "text": ", please." },
            { "type": "image", "mimeType": "image/png", "data": "AQI=" },
        ]))
        .unwrap();
        let expected =
            "Compare `/w/a b.rs#L1:3` and `/w/c%`, please.\n\n<file name=\"/w/c%\">\nfn c()\n</file>";
        assert_eq!(prompt.text, expected);
        assert_eq!(prompt.attachments, [Attachment::new("image/png", vec![1, 2])]);
    }

    #[test]
    fn what_cannot_be_said_to_a_model_is_refused() {
        for blocks in [
            json!([]),
            json!([{ "type": "text", "text": " " }]),
            json!([{ "type": "image", "mimeType": "image/png", "data": "?" }]),
            json!([{ "type": "audio", "mimeType": "audio/wav", "data": "AQI=" }]),
        ] {
            assert_eq!(i32::from(of(blocks).unwrap_err().code), -32602);
        }
    }
}
